/**
 * Reads that are made in one turn of the event loop go to the store together, in calls of ten keys. There is no timer
 * and no cache, so no read is late or returns an old record.
 */
import { ByteBudget } from "../byte_budget.ts";
import type { Kv, KvEntryMaybe, KvKey } from "../kv.ts";
import { StoreUnavailable } from "./store_errors.ts";

interface QueuedRead {
  key: KvKey;
  resolve(entry: KvEntryMaybe<unknown>): void;
  reject(error: unknown): void;
  /** Gives its place to another read. */
  release(): void;
}

/** The most keys that one call of the store accepts. */
const KEYS_PER_CALL = 10;

/**
 * Reads the records of a list, one call of the store after the other, and returns them in the order of their keys. With
 * all calls at once, a hundred lists of one person would keep the commits of all messages waiting for a second. Through
 * `BatchedReads`, a few lists would fill its queue, and other requests would get a 503.
 *
 * @throws {StoreUnavailable}
 */
export async function readAll<T>(kv: Kv, keys: readonly KvKey[]): Promise<KvEntryMaybe<T>[]> {
  const entries: KvEntryMaybe<T>[] = [];
  for (let i = 0; i < keys.length; i += KEYS_PER_CALL) {
    entries.push(...await kv.getMany<T[]>(keys.slice(i, i + KEYS_PER_CALL)));
  }
  return entries;
}

/** Reads the records of a commit, all at once, because its messages wait. @throws {StoreUnavailable} */
export async function readAtOnce<T>(kv: Kv, keys: readonly KvKey[]): Promise<KvEntryMaybe<T>[]> {
  const calls: Promise<KvEntryMaybe<T>[]>[] = [];
  for (let i = 0; i < keys.length; i += KEYS_PER_CALL) calls.push(kv.getMany<T[]>(keys.slice(i, i + KEYS_PER_CALL)));
  return (await Promise.all(calls)).flat();
}

/**
 * Most reads of requests that wait for an answer. With more, a request would wait behind others until its sender has
 * given up, and the queue would hold memory for answers that no caller reads.
 */
export const MAX_QUEUED_READS = 1_000;

export class BatchedReads {
  #waiting: QueuedRead[] = [];
  /** Reads that the store has not answered, each as one byte. */
  readonly #open: ByteBudget;

  /** @param max most reads without an answer, and `perParty` most of them for one party */
  constructor(private readonly kv: Kv, max = MAX_QUEUED_READS, perParty = max) {
    this.#open = new ByteBudget({ total: max, perParty });
  }

  /**
   * Reads one record from the store.
   *
   * @throws {StoreUnavailable} also when too many reads, in all or for this party, have no answer
   */
  get<T>(key: KvKey, party = ""): Promise<KvEntryMaybe<T>> {
    const release = this.#open.take(party, 1);
    if (!release) return Promise.reject(new StoreUnavailable(new Error(`${this.#open.used} reads have no answer`)));
    return new Promise((resolve, reject) => {
      this.#waiting.push({ key, resolve: resolve as QueuedRead["resolve"], reject, release });
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
      const entries = await this.kv.getMany<unknown[]>(ten.map(({ key }) => key));
      ten.forEach((one, i) => one.resolve(entries[i] as KvEntryMaybe<unknown>));
    } catch (error) {
      for (const { reject } of ten) reject(error);
    } finally {
      for (const { release } of ten) release();
    }
  }
}
