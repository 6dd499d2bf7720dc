/** Reads a message from its admitted request. An invalid one is refused before anything is stored. */
import { ConversationId } from "../../shared/protocol/api/relay.ts";
import { isAgentDid } from "../../shared/protocol/did.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import type { FrameIdentity } from "../../shared/protocol/frames.ts";
import { injectIdentity as insertIdentity } from "../../shared/protocol/identity_block.ts";
import { isRequestId } from "../../shared/protocol/ids.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { boundHeaders, ContextError, contextOf, textOfBound } from "../../shared/protocol/message_context.ts";
import { payloadProblem } from "../../shared/protocol/payload_bounds.ts";
import { HEADERS } from "../../shared/protocol/proof.ts";
import { digest } from "../../shared/server/crypto.ts";
import { parseJson } from "../../shared/server/http/body.ts";
import type { RequestContext } from "../../shared/server/http/route.ts";
import { signedHeaders } from "../../shared/server/http/signed_request.ts";
import type { Message, PairRecord } from "../schema/records.ts";

/** Checks media type, JSON, recipient, conversation, reply headers, signed context and pair, in this order. */
export function readMessage(
  { identity, origin, pair }: { identity: FrameIdentity; origin: string; pair: PairRecord | null },
  exchange: RequestContext,
  { injectIdentity }: { injectIdentity: boolean },
): { message: Message; recipientOwnerDid: string } {
  const { headers } = exchange.request, { recipient, token, timestamp, nonce, proof } = signedHeaders(exchange);
  const contentType = headers.get("content-type") ?? "";
  const isTooLong = contentType.length > LIMITS.contentTypeLength;
  if (isTooLong || contentType.split(";")[0]?.trim().toLowerCase() !== "application/json") {
    throw new ServiceError("PROXY_HOOK_UNSUPPORTED_MEDIA_TYPE");
  }
  const parsed = parseJson(exchange.body);
  if (!parsed) throw new ServiceError("PROXY_HOOK_INVALID_JSON");
  const problem = payloadProblem(parsed.text);
  if (problem !== null) throw new ServiceError("PROXY_HOOK_INVALID_JSON", { message: problem });
  if (!recipient) throw new ServiceError("PROXY_HOOK_RECIPIENT_REQUIRED");
  // The key of a pair has the DIDs of two agents, so this one is not parsed again.
  if (!pair && !isAgentDid(recipient)) throw new ServiceError("PROXY_HOOK_RECIPIENT_INVALID");
  const conversationId = headers.get(HEADERS.conversationId);
  if (conversationId !== null && !ConversationId.safeParse(conversationId).success) {
    throw new ServiceError("PROXY_HOOK_CONVERSATION_INVALID");
  }
  // Only the form is checked here, because the recipient's connector checks whether these are true (D-112).
  const inReplyTo = headers.get(HEADERS.inReplyTo), auto = headers.get(HEADERS.auto);
  if (inReplyTo !== null && !isRequestId(inReplyTo) || auto !== null && auto !== "1") {
    throw new ServiceError("PROXY_HOOK_REPLY_INVALID");
  }
  const context = signedContext(exchange);
  if (recipient === identity.agentDid || !pair) throw new ServiceError("PROXY_AUTH_FORBIDDEN");
  // A peer of another server has its mailbox there. Here the message would wait for an agent that never connects.
  if (pair.proxy !== undefined) {
    throw new ServiceError("PROXY_HOOK_RECIPIENT_INVALID", {
      message: `The recipient is an agent of another server: send the message to ${pair.proxy}`,
    });
  }
  const body = injectIdentity ? insertIdentity(parsed.text, parsed.value, identity) : { payload: parsed.text };
  if (!("payload" in body)) {
    throw new ServiceError("PROXY_HOOK_INVALID_JSON", { message: "The body names message twice" });
  }
  const message: { -readonly [K in keyof Message]: Message[K] } = {
    requestId: exchange.requestId,
    fromAgentDid: identity.agentDid,
    toAgentDid: recipient,
    identity,
    contentType,
    // What the recipient needs to check the sender itself: the values of the request that admission verified.
    proof: { ait: token ?? "", timestamp, nonce, origin, target: exchange.target, signature: proof, context },
    payload: body.payload,
  };
  if (body.edit !== undefined) message.proof.edit = body.edit;
  if (conversationId !== null) message.conversationId = conversationId;
  if (inReplyTo !== null) message.inReplyTo = inReplyTo;
  if (auto !== null) message.auto = true;
  return { message, recipientOwnerDid: pair.peerOwnerDid };
}

/**
 * Returns the headers of the signed context; none for a message without one. A message whose headers differ from it is
 * refused, because a party between sender and proxy has then changed them.
 */
function signedContext({ request, target }: RequestContext): Record<string, string> {
  try {
    const signed = contextOf(target);
    if (signed === null) return {};
    const bound = boundHeaders(request.headers);
    if (signed === digest(textOfBound(bound))) return Object.fromEntries(bound);
  } catch (cause) {
    if (!(cause instanceof ContextError)) throw cause;
    throw new ServiceError("PROXY_HOOK_CONTEXT_INVALID", { message: cause.message });
  }
  throw new ServiceError("PROXY_HOOK_CONTEXT_INVALID");
}

/** Returns true when the `Prefer` header (RFC 7240) names `respond-async`. A header over the limit counts as absent. */
export function prefersAsync(prefer: string | null): boolean {
  if (prefer === null || prefer.length > LIMITS.preferLength) return false;
  // The name of a preference ends at `;` or `=`. Quoted text is removed first, because it names no preference.
  const preferences = prefer.replace(QUOTED, "").split(",");
  return preferences.some((one) => one.split(/[;=]/)[0]?.trim().toLowerCase() === "respond-async");
}

/** A quoted string, in which a backslash escapes the next character. It may lack its end. */
const QUOTED = /"(?:\\.?|[^"\\])*"?/g;
