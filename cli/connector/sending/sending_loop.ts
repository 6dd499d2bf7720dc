/**
 * Sends stored items to the proxy until it has them: receipts and kept messages. The loop decides when and how many at
 * a time; its two subclasses send and store.
 */
import { type Cancel, settledWithin } from "../../../shared/clock.ts";
import { doubled, RETRY_FIRST_MS, RETRY_MAX_MS, retryWait } from "../../../shared/client/backoff.ts";
import { BoundedMap } from "../../../shared/bounded_map.ts";
import { ApiError } from "../../../shared/client/errors.ts";
import { describeError, isReceiptRefused } from "../../../shared/client/refusals.ts";
import { ReceiptAnswer } from "../../../shared/protocol/api/receipts.ts";
import { signReceipt } from "../../../shared/protocol/receipt_token.ts";
import { toIso, unixSeconds } from "../../../shared/protocol/time.ts";
import { orReport } from "../events.ts";
import type { Parts } from "../parts.ts";
import { attempt, type MessageSender, UNCONFIRMED } from "./message_sender.ts";
import type { PendingReceipt } from "../store/receipt_rows.ts";
import { keptUntil, type SentMessage } from "../store/sent_messages.ts";

/**
 * Requests under way to one server, and to all servers but the agent's own. With more, other messages wait behind them;
 * with fewer, a slow peer or server holds up what others get.
 */
const SENT_AT_ONCE = 8, SENT_ABROAD_AT_ONCE = 32;

/** The items that wait; times are milliseconds since the Unix epoch. */
interface SendingQueue<T> {
  /**
   * The items that are due, in order. One after `latest` is due too, because its time comes from a clock that was set
   * back.
   */
  due(now: number, latest: number): T[];
  /** Time when the next item is due that is not due now; `null` when there is none. */
  nextAt(now: number): number | null;
  makeAllDue(now: number): void;
}

/** Sends items side by side, so that a slow answer holds up only what goes the same way (D-287). */
abstract class SendingLoop<T> {
  #cancel: Cancel = () => {};
  /** The items that are due and not begun, by their server. The agent's own is `null`. */
  #due = new Map<string | null, T[]>();
  readonly #underWay = new Map<string, { host: string | null; done: Promise<void> }>();
  /** Servers to which nothing is begun for now. */
  readonly #pauses = new Map<string | null, { until: number; cancel: Cancel }>();
  #isWoken = false;
  /** How often the proxy has come back. A request that began before may fail although the proxy is there again. */
  #returns = 0;
  #stopped = false;
  /** Results that could not be stored. Until they are, nothing is sent, because each look would send the same again. */
  readonly #unstored = new Set<() => void>();
  /** Whether the last look could not use the store. */
  #isFailing = false;

  constructor(protected readonly deps: Parts, private readonly queue: SendingQueue<T>) {}

  /** Longest wait of an item. A longer one comes from a clock that was set back. */
  protected readonly longestMs: number = RETRY_MAX_MS;

  /** Of the items with one key, one is sent at a time, because a newer one could otherwise overtake it. */
  protected abstract keyOf(item: T): string;
  protected abstract hostOf(item: T): string | null;
  /** Requests that may be under way to a server. */
  protected mostTo(_host: string | null): number {
    return SENT_AT_ONCE;
  }
  /** Sends an item and stores the result. Returns the milliseconds to wait before the server's next item; 0: none. */
  protected abstract send(item: T): Promise<number>;

  protected store(result: () => void): void {
    this.#unstored.add(result);
    result();
    this.#unstored.delete(result);
  }

  /** Sends the items that are due, also those of a server that has a pause, because they may be new. */
  wake(): void {
    this.#endPauses();
    this.sendDue();
  }

  /** Sends the items that are due. Later, because the caller may be about to store more. */
  protected sendDue(): void {
    if (this.#isWoken) return;
    this.#isWoken = true;
    queueMicrotask(() => {
      this.#isWoken = false;
      this.#look();
    });
  }

  /** Makes every item due and sends them, after the proxy has come back. */
  sendAllNow(): void {
    this.#returns++;
    this.#sendAll();
  }

  /** Sends for up to `ms`, then stops. The rest is sent after the next start. */
  async stop(ms: number): Promise<void> {
    this.#look();
    await settledWithin(this.deps.clock, this.#settled(), ms);
    this.end();
  }

  end(): void {
    this.#stopped = true;
    this.#cancel();
    this.#endPauses();
  }

  async #settled(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.race([...this.#underWay.values()].map(({ done }) => done));
  }

  #sendAll(): void {
    const { clock, emit } = this.deps;
    orReport(emit, () => this.queue.makeAllDue(clock.now()), undefined);
    this.wake();
  }

  /** Begins what is due, and plans the next look. */
  #look(): void {
    this.#cancel();
    if (this.#stopped) return;
    const { clock, emit } = this.deps, now = clock.now();
    this.#due.clear();
    // When the store cannot be used, the next look comes soon, because without a time none would follow.
    let next: number | null = now + RETRY_FIRST_MS;
    try {
      for (const result of this.#unstored) this.store(result);
      const due = this.queue.due(now, now + this.longestMs).filter((item) => !this.#underWay.has(this.keyOf(item)));
      this.#due = Map.groupBy(due, (item) => this.hostOf(item));
      next = this.queue.nextAt(now);
      this.#isFailing = false;
    } catch (error) {
      // Told once, because the looks of a night with a full disk would push the messages off the terminal.
      if (!this.#isFailing) emit("store_failed", { why: describeError(error) });
      this.#isFailing = true;
    }
    if (next !== null) this.#cancel = clock.after(Math.min(next - now, RETRY_MAX_MS), () => this.#look());
    this.#beginAll();
  }

  #beginAll(): void {
    for (const [host, items] of this.#due) {
      while (this.#hasRoom(host)) {
        const item = items.shift();
        if (item === undefined) break;
        const key = this.keyOf(item), { promise, resolve } = Promise.withResolvers<void>();
        this.#underWay.set(key, { host, done: promise });
        void this.#sendOne(item, host, key).then(resolve);
      }
    }
  }

  #hasRoom(host: string | null): boolean {
    if (this.#stopped || this.#unstored.size > 0 || this.#pauses.has(host)) return false;
    const hosts = [...this.#underWay.values()].map((one) => one.host);
    const abroad = hosts.filter((one) => one !== null).length;
    const isFull = host !== null && abroad >= SENT_ABROAD_AT_ONCE;
    return !isFull && hosts.filter((one) => one === host).length < this.mostTo(host);
  }

  async #sendOne(item: T, host: string | null, key: string): Promise<void> {
    const returns = this.#returns;
    const wait = await this.send(item).catch((error) => {
      if (!this.#pauses.has(host)) this.deps.emit("store_failed", { why: describeError(error) });
      return RETRY_FIRST_MS;
    });
    this.#underWay.delete(key);
    if (this.#stopped) return;
    if (wait > 0 && returns !== this.#returns) return this.#sendAll();
    if (wait > 0) this.#pause(host, wait);
    if (this.#due.get(host)?.length) this.#beginAll();
    else this.#look();
  }

  /** Begins nothing for a server, which does not answer or asks for a pause. */
  #pause(host: string | null, ms: number): void {
    const { clock } = this.deps, until = clock.now() + ms, before = this.#pauses.get(host);
    if (before !== undefined && before.until >= until) return;
    before?.cancel();
    const cancel = clock.after(ms, () => {
      this.#pauses.delete(host);
      this.#look();
    });
    this.#pauses.set(host, { until, cancel });
  }

  #endPauses(): void {
    for (const { cancel } of this.#pauses.values()) cancel();
    this.#pauses.clear();
  }
}

/** Signs receipts and sends them to the proxy until it has them (D-72, D-154). */
export class ReceiptSender extends SendingLoop<PendingReceipt> {
  #hasReported = false;

  constructor(deps: Parts) {
    super(deps, deps.store.receipts);
  }

  override sendAllNow(): void {
    this.#hasReported = false;
    super.sendAllNow();
  }

  protected override keyOf({ seq }: PendingReceipt): string {
    return String(seq);
  }

  /** All receipts go to the agent's own server. */
  protected override hostOf(): null {
    return null;
  }

  protected override async send(receipt: PendingReceipt): Promise<number> {
    const { clock, store: { receipts }, proxy, session, publicKey, did, peers, emit } = this.deps;
    const { seq, fromDid, requestId, status, at } = receipt;
    const remove = () => this.store(() => receipts.remove(seq));
    if (peers.isBlocked(fromDid)) {
      remove();
      return 0;
    }
    const about = { from: fromDid, requestId, status };
    try {
      const { privateKey } = await session.current();
      // Each attempt signs the same claims, because the time in them is that of the receipt.
      const claims = { iss: did, sub: fromDid, iat: unixSeconds(at), requestId, status, ...receipt.about };
      const signed = await signReceipt(claims, { publicKey, privateKey });
      const agents = { recipientAgentDid: did, senderAgentDid: fromDid };
      const body = JSON.stringify({ requestId, ...agents, status, timestamp: toIso(at), signed });
      await proxy.ask({ method: "POST", target: "/v1/relay/delivery-receipts", body }, ReceiptAnswer);
    } catch (error) {
      if (isReceiptRefused(error)) {
        remove();
        emit("receipt_refused", { ...about, why: describeError(error) });
        return 0;
      }
      const attempts = receipt.attempts + 1;
      const asked = error instanceof ApiError ? (error.retryAfter ?? 0) * 1000 : 0;
      const wait = retryWait(attempts, asked);
      receipts.postpone(seq, attempts, clock.now() + wait);
      // Reported once until the link is back, because each retry of each receipt would otherwise push messages off the
      // terminal.
      if (!this.#hasReported) emit("receipt_failed", { ...about, why: describeError(error), nextInMs: wait });
      this.#hasReported = true;
      return wait;
    }
    remove();
    emit("receipt_sent", about);
    return 0;
  }
}

/**
 * Sends the kept messages until the proxy has them: for each peer the oldest first (D-305). A message ends when the
 * proxy refuses it permanently, or after 24 h, because the proxy then forgets its request ID and a later copy could
 * arrive twice.
 */
export class KeptSender extends SendingLoop<SentMessage> {
  readonly #pauses = new ServerPauses();
  protected override readonly longestMs = PAUSE_MAX_MS;

  constructor(deps: Parts, private readonly sender: MessageSender) {
    super(deps, deps.store.sent.kept);
  }

  protected override keyOf({ toDid }: SentMessage): string {
    return toDid;
  }

  protected override hostOf({ toDid }: SentMessage): string | null {
    return this.deps.proxies.hostOf(toDid);
  }

  /** One message at a time probes a server that has failed, because each would wait long for an answer (D-287). */
  protected override mostTo(host: string | null): number {
    return host !== null && this.#pauses.has(host) ? 1 : super.mostTo(host);
  }

  protected override async send(kept: SentMessage): Promise<number> {
    const { clock, store: { sent }, peers, emit } = this.deps;
    if (peers.isBlocked(kept.toDid)) return this.#giveUp(kept, "you have blocked this peer");
    // Checked again, because the person may have refused contacts after the message was written.
    if (this.sender.refuses(kept.toDid)) return this.#giveUp(kept, UNCONFIRMED);
    const payload = sent.payloadOf(kept);
    if (payload === null) return this.#giveUp(kept, "its content is gone");
    if (clock.now() >= keptUntil(kept)) return this.#giveUp(kept, "not sent within 24 h");
    const host = this.deps.proxies.hostOf(kept.toDid);
    const pausedMs = host === null ? 0 : this.#pauses.left(host, clock.now());
    if (pausedMs > 0) {
      const { problem, mayHaveArrived } = kept;
      sent.keep(kept, { problem: problem ?? "", mayHaveArrived, nextAt: clock.now() + pausedMs }, clock.now());
      return 0;
    }
    const message = sent.tryAgain(kept, clock.now());
    if (message === null) return 0;
    const tried = await attempt(this.sender.request(message, payload, { mayWait: true }), kept.attempts);
    const about = { to: kept.toDid, requestId: kept.requestId };
    if (tried.later) {
      const { problem, mayHaveArrived, isOfAll } = tried;
      // A failure of another server holds up only the messages to it.
      const serverMs = host !== null && isOfAll ? this.#pauses.failed(host, clock.now()) : 0;
      if (host !== null && !isOfAll) this.#pauses.delete(host);
      const waitMs = Math.max(tried.waitMs, serverMs);
      const now = clock.now();
      this.store(() => sent.keep(message, { problem, mayHaveArrived, nextAt: now + waitMs }, now));
      emit(kept.origin === "runtime" ? "reply_failed" : "kept", { ...about, why: problem, nextInMs: waitMs });
      return isOfAll && host === null ? waitMs : 0;
    }
    this.reached(host);
    const { outcome, response: { status } } = tried;
    if (status >= 300) return this.#giveUp(message, outcome.problem ?? `status ${status}`);
    this.store(() => sent.settle(message, outcome, clock.now()));
    return 0;
  }

  /** Sends what waits for a server, because it has answered. The agent's own is `null`, and has none of these pauses. */
  reached(host: string | null): void {
    if (host !== null && this.#pauses.delete(host)) this.#sendNow(host);
  }

  /** Ends the pause of a server early, so that the next try comes soon. */
  tryNow(host: string | null): void {
    if (host !== null && this.#pauses.end(host, this.deps.clock.now())) this.#sendNow(host);
  }

  /** Makes what waits for a server due. What waits for others keeps its time, because they have not answered. */
  #sendNow(host: string): void {
    const { clock, emit, store: { sent: { kept } } } = this.deps, now = clock.now();
    const its = () => kept.due(Infinity, Infinity).filter((message) => this.hostOf(message) === host);
    orReport(emit, () => its().forEach(({ seq }) => kept.makeAllDue(now, seq)), undefined);
    this.sendDue();
  }

  #giveUp(message: SentMessage, problem: string): number {
    const { clock, store: { sent }, emit } = this.deps;
    this.store(() => sent.giveUp(message, problem, clock.now()));
    const about = { to: message.toDid, requestId: message.requestId, why: problem };
    emit(message.origin === "runtime" ? "reply_refused" : "kept_ended", about);
    return 0;
  }
}

/**
 * Pause before the next try of a server; it doubles. With more, a server that is back gets its messages later; with
 * less, one that is gone is asked all day.
 */
const PAUSE_FIRST_MS = 1_000, PAUSE_MAX_MS = 900_000;
/**
 * Least time between a failed try and one that news of the server causes. With less, a server that takes no messages
 * would be tried for each of its answers, and for each message of its agents.
 */
const EARLY_MS = 5_000;
const SERVERS_MAX = 1_000;

/** Servers that have failed and not answered since, with the pauses between their tries (D-287). */
class ServerPauses extends BoundedMap<string, { failures: number; failedAt: number; until: number; isEnded: boolean }> {
  constructor() {
    super(SERVERS_MAX);
  }

  /** Milliseconds until a message may be sent. */
  left(host: string, now: number): number {
    const left = (this.get(host)?.until ?? now) - now;
    // A longer pause comes from a clock that was set back, so it does not count.
    return left <= PAUSE_MAX_MS ? Math.max(0, left) : 0;
  }

  /**
   * Shortens the pause to 5 s after the last try, and keeps the count of failures. Returns true if there was a pause
   * that nothing had shortened yet.
   */
  end(host: string, now: number): boolean {
    const server = this.get(host);
    if (server === undefined || server.isEnded) return false;
    server.isEnded = true;
    // At most 5 s from now, because the clock may have been set back since the failure.
    server.until = Math.min(server.until, Math.max(now, server.failedAt + EARLY_MS), now + EARLY_MS);
    return true;
  }

  /** Returns the milliseconds until the next try. */
  failed(host: string, now: number): number {
    const { failures, until } = this.get(host) ?? { failures: 0, until: 0 };
    // Failures of messages that left together count as one.
    const count = now < until ? failures : failures + 1;
    const waitMs = now < until ? until - now : doubled(PAUSE_FIRST_MS, count - 1, PAUSE_MAX_MS);
    this.set(host, { failures: count, failedAt: now, until: now + waitMs, isEnded: false });
    return waitMs;
  }
}
