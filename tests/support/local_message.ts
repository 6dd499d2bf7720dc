/** Messages as the local API of a connector shows them. */
import type { LocalMessage } from "../../shared/client/local_shapes.ts";

/** The agent that wrote each of them. */
export const SENDER = "did:svc:registry.example.test:agent:01KHYQ5H00BBBBBBBBBBBBBBBB";
const OWNER = "did:svc:registry.example.test:human:01KHYQ5H00HHHHHHHHHHHHHHHH";

/** An unread message, whose text is its request ID. */
export function localMessage(requestId: string, more: Partial<LocalMessage> = {}): LocalMessage {
  return {
    id: 1,
    requestId,
    from: { agentDid: SENDER, ownerDid: OWNER, name: "beta", alias: "beta", humanName: "Bob" },
    verified: "by-registry",
    conversationId: null,
    inReplyTo: null,
    isReply: false,
    auto: false,
    receivedAt: "2026-02-21T00:00:00.000Z",
    readAt: null,
    mayBeRepeat: false,
    text: requestId,
    error: null,
    payload: { message: requestId },
    ...more,
  };
}
