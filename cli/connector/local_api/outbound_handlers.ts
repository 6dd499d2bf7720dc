/** Handlers of the routes that send a message and wait for its reply (D-87). */
import { settledWithin } from "../../../shared/clock.ts";
import { CANCELLED, errorPayload, OutboundRequest } from "../../../shared/client/local_shapes.ts";
import { isRequestId } from "../../../shared/protocol/ids.ts";
import { memberText } from "../../../shared/protocol/json_text.ts";
import type { Connector } from "../connector.ts";
import { orReport } from "../events.ts";
import { type InboxMessage, isAbout, isTaskId } from "../store/received_rows.ts";
import type { MessageToSend } from "../sending/message_sender.ts";
import type { SentMessage } from "../store/sent_messages.ts";
import { CONNECTOR_LIMITS as LIMIT } from "../limits.ts";
import { beginWait, didEver, didOf, Peer, storedMessage } from "./inbox_handlers.ts";
import { digits, jsonText, laterJsonText, type LocalInput, passed } from "./local_route.ts";
import { LocalError } from "../../local_errors.ts";
import { outboundJson } from "./message_json.ts";
import * as z from "zod";

const WAIT_MAX_S = LIMIT.waitMaxMs / 1000;

export const Outbound = OutboundRequest.superRefine((body, { addIssue }) => {
  const { to, replyTo, inReplyTo, requestId = null, text, error, payload, keep, prefer } = body;
  const problem = (path: string, message: string) => addIssue({ code: "custom", path: [path], message });
  if (to === undefined && replyTo === undefined) problem("to", "is missing; it or replyTo is needed");
  const own = text ?? error;
  if (own === undefined && payload === undefined) problem("payload", "is missing; it or text is needed");
  if (own !== undefined && payload !== undefined) {
    problem(text === undefined ? "error" : "text", "must be without payload");
  }
  if (keep && prefer === undefined) problem("keep", "needs prefer");
  if (error !== undefined && (replyTo ?? inReplyTo) === undefined) problem("error", "needs replyTo or inReplyTo");
  // An ID of this form names the task of an A2A client, so the reply would be kept for a client that never asked.
  if (isTaskId(requestId)) problem("requestId", "has the form of an A2A task; choose another one");
});

/** Query of `POST /v1/outbound`. With `wait`, even 0, the response says how the message ended. */
export const OutboundQuery = z.strictObject({ wait: digits(z.int().min(0).max(WAIT_MAX_S)).optional() });

/** Path and query of `GET /v1/outbound/:requestId`; `to` is an alias or a DID. */
export const SentId = z.strictObject({ requestId: z.string().refine(isRequestId) });
export const CancelQuery = z.strictObject({ to: Peer.optional() });
export const SentIdQuery = z.strictObject({
  ...CancelQuery.shape,
  wait: digits(z.int().min(0).max(WAIT_MAX_S).default(0)),
});

const ENDED: ReadonlySet<string> = new Set(["dead_lettered", "refused"]);

export async function outbound(
  { connector, query, body, text }: LocalInput<undefined, z.output<typeof OutboundQuery>, z.output<typeof Outbound>>,
): Promise<Response> {
  const { wait } = query;
  const answered = body.replyTo === undefined ? null : storedMessage(connector, body.replyTo);
  const message = {
    ...await addressed(connector, body, answered),
    payload: payloadOf(body, text),
    origin: body.origin ?? "program",
    requestId: body.requestId ?? connector.newId(),
    auto: body.auto ?? false,
    mayWait: body.prefer === "respond-async",
    keep: body.keep ?? false,
  } as const;
  using owned = new DisposableStack();
  // Begun before the request leaves, because the reply can come before the response, and because a call that finds no
  // room to wait must send nothing.
  if (wait) owned.use(beginWait(connector, message));
  const sealed = connector.peers.sealTo(message.toDid) !== null;
  const { sent, response } = await connector.sending.send(message);
  const isAccepted = response === null || response.status < 300;
  if (isAccepted && sent.state !== "refused" && answered !== null) {
    const { store: { received }, deps: { clock, emit } } = connector;
    // The answer is sent already, so a failure is only reported. The message that it answers then stays unread.
    orReport(emit, () => received.markRead([answered.seq], clock.now()), []);
  }
  const answer = response !== null && (wait === undefined || !isAccepted)
    ? passed(response)
    : result(connector, sent, wait ? { owned: owned.move(), seconds: wait } : null);
  answer.headers.set(SEALED_HEADER, sealed ? "1" : "0");
  return answer;
}

/** Header of the response of `POST /v1/outbound`: whether the message is sealed to its recipient. */
const SEALED_HEADER = "X-Svc-Sealed";

/** Cancels a message that waits here. A message that has left keeps its state. Returns the message with its state. */
export async function cancel(
  { connector, params, query }: LocalInput<z.output<typeof SentId>, z.output<typeof CancelQuery>>,
): Promise<Response> {
  const { store: { sent }, deps: { clock } } = connector;
  const message = await findSent(connector, params.requestId, query.to);
  return result(connector, message.state === "kept" ? sent.giveUp(message, CANCELLED, clock.now()) : message, null);
}

async function findSent(connector: Connector, requestId: string, to: string | undefined): Promise<SentMessage> {
  const toDid = to === undefined ? undefined : await didEver(connector, to);
  const sent = connector.store.sent.find(requestId, toDid);
  if (sent === null) throw new LocalError("CONNECTOR_MESSAGE_UNKNOWN");
  return sent;
}

export async function sentMessage(
  { connector, params, query }: LocalInput<z.output<typeof SentId>, z.output<typeof SentIdQuery>>,
): Promise<Response> {
  const sent = await findSent(connector, params.requestId, query.to);
  const waiting = query.wait === 0 ? null : beginWait(connector, sent);
  const asked = Promise.all([connector.sending.ask(sent), connector.sending.refresh()]);
  if (waiting === null) await settledWithin(connector.deps.clock, asked, LIMIT.receiptLookupTimeoutMs);
  return result(connector, sent, waiting && { owned: waiting, seconds: query.wait });
}

/** The response for a sent message: when it has a reply, when it ends without one, or when the time is over. */
function result(
  connector: Connector,
  sent: SentMessage,
  wait: { owned: Disposable; seconds: number } | null,
): Response {
  const { store: { sent: outbox, received }, sending, peers, waits, deps: { clock } } = connector;
  // The row may have been deleted by now, to make room for others.
  const present = () => outbox.find(sent.requestId, sent.toDid) ?? sent;
  const reply = () => received.replyTo(sent, clock.now());
  const written = () => {
    const found = reply();
    if (found?.readAt === null) waits.gave(sent);
    return outboundJson(present(), found, received.repliesTo(sent), peers);
  };
  const look = () => reply() !== null || ENDED.has(present().state) || null;
  if (wait === null || look()) {
    wait?.owned[Symbol.dispose]();
    return jsonText(written());
  }
  return laterJsonText(connector, wait.owned, async (signal) => {
    using _receipts = sending.follow(sent);
    await waits.until(look, (change) => isAbout(change, sent), wait.seconds * 1000, signal);
    return written();
  });
}

/** Recipient, conversation and question of a message. @throws {LocalError} */
async function addressed(
  connector: Connector,
  { to, conversationId, inReplyTo }: OutboundRequest,
  answered: InboxMessage | null,
): Promise<Pick<MessageToSend, "toDid" | "conversationId" | "inReplyTo">> {
  const toDid = to === undefined && answered !== null ? answered.fromDid : await didOf(connector, to ?? "");
  if (answered === null) return { toDid, conversationId, inReplyTo };
  if (toDid !== answered.fromDid) {
    throw new LocalError("CONNECTOR_INVALID_BODY", "to: the message to answer is of another agent");
  }
  if (inReplyTo !== undefined && inReplyTo !== answered.requestId) {
    throw new LocalError("CONNECTOR_INVALID_BODY", "inReplyTo: the message to answer is another one");
  }
  return { toDid, conversationId, inReplyTo: answered.requestId };
}

/**
 * Returns the payload as JSON text. A payload in the body is copied unchanged, because parsing it would round
 * large numbers.
 */
function payloadOf({ text, error }: OutboundRequest, body: string): string {
  if (error !== undefined) return JSON.stringify(errorPayload(text ?? error.message, error));
  if (text !== undefined) return JSON.stringify({ message: text });
  return memberText(body, "payload") ?? "null";
}
