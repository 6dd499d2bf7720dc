/** A frame as its sender would have signed it: what a sender does that relays cannot. */
import type { DeliverFrame } from "../../../shared/protocol/frames.ts";
import { messageTarget } from "../../../shared/protocol/message_context.ts";
import type { MessageProof } from "../../../shared/protocol/message_proof.ts";
import { HEADERS } from "../../../shared/protocol/proof.ts";
import type { AitGrant } from "../../../shared/protocol/signed/ait.ts";
import { unixSeconds } from "../../../shared/protocol/time.ts";
import { PROXY_URL, REGISTRY_URL, type TestAgent, type World } from "../../support/world.ts";

/** What the registry says in a token of an agent. */
export const grantOf = (world: World, { agent, keys }: TestAgent): AitGrant => ({
  issuer: REGISTRY_URL,
  agentDid: agent.did,
  ownerDid: agent.ownerDid,
  name: agent.name,
  framework: "generic",
  publicKey: keys.publicKey,
  jti: world.newId(),
  issuedAtSeconds: unixSeconds(world.clock.now()),
  ttlDays: 1,
});

/** Signs a frame again for what it says now, and for a proxy. Its payload is the body. */
export async function resigned(
  world: World,
  sender: TestAgent,
  frame: DeliverFrame,
  origin = PROXY_URL,
): Promise<DeliverFrame> {
  const { requestId, conversationId, inReplyTo, auto, contentType, payload } = frame;
  const context = Object.fromEntries(
    Object.entries({
      "content-type": contentType,
      "x-request-id": requestId,
      "x-svc-conversation-id": conversationId,
      "x-svc-in-reply-to": inReplyTo,
      "x-svc-auto": auto && "1",
    }).flatMap(([name, value]) => value === undefined ? [] : [[name, value]]),
  ) as Record<string, string>;
  const target = await messageTarget(context);
  const { headers } = await world.signed(sender, {
    target,
    body: payload,
    recipient: frame.toAgentDid,
    signed: { origin },
  });
  const header = (name: keyof typeof HEADERS) => headers.get(HEADERS[name]) ?? "";
  const signed = { timestamp: header("timestamp"), nonce: header("nonce"), signature: header("proof") };
  const proof: MessageProof = { ait: sender.identity.ait, ...signed, origin, target, context };
  return { ...frame, proof };
}
