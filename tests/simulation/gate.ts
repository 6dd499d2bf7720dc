/**
 * The gate: everything of a simulation that other threads carry out, one call at a time, in an order that randomness
 * picks. So a seed fixes how the pieces of a request meet, and rest is known: nobody waits at the gate, and no turn of
 * this thread is left. Knows nothing of what passes.
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

  /** Carries a call out when its turn has come. */
  pass<T>(call: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#waiting.push(() => call().then(resolve, reject));
      this.#running ??= this.#run();
    });
  }

  /** Waits until nothing of ours is under way any more. */
  async rest(): Promise<void> {
    do {
      await this.#running;
      await turn();
    } while (this.#running);
  }

  async #run(): Promise<void> {
    // A call may end within the turn in which it starts, as the other thread has it. So none starts before everything
    // that the last one brought about has been done: then it makes no difference.
    for (await turn(); this.#waiting.length > 0; await turn()) {
      const at = this.#waiting.length === 1 ? 0 : (this.#random.bytes(1)[0] ?? 0) % this.#waiting.length;
      await this.#waiting.splice(at, 1)[0]?.();
    }
    this.#running = null;
  }
}

/** The next turn of this thread: every promise that was kept has been acted on by then. */
function turn(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}

/** Sends the calls of WebCrypto through the gate too; gives what ends that. */
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
