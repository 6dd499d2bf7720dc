/**
 * The gate runs everything of a simulation that other threads execute, one call at a time, in a random order. So a seed
 * fixes the order of all pieces, and idleness is known: no call waits at the gate, and this thread has no pending task.
 * It does not read the calls.
 */
import { setImmediate } from "node:timers";
import type { Random } from "../../shared/random.ts";

export class Gate {
  readonly #random: Random;
  readonly #waiting: (() => Promise<void>)[] = [];
  #running: Promise<void> | null = null;

  constructor(random: Random) {
    this.#random = random;
  }

  /** Runs a call in its turn. */
  pass<T>(call: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#waiting.push(() => call().then(resolve, reject));
      this.#running ??= this.#run();
    });
  }

  /** Waits until no call runs or waits. */
  async rest(): Promise<void> {
    do {
      await this.#running;
      await turn();
    } while (this.#running);
  }

  async #run(): Promise<void> {
    // A call may end within the turn in which it starts, depending on the other thread. So no call starts before every
    // effect of the last one is complete: then the timing makes no difference.
    for (await turn(); this.#waiting.length > 0; await turn()) {
      const at = this.#waiting.length === 1 ? 0 : (this.#random.bytes(1)[0] ?? 0) % this.#waiting.length;
      await this.#waiting.splice(at, 1)[0]?.();
    }
    this.#running = null;
  }
}

/** Waits for the next turn of this thread: all settled promises have been handled by then. */
function turn(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}

/** Sends the calls of WebCrypto through the gate too. Returns a function that undoes it. */
export function gateCrypto(gate: Gate): () => void {
  const subtle = crypto.subtle as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>;
  const names = ["digest", "exportKey", "importKey", "sign", "verify"];
  for (const name of names) {
    const real = subtle[name];
    if (real) subtle[name] = (...args) => gate.pass(() => real.apply(subtle, args));
  }
  return () => {
    for (const name of names) delete subtle[name];
  };
}
