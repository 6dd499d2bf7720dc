/** A message that a connector has received, as its store keeps it and as a platform gets it. */
import type { InboxMessage } from "../../../cli/connector/store/received_rows.ts";
import type { RuntimeMessage } from "../../../cli/platforms/platform.ts";

export const did = (kind: string, last: string) => `did:svc:localhost:${kind}:01KHYQ5H00AAAAAAAAAAAAAAA${last}`;

/** The identity of its sender. */
export const IDENTITY = {
  agentDid: did("agent", "A"),
  ownerDid: did("human", "B"),
  issuer: "https://registry.example.test",
  aitJti: "01KHYQ5H00AAAAAAAAAAAAAAAC",
  name: "sender",
};

export function inboxMessage(payload: string): InboxMessage {
  return {
    seq: 1,
    fromDid: IDENTITY.agentDid,
    toDid: did("agent", "D"),
    requestId: "request-1",
    identity: IDENTITY,
    conversationId: null,
    session: null,
    inReplyTo: null,
    isReply: false,
    auto: false,
    readAt: null,
    mayBeRepeat: false,
    isWaiting: true,
    leaseUntil: 0,
    payload,
    receivedAt: 0,
    verified: "by-registry",
    signedAt: 1_771_632_010,
    tries: { attempts: 0, refusals: 0, firstTriedAt: null },
  };
}

export function runtimeMessage(payload: string, more: Partial<RuntimeMessage> = {}): RuntimeMessage {
  return { ...inboxMessage(payload), idempotencyKey: "key-of-this-message", ...more };
}
