/**
 * The store of a simulation: Deno KV in memory, behind the gate, one view for each instance. A view ends with its
 * instance, at a chosen call: nothing that a dead process had in mind takes effect. Its `watch` is a doorbell that rings
 * when a write was made, and that randomness makes deaf for a ring or ring twice.
 */
import { fraction, type Random } from "../../shared/random.ts";
import { overlaid } from "../support/faulty_kv.ts";
import type { Gate } from "./gate.ts";

const LOST_RINGS = 0.1, DOUBLE_RINGS = 0.1;

interface Bell {
  key: string;
  ring(): void;
}

export class SimStore implements Disposable {
  readonly bells = new Set<Bell>();

  private constructor(readonly real: Deno.Kv, readonly gate: Gate, readonly random: Random) {}

  static async open(gate: Gate, random: Random): Promise<SimStore> {
    return new SimStore(await Deno.openKv(":memory:"), gate, random);
  }

  [Symbol.dispose](): void {
    this.real.close();
  }

  /** Everything in it, as text. */
  async dump(): Promise<string[]> {
    const entries = await Array.fromAsync(this.real.list({ prefix: [] }));
    return entries.map(({ key, value }) => Deno.inspect([key, value], { depth: 20, strAbbreviateSize: 1e6 }));
  }

  /** Rings for each key that was written. */
  written(keys: readonly Deno.KvKey[]): void {
    const names = new Set(keys.map((key) => JSON.stringify(key)));
    for (const bell of this.bells) {
      const chance = names.has(bell.key) ? fraction(this.random) : 0;
      if (chance < LOST_RINGS) continue;
      bell.ring();
      if (chance > 1 - DOUBLE_RINGS) bell.ring();
    }
  }
}

/** The store as one instance sees it, until it dies. */
export class View {
  readonly kv: Deno.Kv;
  /** Called at death. */
  onDeath: () => void = () => {};
  #dead = false;
  /** Calls until death, and whether the last one still takes effect. */
  #end = { calls: Infinity, effective: false };

  constructor(readonly store: SimStore) {
    const { real } = store;
    this.kv = overlaid<Deno.Kv>(real, {
      get: (key) => this.#through(() => real.get(key)) as never,
      getMany: (keys: readonly Deno.KvKey[]) => this.#through(() => real.getMany([...keys])) as never,
      set: (key, value, options) => this.#write([key], () => real.set(key, value, options)),
      delete: (key) => this.#write([key], () => real.delete(key)),
      list: <T>(selector: Deno.KvListSelector, options?: Deno.KvListOptions) => {
        const entries = real.list<T>(selector, options);
        const next = entries.next.bind(entries);
        entries.next = () => this.#through(next) as ReturnType<typeof next>;
        return entries;
      },
      atomic: () => this.#operation(real.atomic()),
      watch: (keys: readonly Deno.KvKey[]) => this.#watch(keys) as never,
    });
  }

  /** Ends the view, at once or at the given call from now on. */
  die(calls = 0, effective = false): void {
    if (calls > 0) this.#end = { calls, effective };
    else if (!this.#dead) {
      this.#dead = true;
      this.onDeath();
    }
  }

  /** A call that is never answered once the view is dead. */
  #through<T>(call: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      void this.store.gate.pass(async () => {
        if (this.#dead) return;
        const isLast = --this.#end.calls === 0;
        const answer = isLast && !this.#end.effective ? undefined : await call().catch(reject);
        if (isLast) this.die();
        else resolve(answer as T);
      });
    });
  }

  #write<T>(keys: readonly Deno.KvKey[], call: () => Promise<T>): Promise<T> {
    return this.#through(async () => {
      const answer = await call();
      this.store.written(keys);
      return answer;
    });
  }

  #operation(real: Deno.AtomicOperation): Deno.AtomicOperation {
    const keys: Deno.KvKey[] = [];
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
      commit: () => this.#write(keys, () => real.commit()),
    });
    return operation;
  }

  #watch(keys: readonly Deno.KvKey[]): ReadableStream<unknown> {
    const { bells } = this.store;
    const mine: Bell[] = [];
    return new ReadableStream({
      start: (controller) => {
        controller.enqueue([]);
        for (const key of keys) {
          const ring = () => this.#dead || controller.enqueue([]);
          mine.push({ key: JSON.stringify(key), ring });
        }
        for (const bell of mine) bells.add(bell);
      },
      cancel: () => {
        for (const bell of mine) bells.delete(bell);
      },
    });
  }
}
