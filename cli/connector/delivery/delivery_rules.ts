/**
 * Rules of the delivery to the runtime (D-88): the meaning of a response, the time of the next attempt, and the next
 * message of each lane. Pure: sends nothing, stores nothing, reads no clock.
 */
import { doubled } from "../../../shared/client/backoff.ts";
import { CONNECTOR_LIMITS as LIMIT } from "../limits.ts";

/** The body of an answer. `cut`: why `text` is not all of it. */
export interface AnswerBody {
  contentType: string | null;
  text: string;
  cut: "large" | "broken" | null;
}

/** The result of a request to the runtime. */
export type RuntimeAnswer =
  | { kind: "status"; status: number; retryAfterMs: number | null; body: AnswerBody }
  | { kind: "timeout" }
  | { kind: "unreachable"; why: string };

/** The meaning of a response for a message. */
export type RuntimeResult = "accepted" | {
  /** Refusals until the message is a dead letter; `null`: only `patienceMs` counts. */
  attempts: number | null;
  /** True when the next message would fail too: the lane waits and keeps its order. */
  isOutage: boolean;
  /** True when the answer shows that the runtime works. */
  isBusy?: true;
  /** Wait that the runtime asked for, in milliseconds. */
  retryAfterMs: number;
};

/** Status codes that are not about the message (D-88). A code about the whole runtime is an outage. */
const PASSING: Readonly<Record<number, { isOutage: boolean; isBusy?: true }>> = {
  401: { isOutage: true },
  403: { isOutage: true },
  408: { isOutage: false },
  425: { isOutage: false },
  429: { isOutage: true, isBusy: true },
  502: { isOutage: false },
  503: { isOutage: true },
  504: { isOutage: false },
};

export function classifyAnswer(response: RuntimeAnswer): RuntimeResult {
  if (response.kind === "unreachable") return { attempts: null, isOutage: true, retryAfterMs: 0 };
  if (response.kind === "timeout") return { attempts: null, isOutage: false, retryAfterMs: 0 };
  const { status } = response;
  if (status >= 200 && status < 300) return "accepted";
  const retryAfterMs = Math.min(response.retryAfterMs ?? 0, LIMIT.slowMaxMs);
  const passing = PASSING[status];
  if (passing) return { attempts: null, retryAfterMs, ...passing };
  // A redirect is not followed, so it counts as a refusal.
  const attempts = status >= 500 ? LIMIT.serverErrorAttempts : LIMIT.clientErrorAttempts;
  return { attempts, isOutage: false, retryAfterMs };
}

/** Milliseconds before the next attempt at a message, after `attempts` attempts. */
export function handoverWait(attempts: number): number {
  return attempts < LIMIT.quickAttempts
    ? doubled(LIMIT.quickFirstMs, attempts - 1, LIMIT.quickMaxMs)
    : doubled(LIMIT.slowFirstMs, attempts - LIMIT.quickAttempts, LIMIT.slowMaxMs);
}

/** The attempts at a message so far. */
export interface Tries {
  attempts: number;
  /** Attempts with a response about the message. */
  refusals: number;
  firstTriedAt: number | null;
}

/** The next state of a message. */
export type NextAttempt =
  | { state: "done" }
  | { state: "dead" }
  | { state: "waiting"; tries: Tries; nextAt: number; aside: boolean };

/** The state of a message after one more attempt. */
export function nextAttempt(before: Tries, verdict: RuntimeResult, now: number): NextAttempt {
  if (verdict === "accepted") return { state: "done" };
  const attempts = before.attempts + 1;
  const refusals = before.refusals + (verdict.attempts === null ? 0 : 1);
  const firstTriedAt = before.firstTriedAt ?? now;
  if (verdict.attempts !== null && refusals >= verdict.attempts) return { state: "dead" };
  if (verdict.attempts === null && now - firstTriedAt >= LIMIT.patienceMs) return { state: "dead" };
  return {
    state: "waiting",
    tries: { attempts, refusals, firstTriedAt },
    nextAt: now + Math.max(handoverWait(attempts), verdict.retryAfterMs),
    aside: !verdict.isOutage && attempts >= LIMIT.quickAttempts,
  };
}

/** A waiting message, with what its order depends on. */
export interface QueuedMessage {
  seq: number;
  lane: string;
  nextAt: number;
  /** Out of its lane: it does not block other messages and does not wait for them. */
  aside: boolean;
  /** Until `nextAt` it is for a caller that waits for it (D-117), also after an outage of the runtime. */
  isHeld?: boolean;
}

/** The lane of a message: one per sender and conversation. Messages of a lane are delivered in order. */
export function laneOf(fromDid: string, conversationId: string | null): string {
  return conversationId === null ? fromDid : `${fromDid} ${conversationId}`;
}

/** Chooses the next message. A message is taken, then released: for another attempt, or removed. */
export class Lanes {
  /** In order of arrival. */
  readonly #lanes = new Map<string, QueuedMessage[]>();
  readonly #aside = new Map<number, QueuedMessage>();
  readonly #taken = new Map<number, QueuedMessage>();

  add(message: QueuedMessage): void {
    if (message.aside) {
      this.#aside.set(message.seq, message);
      return;
    }
    const lane = this.#lanes.get(message.lane);
    if (!lane) this.#lanes.set(message.lane, [message]);
    else {
      lane.push(message);
      const before = lane.at(-2);
      if (before && before.seq > message.seq) lane.sort((a, b) => a.seq - b.seq);
    }
  }

  /** Takes the oldest message that is due. It is not returned again before it is released. */
  take(now: number): QueuedMessage | null {
    let found: QueuedMessage | null = null;
    for (const message of this.#heads()) {
      if (isDue(message, now) && (found === null || message.seq < found.seq)) found = message;
    }
    if (found) this.#taken.set(found.seq, found);
    return found;
  }

  /** Releases a taken message. `next`: when it is due again; `null`: it is removed. */
  release(seq: number, next: Pick<QueuedMessage, "nextAt" | "aside"> | null): void {
    const message = this.#taken.get(seq);
    if (!message) return;
    this.#taken.delete(seq);
    this.#aside.delete(seq);
    const lane = this.#lanes.get(message.lane);
    const at = lane?.indexOf(message) ?? -1;
    if (lane && at !== -1) lane.splice(at, 1);
    if (lane?.length === 0) this.#lanes.delete(message.lane);
    if (next) this.add({ ...message, isHeld: false, ...next });
  }

  /** Makes every waiting message due, after the runtime has come back. */
  wake(now: number): void {
    for (const message of [...[...this.#lanes.values()].flat(), ...this.#aside.values()]) {
      if (!this.#taken.has(message.seq) && !message.isHeld) message.nextAt = Math.min(message.nextAt, now);
    }
  }

  /** Time when the next message is due; `null` when none waits. */
  nextAt(now: number): number | null {
    let next: number | null = null;
    for (const message of this.#heads()) {
      const at = isDue(message, now) ? now : message.nextAt;
      if (next === null || at < next) next = at;
    }
    return next;
  }

  get size(): number {
    let size = this.#aside.size;
    for (const lane of this.#lanes.values()) size += lane.length;
    return size;
  }

  *#heads(): Generator<QueuedMessage> {
    for (const [head] of this.#lanes.values()) {
      if (head && !this.#taken.has(head.seq)) yield head;
    }
    for (const message of this.#aside.values()) {
      if (!this.#taken.has(message.seq)) yield message;
    }
  }
}

/** A time beyond the longest wait comes from a clock that was set back later; it counts as due. */
function isDue({ nextAt }: QueuedMessage, now: number): boolean {
  return nextAt <= now || nextAt > now + LIMIT.slowMaxMs;
}
