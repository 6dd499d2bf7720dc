/**
 * Group commit: many small claims, one atomic commit. While a commit is under way the next batch gathers; nobody waits
 * for a timer. A claim is a few pure updates of records; it takes effect whole or not at all, and learns its own fate.
 * The only writer of nonces, windows and delivery records.
 *
 * A commit whose call fails or is late may have taken effect, or may still do so (D-216). Each commit therefore also
 * writes a mark: one record of this instance, with the number of the commit. The mark takes effect with the commit, so it
 * answers the question exactly; the records cannot, since a replay of the same request writes the same values.
 * - After an error the mark is read. When it has the commit's number, the claims of that commit have taken effect.
 * - When it has not, the batch is halved once, read again and committed again. The mark is read after the records, so a
 *   commit that takes effect late is either found by its mark or changes a record that the new commit checks.
 * - After an error the next commit writes a mark at another key, so a late commit cannot overwrite a newer mark.
 * - A claim is rejected with `StoreUnavailable` when the mark cannot be read or the second commit fails. It may still
 *   take effect. The claim of a later request is not a part of it: the same nonce in another request is a replay.
 */
import { type Clock, systemClock } from "../../clock.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { BoundedMap } from "../bounded_map.ts";
import { StoreUnavailable } from "./store_errors.ts";
import { isWrongMutation, type Mutation } from "./store_arguments.ts";

/** A key that is written or deleted unseen, beside a record that is checked. */
export type Write = { key: Deno.KvKey; value: unknown; expireInMs: number } | { key: Deno.KvKey; delete: true };

/**
 * What an update makes of the record as it stands; `also` takes effect with it. `"hold"` leaves the record alone, and
 * the claim takes effect only while it stands just so; `"keep"` does not mind what becomes of it.
 */
export type RecordChange<R> =
  | { value: unknown; expireInMs: number; also?: readonly Write[] }
  | { delete: true; also?: readonly Write[] }
  | { refuse: R }
  | "hold"
  | "keep";

/** One record of a claim: `next` is called with the record or `null`, perhaps more than once, and must be pure. */
export interface Update<R> {
  key: Deno.KvKey;
  next(current: unknown): RecordChange<R>;
  /** The record as the caller has read it a moment ago: spares a read. When it is stale the claim is judged anew. */
  seen?: Deno.KvEntryMaybe<unknown>;
  /** The record is written once and not asked for again: it is not kept in mind. */
  uncached?: true;
  /** About how many bytes it writes, when they are many. */
  bytes?: number;
}

/** The fate of a claim: taken, or refused by one of its updates. */
export type ClaimResult<R> = { taken: true } | { taken: false; refused: R };

interface QueuedClaim {
  updates: readonly Update<unknown>[];
  ids: string[];
  /** When it was made, milliseconds since the Unix epoch. */
  since: number;
  /** Commits that may have made it take effect: two at most. */
  doubts?: Mark[];
  resolve(fate: ClaimResult<unknown>): void;
  reject(error: unknown): void;
}

/** A record that is taken to be absent: spares a read of what hardly ever exists. */
export function absent(key: Deno.KvKey): Deno.KvEntryMaybe<never> {
  return { key, value: null, versionstamp: null };
}

/** A record as far as it is known. */
interface CachedRecord {
  key: Deno.KvKey;
  versionstamp: string | null;
  value: unknown;
}

/** What a commit writes to be recognised: its number. */
interface Mark {
  key: Deno.KvKey;
  number: number;
}

/** What a group commit can be given besides the store. */
export interface GroupCommitOptions {
  clock?: Clock;
  /** Where marks are kept, a key of this instance alone; without it a commit whose answer is lost counts as failed. */
  markKey?: Deno.KvKey;
}

/** How a commit is tried: which try it is, and whether an error may still halve the batch. */
interface Try {
  attempt: number;
  maySplit: boolean;
}

interface BatchRecord extends CachedRecord {
  /** What the batch makes of it, once a claim has changed it. */
  change: Exclude<RecordChange<never>, "hold" | "keep" | { refuse: never }> | null;
  isHeld: boolean;
  also: Write[];
  /** All that is asked of it is asked once. */
  uncached: boolean;
}

/** Gathers claims and commits them. */
export class GroupCommit {
  readonly #kv: Deno.Kv;
  readonly #maxChecks: number;
  readonly #clock: Clock;
  readonly #markKey: Deno.KvKey | undefined;
  /** What commits of this instance wrote or held, by key: the next claim on it needs no read. */
  readonly #known = new BoundedMap<string, CachedRecord>(REMEMBERED);
  #waiting: QueuedClaim[] = [];
  /** Claims of the batch that is being committed, and when the oldest of them was made. */
  #inBatch = 0;
  #batchSince = 0;
  #running = false;
  /** Commits and errors so far: number of the next mark, and generation of its key. */
  #commits = 0;
  #errors = 0;

  constructor(kv: Deno.Kv, maxChecks: number, { clock = systemClock, markKey }: GroupCommitOptions = {}) {
    this.#kv = kv;
    this.#maxChecks = maxChecks;
    this.#clock = clock;
    this.#markKey = markKey;
  }

  /** How long the oldest claim without a fate has waited, milliseconds. */
  get oldestWaitMs(): number {
    const since = this.#inBatch > 0 ? this.#batchSince : this.#waiting[0]?.since;
    return since === undefined ? 0 : Math.max(0, this.#clock.now() - since);
  }

  /**
   * Makes a claim. Resolves once it is durable, or refused by the record that stands.
   *
   * @throws {StoreUnavailable} when the store fails or stays contended, or too many claims wait, or one for too long
   */
  claim<R>(updates: readonly Update<R>[]): Promise<ClaimResult<R>> {
    if (this.#waiting.length + this.#inBatch >= LIMITS.claimsWaiting || this.oldestWaitMs > LIMITS.claimWaitMs) {
      return Promise.reject(new StoreUnavailable(new Error("Too many claims wait, or one for too long")));
    }
    return new Promise<ClaimResult<R>>((resolve, reject) => {
      const ids = updates.map((update) => idOf(update.key));
      const since = this.#clock.now();
      this.#waiting.push({ updates, ids, since, resolve: resolve as QueuedClaim["resolve"], reject });
      if (this.#running) return;
      this.#running = true;
      queueMicrotask(() => this.#drain());
    });
  }

  /** The record as the last commit here left or found it; a claim that builds on it is judged anew when it is stale. */
  cachedRecord(key: Deno.KvKey): Deno.KvEntryMaybe<unknown> | undefined {
    return this.#known.get(idOf(key)) as Deno.KvEntryMaybe<unknown> | undefined;
  }

  async #drain(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#nextBatch();
      this.#inBatch = batch.length;
      this.#batchSince = batch[0]?.since ?? 0;
      await this.#commit(batch, { attempt: 1, maySplit: true });
      this.#inBatch = 0;
    }
    this.#running = false;
  }

  /** As many waiting claims as one commit can check and carry. */
  #nextBatch(): QueuedClaim[] {
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

  async #commit(whole: QueuedClaim[], now: Try): Promise<void> {
    // The first try builds on what is known; what that refuses, or what was stale, is judged by a fresh read.
    const isFresh = now.attempt > 1;
    let batch = whole, fates: ClaimResult<unknown>[] = [], refused: QueuedClaim[] = [], mark: Mark | undefined;
    try {
      const entries = await this.#entries(batch, isFresh);
      batch = await this.#undoubted(batch);
      [batch, fates] = applyAll(batch, entries);
      mark = this.#markKey && { key: [...this.#markKey, this.#errors], number: ++this.#commits };
      if (await this.#write(entries, mark)) {
        refused = isFresh ? [] : batch.filter((_, i) => !fates[i]?.taken);
        batch.forEach((claim, i) => {
          const fate = fates[i] ?? { taken: true };
          if (fate.taken || isFresh) claim.resolve(fate);
        });
        if (refused.length === 0) return;
      }
    } catch (error) {
      const sent = mark;
      if (sent) batch.forEach((claim, i) => fates[i]?.taken && (claim.doubts ??= []).push(sent));
      return await this.#afterError(batch, now, error);
    }
    const next = { ...now, attempt: now.attempt + 1 };
    if (refused.length > 0) return await this.#commit(refused, next);
    // A record was not as it was known; once more, and the claims that are not concerned must not suffer.
    if (!isFresh) return await this.#commit(batch, next);
    if (batch.length > 1) return await this.#split(batch, next);
    if (now.attempt < LIMITS.commitRetries) return await this.#commit(batch, next);
    batch[0]?.reject(new StoreUnavailable(new Error("The record stayed contended")));
  }

  async #split(batch: QueuedClaim[], now: Try): Promise<void> {
    const half = batch.length >> 1;
    await this.#commit(batch.slice(0, half), now);
    await this.#commit(batch.slice(half), now);
  }

  /** Goes on after an error: rejects the claims that caused it, halves the others once, or gives all of them up. */
  async #afterError(batch: QueuedClaim[], { attempt, maySplit }: Try, error: unknown): Promise<void> {
    this.#errors++;
    for (const { ids } of batch) for (const id of ids) this.#known.delete(id);
    let rest = batch;
    try {
      rest = await this.#undoubted(batch);
    } catch {
      maySplit = false;
    }
    if (!(error instanceof StoreUnavailable)) rest = rest.filter((claim) => !rejectIfWrong(claim, error));
    if (rest.length === 0) return;
    if (maySplit && batch.length > 1) return await this.#split(rest, { attempt: attempt + 1, maySplit: false });
    for (const claim of rest) claim.reject(error);
  }

  /** Resolves the claims that an earlier commit has made take effect although its answer was lost; gives the others. */
  async #undoubted(batch: QueuedClaim[]): Promise<QueuedClaim[]> {
    const doubts = new Set(batch.flatMap((claim) => claim.doubts ?? []));
    if (doubts.size === 0) return batch;
    const marks = [...doubts];
    const found = await this.#kv.getMany<unknown[]>(marks.map(({ key }) => key));
    const done = new Set(marks.filter(({ number }, i) => found[i]?.value === number));
    const rest: QueuedClaim[] = [];
    for (const claim of batch) {
      if (claim.doubts?.some((mark) => done.has(mark))) claim.resolve({ taken: true });
      else rest.push(claim);
    }
    return rest;
  }

  /** The records of a batch: as they are known, or read. */
  async #entries(batch: QueuedClaim[], isFresh: boolean): Promise<Map<string, BatchRecord>> {
    const entries = new Map<string, BatchRecord>();
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

  async #write(entries: Map<string, BatchRecord>, mark: Mark | undefined): Promise<boolean> {
    let isChange = false;
    const operation = this.#kv.atomic();
    const concerned: [string, BatchRecord][] = [];
    for (const [id, entry] of entries) {
      const { key, versionstamp, change, also } = entry;
      if (!change && !entry.isHeld) continue;
      concerned.push([id, entry]);
      operation.check({ key, versionstamp });
      if (!change) continue;
      isChange = true;
      addWrite(operation, { key, ...change });
      for (const more of also) addWrite(operation, more);
    }
    if (concerned.length === 0) return true;
    if (mark && isChange) addWrite(operation, { key: mark.key, value: mark.number, expireInMs: MARK_KEPT_MS });
    const result = await operation.commit();
    for (const [id, entry] of concerned) {
      this.#known.delete(id);
      if (result.ok && !entry.uncached && entry.value !== null) {
        const versionstamp = entry.change ? result.versionstamp : entry.versionstamp;
        this.#known.set(id, { key: entry.key, value: entry.value, versionstamp });
      }
    }
    return result.ok;
  }
}

const REMEMBERED = 5_000;
const MARK_KEPT_MS = LIMITS.commitMarkSeconds * 1000;

/** A key as one text. No two keys of a table differ only by a NUL or by the type of a part. */
function idOf(key: Deno.KvKey): string {
  return key.join("\0");
}

function untouched({ key, value, versionstamp }: CachedRecord): BatchRecord {
  return { key, value, versionstamp, change: null, isHeld: false, also: [], uncached: true };
}

/** Of two pictures of a record the one that was written later. */
function newer(a: CachedRecord | undefined, b: CachedRecord | undefined): CachedRecord | undefined {
  if (!a || !b) return a ?? b;
  return (a.versionstamp ?? "") >= (b.versionstamp ?? "") ? a : b;
}

/** Adds a write to a commit. */
export function addWrite(operation: Deno.AtomicOperation, change: Write): void {
  if ("delete" in change) operation.delete(change.key);
  else operation.set(change.key, change.value, { expireIn: change.expireInMs });
}

/** Applies claims one after another; one whose update throws is rejected with that, and left out. */
function applyAll(batch: QueuedClaim[], entries: Map<string, BatchRecord>): [QueuedClaim[], ClaimResult<unknown>[]] {
  const applied: QueuedClaim[] = [], fates: ClaimResult<unknown>[] = [];
  for (const claim of batch) {
    try {
      fates.push(apply(claim, entries));
      applied.push(claim);
    } catch (error) {
      claim.reject(error);
    }
  }
  return [applied, fates];
}

/** Rejects a claim that the store refuses whatever else is in its commit; false for any other. */
function rejectIfWrong(claim: QueuedClaim, error: unknown): boolean {
  const isWrong = claim.updates.some((update) => writesOf(update).some(isWrongMutation));
  if (isWrong) claim.reject(error);
  return isWrong;
}

/** What an update writes where there is no record yet; nothing when it needs one. */
function writesOf({ key, next }: Update<unknown>): Mutation[] {
  try {
    const verdict = next(null);
    if (typeof verdict === "string" || "refuse" in verdict) return [];
    const also = (verdict.also ?? []).map((one) =>
      "delete" in one ? { key: one.key } : { key: one.key, value: one.value }
    );
    return [...also, "delete" in verdict ? { key } : { key, value: verdict.value }];
  } catch {
    return [];
  }
}

/** Applies a claim to the batch's picture of the records: all of its updates, or none. */
function apply(claim: QueuedClaim, entries: Map<string, BatchRecord>): ClaimResult<unknown> {
  const verdicts: [BatchRecord, Update<unknown>, Exclude<RecordChange<never>, { refuse: never }>][] = [];
  for (const [i, update] of claim.updates.entries()) {
    const entry = entries.get(claim.ids[i] ?? "");
    if (!entry) continue;
    const verdict = update.next(entry.value);
    if (typeof verdict === "object" && "refuse" in verdict) return { taken: false, refused: verdict.refuse };
    verdicts.push([entry, update, verdict]);
  }
  for (const [entry, { uncached }, verdict] of verdicts) {
    if (verdict === "keep") continue;
    entry.uncached &&= uncached === true;
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
