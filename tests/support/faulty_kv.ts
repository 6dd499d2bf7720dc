/**
 * A real store in memory that fails as a test requires: chosen calls, a share of the commits, a limit on the checks of
 * one commit, or another client's change just before a call. It also refuses a commit that mixes arithmetic with other
 * mutations, because the store is known to handle it wrongly. Everything else is Deno KV itself.
 */
import { type Clock, systemClock } from "../../shared/clock.ts";
import { fraction, type Random } from "../../shared/random.ts";
import { wrapStoreErrors } from "../../shared/server/store/store_errors.ts";
import { seededRandom } from "./seeded_random.ts";
import { openTestKv } from "./test_store.ts";

/** A call that is about to reach the store. */
export interface KvCall {
  method: "get" | "getMany" | "set" | "delete" | "list" | "commit";
  /** Keys that it reads or writes: for a commit including its checks, for a list its prefix or bounds. */
  keys: readonly Deno.KvKey[];
  /** For a commit: the number of keys that are checks. A commit without checks cannot conflict. */
  checks?: number;
}

/** The faults. A test may change them at any time. */
export interface Faults {
  /** True for a call that the store does not answer, or the error that the call throws. */
  fails?: (call: KvCall) => boolean | Error;
  /** True for a write that takes effect although its answer is lost. */
  loses?: (call: KvCall) => boolean;
  /** Runs before a call reaches the store, for changes of another client. */
  before?: (call: KvCall) => Promise<void> | void;
  /** Resolves when the answer of a get or a commit is passed on, which has taken effect before. */
  holds?: (call: KvCall) => Promise<void> | undefined;
  /** Share of the commits with checks, 0 to 1, that answer `ok: false` without an attempt. */
  conflictRate?: number;
  /** True for a commit that answers `ok: false` without an attempt. */
  conflicts?: (call: KvCall) => boolean;
  /** Maximum number of checks of a commit. More are refused as KV Connect refuses them. */
  maxChecks?: number;
}

export class FaultyKv implements Disposable {
  /** The store for the code under test. */
  readonly kv: Deno.Kv;
  /** Highest number of checks of a commit so far. */
  mostChecks = 0;
  readonly #real: Deno.Kv;
  readonly #random: Random;

  private constructor(real: Deno.Kv, public faults: Faults, seed: number, clock: Clock) {
    this.#real = real;
    this.#random = seededRandom(seed);
    this.kv = this.#wrap(real);
    wrapStoreErrors(this.kv, clock);
  }

  /** @param clock measures the deadline of calls */
  static async open(faults: Faults = {}, seed = 1, clock: Clock = systemClock): Promise<FaultyKv> {
    return new FaultyKv(await openTestKv(), faults, seed, clock);
  }

  [Symbol.dispose](): void {
    this.#real.close();
  }

  async #pass(call: KvCall): Promise<void> {
    await this.faults.before?.(call);
    const failure = this.faults.fails?.(call);
    if (failure) throw failure === true ? new Error("The store is gone") : failure;
  }

  /** Returns the answer to a write unless it is lost. */
  #lost<T>(call: KvCall, answer: T): T {
    if (this.faults.loses?.(call)) throw new Error("The answer of the store was lost");
    return answer;
  }

  #wrap(real: Deno.Kv): Deno.Kv {
    const own: Partial<Deno.Kv> = {
      get: async (key, options) => {
        await this.#pass({ method: "get", keys: [key] });
        const entry = await real.get(key, options);
        await this.faults.holds?.({ method: "get", keys: [key] });
        return entry as never;
      },
      getMany: async (keys: readonly Deno.KvKey[], options?: { consistency?: Deno.KvConsistencyLevel }) => {
        await this.#pass({ method: "getMany", keys });
        const entries = await real.getMany([...keys], options);
        await this.faults.holds?.({ method: "getMany", keys });
        return entries as never;
      },
      set: async (key, value, options) => {
        await this.#pass({ method: "set", keys: [key] });
        return this.#lost({ method: "set", keys: [key] }, await real.set(key, value, options));
      },
      delete: async (key) => {
        await this.#pass({ method: "delete", keys: [key] });
        await real.delete(key);
        this.#lost({ method: "delete", keys: [key] }, undefined);
      },
      list: <T>(selector: Deno.KvListSelector, options?: Deno.KvListOptions) => {
        const entries = real.list<T>(selector, options);
        const next = entries.next.bind(entries);
        const keys = Object.values(selector) as Deno.KvKey[];
        entries.next = async () => {
          await this.#pass({ method: "list", keys });
          return await next();
        };
        return entries;
      },
      atomic: () => this.#operation(real.atomic()),
    };
    return overlaid(real, own);
  }

  #operation(real: Deno.AtomicOperation): Deno.AtomicOperation {
    const keys: Deno.KvKey[] = [];
    let checks = 0, sums = 0;
    type Arithmetic = (key: Deno.KvKey, n: bigint) => unknown;
    const counted = (call: Arithmetic, operation: () => Deno.AtomicOperation) => (key: Deno.KvKey, n: bigint) => {
      sums++;
      keys.push(key);
      call(key, n);
      return operation();
    };
    return withRecordedWrites(real, keys, (operation) => ({
      check: (...more) => {
        checks += more.length;
        keys.push(...more.map((check) => check.key));
        real.check(...more);
        return operation();
      },
      sum: counted(real.sum.bind(real), operation),
      min: counted(real.min.bind(real), operation),
      max: counted(real.max.bind(real), operation),
      commit: async () => {
        const call: KvCall = { method: "commit", keys, checks };
        await this.#pass(call);
        this.mostChecks = Math.max(this.mostChecks, checks);
        if (sums > 0 && keys.length - checks > sums) throw new TypeError("Arithmetic next to other mutations");
        const { maxChecks, conflictRate = 0 } = this.faults;
        if (maxChecks !== undefined && checks > maxChecks) throw new TypeError(`Too many checks (max ${maxChecks})`);
        if (this.faults.conflicts?.(call)) return { ok: false };
        if (checks > 0 && conflictRate > 0 && fraction(this.#random) < conflictRate) return { ok: false };
        const result = await real.commit();
        await this.faults.holds?.(call);
        return this.#lost(call, result);
      },
    }));
  }
}

/** Returns an operation that appends the keys it writes to `keys`. `own` replaces members and gets the operation. */
export function withRecordedWrites(
  real: Deno.AtomicOperation,
  keys: Deno.KvKey[],
  own: (operation: () => Deno.AtomicOperation) => Partial<Deno.AtomicOperation>,
): Deno.AtomicOperation {
  const operation: Deno.AtomicOperation = overlaid(real, {
    check: (...checks) => {
      real.check(...checks);
      return operation;
    },
    set: (key, value, options) => {
      keys.push(key);
      real.set(key, value, options);
      return operation;
    },
    delete: (key) => {
      keys.push(key);
      real.delete(key);
      return operation;
    },
    ...own(() => operation),
  });
  return operation;
}

/**
 * Returns the object with some members replaced. Members that are assigned later are kept separate too, as
 * `wrapStoreErrors` assigns them.
 */
export function overlaid<T extends object>(real: T, own: Partial<T>): T {
  return new Proxy(real, {
    get(_, name) {
      if (Object.hasOwn(own, name)) return Reflect.get(own, name);
      const value: unknown = Reflect.get(real, name);
      return typeof value === "function" ? value.bind(real) : value;
    },
    set: (_, name, value) => Reflect.set(own, name, value),
  });
}

/** Holds commits. The store accepts or refuses a released one by its state at that time. */
export function gate(store: FaultyKv): { held: (() => void)[]; open(): void; release(): void } {
  const held: (() => void)[] = [];
  store.faults.before = ({ method }) =>
    method === "commit" ? new Promise<void>((resolve) => held.push(resolve)) : undefined;
  const open = () => void delete store.faults.before;
  return {
    held,
    open,
    release() {
      open();
      for (const pass of held) pass();
    },
  };
}
