/**
 * Reading together: whatever is asked for in one turn goes to the store in calls of ten keys. Nobody waits for a timer,
 * nothing is kept.
 */

interface Waiting {
  key: Deno.KvKey;
  resolve(entry: Deno.KvEntryMaybe<unknown>): void;
  reject(error: unknown): void;
}

/** Keys in one call of the store. */
const TOGETHER = 10;

export class Reads {
  readonly #kv: Deno.Kv;
  #waiting: Waiting[] = [];

  constructor(kv: Deno.Kv) {
    this.#kv = kv;
  }

  /** Reads one record. */
  get<T>(key: Deno.KvKey): Promise<Deno.KvEntryMaybe<T>> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ key, resolve: resolve as Waiting["resolve"], reject });
      if (this.#waiting.length === 1) queueMicrotask(() => this.#read());
    });
  }

  #read(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (let i = 0; i < waiting.length; i += TOGETHER) void this.#readTen(waiting.slice(i, i + TOGETHER));
  }

  async #readTen(ten: Waiting[]): Promise<void> {
    try {
      const entries = await this.#kv.getMany<unknown[]>(ten.map(({ key }) => key));
      ten.forEach((one, i) => one.resolve(entries[i] as Deno.KvEntryMaybe<unknown>));
    } catch (error) {
      for (const { reject } of ten) reject(error);
    }
  }
}
