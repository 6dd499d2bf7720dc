/**
 * Decides whether a delivered message is what its sender signed (D-143). The first check that fails decides, and the
 * order is fixed, so that every connector gives the same reason for the same message. The caller hands in keys,
 * revocation list, pin and time.
 */
import { sha256 } from "../../shared/protocol/base64url.ts";
import { importPublicKey } from "../../shared/protocol/ed25519.ts";
import type { AckReason } from "../../shared/protocol/ack_reasons.ts";
import type { DeliverFrame, FrameIdentity } from "../../shared/protocol/frames.ts";
import { injectIdentity } from "../../shared/protocol/identity_block.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { contextText } from "../../shared/protocol/message_context.ts";
import { contextVerdict, readMessageProof, sentBody, verifiesMessage } from "../../shared/protocol/message_proof.ts";
import { payloadProblem } from "../../shared/protocol/payload_bounds.ts";
import { isSealed, type OpeningKey, openPayload, payloadHash } from "../../shared/protocol/sealed_body.ts";
import { TokenError } from "../../shared/protocol/signed/jws.ts";
import { isLoopback } from "../../shared/client/service_url.ts";
import type { RegistryTrust } from "./registry_trust.ts";

/**
 * Age in seconds beyond which a message is refused: the 7 days of a mailbox, and a day for wrong clocks. With less,
 * messages that waited in the mailbox would be refused.
 */
export const OLDEST_SECONDS = 691_200;
const AHEAD_SECONDS = 86_400;

export interface Pin {
  key: string;
  how: "ticket" | "contact";
  /**
   * When a ticket proved the key, Unix seconds. A message that was signed before may be unsealed, because its sender
   * could not seal it yet.
   */
  ticketAt?: number;
}

export interface Recipient {
  did: string;
  /** Origin of the agent's proxy, which is part of what its peers sign. */
  origin: string;
  openingKey: OpeningKey;
}

export interface Known {
  agent: Recipient;
  /** `null` for a peer whose key is not known. */
  pin: Pin | null;
  trust: Pick<RegistryTrust, "claimsOf" | "isRevoked" | "proxyOrigin">;
  /** By the machine's clock, Unix seconds, because with the proxy's time an old message could pass as new. */
  nowSeconds: number;
}

/** A message as its sender signed it. It has an identity block if the proxy had added one, or if it was sealed. */
export interface ProvenMessage extends Pick<DeliverFrame, "requestId" | "fromAgentDid" | "toAgentDid" | "payload"> {
  identity: FrameIdentity;
  conversationId?: string | undefined;
  inReplyTo?: string | undefined;
  auto?: true | undefined;
  key: string;
  nonce: string;
  /** Hash of the body as its sender sent it. */
  bodySha256: string;
  /** Hash of salt and payload of a sealed message; absent for a plain one. */
  payloadSha256?: string | undefined;
  /** Unix seconds. */
  signedAt: number;
}

/** Result of the checks. `shown`: another key than the pinned one, which the registry has signed for the same DID. */
export type ProofCheck = { proven: ProvenMessage } | { refused: AckReason; shown?: string };

/** @throws {import("../link/reconnect.ts").Undecided} when the registry's keys or list cannot be had now */
export async function checkProof(frame: DeliverFrame, { agent, pin, trust, nowSeconds }: Known): Promise<ProofCheck> {
  const invalid: ProofCheck = { refused: "proof_invalid" };
  const proof = readMessageProof(frame.proof);
  if (proof === null) return invalid;
  const isPinned = (key: string) => pin?.how === "ticket" && pin.key === key;
  const claims = await trust.claimsOf(proof.ait, isPinned).catch((error) => {
    if (error instanceof TokenError) return null;
    throw error;
  });
  if (claims === null || claims.sub !== frame.fromAgentDid) return invalid;
  const key = claims.cnf.jwk.x;
  if (pin !== null && pin.key !== key) return { refused: "key_mismatch", shown: key };
  const body = sentBody(frame.payload, proof.edit);
  const publicKey = await importPublicKey(key);
  if (body === null || !await verifiesMessage(publicKey, proof, { body, recipient: agent.did })) return invalid;
  // The connector may dial its proxy at another address than its peers do. The registry names the address that they
  // sign.
  const own = [agent.origin, trust.proxyOrigin ?? agent.origin];
  if (!own.some((origin) => isSameOrigin(proof.origin, origin))) return invalid;
  const context = await contextVerdict(proof, frame);
  if (context === "wrong") return invalid;
  const signedAt = Number(proof.timestamp);
  if (signedAt < nowSeconds - OLDEST_SECONDS) return { refused: "proof_too_old" };
  if (signedAt > nowSeconds + AHEAD_SECONDS) return { refused: "proof_ahead" };
  // A queued message may outlive its token, so the token must have been valid when the message was signed.
  const from = Math.max(claims.nbf, claims.iat) - LIMITS.tokenLeewaySeconds;
  if (signedAt < from || signedAt >= claims.exp) return invalid;
  if (await trust.isRevoked(claims, signedAt)) return { refused: "sender_revoked" };
  const identity = {
    agentDid: claims.sub,
    ownerDid: claims.ownerDid,
    issuer: claims.iss,
    aitJti: claims.jti,
    name: claims.name,
  };
  const { requestId, fromAgentDid, toAgentDid, conversationId, inReplyTo, auto } = frame;
  const signedContext = context === "signed" ? contextText(proof.context) : null;
  const opened = await openBody(textOf(body), { pin, signedAt, signedContext }, agent.openingKey, frame);
  if (typeof opened === "string") return { refused: opened };
  const { payloadSha256 } = opened;
  const payload = shownPayload(opened.payload, identity, proof.edit !== undefined || payloadSha256 !== undefined);
  if (payload === null) return { refused: "payload_invalid" };
  // Without a signed context these values are left out, because only the relay states them, and it could have invented
  // them.
  const said = context === "unsigned" ? {} : { conversationId, inReplyTo, auto };
  const { nonce } = proof, bodySha256 = await sha256(body);
  const shown = { requestId, fromAgentDid, toAgentDid, ...said, identity, payload };
  return { proven: { ...shown, key, nonce, bodySha256, payloadSha256, signedAt } };
}

function textOf(body: Uint8Array<ArrayBuffer>): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body);
  } catch {
    return null;
  }
}

/**
 * Returns the sender's payload, or why it is refused (D-152). A ticket peer must seal it and a contact must not,
 * because a relay or a sender could otherwise choose the weaker form. A plain payload that a peer signed before its
 * ticket is still taken, because it waited in the mailbox and would be lost.
 */
async function openBody(
  text: string | null,
  { pin, signedAt, signedContext }: { pin: Pin | null; signedAt: number; signedContext: string | null },
  key: OpeningKey,
  { fromAgentDid: from, toAgentDid: to }: DeliverFrame,
): Promise<{ payload: string; payloadSha256?: string } | AckReason> {
  if (text === null) return "payload_invalid";
  const saysSealed = isSealed(text);
  if (pin?.how !== "ticket") return saysSealed ? "peer_unconfirmed" : { payload: text };
  if (!saysSealed && signedAt < (pin.ticketAt ?? 0)) return { payload: text };
  if (!saysSealed || signedContext === null) return "seal_required";
  const opened = await openPayload(text, key, { from, to, context: signedContext });
  if (opened === null) return "seal_invalid";
  return { payload: opened.payload, payloadSha256: await payloadHash(opened) };
}

/**
 * Returns the payload for the runtime, with a block of proven values if `hasBlock`; `null` when it is out of bounds.
 */
function shownPayload(text: string, identity: FrameIdentity, hasBlock: boolean): string | null {
  try {
    if (payloadProblem(text) !== null) return null;
    const injected = hasBlock ? injectIdentity(text, JSON.parse(text), identity) : { payload: text };
    return "payload" in injected ? injected.payload : null;
  } catch {
    return null;
  }
}

/** Whether two texts name the same proxy. A proxy on this machine has several loopback names, which count as one. */
function isSameOrigin(signed: string, own: string): boolean {
  if (signed === own) return true;
  const a = URL.parse(signed), b = URL.parse(own);
  return signed === a?.origin && a.protocol === b?.protocol && a.port === b.port && isLoopback(signed) &&
    isLoopback(own);
}
