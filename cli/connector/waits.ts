/**
 * Calls of the local API that wait for a message or for the state of a sent one. A wait ends at a match, when its time
 * is over, when its caller has gone, or when the connector stops. Stores nothing.
 */
import type { Clock } from "../../shared/clock.ts";
import { CONNECTOR_LIMITS as LIMIT } from "./limits.ts";
import { type Change, keyOf, type SentKey } from "./store/received_rows.ts";
import { BoundedMap } from "../../shared/bounded_map.ts";

/**
 * How long after its wait a caller still gets a reply before the runtime does. With less, a caller between two waits
 * loses the reply.
 */
const HELD_AFTER_WAIT_MS = 10_000;
/** Time in which a caller marks the reply that it got as read. With less, another program would act on it too. */
const TAKE_MS = 2_000;
/**
 * Ended waits that are remembered, the newest. With more, a program that begins waits in a loop would fill the memory.
 */
export const ENDED_WAITS = 1_000;

export class Waits {
  readonly #waiters = new Set<{ isAffected(change: Change): boolean; wake(): void }>();
  /** Questions whose reply callers wait for, with the number of callers. */
  readonly #asked = new Map<string, number>();
  /** Questions whose last wait has ended, with the time. */
  readonly #ended = new BoundedMap<string, number>(ENDED_WAITS);
  /** Sent messages whose reply a caller has got, with the time of the first one. */
  readonly #given = new BoundedMap<string, number>(ENDED_WAITS);
  #calls = 0;
  #isStopped = false;

  constructor(private readonly clock: Clock) {}

  /**
   * Counts a call that will wait. A reply that arrives before the wait begins is found by its first look.
   *
   * @param question the sent message whose reply the caller waits for
   * @returns `null` when too many calls wait. Disposing it makes room for another one.
   */
  begin(question?: SentKey): Disposable | null {
    if (this.#calls >= LIMIT.waitingCalls) return null;
    this.#calls++;
    const end = new DisposableStack();
    end.defer(() => this.#calls--);
    if (question !== undefined) {
      const key = keyOf(question);
      this.#asked.set(key, (this.#asked.get(key) ?? 0) + 1);
      end.defer(() => this.#release(key));
    }
    return end;
  }

  /**
   * Calls `look` at once, and after each change that `isAffected` accepts, until it returns a result. Returns the last
   * result; `null` when `look` has found nothing.
   *
   * @param ms time from now
   * @param signal aborted when the caller has gone
   */
  async until<T>(
    look: () => T | null,
    isAffected: (change: Change) => boolean,
    ms: number,
    signal: AbortSignal,
  ): Promise<T | null> {
    let isOver = false;
    let woken = Promise.withResolvers<void>();
    const waiter = { isAffected, wake: () => woken.resolve() };
    const end = () => {
      isOver = true;
      woken.resolve();
    };
    this.#waiters.add(waiter);
    const cancel = this.clock.after(ms, end);
    signal.addEventListener("abort", end);
    try {
      while (true) {
        const found = look();
        if (found !== null || isOver || this.#isStopped || signal.aborted) return found;
        await woken.promise;
        woken = Promise.withResolvers<void>();
      }
    } finally {
      cancel();
      signal.removeEventListener("abort", end);
      this.#waiters.delete(waiter);
    }
  }

  changed(change: Change): void {
    for (const waiter of this.#waiters) if (waiter.isAffected(change)) waiter.wake();
  }

  /**
   * Until when the reply to a sent message is kept for a caller: for 30 s when one waits for it, or has waited within
   * the last 10 s; 0 when none has.
   */
  heldUntil(question: SentKey, now: number): number {
    const key = keyOf(question);
    const endedAt = this.#ended.get(key);
    const isRecent = endedAt !== undefined && now >= endedAt && now - endedAt <= HELD_AFTER_WAIT_MS;
    return this.#asked.has(key) || isRecent ? now + LIMIT.heldMs : 0;
  }

  /** Records that a caller gets the reply to a sent message. A later call for the same reply changes nothing. */
  gave(sent: SentKey): void {
    const key = keyOf(sent);
    if (this.#given.has(key)) return;
    this.#given.set(key, this.clock.now());
    // The other waits left the reply out, and no change makes them look again when its caller does not take it.
    this.clock.after(TAKE_MS, () => this.#wakeAll());
  }

  /** Keys (`keyOf`) of the sent messages whose reply is a caller's: of one that waits, or that has just got it. */
  replyKeys(): string[] {
    const now = this.clock.now();
    const given = [...this.#given].filter(([, at]) => now >= at && now - at < TAKE_MS);
    return [...this.#asked.keys(), ...given.map(([key]) => key)];
  }

  isAsked(sent: SentKey): boolean {
    return this.#asked.has(keyOf(sent));
  }

  /** Ends all waits, and each later one at its first look. */
  stop(): void {
    this.#isStopped = true;
    this.#wakeAll();
  }

  #wakeAll(): void {
    for (const waiter of this.#waiters) waiter.wake();
  }

  #release(key: string): void {
    const left = (this.#asked.get(key) ?? 1) - 1;
    if (left > 0) return void this.#asked.set(key, left);
    this.#asked.delete(key);
    this.#ended.set(key, this.clock.now());
  }
}

/** Tasks that are remembered, the newest, because a client may ask for any number, which would fill the memory. */
const KNOWN_TASKS = 1_000;

/**
 * The tasks of local A2A clients whose result their clients wait for or have asked for (D-135). The reply to one ends
 * it and goes to the client only. They are in memory, so after a restart a reply is kept for 30 s for a client that
 * asks.
 */
export class AskedTasks {
  /** When the receipts of a task were last requested, milliseconds since the Unix epoch. */
  readonly #asked = new BoundedMap<string, number>(KNOWN_TASKS);
  #blocking = 0;

  add(task: SentKey): void {
    const key = keyOf(task);
    this.#asked.set(key, this.#asked.get(key) ?? 0);
  }

  /** Returns true once for a task whose client takes the result, because only the first reply is for that client. */
  claim(task: SentKey): boolean {
    return this.#asked.delete(keyOf(task));
  }

  /** Whether the receipts of an asked task may be requested again. If so, the time is recorded. */
  mayLookUp(task: SentKey, now: number): boolean {
    const key = keyOf(task), last = this.#asked.get(key) ?? 0;
    if (now >= last && now - last < LIMIT.receiptLookupMaxMs) return false;
    this.#asked.set(key, now);
    return true;
  }

  /** Counts a call that waits for the end of its task; `null` when there are too many. Disposing it makes room. */
  block(): Disposable | null {
    if (this.#blocking >= LIMIT.a2aBlockingCalls) return null;
    this.#blocking++;
    return { [Symbol.dispose]: () => void this.#blocking-- };
  }
}
