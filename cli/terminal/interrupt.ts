/**
 * Who answers Ctrl-C: the program, by ending at once, or the command that took it over, by coming to an end of its own.
 * Listens to no signal itself; main.ts does.
 */
import type { Clock } from "../../shared/clock.ts";

/** A Ctrl-C arrives several times when a launcher (npx, deno task) passes on what the terminal has sent to all. */
const ONE_PRESS_MS = 200;

export class Interrupt {
  readonly #clock: Clock;
  #stop: (() => void) | null = null;
  #pressedAt = -Infinity;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Has the next Ctrl-C call `stop`, and only the one after it end the program; gives what takes that back. */
  take(stop: () => void): () => void {
    this.#stop = stop;
    return () => void (this.#stop = null);
  }

  /** Ctrl-C: true when the program is to end now. */
  press(): boolean {
    const now = this.#clock.now();
    const isRepeat = Math.abs(now - this.#pressedAt) < ONE_PRESS_MS;
    if (isRepeat) return false;
    this.#pressedAt = now;
    const stop = this.#stop;
    this.#stop = null;
    stop?.();
    return stop === null;
  }
}
