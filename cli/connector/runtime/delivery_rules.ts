/**
 * Rules of the delivery to the runtime (D-88): the meaning of a response, the time of the next attempt, and the next
 * message of each lane. They send nothing, store nothing and read no clock.
 */
import type { QueuedMessage, Tries } from "../store/received_rows.ts";
import { doubled } from "../../../shared/client/backoff.ts";
import { CONNECTOR_LIMITS as LIMIT } from "../limits.ts";
import { DAY_MS, HOUR_MS } from "../../../shared/clock.ts";

/** Attempts at a message before it leaves its lane, so that one bad message does not hold up those behind it. */
const QUICK_ATTEMPTS = 4;
/**
 * The same when the runtime ends the connection. It takes two minutes. With fewer, a conversation would lose its order when
 * a runtime behind a tunnel restarts, because the tunnel ends connections too.
 */
const BROKEN_ATTEMPTS = 10;
/** Wait after the first attempt; it doubles. With more, a runtime that was busy for a moment gets its messages late. */
const QUICK_FIRST_MS = 300, QUICK_MAX_MS = 2_000;
/** The longest wait of later attempts. With more, a runtime that is back gets its messages later. */
const SLOW_MAX_MS = 60_000;
/**
 * Refusals that make a message a dead letter: with 5xx, and with another status. With more, its sender is told later.
 */
const SERVER_ERROR_ATTEMPTS = 10, CLIENT_ERROR_ATTEMPTS = 5;
/** How long a message is tried without an answer about it. With less, a runtime that is down for a night loses it. */
const PATIENCE_MS = DAY_MS;
/**
 * A message that was not tried for `GAP_MS`, because the machine was off or slept, is tried for another `AFTER_GAP_MS`.
 * Without that, a connector that starts on Monday before its runtime would end the messages of Friday at once. A gap is
 * longer than the turn of a message takes in a full inbox.
 */
const GAP_MS = 8 * HOUR_MS, AFTER_GAP_MS = HOUR_MS;

export interface StatusAnswer {
  kind: "status";
  status: number;
  retryAfterMs: number;
  text: string;
  /** Why `text` is not the whole body. */
  cut: "large" | "broken" | null;
}
export type RuntimeAnswer =
  | StatusAnswer
  | { kind: "timeout" }
  /** `brokeOff`: the runtime ended the connection, and gave no answer. */
  | { kind: "unreachable"; why: string; brokeOff?: boolean };

export type RuntimeResult = "accepted" | {
  /** Refusals until the message is a dead letter; with `null` only `PATIENCE_MS` counts. */
  attempts: number | null;
  /** True when the next message would fail too, so the lane waits and keeps its order. */
  isOutage: boolean;
  /** True when the answer shows that the runtime works. */
  isBusy?: boolean;
  /** True when the runtime has seen the message, so that the end of an outage is no reason to try it sooner. */
  isHeld?: boolean;
  /** Wait that the runtime asked for, in milliseconds. */
  retryAfterMs: number;
};

/** Status codes that are not about the message (D-88). Those about the whole runtime are an outage. */
const PASSING: ReadonlySet<number> = new Set([401, 403, 408, 425, 429, 502, 503, 504]);
const OUTAGES: ReadonlySet<number> = new Set([401, 403, 429, 503]);

export function classifyAnswer(response: RuntimeAnswer): RuntimeResult {
  if (response.kind === "timeout") return { attempts: null, isOutage: false, retryAfterMs: 0 };
  if (response.kind === "unreachable") {
    return { attempts: null, isOutage: true, isHeld: response.brokeOff === true, retryAfterMs: 0 };
  }
  const { status } = response;
  if (status >= 200 && status < 300) return "accepted";
  const retryAfterMs = Math.min(response.retryAfterMs, SLOW_MAX_MS), isOutage = OUTAGES.has(status);
  if (PASSING.has(status)) {
    return { attempts: null, isOutage, isBusy: status === 429, isHeld: status === 429, retryAfterMs };
  }
  // A redirect is not followed, so it counts as a refusal.
  const attempts = status >= 500 ? SERVER_ERROR_ATTEMPTS : CLIENT_ERROR_ATTEMPTS;
  return { attempts, isOutage, retryAfterMs };
}

/** Milliseconds before the next attempt at a message, after `attempts` attempts. */
export function handoverWait(attempts: number): number {
  return attempts < QUICK_ATTEMPTS
    ? doubled(QUICK_FIRST_MS, attempts - 1, QUICK_MAX_MS)
    : doubled(LIMIT.slowFirstMs, attempts - QUICK_ATTEMPTS, SLOW_MAX_MS);
}

export type NextAttempt =
  | { state: "done" }
  | { state: "dead" }
  | { state: "waiting"; tries: Tries; nextAt: number; aside: boolean; isHeld: boolean };

/** @param untriedMs how long ago the message was due */
export function nextAttempt(before: Tries, result: RuntimeResult, now: number, untriedMs = 0): NextAttempt {
  if (result === "accepted") return { state: "done" };
  const attempts = before.attempts + 1;
  const refusals = before.refusals + (result.attempts === null ? 0 : 1);
  const leastTriedAt = untriedMs < GAP_MS ? -Infinity : now - PATIENCE_MS + AFTER_GAP_MS;
  const firstTriedAt = Math.max(before.firstTriedAt ?? now, leastTriedAt);
  if (result.attempts !== null && refusals >= result.attempts) return { state: "dead" };
  if (result.attempts === null && now - firstTriedAt >= PATIENCE_MS) return { state: "dead" };
  const nextAt = now + Math.max(handoverWait(attempts), result.retryAfterMs);
  // A message that ends the runtime each time leaves its lane too, because it would otherwise stop its conversation for a
  // day.
  const mayLeave = !result.isOutage || result.isHeld === true && result.isBusy !== true;
  const aside = mayLeave && attempts >= (result.isOutage ? BROKEN_ATTEMPTS : QUICK_ATTEMPTS);
  // Else a message that ends the runtime would be handed over, and end it again, after each success of another one.
  const isHeld = aside || result.isHeld === true;
  return { state: "waiting", tries: { attempts, refusals, firstTriedAt }, nextAt, aside, isHeld };
}

function keyOf({ seq, lane, aside }: QueuedMessage): string {
  return aside ? String(seq) : lane;
}

function senderOf(lane: string): string {
  const end = lane.indexOf(" ");
  return end < 0 ? lane : lane.slice(0, end);
}

/**
 * Chooses the next message. A message is taken, and then released for another attempt or removed. Senders take turns,
 * because a thousand messages of one peer would otherwise all be delivered before the first one of another peer. A
 * sender without room waits, because its slow messages would otherwise hold up those of the others.
 */
export class Lanes {
  /** In order of arrival. A message that is aside has a lane of its own. */
  readonly #lanes = new Map<string, QueuedMessage[]>();
  readonly #taken = new Map<number, QueuedMessage>();
  /** Messages that are due before their time because the runtime accepted another one, by `seq`. */
  readonly #woken = new Set<number>();
  /** The number of each sender's last turn. Cleared when all lanes are empty. */
  readonly #turns = new Map<string, number>();
  #turn = 0;

  /** @param hasRoom whether another message of a sender may be taken, beside `taken` ones */
  constructor(private readonly hasRoom: (sender: string, taken: number) => boolean = () => true) {}

  add(message: QueuedMessage): void {
    const key = keyOf(message), lane = this.#lanes.get(key) ?? [], last = lane.at(-1);
    lane.push(message);
    if (last && last.seq > message.seq) lane.sort((a, b) => a.seq - b.seq);
    this.#lanes.set(key, lane);
  }

  /**
   * Takes the oldest due message of the sender whose last turn is longest ago. It is not returned again before it is
   * released.
   */
  take(now: number): QueuedMessage | null {
    let found: QueuedMessage | null = null, turn = 0;
    for (const message of this.#heads((head) => isDue(head, now))) {
      const its = this.#turns.get(senderOf(message.lane)) ?? 0;
      if (found === null || its < turn || its === turn && message.seq < found.seq) [found, turn] = [message, its];
    }
    if (found === null) return null;
    this.#turns.set(senderOf(found.lane), ++this.#turn);
    this.#taken.set(found.seq, found);
    return found;
  }

  /** Releases a taken message. `next` says when it is due again; with `null` it is removed. */
  release(seq: number, next: Pick<QueuedMessage, "nextAt" | "aside" | "isHeld"> | null): void {
    const message = this.#taken.get(seq);
    if (!message) return;
    this.#taken.delete(seq);
    const wasWoken = this.#woken.delete(seq);
    const key = keyOf(message), lane = this.#lanes.get(key) ?? [];
    lane.splice(lane.indexOf(message), 1);
    if (lane.length === 0) this.#lanes.delete(key);
    // A runtime that takes all but one peer's messages would otherwise get those again after each that it accepts.
    if (next) this.add({ ...message, ...next, isHeld: wasWoken || next.isHeld === true });
    if (this.#lanes.size === 0) this.#turns.clear();
  }

  /**
   * Makes the waiting messages due after the runtime has come back, except those that are held.
   *
   * @param byMessage whether another message has shown it: then one that fails again waits for its time
   */
  wake(now: number, byMessage = false): void {
    for (const message of [...this.#lanes.values()].flat()) {
      if (this.#taken.has(message.seq) || message.isHeld || message.nextAt <= now) continue;
      message.nextAt = now;
      if (byMessage) this.#woken.add(message.seq);
    }
  }

  /** Time when the next message is due; `null` when none waits. */
  nextAt(now: number): number | null {
    let next: number | null = null;
    const timeOf = (head: QueuedMessage) => isDue(head, now) ? now : head.nextAt;
    for (const message of this.#heads((head) => next === null || timeOf(head) < next)) {
      next = timeOf(message);
      if (next === now) break;
    }
    return next;
  }

  /**
   * The wanted first messages of the lanes, of senders with room. A sender is looked up only for those, because peers can
   * have thousands of conversations that wait, and each hand-over looks at all of them.
   */
  *#heads(isWanted: (head: QueuedMessage) => boolean): Generator<QueuedMessage> {
    const taken = Map.groupBy(this.#taken.values(), ({ lane }) => senderOf(lane));
    for (const [head] of this.#lanes.values()) {
      if (!head || !isWanted(head) || this.#taken.has(head.seq)) continue;
      const sender = senderOf(head.lane);
      if (this.hasRoom(sender, taken.get(sender)?.length ?? 0)) yield head;
    }
  }
}

/** A wait beyond the longest one comes from a clock that was set back, so such a message is due. */
function isDue({ nextAt }: QueuedMessage, now: number): boolean {
  return nextAt <= now || nextAt > now + SLOW_MAX_MS;
}
