/**
 * Group commit: many small claims, one atomic commit. While a commit is under way the next batch gathers; nobody waits
 * for a timer. A claim is a few pure updates of records; it takes effect whole or not at all, and learns its own fate.
 * The only writer of nonces, windows and delivery records.
 */
import { LIMITS } from "../protocol/limits.ts";
import { StoreUnavailable } from "./kv.ts";

/** A key that is written or deleted unseen, beside a record that is checked. */
export type Write = { key: Deno.KvKey; value: unknown; expireInMs: number } | { key: Deno.KvKey; delete: true };

/** What an update makes of the record as it stands; `also` takes effect with it. */
export type Verdict<R> =
  | { value: unknown; expireInMs: number; also?: readonly Write[] }
  | { delete: true; also?: readonly Write[] }
  | { refuse: R }
  | "keep";

/** One record of a claim: `next` is called with the record or `null`, perhaps more than once, and must be pure. */
export interface Update<R> {
  key: Deno.KvKey;
  next(current: unknown): Verdict<R>;
  /** The record as the caller has read it a moment ago: spares a read. When it is stale the claim is judged anew. */
  seen?: Deno.KvEntryMaybe<unknown>;
  /** About how many bytes it writes, when they are many. */
  bytes?: number;
}

/** The fate of a claim: taken, or refused by one of its updates. */
export type Fate<R> = { taken: true } | { taken: false; refused: R };

interface Pending {
  updates: readonly Update<unknown>[];
  ids: string[];
  resolve(fate: Fate<unknown>): void;
  reject(error: unknown): void;
}

/** A record as far as it is known. */
interface Known {
  key: Deno.KvKey;
  versionstamp: string | null;
  value: unknown;
}

interface Entry extends Known {
  /** What the batch makes of it, once a claim has changed it. */
  change: Exclude<Verdict<never>, "keep" | { refuse: never }> | null;
  also: Write[];
}

/** Gathers claims and commits them. */
export class GroupCommit {
  readonly #kv: Deno.Kv;
  readonly #maxChecks: number;
  /** What was committed last here, by key: the next claim on it needs no read. */
  readonly #committed = new Map<string, Known>();
  #waiting: Pending[] = [];
  #running = false;

  constructor(kv: Deno.Kv, maxChecks: number) {
    this.#kv = kv;
    this.#maxChecks = maxChecks;
  }

  /**
   * Makes a claim. Resolves once it is durable, or refused by the record that stands.
   *
   * @throws {StoreUnavailable} when the store fails or stays contended
   */
  claim<R>(updates: readonly Update<R>[]): Promise<Fate<R>> {
    return new Promise<Fate<R>>((resolve, reject) => {
      const ids = updates.map((update) => JSON.stringify(update.key));
      this.#waiting.push({ updates, ids, resolve: resolve as Pending["resolve"], reject });
      if (this.#running) return;
      this.#running = true;
      queueMicrotask(() => this.#drain());
    });
  }

  async #drain(): Promise<void> {
    while (this.#waiting.length > 0) await this.#commit(this.#nextBatch(), 1);
    this.#running = false;
  }

  /** As many waiting claims as one commit can check and carry. */
  #nextBatch(): Pending[] {
    const ids = new Set<string>();
    let count = 0, bytes = 0;
    for (const claim of this.#waiting) {
      for (const id of claim.ids) ids.add(id);
      bytes += claim.updates.reduce((sum, update) => sum + (update.bytes ?? 0), 0);
      if (count > 0 && (ids.size > this.#maxChecks || bytes > LIMITS.commitBytes)) break;
      count++;
    }
    return this.#waiting.splice(0, count);
  }

  async #commit(batch: Pending[], attempt: number): Promise<void> {
    // The first try builds on what is known; what that refuses, or what was stale, is judged by a fresh read.
    const isFresh = attempt > 1;
    let refused: Pending[] = [];
    try {
      const entries = await this.#entries(batch, isFresh);
      const fates = batch.map((claim) => apply(claim, entries));
      if (await this.#write(entries)) {
        refused = isFresh ? [] : batch.filter((_, i) => !fates[i]?.taken);
        batch.forEach((claim, i) => {
          const fate = fates[i] ?? { taken: true };
          if (fate.taken || isFresh) claim.resolve(fate);
        });
        if (refused.length === 0) return;
      }
    } catch (error) {
      if (batch.length === 1) return batch[0]?.reject(error);
      return await this.#split(batch, attempt);
    }
    if (refused.length > 0) return await this.#commit(refused, attempt + 1);
    // Another instance changed one of the records: the claims that are not concerned must not suffer.
    if (batch.length > 1) return await this.#split(batch, attempt + 1);
    if (attempt < LIMITS.commitRetries) return await this.#commit(batch, attempt + 1);
    batch[0]?.reject(new StoreUnavailable(new Error("The record stayed contended")));
  }

  async #split(batch: Pending[], attempt: number): Promise<void> {
    const half = batch.length >> 1;
    await this.#commit(batch.slice(0, half), attempt);
    await this.#commit(batch.slice(half), attempt);
  }

  /** The records of a batch: as they are known, or read. */
  async #entries(batch: Pending[], isFresh: boolean): Promise<Map<string, Entry>> {
    const entries = new Map<string, Entry>();
    const unknown = new Map<string, Deno.KvKey>();
    for (const { updates, ids } of batch) {
      for (const [i, { key, seen }] of updates.entries()) {
        const id = ids[i] ?? "";
        if (entries.has(id) || unknown.has(id)) continue;
        const known = isFresh ? undefined : newer(this.#committed.get(id), seen);
        if (known) entries.set(id, { ...known, change: null, also: [] });
        else unknown.set(id, key);
      }
    }
    const ids = [...unknown.keys()], keys = [...unknown.values()];
    const reads = [];
    for (let i = 0; i < keys.length; i += 10) reads.push(this.#kv.getMany(keys.slice(i, i + 10)));
    for (const [i, { key, value, versionstamp }] of (await Promise.all(reads)).flat().entries()) {
      entries.set(ids[i] ?? "", { key, value, versionstamp, change: null, also: [] });
    }
    return entries;
  }

  async #write(entries: Map<string, Entry>): Promise<boolean> {
    const operation = this.#kv.atomic();
    const changed: [string, Entry][] = [];
    for (const [id, entry] of entries) {
      const { key, versionstamp, change, also } = entry;
      if (!change) continue;
      changed.push([id, entry]);
      operation.check({ key, versionstamp });
      write(operation, { key, ...change });
      for (const more of also) write(operation, more);
    }
    if (changed.length === 0) return true;
    const result = await operation.commit();
    for (const [id, entry] of changed) {
      this.#committed.delete(id);
      if (result.ok && entry.value !== null) this.#remember(id, entry, result.versionstamp);
    }
    return result.ok;
  }

  #remember(id: string, { key, value }: Entry, versionstamp: string): void {
    const oldest = this.#committed.size >= REMEMBERED ? this.#committed.keys().next() : undefined;
    if (oldest && !oldest.done) this.#committed.delete(oldest.value);
    this.#committed.set(id, { key, value, versionstamp });
  }
}

const REMEMBERED = 1_000;

/** Of two pictures of a record the one that was written later. */
function newer(a: Known | undefined, b: Known | undefined): Known | undefined {
  if (!a || !b) return a ?? b;
  return (a.versionstamp ?? "") >= (b.versionstamp ?? "") ? a : b;
}

function write(operation: Deno.AtomicOperation, change: Write): void {
  if ("delete" in change) operation.delete(change.key);
  else operation.set(change.key, change.value, { expireIn: change.expireInMs });
}

/** Applies a claim to the batch's picture of the records: all of its updates, or none. */
function apply(claim: Pending, entries: Map<string, Entry>): Fate<unknown> {
  const changes: [Entry, NonNullable<Entry["change"]>][] = [];
  for (const [i, update] of claim.updates.entries()) {
    const entry = entries.get(claim.ids[i] ?? "");
    if (!entry) continue;
    const verdict = update.next(entry.value);
    if (verdict === "keep") continue;
    if ("refuse" in verdict) return { taken: false, refused: verdict.refuse };
    changes.push([entry, verdict]);
  }
  for (const [entry, change] of changes) {
    entry.change = change;
    entry.value = "delete" in change ? null : change.value;
    entry.also.push(...change.also ?? []);
  }
  return { taken: true };
}
