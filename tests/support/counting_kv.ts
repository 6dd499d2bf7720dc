/**
 * A real store that counts what each instance asks of it, and can hold its calls back. Calls that are held back together
 * are released together, so the number of releases until an answer is the number of consecutive round trips. Changes no
 * call and no answer.
 */
import { keyBytes, valueBytes } from "../../shared/server/store/stored_bytes.ts";
import { overlaid } from "./faulty_kv.ts";

/** What an instance asked of its store. */
export interface StoreCounts {
  /** Calls that read, and the records or ranges that they name. */
  readCalls: number;
  reads: number;
  commits: number;
  checks: number;
  /** Writes and deletions. */
  writes: number;
  /** Keys and values that were written, and keys that were deleted or checked. A number counts as nine bytes. */
  bytes: number;
  /** Changes that a watch reported. */
  wakeUps: number;
}

/** Records that one call of a list reads, unless its options say otherwise. */
const LIST_BATCH = 100;
const VERSIONSTAMP = "0".repeat(20);

/** Returns counts of zero. */
export function noCounts(): StoreCounts {
  return { readCalls: 0, reads: 0, commits: 0, checks: 0, writes: 0, bytes: 0, wakeUps: 0 };
}

/**
 * Returns the value with each number as one of nine bytes. V8 stores the same integer in two to nine bytes: it depends on
 * how the engine keeps the object in memory at that moment.
 */
function withWideNumbers(value: unknown): unknown {
  if (typeof value === "number") return 0.5;
  if (Array.isArray(value)) return value.map(withWideNumbers);
  if (typeof value !== "object" || value === null || Object.getPrototypeOf(value) !== Object.prototype) return value;
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, withWideNumbers(part)]));
}

/** Calls that wait for their release. Shared by the stores of several instances. */
export class CallGate {
  #waiting: (() => Promise<unknown>)[] = [];
  #holds = false;
  #running = 0;

  /** Calls from now on wait. */
  hold(): void {
    this.#holds = true;
  }

  /** Calls from now on do not wait. */
  letThrough(): void {
    this.#holds = false;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  /** Calls that wait, or that the store has not answered. */
  get open(): number {
    return this.#waiting.length + this.#running;
  }

  /** Runs every waiting call, and returns when all of them have ended. */
  async release(): Promise<void> {
    await Promise.all(this.#waiting.splice(0).map((run) => run()));
  }

  pass<T>(call: () => Promise<T>): Promise<T> {
    if (!this.#holds) return this.#run(call);
    return new Promise((resolve, reject) => void this.#waiting.push(() => this.#run(call).then(resolve, reject)));
  }

  async #run<T>(call: () => Promise<T>): Promise<T> {
    this.#running++;
    try {
      return await call();
    } finally {
      this.#running--;
    }
  }
}

/** Returns the store of one instance; `counts` rises with its calls. */
export function countingKv(real: Deno.Kv, gate: CallGate, counts: StoreCounts): Deno.Kv {
  const read = (keys: number) => {
    counts.readCalls++;
    counts.reads += keys;
  };
  const wrote = (key: Deno.KvKey, value?: unknown) => {
    counts.writes++;
    // The store puts its versionstamp in the place of the symbol.
    const stored = key.map((part) => typeof part === "symbol" ? VERSIONSTAMP : part);
    counts.bytes += keyBytes(stored) + (value === undefined ? 0 : valueBytes(withWideNumbers(value)));
  };
  const own: Partial<Deno.Kv> = {
    get: (key, options) => {
      read(1);
      return gate.pass(() => real.get(key, options));
    },
    getMany: (keys: readonly Deno.KvKey[], options?: { consistency?: Deno.KvConsistencyLevel }) => {
      read(keys.length);
      return gate.pass(() => real.getMany([...keys], options)) as never;
    },
    set: (key, value, options) => {
      counts.commits++;
      wrote(key, value);
      return gate.pass(() => real.set(key, value, options));
    },
    delete: (key) => {
      counts.commits++;
      wrote(key);
      return gate.pass(() => real.delete(key));
    },
    list: <T>(selector: Deno.KvListSelector, options: Deno.KvListOptions = {}) => {
      const entries = real.list<T>(selector, options);
      const next = entries.next.bind(entries);
      const batch = options.batchSize ?? Math.min(options.limit ?? LIST_BATCH, LIST_BATCH);
      let given = 0;
      entries.next = async () => {
        const isCall = given % batch === 0 && given < (options.limit ?? Infinity);
        if (isCall) read(1);
        const entry = isCall ? await gate.pass(next) : await next();
        given += entry.done ? 0 : 1;
        return entry;
      };
      return entries;
    },
    watch: ((keys, options) => {
      const count = new TransformStream({
        transform(entries, controller) {
          counts.wakeUps++;
          controller.enqueue(entries);
        },
      });
      return real.watch([...keys], options).pipeThrough(count);
    }) as typeof real.watch,
    atomic() {
      const operation = real.atomic();
      const counted: Deno.AtomicOperation = overlaid(operation, {
        check(...checks) {
          counts.checks += checks.length;
          for (const { key } of checks) counts.bytes += keyBytes(key);
          operation.check(...checks);
          return counted;
        },
        set(key, value, options) {
          wrote(key, value);
          operation.set(key, value, options);
          return counted;
        },
        delete(key) {
          wrote(key);
          operation.delete(key);
          return counted;
        },
        commit() {
          counts.commits++;
          return gate.pass(() => operation.commit());
        },
      });
      return counted;
    },
  };
  return overlaid(real, own);
}
