/**
 * Builds the request for a message, with its signed context (D-140), and reads the message's state from the answer.
 * Nothing is sent here; ProxyCaller does that.
 */
import { HookAnswer } from "../../shared/protocol/api/relay.ts";
import { contextText, messageTarget } from "../../shared/protocol/message_context.ts";
import { tryParse } from "../../shared/protocol/json_text.ts";
import { HEADERS } from "../../shared/protocol/proof.ts";
import { apiErrorOf, type HttpResponse } from "../../shared/client/http.ts";
import type { SentEntry } from "../../shared/client/local_shapes.ts";
import type { ProxyRequest } from "./proxy_caller.ts";

export interface OutgoingMessage {
  to: string;
  /** JSON text. It is the body of the request, unless the message is sealed. */
  payload: string;
  requestId: string;
  conversationId?: string | null | undefined;
  /** Request ID of the message that this one answers. */
  inReplyTo?: string | null | undefined;
  /** True when no person or model decided to send it. */
  auto?: boolean | undefined;
  /** True when the message may wait at the proxy for an offline recipient (D-68). */
  mayWait?: boolean | undefined;
}

/** Returns the sealed body of a message. `context` is the text of its signed context. */
export type Seal = (context: string) => Promise<string>;

/**
 * Returns the request that sends a message.
 *
 * @param seal for a peer of a ticket; `null` for a contact, which gets the payload unsealed
 * @throws {import("../../shared/protocol/message_context.ts").ContextError}
 */
export async function messageRequest(message: OutgoingMessage, seal: Seal | null): Promise<ProxyRequest> {
  const { to, payload, requestId, conversationId, inReplyTo, auto, mayWait } = message;
  const headers: Record<string, string> = { "Content-Type": "application/json", [HEADERS.requestId]: requestId };
  if (typeof conversationId === "string") headers[HEADERS.conversationId] = conversationId;
  if (typeof inReplyTo === "string") headers[HEADERS.inReplyTo] = inReplyTo;
  if (auto) headers[HEADERS.auto] = "1";
  const target = await messageTarget(headers);
  const body = seal === null ? payload : await seal(contextText(headers));
  if (mayWait) headers.Prefer = "respond-async";
  return { method: "POST", target, body, recipient: to, headers };
}

/** Answers of status 5xx after which the recipient certainly does not have the message. */
const NOT_DELIVERED: ReadonlySet<string | null> = new Set([
  "PROXY_RELAY_CONNECTOR_OFFLINE",
  "PROXY_RELAY_MAILBOX_FULL",
]);

/**
 * Returns the state that a response shows; `expiresAt` is ISO 8601. After a 5xx that is not in `NOT_DELIVERED`, and
 * after a 2xx with a body that is not of this protocol, the state is `unknown`, because the recipient may have the
 * message.
 */
export function stateOf(response: HttpResponse): Pick<SentEntry, "state" | "problem" | "expiresAt"> {
  const error = apiErrorOf(response);
  if (error !== null) {
    const isCertain = error.status < 500 || NOT_DELIVERED.has(error.code);
    const problem = error.code ?? `status ${error.status}`;
    return { state: isCertain ? "refused" : "unknown", problem, expiresAt: null };
  }
  const { data: answer } = HookAnswer.safeParse(tryParse(response.text));
  if (answer === undefined) return { state: "unknown", problem: "the proxy's answer is not valid", expiresAt: null };
  const { delivered, queued, reason, expiresAt } = answer;
  if (delivered) return { state: "delivered", problem: null, expiresAt: null };
  if (queued) return { state: "queued", problem: null, expiresAt: expiresAt ?? null };
  // Only a plain word is passed on, because a person or a model could take any other text for words of svc.
  const problem = /^[a-z_]{1,64}$/.exec(reason ?? "")?.[0] ?? "refused by the recipient's connector";
  return { state: "refused", problem, expiresAt: null };
}
