/**
 * The store of a simulation: Deno KV in memory behind the gate, with one view for each instance. A view ends with its
 * instance at a chosen call: a dead process changes nothing. Its `watch` wakes when a write was made; random events
 * drop a wake-up or repeat it.
 */
import { fraction, type Random } from "../../shared/random.ts";
import { overlaid, withRecordedWrites } from "../support/faulty_kv.ts";
import type { Gate } from "./gate.ts";

const LOST_WAKE_UPS = 0.1, DOUBLE_WAKE_UPS = 0.1;

interface Watcher {
  key: string;
  wake(): void;
}

export class SimStore implements Disposable {
  readonly watchers = new Set<Watcher>();

  private constructor(readonly real: Deno.Kv, readonly gate: Gate, readonly random: Random) {}

  static async open(gate: Gate, random: Random): Promise<SimStore> {
    return new SimStore(await Deno.openKv(":memory:"), gate, random);
  }

  [Symbol.dispose](): void {
    this.real.close();
  }

  /** All records as text. */
  async dump(): Promise<string[]> {
    const entries = await Array.fromAsync(this.real.list({ prefix: [] }));
    return entries.map(({ key, value }) => Deno.inspect([key, value], { depth: 20, strAbbreviateSize: 1e6 }));
  }

  /** Wakes the watchers of each key that was written. */
  written(keys: readonly Deno.KvKey[]): void {
    const names = new Set(keys.map((key) => JSON.stringify(key)));
    for (const watcher of this.watchers) {
      const chance = names.has(watcher.key) ? fraction(this.random) : 0;
      if (chance < LOST_WAKE_UPS) continue;
      watcher.wake();
      if (chance > 1 - DOUBLE_WAKE_UPS) watcher.wake();
    }
  }
}

/** The store as one instance sees it, until the instance dies. */
export class View {
  readonly kv: Deno.Kv;
  /** Called at death. */
  onDeath: () => void = () => {};
  #dead = false;
  /** Calls until the end, and whether the last one still takes effect. */
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

  /** Runs a call that is never answered when the view has ended. */
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
    return withRecordedWrites(real, keys, () => ({ commit: () => this.#write(keys, () => real.commit()) }));
  }

  #watch(keys: readonly Deno.KvKey[]): ReadableStream<unknown> {
    const { watchers } = this.store;
    const mine: Watcher[] = [];
    return new ReadableStream({
      start: (controller) => {
        controller.enqueue([]);
        for (const key of keys) {
          const wake = () => this.#dead || controller.enqueue([]);
          mine.push({ key: JSON.stringify(key), wake });
        }
        for (const watcher of mine) watchers.add(watcher);
      },
      cancel: () => {
        for (const watcher of mine) watchers.delete(watcher);
      },
    });
  }
}
