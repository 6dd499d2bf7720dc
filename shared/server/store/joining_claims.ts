/**
 * The claims of a group commit that begin no commit at once, because no request waits for them; a crash before leaves
 * a delivery as begun, like a crash before its answer: when they must begin one, and when they have ended. They wait
 * in the queue of the group commit, like all others.
 */
import type { Clock } from "../../clock.ts";

/** With more, a crash leaves more outcomes unwritten; with less, hardly a claim finds a commit to join. */
export const JOINING_WAIT_MS = 20;

interface Waiting {
  /** Time of the oldest waiting claim, milliseconds since the Unix epoch; `undefined` when none waits. */
  readonly waitingSince: number | undefined;
}

export class JoiningClaims {
  readonly #clock: Clock;
  readonly #queue: Waiting;
  readonly #commitAll: () => void;
  readonly #pending = new Set<Promise<unknown>>();
  #hasTimer = false;

  /** @param commitAll begins the commits of all claims that wait */
  constructor(clock: Clock, queue: Waiting, commitAll: () => void) {
    this.#clock = clock;
    this.#queue = queue;
    this.#commitAll = commitAll;
  }

  /** Watches a claim that waits in the queue from now on, by its result. */
  add(result: Promise<unknown>): void {
    const end = () => this.#pending.delete(result);
    this.#pending.add(result);
    result.then(end, end);
    if (!this.#hasTimer) this.#setTimer(JOINING_WAIT_MS);
  }

  /** Resolves when each claim so far has its result. */
  async ended(): Promise<void> {
    await Promise.allSettled(this.#pending);
  }

  /** One timer runs at a time. A claim that a commit has taken meanwhile leaves it running, which costs less. */
  #setTimer(ms: number): void {
    this.#hasTimer = true;
    this.#clock.after(ms, () => {
      this.#hasTimer = false;
      const since = this.#queue.waitingSince;
      if (since === undefined) return;
      const rest = since + JOINING_WAIT_MS - this.#clock.now();
      // A clock that stepped back must not prolong the wait.
      if (rest > 0 && rest <= JOINING_WAIT_MS) this.#setTimer(rest);
      else this.#commitAll();
    });
  }
}
