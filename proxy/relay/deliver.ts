/**
 * `POST /hooks/agent`: delivers an admitted message to the recipient's connector and returns its ack to the sender.
 *
 *   admitted ─ media type ─ JSON ─ recipient ─ pair ─ identity block ─┬─ connected here: one commit (nonce, window,
 *                                                                     │  begun delivery) ─ frame ─ ack ─ 202
 *                                                                     ├─ connected elsewhere: one commit with a note to
 *                                                                     │  that instance ─ its result
 *                                                                     ├─ offline, may queue: one commit with the
 *                                                                     │  mailbox ─ 202 queued
 *                                                                     └─ offline: 502
 */
import { type Clock, sleep } from "../../shared/clock.ts";
import { ConversationId, type HookAnswer } from "../../shared/protocol/api/relay.ts";
import { isAgentDid } from "../../shared/protocol/did.ts";
import { type ErrorCode, ServiceError } from "../../shared/protocol/errors.ts";
import { injectIdentity } from "../../shared/protocol/identity_block.ts";
import { isRequestId } from "../../shared/protocol/ids.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { ContextError, contextOf, contextText } from "../../shared/protocol/message_context.ts";
import { HEADERS } from "../../shared/protocol/proof.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { digest } from "../../shared/server/crypto.ts";
import { parseJson } from "../../shared/server/http/body.ts";
import type { Metrics } from "../../shared/server/metrics/metrics.ts";
import { StoreUnavailable } from "../../shared/server/store/store_errors.ts";
import { type Answer, type Input, json, type RequestContext } from "../../shared/server/http/route.ts";
import type { AdmittedAgent } from "../caller.ts";
import type { Message } from "../schema/records.ts";
import type { ConnectedAgents } from "./connected_agents.ts";
import type { Deliveries, DeliveryId, DuplicateResult } from "./deliveries.ts";
import type { Mailbox } from "./mailbox.ts";
import type { ForwardResult, MessageForwarder } from "./message_forwarder.ts";
import { prefersAsync } from "./prefer.ts";
import type { PresenceStore } from "./presence.ts";

interface DeliverDeps {
  clock: Clock;
  metrics: Metrics;
  config: { injectIdentity: boolean; ackTimeoutMs: number };
  deliveries: Deliveries;
  dispatch: MessageForwarder;
  hub: ConnectedAgents;
  mailbox: Mailbox;
  presence: PresenceStore;
}

export async function postMessage(
  deps: DeliverDeps,
  { caller, exchange }: Input<undefined, undefined, undefined, AdmittedAgent | undefined>,
): Promise<Answer> {
  if (!caller) throw new ServiceError("PROXY_RELAY_AUTH_CONTEXT_MISSING");
  try {
    return await acceptMessage(deps, caller, exchange);
  } catch (error) {
    const outcome = error instanceof ServiceError ? OUTCOMES[error.code] : undefined;
    if (outcome !== undefined) deps.metrics.count("relay_messages_total", outcome);
    throw error;
  }
}

/** Outcomes of messages that are not accepted, for the metrics. */
const OUTCOMES: Readonly<Partial<Record<ErrorCode, string>>> = {
  PROXY_RELAY_CONNECTOR_OFFLINE: "offline",
  PROXY_RELAY_DELIVERY_FAILED: "failed",
  PROXY_RELAY_UNAVAILABLE: "unavailable",
  PROXY_RELAY_MAILBOX_FULL: "mailbox_full",
  PROXY_HOOK_REQUEST_ID_REUSED: "repeat",
};

async function acceptMessage(deps: DeliverDeps, caller: AdmittedAgent, exchange: RequestContext): Promise<Answer> {
  const message = await parseMessage(deps, caller, exchange);
  const { requestId, fromAgentDid: sender, toAgentDid: recipient } = message;
  const id: DeliveryId = { sender, recipient, requestId };
  // Commit the duplicate's nonce and count before it waits for the first delivery.
  if (deps.deliveries.isUnderWay(id)) await caller.admission.commitAlone();
  const attempt = () => deliver(deps, caller, id, message, exchange);
  return await deps.deliveries.runExclusive(id, () => waitForOtherInstance(deps, id, attempt));
}

/** Another instance delivers the message, until `until` at the latest. */
type InProgress = Extract<DuplicateResult, { repeat: "under_way" }>;

/** Repeats `attempt` while another instance delivers the same message, whose response is then returned here as well. */
async function waitForOtherInstance(
  { presence, clock, deliveries }: DeliverDeps,
  id: DeliveryId,
  attempt: () => Promise<Answer | InProgress>,
): Promise<Answer> {
  while (true) {
    const answer = await attempt();
    if (!("repeat" in answer)) return answer;
    if (await asRelayUnavailable(() => presence.isAlive(answer.instance))) {
      await sleep(clock, Math.min(LIMITS.underWayLookMs, Math.max(1, answer.until - clock.now())));
    } else await deliveries.markLost(id, answer.instance);
  }
}

async function deliver(
  deps: DeliverDeps,
  caller: AdmittedAgent,
  id: DeliveryId,
  message: Message,
  exchange: RequestContext,
): Promise<Answer | InProgress> {
  const { hub, deliveries, dispatch, presence, config } = deps;
  // Admission has verified that this is the digest of the body.
  const bodySha256 = exchange.request.headers.get(HEADERS.bodySha256) ?? "";
  const mayQueue = prefersAsync(exchange.request.headers.get("prefer"));
  const begin = deliveries.begin(id, bodySha256);
  let dispatched: ForwardResult = { result: "offline" };
  let seen = await asRelayUnavailable(() => caller.prefetched?.presence);
  if (hub.session(id.recipient)) {
    const heldHere = presence.requireHeldHere(id.recipient, seen);
    seen = undefined;
    const commit = await asRelayUnavailable(() =>
      caller.admission.commitWith<DuplicateResult | "moved">([heldHere], begin)
    );
    if (commit.committed) {
      dispatched = await asRelayUnavailable(() => dispatch.deliverHere(message, mayQueue, config.ackTimeoutMs));
    } else if (commit.refused !== "moved") return answerRepeat(deps, commit.refused);
    else await dispatch.moved(id.recipient);
  }
  const elsewhere = dispatched.result === "offline"
    ? await asRelayUnavailable(() => presence.findInstance(id.recipient, seen))
    : null;
  if (elsewhere) {
    const sent = dispatch.forwardTo(elsewhere, message, mayQueue, config.ackTimeoutMs);
    const commit = await asRelayUnavailable(() => caller.admission.commitWith<DuplicateResult>([sent.update], begin))
      .catch((error) => {
        sent.cancel();
        throw error;
      });
    if (!commit.committed) {
      sent.cancel();
      return answerRepeat(deps, commit.refused);
    }
    dispatched = await sent.dispatched();
    // The instance has stopped without a result, so its agents are offline.
    const isGone = dispatched.result === "failed" && !(await asRelayUnavailable(() => presence.isAlive(elsewhere)));
    if (isGone) dispatched = { result: "offline" };
  }
  if (dispatched.result !== "offline") return answer(deps, id, dispatched);
  // The attempt was recorded and did not reach the recipient: it has ended.
  if (elsewhere) await deliveries.markFailed(id);
  if (mayQueue) return await queue(deps, caller, id, message, bodySha256);
  const repeat = await asRelayUnavailable(() => deliveries.repeat(id, bodySha256));
  if (repeat?.repeat === "under_way") await caller.admission.commitAlone();
  if (repeat) return answerRepeat(deps, repeat);
  throw new ServiceError("PROXY_RELAY_CONNECTOR_OFFLINE");
}

/** Returns the response for a result and records a 202. */
function answer(deps: DeliverDeps, id: DeliveryId, dispatched: ForwardResult): Answer {
  switch (dispatched.result) {
    case "acked": {
      const { accepted, reason, connectedSockets } = dispatched;
      return accept(deps, id, {
        accepted: true,
        delivered: accepted,
        connectedSockets,
        requestId: id.requestId,
        ...(reason === undefined ? {} : { reason }),
      });
    }
    case "queued":
      return accept(deps, id, queuedAnswer(id, dispatched.expiresAt, dispatched.connectedSockets));
  }
  void deps.deliveries.markFailed(id);
  switch (dispatched.result) {
    case "full":
      throw new ServiceError("PROXY_RELAY_MAILBOX_FULL");
    case "offline":
      throw new ServiceError("PROXY_RELAY_CONNECTOR_OFFLINE");
    case "failed":
      throw new ServiceError("PROXY_RELAY_DELIVERY_FAILED");
  }
}

function accept({ deliveries, metrics }: DeliverDeps, id: DeliveryId, body: HookAnswer): Answer {
  metrics.count("relay_messages_total", body.queued ? "queued" : body.delivered ? "delivered" : "refused_by_connector");
  void deliveries.answered(id, body);
  return json(body, 202, body.queued ? QUEUED_HEADERS : {});
}

const QUEUED_HEADERS = { "Preference-Applied": "respond-async" };

function queuedAnswer({ requestId }: DeliveryId, expiresAt: number, connectedSockets: number): HookAnswer {
  return { accepted: true, delivered: false, connectedSockets, requestId, queued: true, expiresAt: toIso(expiresAt) };
}

/** Queues the message in the offline recipient's mailbox. The same commit records the 202 (D-68). */
async function queue(
  deps: DeliverDeps,
  caller: AdmittedAgent,
  id: DeliveryId,
  message: Message,
  bodySha256: string,
): Promise<Answer | InProgress> {
  const expiresAt = deps.mailbox.expiry();
  const body = queuedAnswer(id, expiresAt, 0);
  const begin = deps.deliveries.begin(id, bodySha256, body);
  const enqueue = deps.mailbox.enqueue(message, expiresAt);
  const commit = await asRelayUnavailable(() =>
    caller.admission.commitWith<DuplicateResult | "mailbox_full">([enqueue], begin)
  );
  if (!commit.committed) {
    if (commit.refused === "mailbox_full") throw new ServiceError("PROXY_RELAY_MAILBOX_FULL");
    return answerRepeat(deps, commit.refused);
  }
  deps.metrics.count("relay_messages_total", "queued");
  // The recipient may have connected, and found an empty mailbox, before this commit.
  void deps.dispatch.startMailboxDelivery(id.recipient);
  return json(body, 202, QUEUED_HEADERS);
}

/** Checks media type, JSON, recipient, conversation, reply headers, signed context and pair, in this order (D-60). */
async function parseMessage(deps: DeliverDeps, caller: AdmittedAgent, exchange: RequestContext): Promise<Message> {
  const { headers } = exchange.request;
  const contentType = headers.get("content-type") ?? "";
  const isTooLong = contentType.length > LIMITS.contentTypeLength;
  if (isTooLong || contentType.split(";")[0]?.trim().toLowerCase() !== "application/json") {
    throw new ServiceError("PROXY_HOOK_UNSUPPORTED_MEDIA_TYPE");
  }
  const parsed = parseJson(exchange.body);
  if (!parsed) throw new ServiceError("PROXY_HOOK_INVALID_JSON");
  const recipient = headers.get(HEADERS.recipient);
  if (!recipient) throw new ServiceError("PROXY_HOOK_RECIPIENT_REQUIRED");
  if (!isAgentDid(recipient)) throw new ServiceError("PROXY_HOOK_RECIPIENT_INVALID");
  const conversationId = headers.get(HEADERS.conversationId);
  if (conversationId !== null && !ConversationId.safeParse(conversationId).success) {
    throw new ServiceError("PROXY_HOOK_CONVERSATION_INVALID");
  }
  const reply = parseReplyHeaders(headers);
  checkContext(exchange);
  const pair = await asRelayUnavailable(() => caller.prefetched?.pair);
  if (recipient === caller.agentDid || !pair?.value) {
    throw new ServiceError("PROXY_AUTH_FORBIDDEN");
  }
  const { agentDid, ownerDid, issuer, aitJti, name } = caller;
  const identity = { agentDid, ownerDid, issuer, aitJti, name };
  return {
    requestId: exchange.requestId,
    fromAgentDid: agentDid,
    toAgentDid: recipient,
    identity,
    contentType,
    ...(conversationId === null ? {} : { conversationId }),
    ...reply,
    payload: deps.config.injectIdentity ? withIdentity(parsed, identity) : parsed.text,
  };
}

/** Returns the members of the reply headers (D-110). Checks their shape only: what they state is the sender's word. */
function parseReplyHeaders(headers: Headers): Pick<Message, "inReplyTo" | "auto"> {
  const inReplyTo = headers.get(HEADERS.inReplyTo), auto = headers.get(HEADERS.auto);
  if (inReplyTo !== null && !isRequestId(inReplyTo) || auto !== null && auto !== "1") {
    throw new ServiceError("PROXY_HOOK_REPLY_INVALID");
  }
  return { ...(inReplyTo === null ? {} : { inReplyTo }), ...(auto === null ? {} : { auto: true }) };
}

/** Refuses a message whose headers differ from its signed context (D-140). An older client sends no context. */
function checkContext({ request, target }: RequestContext): void {
  try {
    const signed = contextOf(target);
    if (signed === null || signed === digest(contextText(request.headers))) return;
  } catch (cause) {
    if (!(cause instanceof ContextError)) throw cause;
    throw new ServiceError("PROXY_HOOK_CONTEXT_INVALID", { message: cause.message });
  }
  throw new ServiceError("PROXY_HOOK_CONTEXT_INVALID");
}

function withIdentity({ text, value }: { text: string; value: unknown }, identity: Message["identity"]): string {
  const injected = injectIdentity(text, value, identity);
  if ("payload" in injected) return injected.payload;
  throw new ServiceError("PROXY_HOOK_INVALID_JSON", { message: "The body names message twice" });
}

function answerRepeat({ metrics }: DeliverDeps, repeat: DuplicateResult): Answer | InProgress {
  if (repeat.repeat === "under_way") return repeat;
  if (repeat.repeat === "same") {
    metrics.count("relay_messages_total", "repeat");
    return json(repeat.answer, 202);
  }
  throw new ServiceError("PROXY_HOOK_REQUEST_ID_REUSED");
}

/** Reports a failure of the store as `PROXY_RELAY_UNAVAILABLE`. */
async function asRelayUnavailable<T>(read: () => T): Promise<Awaited<T>> {
  try {
    return await read();
  } catch (cause) {
    if (!(cause instanceof StoreUnavailable)) throw cause;
    throw new ServiceError("PROXY_RELAY_UNAVAILABLE", { cause, headers: { "Retry-After": "1" } });
  }
}
