/**
 * Deletes ended records in small commits (D-217). Deno KV itself deletes all expired records about once a minute, in
 * one transaction that blocks commits. So the kinds of records of which there are many, called families, expire in the
 * store later than they end, and the sweep deletes them first. One instance at a time reads them in the order of their
 * keys, without an index, so a restart or a crash loses nothing. Late deletion changes no decision, because every
 * reader compares the times in the record.
 */
import type { Kv, KvEntry, KvKey, KvListSelector } from "../kv.ts";
import { type Clock, sleep } from "../../clock.ts";
import type { Log } from "../log.ts";
import { keyBytes } from "./stored_bytes.ts";

/** Records of one step. With more, a step takes the time of the requests that read the store meanwhile. */
const SWEEP_ROWS = 200;
/** Bytes of keys in one commit, because Deno KV refuses a commit with more than 80 KiB of keys. */
const SWEEP_COMMIT_BYTES = 50_000;
/** Pause after a step that finds little. With less, the sweep takes time from the requests for nothing. */
export const SWEEP_SLOW_MS = 160;
/** Pause after a step that finds much. With more, records could end faster than they are deleted. */
const SWEEP_QUICK_MS = 20;
/** Wait before the first sweep. With less, the sweep would compete with the start, when all agents connect. */
export const SWEEP_FIRST_MS = 10_000;
/** Pause between two sweeps. With less, an idle server reads all the time; with more, ended records stay longer. */
export const SWEEP_REST_MS = 60_000;

export interface SweptFamily {
  prefix: KvKey;
  /**
   * Returns keys between which hardly a record has ended, so they are not read. Without it, a busy server reads all
   * messages of the last day again and again. Those that have ended there are deleted once they are outside.
   */
  young?(now: number): { from: KvKey; to: KvKey };
  /** Tells whether the record may be deleted at `now`, milliseconds since the Unix epoch. */
  hasEnded(entry: KvEntry<unknown>, now: number): boolean | Promise<boolean>;
}

interface SweeperDeps {
  kv: Kv;
  maxChecks: number;
  clock: Clock;
  log: Log;
  /** Tells whether this instance sweeps. It only saves work, because two sweeps at once do no harm. */
  isTurn(): boolean;
}

export class ExpirySweeper {
  readonly #stopped = new AbortController();

  constructor(private readonly deps: SweeperDeps, private readonly families: readonly SweptFamily[]) {}

  start(): void {
    for (const family of this.families) void this.#loop(family);
  }

  stop(): void {
    this.#stopped.abort();
  }

  async #loop(family: SweptFamily): Promise<void> {
    const { clock, log } = this.deps;
    // Waits first, because an instance may run for a single request only.
    await sleep(clock, SWEEP_FIRST_MS, this.#stopped.signal);
    while (!this.#stopped.signal.aborted) {
      await this.pass(family).catch((cause) => log("warn", "sweep_failed", { family: family.prefix.join(), cause }));
      await sleep(clock, SWEEP_REST_MS, this.#stopped.signal);
    }
  }

  /** Reads the records of a family once, except young ones, and deletes those that have ended. */
  async pass(family: SweptFamily): Promise<void> {
    const { prefix } = family, young = family.young?.(this.deps.clock.now());
    const parts = young ? [{ prefix, end: young.from }, { prefix, start: young.to }] : [{ prefix }];
    for (const part of parts) await this.#passPart(part, family);
  }

  async #passPart(selector: KvListSelector, family: SweptFamily): Promise<void> {
    const { kv, clock, isTurn } = this.deps;
    let cursor = "";
    while (!this.#stopped.signal.aborted && isTurn()) {
      const step = kv.list<unknown>(selector, { limit: SWEEP_ROWS, batchSize: SWEEP_ROWS, cursor });
      const entries = await Array.fromAsync(step);
      const now = clock.now();
      const ended: KvEntry<unknown>[] = [];
      for (const entry of entries) if (await family.hasEnded(entry, now)) ended.push(entry);
      await this.#delete(ended);
      if (entries.length < SWEEP_ROWS) return;
      cursor = step.cursor;
      const isDense = ended.length * 2 >= entries.length;
      await sleep(clock, isDense ? SWEEP_QUICK_MS : SWEEP_SLOW_MS, this.#stopped.signal);
    }
  }

  /** Deletes the records that are unchanged since they were read. The next pass handles the others. */
  async #delete(entries: readonly KvEntry<unknown>[]): Promise<void> {
    const { kv, maxChecks } = this.deps;
    for (let i = 0; i < entries.length;) {
      const operation = kv.atomic();
      for (let checks = 0, bytes = 0; i < entries.length && checks < maxChecks; checks++, i++) {
        const entry = entries[i] as KvEntry<unknown>;
        // Each key counts twice, because both its check and its deletion contain it.
        bytes += 2 * keyBytes(entry.key);
        if (checks > 0 && bytes > SWEEP_COMMIT_BYTES) break;
        operation.check(entry).delete(entry.key);
      }
      await operation.commit();
    }
  }
}
