/**
 * Batched reads: reads of one turn of the event loop go to the store in calls of ten keys. There is no timer and no cache.
 */

interface QueuedRead {
  key: Deno.KvKey;
  resolve(entry: Deno.KvEntryMaybe<unknown>): void;
  reject(error: unknown): void;
}

/** Keys in one call of the store. */
const KEYS_PER_CALL = 10;

export class BatchedReads {
  readonly #kv: Deno.Kv;
  #waiting: QueuedRead[] = [];

  constructor(kv: Deno.Kv) {
    this.#kv = kv;
  }

  /** Returns one record, read from the store. */
  get<T>(key: Deno.KvKey): Promise<Deno.KvEntryMaybe<T>> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ key, resolve: resolve as QueuedRead["resolve"], reject });
      if (this.#waiting.length === 1) queueMicrotask(() => this.#read());
    });
  }

  #read(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (let i = 0; i < waiting.length; i += KEYS_PER_CALL) void this.#readTen(waiting.slice(i, i + KEYS_PER_CALL));
  }

  async #readTen(ten: QueuedRead[]): Promise<void> {
    try {
      const entries = await this.#kv.getMany<unknown[]>(ten.map(({ key }) => key));
      ten.forEach((one, i) => one.resolve(entries[i] as Deno.KvEntryMaybe<unknown>));
    } catch (error) {
      for (const { reject } of ten) reject(error);
    }
  }
}
