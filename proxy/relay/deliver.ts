/**
 * `POST /hooks/agent`: delivers an admitted message to the recipient's connector and returns its ack to the sender.
 *
 *   admitted ─ media type ─ JSON ─ recipient ─ pair ─ identity block ─┬─ connected here: one commit (nonce, window,
 *                                                                     │  begun delivery) ─ frame ─ ack ─ 202
 *                                                                     ├─ connected elsewhere: one commit, and the link to
 *                                                                     │  that instance or a note in the commit ─ its result
 *                                                                     ├─ may queue, and offline or without an ack: one
 *                                                                     │  commit with the mailbox ─ 202 queued
 *                                                                     └─ offline: 502, after a wait of up to 5 s
 *                                                                        if its instance stops
 */
import { sleep, timeLeft } from "../../shared/clock.ts";
import type { HookAnswer } from "../../shared/protocol/api/relay.ts";
import { type ErrorCode, ServiceError } from "../../shared/protocol/errors.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { RELIED_MS } from "../../shared/server/store/open_store.ts";
import { StoreUnavailable } from "../../shared/server/store/store_errors.ts";
import { type Answer, type Input, json, type RequestContext } from "../../shared/server/http/route.ts";
import { signedHeaders } from "../../shared/server/http/signed_request.ts";
import type { ServiceDeps } from "../../shared/server/http/app.ts";
import type { AdmittedAgent } from "../caller.ts";
import { prefersAsync, readMessage } from "../message/request.ts";
import type { Message } from "../schema/records.ts";
import type { ConnectedAgents } from "./connected_agents.ts";
import { type Deliveries, queuedAnswer } from "../message/deliveries.ts";
import { type DeliveryId, deliveryIdOf, type DuplicateResult } from "../message/delivery.ts";
import type { Mailbox, MailboxRefusal } from "./mailbox.ts";
import { type ForwardResult, OFFLINE } from "./instance_note.ts";
import type { LocalDelivery } from "./local_delivery.ts";
import type { MessageForwarder } from "./message_forwarder.ts";
import type { InstanceLeases } from "./instance_leases.ts";
import type { InFlightBudget } from "./in_flight_budget.ts";
import type { PresenceStore } from "./presence.ts";
import type { RecipientReturn } from "./recipient_return.ts";

/**
 * Time between two looks for the outcome of a message that another instance delivers. With less, the store is read more
 * often; with more, the answer is later.
 */
export const UNDER_WAY_LOOK_MS = 100;

interface DeliverDeps extends Pick<ServiceDeps, "clock" | "metrics"> {
  config: { injectIdentity: boolean; ackTimeoutMs: number };
  deliveries: Deliveries;
  forwarder: MessageForwarder;
  here: LocalDelivery;
  connectedAgents: ConnectedAgents;
  held: InFlightBudget;
  leases: InstanceLeases;
  mailbox: Mailbox;
  presence: PresenceStore;
  returns: RecipientReturn;
}

/** Delivers or queues a message. Its bytes count until its response, because its body stays in memory until then. */
export async function postMessage(
  deps: DeliverDeps,
  { caller, exchange }: Input<undefined, undefined, undefined, AdmittedAgent | undefined>,
): Promise<Answer> {
  if (!caller) throw new ServiceError("PROXY_RELAY_AUTH_CONTEXT_MISSING");
  const release = deps.held.take(caller, exchange.body.length);
  exchange.room?.release();
  try {
    return await acceptMessage(deps, caller, exchange);
  } catch (cause) {
    const error = cause instanceof StoreUnavailable
      ? new ServiceError("PROXY_RELAY_UNAVAILABLE", { cause, headers: { "Retry-After": "1" } })
      : cause;
    const outcome = error instanceof ServiceError ? OUTCOMES[error.code] : undefined;
    if (outcome !== undefined) deps.metrics.count("relay_messages_total", outcome, originOf(caller));
    throw error;
  } finally {
    release();
  }
}

/** Whose agent sent a message, for the metrics. */
function originOf({ homeProxy }: AdmittedAgent): "local" | "foreign" {
  return homeProxy === null ? "local" : "foreign";
}

/** Outcomes of messages that are not accepted, for the metrics. */
const OUTCOMES: Readonly<Partial<Record<ErrorCode, string>>> = {
  PROXY_RELAY_CONNECTOR_OFFLINE: "offline",
  PROXY_RELAY_DELIVERY_FAILED: "failed",
  PROXY_RELAY_UNAVAILABLE: "unavailable",
  PROXY_RELAY_MAILBOX_FULL: "mailbox_full",
  PROXY_HOOK_REQUEST_ID_REUSED: "repeat",
};

/** A message with what its delivery needs. */
interface Accepted {
  id: DeliveryId;
  message: Message;
  bodySha256: string;
  /** The recipient's owner when the message may be queued; otherwise `null`. */
  queueFor: string | null;
  /** True once another instance has ended without a result, because the recipient may have got the message there. */
  mayHaveArrived: boolean;
}

/** Another instance delivers the message. */
type InProgress = Extract<DuplicateResult, { repeat: "under_way" }>;

async function acceptMessage(deps: DeliverDeps, caller: AdmittedAgent, exchange: RequestContext): Promise<Answer> {
  const { deliveries, leases, clock, config } = deps, { headers } = exchange.request;
  const { message, recipientOwnerDid } = readMessage(caller, exchange, config);
  const id = deliveryIdOf(message);
  const queueFor = prefersAsync(headers.get("prefer")) ? recipientOwnerDid : null;
  // Admission has verified that this is the digest of the body, so it is not computed again.
  const accepted: Accepted = {
    id,
    message,
    bodySha256: signedHeaders(exchange).bodySha256,
    queueFor,
    mayHaveArrived: false,
  };
  const left = timeLeft(clock, config.ackTimeoutMs + LIMITS.wayBackMs + LIMITS.returnWaitMs);
  for (let earlier = deliveries.underWay(id); earlier; earlier = deliveries.underWay(id)) {
    // The nonce of the duplicate is used up before the wait, because copies of the request would otherwise wait too.
    await caller.admission.commitAlone();
    await earlier;
    // Each copy makes an attempt of its own after one that failed, so the last of many would otherwise wait for minutes.
    if (left() <= 0) throw new ServiceError("PROXY_RELAY_DELIVERY_FAILED");
  }
  let began = clock.now();
  deliveries.enter(id);
  try {
    for (let isFirst = true;; isFirst = false) {
      const sent = await send(deps, caller, accepted, isFirst);
      const answer = "offline" in sent ? await withoutRecipient(deps, caller, accepted, sent, began) : sent;
      if (answer === null) continue;
      if (!("repeat" in answer)) return answer;
      // Another instance delivers the same message, so this request waits for that response, but not for longer than
      // the delivery may take, because it counts as under way for hours when the clock of that instance is set back.
      if (left() <= 0) throw new ServiceError("PROXY_RELAY_DELIVERY_FAILED");
      if (await leases.isAlive(answer.instance)) await sleep(clock, UNDER_WAY_LOOK_MS);
      else await deliveries.markLost(id, answer.instance);
      began = clock.now();
    }
  } finally {
    deliveries.leave(id);
  }
}

/**
 * Queues a message that may wait; else waits for a recipient whose instance stops, and returns `null` once it is back.
 */
async function withoutRecipient(
  deps: DeliverDeps,
  caller: AdmittedAgent,
  accepted: Accepted,
  { tried }: Offline,
  began: number,
): Promise<Answer | InProgress | null> {
  const { deliveries, returns, clock } = deps, { id, bodySha256, queueFor } = accepted;
  if (queueFor !== null) return await queue(deps, caller, accepted, queueFor);
  const repeat = await deliveries.repeat(id, bodySha256);
  if (repeat?.repeat === "under_way") await caller.admission.commitAlone();
  if (repeat) return answerRepeat(deps, caller, id, repeat);
  const isLate = clock.now() - began >= LIMITS.returnWaitMs;
  // The nonce is used up before the wait, because copies of the request would otherwise wait too.
  const isBack = !isLate && await returns.isBack(id.recipient, tried, () => caller.admission.commitAlone());
  if (isBack) return null;
  // Senders take the code for offline, as that of a full mailbox, as proof that the recipient does not have the message.
  throw new ServiceError(accepted.mayHaveArrived ? "PROXY_RELAY_DELIVERY_FAILED" : "PROXY_RELAY_CONNECTOR_OFFLINE");
}

/** The recipient has no socket at this instance, nor at the instance `tried` unless that is `null`. */
interface Offline {
  offline: true;
  tried: string | null;
}

/** Sends a message to the recipient's sockets, here or at another instance. */
async function send(
  deps: DeliverDeps,
  caller: AdmittedAgent,
  accepted: Accepted,
  isFirst: boolean,
): Promise<Answer | InProgress | Offline> {
  const { id, message, bodySha256, queueFor } = accepted;
  const { connectedAgents, deliveries, forwarder, here, leases, presence, config } = deps;
  const begin = deliveries.begin(id, bodySha256);
  const { startedAt } = begin;
  const until = startedAt + Math.min(config.ackTimeoutMs, leases.restMs);
  const attempt = { instance: leases.instance, startedAt, until, bodySha256 };
  let dispatched: ForwardResult = OFFLINE, hasBegun = false;
  let seen = isFirst ? caller.presence : undefined;
  if (seen instanceof Promise) seen = await seen;
  const sockets = connectedAgents.socketsOf(id.recipient) ?? await connectedAgents.opened(id.recipient);
  if (sockets) {
    const heldHere = sockets.heldHere ??= presence.requireHeldHere(id.recipient, seen);
    seen = undefined;
    const refused = await caller.admission.commitWith([heldHere], begin);
    if (refused === null) {
      hasBegun = true;
      if (isLong(deps, startedAt)) await requireStill(deps, caller, id);
      dispatched = await here.deliver(message, attempt, queueFor);
    } else if (refused !== "moved") return answerRepeat(deps, caller, id, refused);
    else await forwarder.moved(id.recipient);
  }
  const elsewhere = dispatched.result === "offline" ? await presence.findInstance(id.recipient, seen) : null;
  if (elsewhere) {
    const sent = forwarder.forwardTo(elsewhere, message, attempt, queueFor);
    let refused: DuplicateResult | null;
    try {
      refused = await caller.admission.commitWith(sent.updates, begin);
      // A note was in the commit, so its message is already on its way.
      const isHeld = refused === null && sent.updates.length === 0;
      if (isHeld && isLong(deps, startedAt)) await requireStill(deps, caller, id);
    } catch (error) {
      sent.cancel();
      throw error;
    }
    if (refused !== null) {
      sent.cancel();
      return answerRepeat(deps, caller, id, refused);
    }
    dispatched = await sent.dispatched();
    // If an instance stopped before it gave a result, its agents are offline. A message that may wait is queued even
    // while that instance is alive, because it would otherwise be refused.
    const isGone = dispatched.result === "failed" &&
      (queueFor !== null || !(await leases.isAlive(elsewhere)));
    if (isGone) {
      dispatched = OFFLINE;
      accepted.mayHaveArrived = true;
    }
  }
  if (dispatched.result !== "offline") return answer(deps, caller, id, dispatched);
  // Recorded, because a repeat of the message would otherwise wait until the time of this attempt is over.
  if (elsewhere || hasBegun) await deliveries.end(id, null);
  return { offline: true, tried: elsewhere };
}

/** Tells whether a commit has taken longer than a record may be relied on without a check. */
function isLong({ clock }: DeliverDeps, startedAt: number): boolean {
  return clock.now() - startedAt > RELIED_MS;
}

/**
 * Looks again at pair and session after a long commit, because over a network the commit does not check them, and the
 * message would pass seconds after its sender was revoked.
 *
 * @throws {ServiceError} after the delivery has ended
 */
async function requireStill({ deliveries }: DeliverDeps, { admission }: AdmittedAgent, id: DeliveryId): Promise<void> {
  try {
    await admission.commitWith([]);
  } catch (error) {
    void deliveries.end(id, null);
    throw error;
  }
}

/** Returns the response for a result, and records a 202. */
function answer(
  { deliveries, metrics }: DeliverDeps,
  caller: AdmittedAgent,
  id: DeliveryId,
  dispatched: Exclude<ForwardResult, { result: "offline" }>,
): Answer {
  if (dispatched.result === "acked") {
    const { accepted: delivered, reason, connectedSockets } = dispatched, { requestId } = id;
    metrics.count("relay_messages_total", delivered ? "delivered" : "refused_by_connector", originOf(caller));
    const body: HookAnswer = { accepted: true, delivered, connectedSockets, requestId };
    if (reason !== undefined) body.reason = reason;
    void deliveries.end(id, body);
    return json(body, 202);
  }
  if (dispatched.result === "queued") {
    metrics.count("relay_messages_total", "queued", originOf(caller));
    deliveries.settled(id);
    return json(dispatched.answer, 202, QUEUED_HEADERS);
  }
  void deliveries.end(id, null);
  throw dispatched.result === "full"
    ? mailboxFull(dispatched.refusal)
    : new ServiceError("PROXY_RELAY_DELIVERY_FAILED");
}

const QUEUED_HEADERS = { "Preference-Applied": "respond-async" };

const MAILBOX_FULL: Readonly<Record<MailboxRefusal, string>> = {
  mailbox_full: "The mailbox of the recipient is full",
  recipient_full: "The messages that wait for the agents of the recipient's owner take up all their space",
  sender_full: "The messages of your agents that wait for their recipients take up all your space",
  disk_full: "The disk of the proxy has no space left for messages that wait",
};

function mailboxFull(refusal: MailboxRefusal): ServiceError {
  return new ServiceError("PROXY_RELAY_MAILBOX_FULL", { message: MAILBOX_FULL[refusal] });
}

/** Queues the message. The same commit records the 202, because a repeat would otherwise be queued too. */
async function queue(
  deps: DeliverDeps,
  caller: AdmittedAgent,
  { id, message, bodySha256, mayHaveArrived }: Accepted,
  recipientOwnerDid: string,
): Promise<Answer | InProgress> {
  const expiresAt = deps.mailbox.expiry();
  const body = queuedAnswer(id, { expiresAt, connectedSockets: 0 });
  const begin = deps.deliveries.begin(id, bodySha256, body);
  const enqueue = deps.mailbox.enqueue(message, recipientOwnerDid, expiresAt);
  const refused = await caller.admission.commitWith(enqueue, begin);
  if (typeof refused === "string") {
    throw mayHaveArrived ? new ServiceError("PROXY_RELAY_DELIVERY_FAILED") : mailboxFull(refused);
  }
  if (refused !== null) return answerRepeat(deps, caller, id, refused);
  deps.metrics.count("relay_messages_total", "queued", originOf(caller));
  // Started now, because the recipient may have connected before this commit, and found an empty mailbox.
  void deps.forwarder.startMailboxDelivery(id.recipient);
  return json(body, 202, QUEUED_HEADERS);
}

function answerRepeat(
  { metrics, forwarder }: DeliverDeps,
  caller: AdmittedAgent,
  { recipient }: DeliveryId,
  repeat: DuplicateResult,
): Answer | InProgress {
  if (repeat.repeat === "under_way") return repeat;
  if (repeat.repeat === "same") {
    metrics.count("relay_messages_total", "repeat", originOf(caller));
    // A commit that was late may have queued the message after its sender got an error, and no instance looked then. A
    // connected recipient would otherwise get the message only when it connects again.
    if (repeat.answer.queued) void forwarder.startMailboxDelivery(recipient);
    return json(repeat.answer, 202);
  }
  throw new ServiceError("PROXY_HOOK_REQUEST_ID_REUSED");
}
