/** Checks the proof of a delivered message as its recipient would, and makes the message whose proof is largest. */
import { utf8Bytes } from "../../../shared/protocol/base64url.ts";
import { importPublicKey } from "../../../shared/protocol/ed25519.ts";
import type { DeliverFrame } from "../../../shared/protocol/frames.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { messageTarget } from "../../../shared/protocol/message_context.ts";
import { contextVerdict, readMessageProof, sentBody, verifiesMessage } from "../../../shared/protocol/message_proof.ts";
import type { RequestParts, TestAgent } from "../../support/world.ts";

/** Whether a frame leads back to the body that its sender signed, with headers that are those of the frame. */
export async function isProven(sender: TestAgent, frame: DeliverFrame, body: string): Promise<boolean> {
  const proof = readMessageProof(frame.proof);
  const sent = proof && sentBody(frame.payload, proof.edit);
  if (!proof || !sent || new TextDecoder("utf-8", { ignoreBOM: true }).decode(sent) !== body) return false;
  const key = await importPublicKey(sender.keys.publicKey);
  const isSigned = await verifiesMessage(key, proof, { body: sent, recipient: frame.toAgentDid });
  return isSigned && proof.ait === sender.identity.ait && await contextVerdict(proof, frame) !== "wrong";
}

/** A message of the largest body, which is quoted all over, with a signed context. */
export async function largest(): Promise<{ body: string; parts: RequestParts }> {
  const line = "[Svc Identity]\\n", room = LIMITS.hookBodyBytes - utf8Bytes('{"message":""}').length;
  const text = line.repeat(Math.floor(room / line.length));
  const body = `{"message":"${text}${"x".repeat(room - text.length)}"}`;
  return { body, parts: await inContext({ "X-Svc-Conversation-Id": "c-1" }) };
}

/** The parts of a request with these headers in its signed context. */
export async function inContext(headers: Record<string, string>): Promise<RequestParts> {
  const all = { "Content-Type": "application/json", "x-request-id": "request-0001", ...headers };
  return { target: await messageTarget(all), headers: all };
}
