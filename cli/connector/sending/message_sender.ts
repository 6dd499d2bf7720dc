/**
 * Sends every message of the connector, because one that is sent elsewhere would have no row on disk after a kill, and
 * would pass the loop guard (D-113). Signs the request (D-140), and stores the state that the response shows.
 */
import { messageRequest, type OutgoingMessage, stateOf } from "../../link/message_request.ts";
import { ApiError, UnreachableError } from "../../../shared/client/errors.ts";
import { apiErrorOf, type HttpResponse, wholeSeconds } from "../../../shared/client/http.ts";
import type { Origin } from "../../../shared/client/local_shapes.ts";
import { type PeerProxies, refusalAbroad } from "../../link/peer_proxies.ts";
import { describeError, isSuspension, remedyOf } from "../../../shared/client/refusals.ts";
import { fromBase64Url, sha256, toBase64Url, utf8Bytes } from "../../../shared/protocol/base64url.ts";
import { ERRORS } from "../../../shared/protocol/errors.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { payloadProblem } from "../../../shared/protocol/payload_bounds.ts";
import { payloadHash, SALT_BYTES, sealPayload } from "../../../shared/protocol/sealed_body.ts";
import { LocalError } from "../../local_errors.ts";
import { NOT_SENT } from "../states.ts";
import { orReport } from "../events.ts";
import type { Parts } from "../parts.ts";
import { busyReply, conversationOf, TOO_MANY, waitForThread } from "../runtime/automatic_replies.ts";
import type { Answered } from "../store/received_messages.ts";
import type { ProxyCaller } from "../../link/proxy_caller.ts";
import type { NewSentMessage, SentBody, SentMessage, StateChange } from "../store/sent_messages.ts";
import type { ConnectorStore } from "../store/store.ts";
import { retryWait } from "../../../shared/client/backoff.ts";

export interface MessageToSend extends Pick<OutgoingMessage, "auto" | "mayWait"> {
  toDid: string;
  /** JSON text; its recipient gets it unchanged. */
  payload: string;
  origin: Exclude<Origin, "runtime">;
  requestId?: string | undefined;
  /** Default: that of the message that this one answers (D-112). */
  conversationId?: string | undefined;
  inReplyTo?: string | undefined;
  /** The message may wait here for the proxy (D-305). */
  keep?: boolean | undefined;
}

/**
 * The message with its state, and the proxy's response unchanged. The response is `null` for a message that waits here.
 */
export interface SentResult {
  sent: SentMessage;
  response: HttpResponse | null;
}

const REUSED = JSON.stringify({
  error: { code: "PROXY_HOOK_REQUEST_ID_REUSED", message: ERRORS.PROXY_HOOK_REQUEST_ID_REUSED.when },
});

export const UNCONFIRMED = "The peer did not prove a ticket, and contacts are refused";

export type MessageDeps = Pick<Parts, "clock" | "random" | "peers" | "guard" | "newId" | "did" | "strict" | "emit"> & {
  store: Pick<ConnectorStore, "sent"> & { received: Pick<ConnectorStore["received"], "question"> };
  proxies: Pick<PeerProxies, "hostOf"> & { of(did: string): Pick<ProxyCaller, "call"> };
};

export class MessageSender {
  constructor(private readonly deps: MessageDeps) {}

  /**
   * Sends a message. A repeated request ID is the same message (D-69).
   *
   * @throws {LocalError} before anything is stored or sent
   * @throws {UnreachableError} when the proxy does not answer; the state is `unknown` if it may have the message
   */
  async send(message: MessageToSend): Promise<SentResult> {
    const { newId, store: { sent, received }, guard } = this.deps;
    const { toDid, payload, origin, inReplyTo = null, auto = false, mayWait = false, keep = false } = message;
    if (this.deps.peers.isBlocked(toDid)) throw new LocalError("CONNECTOR_PEER_BLOCKED");
    const bytes = utf8Bytes(payload).length;
    if (bytes > LIMITS.payloadBytes) {
      const text = `The payload has ${bytes} bytes, and at most ${LIMITS.payloadBytes} are sent`;
      throw new LocalError("PAYLOAD_TOO_LARGE", text);
    }
    const problem = payloadProblem(payload);
    if (problem !== null) throw new LocalError("CONNECTOR_INVALID_BODY", problem);
    if (this.refuses(toDid)) throw new LocalError("CONNECTOR_PEER_UNCONFIRMED", UNCONFIRMED);
    const answered = inReplyTo === null ? null : received.question(toDid, inReplyTo);
    const conversationId = message.conversationId ?? (answered && conversationOf(answered));
    const { requestId = newId() } = message;
    // A repeated request is not another message, so it is not counted again.
    const before = sent.find(requestId, toDid)?.state ?? null;
    const refusal = before === null ? this.#refusalOf({ toDid, requestId, origin, auto }, answered) : null;
    if (refusal !== null) throw await refusal;
    const row = this.#begin({ toDid, requestId, conversationId, inReplyTo, auto, origin, payload, keep });
    if (row.state === "kept") {
      // Another text under the ID of a kept message is refused, as at the proxy, because the caller would otherwise
      // believe that this text waits here.
      const isOther = before === "kept" && sent.payloadOf(row) !== payload;
      return { sent: row, response: isOther ? { status: 409, headers: new Headers(), text: REUSED } : null };
    }
    const request = this.request(row, payload, { mayWait });
    const tried = keep ? await attempt(request, 0) : null;
    if (tried?.later) return this.#keep(row, tried);
    try {
      const { response, outcome } = await request;
      if (outcome.state === "refused") guard.notSent(toDid, requestId);
      return { sent: this.#settle(row, outcomeOf(row, response, outcome)), response };
    } catch (error) {
      const isCertain = !row.mayHaveArrived && !mayHaveArrived(error);
      const why = describeError(error);
      const problem = isCertain ? `${NOT_SENT}: ${why}` : why;
      this.#settle(row, { state: isCertain ? "refused" : "unknown", problem });
      throw error;
    }
  }

  /** Whether contacts are refused, and the peer is one. */
  refuses(toDid: string): boolean {
    return this.deps.strict && this.deps.peers.sealTo(toDid) === null;
  }

  /** @throws {LocalError} `CONNECTOR_OUTBOX_FULL` */
  #begin(message: NewSentMessage): SentMessage {
    const { clock, guard, store: { sent } } = this.deps;
    try {
      return sent.begin(message, clock.now());
    } catch (error) {
      if (error instanceof LocalError) guard.notSent(message.toDid, message.requestId);
      throw error;
    }
  }

  /** Keeps a message whose first request has failed. @throws {DiskFullError} when it cannot be stored */
  #keep(row: SentMessage, { problem, mayHaveArrived, waitMs }: Attempt & { later: true }): SentResult {
    const { clock, store: { sent }, emit } = this.deps, now = clock.now();
    const kept = sent.keep(row, { problem, mayHaveArrived, nextAt: now + waitMs }, now, { isAnswered: true });
    emit("kept", { to: row.toDid, requestId: row.requestId, why: problem, nextInMs: waitMs });
    return { sent: kept, response: null };
  }

  /** Sends a message whose outcome the caller stores. @throws {UnreachableError} when the proxy does not answer */
  async request(
    message: SentMessage,
    payload: string,
    { mayWait }: { mayWait: boolean },
  ): Promise<{ response: HttpResponse; outcome: StateChange }> {
    const { toDid: to, requestId } = message;
    const { peers, proxies, emit, store: { sent } } = this.deps;
    const key = peers.sealTo(to);
    const seal = key === null ? null : (context: string) => this.#seal(message, payload, key, context);
    const request = await messageRequest({ ...message, to, payload, mayWait }, seal);
    if (seal === null) {
      sent.leave(message, { payloadSha256: null, bodySha256: await sha256(payload), salt: null, body: null });
    }
    const host = proxies.hostOf(to), response = await proxies.of(to).call(request);
    const { status } = response, { expiresAt, ...said } = stateOf(response), error = apiErrorOf(response);
    const problem = (host !== null && error !== null ? refusalAbroad(host, error) : null) ?? said.problem;
    emit(eventOf(status, said.state), { to, status, requestId, sealed: seal !== null });
    return { response, outcome: { ...said, problem, expiresAt: expiresAt === null ? null : Date.parse(expiresAt) } };
  }

  /**
   * Returns the sealed body. A repeated attempt gets the same one, because each seal is another text, which the proxy
   * would refuse under the same ID (D-152). Another payload under the ID gets its own body, which the proxy accepts or
   * refuses.
   */
  async #seal(message: SentMessage, payload: string, key: string, context: string): Promise<string> {
    const { did: from, random, store: { sent } } = this.deps;
    const before = await sealedIn(sent.bodyOf(message), payload);
    if (before !== null) return before;
    const salt = random.bytes(SALT_BYTES);
    const body = await sealPayload({ payload, salt }, key, { from, to: message.toDid, context });
    const made = {
      payloadSha256: await payloadHash({ payload, salt }),
      bodySha256: await sha256(body),
      salt: toBase64Url(salt),
      body,
    };
    return await sealedIn(sent.leave(message, made), payload) ?? body;
  }

  /**
   * Returns why a message of a loop is refused (D-113); `null` for a message that may be sent. When a thread has too
   * many automatic replies, the asker gets one that says so. Decides without a pause, because two messages at the same
   * time could otherwise both count as the first.
   */
  #refusalOf(
    { toDid, requestId, origin, auto }: { toDid: string; requestId: string; origin: Origin; auto: boolean },
    answered: Answered | null,
  ): LocalError | Promise<LocalError> | null {
    const { clock, guard, store: { sent }, emit } = this.deps;
    const now = clock.now();
    const refused = (why: string, waitMs: number | null) => {
      emit("loop_guard", { to: toDid, why });
      return new LocalError("CONNECTOR_LOOP_GUARD", `Not sent: ${why}`, waitMs && Math.ceil(waitMs / 1000));
    };
    if (auto && answered !== null) {
      if (answered.auto) {
        guard.refusals++;
        return refused("the message that it answers is automatic", null);
      }
      const waitMs = waitForThread(this.deps, answered);
      if (waitMs === 0) return null;
      // The error names no wait, because the asker gets the reply `BUSY`, so the program need not try again.
      const error = refused(TOO_MANY, null);
      return busyReply(answered, waitMs).then((busy) => {
        if (busy !== null) sent.begin(busy, clock.now());
        return error;
      });
    }
    if (auto) {
      const waitMs = guard.automaticMessage(toDid, requestId, now);
      return waitMs === 0 ? null : refused("too many messages were passed on", waitMs);
    }
    const isAnswer = answered !== null && !sent.hasAnswered(toDid, answered.requestId);
    if (origin !== "model" || isAnswer) return null;
    const waitMs = guard.modelMessage(toDid, requestId, now);
    return waitMs === 0 ? null : refused("too many messages wait for an answer", waitMs);
  }

  /** Stores the state. When the store cannot be written, the caller still gets the response. */
  #settle(message: SentMessage, outcome: StateChange): SentMessage {
    const { clock, store: { sent }, emit } = this.deps;
    const { toDid: to, requestId } = message;
    const settle = () => sent.settle(message, outcome, clock.now(), { isAnswered: true });
    return orReport(emit, settle, { ...message, ...outcome }, { to, requestId });
  }
}

/** The sealed body that was sent, if it holds this payload; else `null`. */
async function sealedIn(left: SentBody | null, payload: string): Promise<string | null> {
  const salt = fromBase64Url(left?.salt ?? "");
  if (left === null || salt === null) return null;
  return left.payloadSha256 === await payloadHash({ payload, salt }) ? left.body : null;
}

/** The event for a response to a message; an accepted message may still wait for its recipient. */
function eventOf(status: number, state: StateChange["state"]): "sent" | "queued" | "not_taken" | "not_sent" {
  if (status >= 300) return "not_sent";
  if (state === "refused") return "not_taken";
  return state === "queued" ? "queued" : "sent";
}

/** Statuses that end a message. Another attempt would get the same status. */
const FINAL: ReadonlySet<number> = new Set([400, 401, 403, 409, 413]);
/** Statuses that concern every message. The others concern the recipient, so messages to other peers go on. */
const OF_ALL: ReadonlySet<number> = new Set([401, 429, 503]);

/** The result of an attempt. `later` is true when the message may be tried again. */
type Attempt =
  | { later: false; outcome: StateChange; response: HttpResponse }
  | { later: true; problem: string; mayHaveArrived: boolean; waitMs: number; isOfAll: boolean };

/** Returns the result of one more request for a message (D-305), `attempts` of which have failed before. */
export async function attempt(
  request: Promise<{ response: HttpResponse; outcome: StateChange }>,
  attempts: number,
): Promise<Attempt> {
  const postponed = (why: { problem: string; mayHaveArrived: boolean; isOfAll: boolean }, askedMs = 0): Attempt => {
    return { later: true, ...why, waitMs: retryWait(attempts + 1, askedMs) };
  };
  try {
    const { response, outcome } = await request;
    const { status, headers } = response;
    // A refusal because the session could not be renewed, or because of a wrong clock, says nothing about the message.
    const error = apiErrorOf(response), remedy = remedyOf(error);
    const isOfSession = isSuspension(error) || remedy === "renew_access" || remedy === "adjust_clock";
    // A 2xx whose body no proxy has sent, such as a page of a server before it, takes no message.
    const isTaken = status < 300 && outcome.state !== "unknown";
    if (isTaken || FINAL.has(status) && !isOfSession) return { later: false, outcome, response };
    const askedMs = (wholeSeconds(headers.get("Retry-After")) ?? 0) * 1000;
    const problem = (status === 429 ? withLimit(outcome.problem ?? null, headers) : outcome.problem) ??
      `status ${status}`;
    return postponed({ problem, mayHaveArrived: outcome.state === "unknown", isOfAll: OF_ALL.has(status) }, askedMs);
  } catch (error) {
    return postponed({ problem: describeError(error), mayHaveArrived: mayHaveArrived(error), isOfAll: true });
  }
}

/** The outcome to store. The proxy may have accepted an earlier request, although it refuses this repetition. */
function outcomeOf({ mayHaveArrived }: SentMessage, { status }: HttpResponse, outcome: StateChange): StateChange {
  const isUnknown = mayHaveArrived && status >= 400 && outcome.state === "refused";
  return isUnknown ? { ...outcome, state: "unknown" } : outcome;
}

/** Whether the proxy may have the message. A refusal is thrown only by the registry, before the message leaves. */
function mayHaveArrived(error: unknown): boolean {
  return error instanceof UnreachableError ? error.mayHaveArrived : !(error instanceof ApiError);
}

/**
 * Adds how many messages the server takes, for the person who reads why a message waits. Only numbers of the answer are
 * shown, because another server could otherwise write its own text into a line of svc.
 */
function withLimit(code: string | null, headers: Headers): string | null {
  const found = /^"(\w{1,20})";q=(\d{1,9});w=(\d{1,6})$/.exec(headers.get("RateLimit-Policy") ?? "");
  if (code === null || found === null) return code;
  const [, name, requests, seconds] = found;
  const many = Number(requests).toLocaleString("en-GB");
  const time = seconds === "60" ? "a minute" : `in ${seconds} s`;
  const limit = name === "owner" ? `${many} ${time} from all your agents` : `${many} messages ${time}`;
  return `${code}: more than ${limit}`;
}
