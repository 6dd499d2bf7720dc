/**
 * Group commit: many small claims, one atomic commit. While a commit is under way the next batch gathers; nobody waits
 * for a timer. A claim is a few pure updates of records; it takes effect whole or not at all, and learns its own fate.
 * The only writer of nonces, windows and delivery records.
 */
import { LIMITS } from "../protocol/limits.ts";
import { StoreUnavailable } from "./kv.ts";

/** A key that is written or deleted unseen, beside a record that is checked. */
export type Write = { key: Deno.KvKey; value: unknown; expireInMs: number } | { key: Deno.KvKey; delete: true };

/**
 * What an update makes of the record as it stands; `also` takes effect with it. `"hold"` leaves the record alone, and
 * the claim takes effect only while it stands just so; `"keep"` does not mind what becomes of it.
 */
export type Verdict<R> =
  | { value: unknown; expireInMs: number; also?: readonly Write[] }
  | { delete: true; also?: readonly Write[] }
  | { refuse: R }
  | "hold"
  | "keep";

/** One record of a claim: `next` is called with the record or `null`, perhaps more than once, and must be pure. */
export interface Update<R> {
  key: Deno.KvKey;
  next(current: unknown): Verdict<R>;
  /** The record as the caller has read it a moment ago: spares a read. When it is stale the claim is judged anew. */
  seen?: Deno.KvEntryMaybe<unknown>;
  /** The record is written once and not asked for again: it is not kept in mind. */
  once?: true;
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

/** A record that is taken to be absent: spares a read of what hardly ever exists. */
export function absent(key: Deno.KvKey): Deno.KvEntryMaybe<never> {
  return { key, value: null, versionstamp: null };
}

/** A record as far as it is known. */
interface Known {
  key: Deno.KvKey;
  versionstamp: string | null;
  value: unknown;
}

interface Entry extends Known {
  /** What the batch makes of it, once a claim has changed it. */
  change: Exclude<Verdict<never>, "hold" | "keep" | { refuse: never }> | null;
  isHeld: boolean;
  also: Write[];
  /** All that is asked of it is asked once. */
  once: boolean;
}

/** Gathers claims and commits them. */
export class GroupCommit {
  readonly #kv: Deno.Kv;
  readonly #maxChecks: number;
  /** What commits of this instance wrote or held, by key, latest last: the next claim on it needs no read. */
  readonly #known = new Map<string, Known>();
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
      const ids = updates.map((update) => idOf(update.key));
      this.#waiting.push({ updates, ids, resolve: resolve as Pending["resolve"], reject });
      if (this.#running) return;
      this.#running = true;
      queueMicrotask(() => this.#drain());
    });
  }

  /** The record as the last commit here left or found it; a claim that builds on it is judged anew when it is stale. */
  recall(key: Deno.KvKey): Deno.KvEntryMaybe<unknown> | undefined {
    return this.#known.get(idOf(key)) as Deno.KvEntryMaybe<unknown> | undefined;
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
    // A record was not as it was known; once more, and the claims that are not concerned must not suffer.
    if (!isFresh) return await this.#commit(batch, attempt + 1);
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
        const known = isFresh ? undefined : newer(this.#known.get(id), seen);
        if (known) entries.set(id, untouched(known));
        else unknown.set(id, key);
      }
    }
    const ids = [...unknown.keys()], keys = [...unknown.values()];
    const reads = [];
    for (let i = 0; i < keys.length; i += 10) reads.push(this.#kv.getMany(keys.slice(i, i + 10)));
    for (const [i, entry] of (await Promise.all(reads)).flat().entries()) entries.set(ids[i] ?? "", untouched(entry));
    return entries;
  }

  async #write(entries: Map<string, Entry>): Promise<boolean> {
    const operation = this.#kv.atomic();
    const concerned: [string, Entry][] = [];
    for (const [id, entry] of entries) {
      const { key, versionstamp, change, also } = entry;
      if (!change && !entry.isHeld) continue;
      concerned.push([id, entry]);
      operation.check({ key, versionstamp });
      if (!change) continue;
      write(operation, { key, ...change });
      for (const more of also) write(operation, more);
    }
    if (concerned.length === 0) return true;
    const result = await operation.commit();
    for (const [id, entry] of concerned) {
      this.#known.delete(id);
      if (result.ok && !entry.once && entry.value !== null) {
        this.#remember(id, entry, entry.change ? result.versionstamp : entry.versionstamp);
      }
    }
    return result.ok;
  }

  #remember(id: string, { key, value }: Entry, versionstamp: string | null): void {
    const oldest = this.#known.size >= REMEMBERED ? this.#known.keys().next() : undefined;
    if (oldest && !oldest.done) this.#known.delete(oldest.value);
    this.#known.set(id, { key, value, versionstamp });
  }
}

const REMEMBERED = 5_000;

/** A key as one text. No two keys of a table differ only by a NUL or by the type of a part. */
function idOf(key: Deno.KvKey): string {
  return key.join("\0");
}

function untouched({ key, value, versionstamp }: Known): Entry {
  return { key, value, versionstamp, change: null, isHeld: false, also: [], once: true };
}

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
  const verdicts: [Entry, Update<unknown>, Exclude<Verdict<never>, { refuse: never }>][] = [];
  for (const [i, update] of claim.updates.entries()) {
    const entry = entries.get(claim.ids[i] ?? "");
    if (!entry) continue;
    const verdict = update.next(entry.value);
    if (typeof verdict === "object" && "refuse" in verdict) return { taken: false, refused: verdict.refuse };
    verdicts.push([entry, update, verdict]);
  }
  for (const [entry, { once }, verdict] of verdicts) {
    if (verdict === "keep") continue;
    entry.once &&= once === true;
    if (verdict === "hold") {
      entry.isHeld = true;
      continue;
    }
    entry.change = verdict;
    entry.value = "delete" in verdict ? null : verdict.value;
    entry.also.push(...verdict.also ?? []);
  }
  return { taken: true };
}
