/**
 * The rule of handing messages to the runtime (D-88): what its answer means, when the next attempt is due, and which
 * message of which lane comes next. Pure: sends nothing, stores nothing, reads no clock.
 */
import { handoverWait } from "../link/backoff.ts";
import { CONNECTOR_LIMITS as LIMIT } from "../limits.ts";

/** What came of a request to the runtime. */
export type RuntimeAnswer =
  | { kind: "status"; status: number; retryAfterMs: number | null }
  | { kind: "timeout" }
  | { kind: "unreachable"; why: string };

/** What an answer means for a message. */
export type RuntimeResult = "accepted" | {
  /** Attempts of this kind until the message is dead; `null`: as long as the patience lasts. */
  attempts: number | null;
  /** True when the next message would fare no better: the lane waits, and keeps its order. */
  isOutage: boolean;
  /** What the runtime asked to wait. */
  retryAfterMs: number;
};

/** Answers that say nothing about the message (D-88). Those of the runtime as a whole are outages. */
const PASSING: Readonly<Record<number, { isOutage: boolean }>> = {
  401: { isOutage: true },
  403: { isOutage: true },
  408: { isOutage: false },
  425: { isOutage: false },
  429: { isOutage: true },
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
  // A redirect is not followed: whoever answers so will not take the message.
  const attempts = status >= 500 ? LIMIT.serverErrorAttempts : LIMIT.clientErrorAttempts;
  return { attempts, isOutage: false, retryAfterMs };
}

/** How often and since when a message was tried. */
export interface Tries {
  attempts: number;
  /** Attempts whose answer was about the message. */
  refusals: number;
  firstTriedAt: number | null;
}

/** What becomes of a message. */
export type NextAttempt =
  | { state: "done" }
  | { state: "dead" }
  | { state: "waiting"; tries: Tries; nextAt: number; aside: boolean };

/** What becomes of a message after one more attempt. */
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

/** A message that waits, as far as its turn depends on it. */
export interface QueuedMessage {
  seq: number;
  lane: string;
  nextAt: number;
  /** Out of its lane: it holds up nobody, and waits for nobody. */
  aside: boolean;
}

/** A lane for each conversation of each sender: order within it, independence between them. */
export function laneOf(fromDid: string, conversationId: string | null): string {
  return conversationId === null ? fromDid : `${fromDid} ${conversationId}`;
}

/** Whose turn it is. A message is taken, and then put back or dropped. */
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

  /** The message that is due, the oldest of several; nobody else gets it until it is put back. */
  take(now: number): QueuedMessage | null {
    let found: QueuedMessage | null = null;
    for (const message of this.#heads()) {
      if (isDue(message, now) && (found === null || message.seq < found.seq)) found = message;
    }
    if (found) this.#taken.set(found.seq, found);
    return found;
  }

  /** Ends the turn of a message: `next` says when it comes again, `null` that it does not. */
  release(seq: number, next: Pick<QueuedMessage, "nextAt" | "aside"> | null): void {
    const message = this.#taken.get(seq);
    if (!message) return;
    this.#taken.delete(seq);
    this.#aside.delete(seq);
    const lane = this.#lanes.get(message.lane);
    const at = lane?.indexOf(message) ?? -1;
    if (lane && at !== -1) lane.splice(at, 1);
    if (lane?.length === 0) this.#lanes.delete(message.lane);
    if (next) this.add({ ...message, ...next });
  }

  /** Makes everything that waits due: the runtime is back. */
  wake(now: number): void {
    for (const message of [...[...this.#lanes.values()].flat(), ...this.#aside.values()]) {
      if (!this.#taken.has(message.seq)) message.nextAt = Math.min(message.nextAt, now);
    }
  }

  /** When the next message is due; `null` when none waits. */
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

/** A time further off than any wait was left by a clock that has since been set back. */
function isDue({ nextAt }: QueuedMessage, now: number): boolean {
  return nextAt <= now || nextAt > now + LIMIT.slowMaxMs;
}
