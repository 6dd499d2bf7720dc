/**
 * Handles Ctrl-C: the program ends at once, or the running command stops by itself if it has taken Ctrl-C over. main.ts
 * listens to the signal.
 */
import type { Clock } from "../../shared/clock.ts";

/** One Ctrl-C arrives several times when a launcher (npx, deno task) forwards the terminal's signal. */
const ONE_PRESS_MS = 200;

export class Interrupt {
  #stop: (() => void) | null = null;
  #discard: () => boolean = () => false;
  #pressedAt = -Infinity;

  constructor(private readonly clock: Clock) {}

  /**
   * Makes the next Ctrl-C call `discard`, and `stop` if there was nothing to discard. After `stop`, one more Ctrl-C
   * ends the program. Returns a function that undoes this.
   */
  take(stop: () => void, discard = () => false): () => void {
    this.#stop = stop;
    this.#discard = discard;
    return () => void (this.#stop = null);
  }

  /** Handles one Ctrl-C. Returns true when the program must end now. */
  press(): boolean {
    const now = this.clock.now();
    const isRepeat = Math.abs(now - this.#pressedAt) < ONE_PRESS_MS;
    if (isRepeat) return false;
    this.#pressedAt = now;
    const stop = this.#stop;
    if (stop !== null && this.#discard()) return false;
    this.#stop = null;
    stop?.();
    return stop === null;
  }
}

/** Returns a signal that aborts when a person or the system stops the command. When disposed, it no longer aborts. */
export function stopSignal(ctx: Parameters<typeof onStop>[0]): Disposable & { signal: AbortSignal } {
  const stopped = new AbortController();
  return { signal: stopped.signal, [Symbol.dispose]: onStop(ctx, () => stopped.abort()) };
}

/**
 * Calls `stop` on Ctrl-C and SIGTERM (SIGBREAK on Windows, which has no SIGTERM); a second Ctrl-C ends the process.
 * Returns a function that undoes this.
 *
 * @param discard called for Ctrl-C first; when it returns true, there was something to discard, and `stop` is not
 *   called
 */
export function onStop(
  { interrupt, os }: { interrupt: Interrupt; os: typeof Deno.build.os },
  stop: () => void,
  discard = () => false,
): () => void {
  const release = interrupt.take(stop, discard);
  const signal = os === "windows" ? "SIGBREAK" : "SIGTERM";
  Deno.addSignalListener(signal, stop);
  return () => {
    Deno.removeSignalListener(signal, stop);
    release();
  };
}
