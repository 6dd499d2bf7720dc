/**
 * Combines many small claims into one atomic commit. Claims that arrive during a commit form the next batch; there is no
 * timer. A claim is a list of pure record updates. It is applied completely or rejected, and receives its own result. The
 * only writer of nonces, rate-limit windows and delivery records. Over a network several commits are in flight, on
 * different records (D-254): to the store they are like commits of several instances.
 *
 * A commit whose call fails or is late may have taken effect, or may still do so (D-216). Each commit therefore also
 * writes a mark: a record of its slot in this instance, with the number of the commit. The mark takes effect with the
 * commit, so it shows exactly whether the commit did. The records cannot, because a replay writes the same values.
 * - After an error the mark is read. When it has the commit's number, the claims of that commit have taken effect.
 * - When it has not, the batch is halved once, read again and committed again. The mark is read after the records, so a
 *   commit that takes effect late is either found by its mark or changes a record that the new commit checks.
 * - A slot has one commit in flight. After an error the next commit writes a mark at another key, so a late commit cannot
 *   overwrite a newer mark.
 * - A claim is rejected with `StoreUnavailable` when the mark cannot be read or the second commit fails. It may still
 *   take effect. A later request has its own claim: the same nonce in another request is a replay.
 */
import { type Clock, systemClock } from "../../clock.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { BoundedMap } from "../../bounded_map.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { ClaimQueue, type Queued } from "./claim_queue.ts";
import { countedCommit } from "./counted_commit.ts";
import { StoreUnavailable } from "./store_errors.ts";
import { isWrongMutation, type Mutation } from "./store_arguments.ts";

/** A key that is written or deleted without a check, together with a checked record. */
export type Write = { key: Deno.KvKey; value: unknown; expireInMs: number } | { key: Deno.KvKey; delete: true };

/**
 * The result of an update. `also` is written with the new value. `"hold"` keeps the record and requires that it is
 * unchanged at the commit; `"keep"` keeps the record without this requirement.
 */
export type RecordChange<R> =
  | { value: unknown; expireInMs: number; also?: readonly Write[] }
  | { delete: true; also?: readonly Write[] }
  | { refuse: R }
  | "hold"
  | "keep";

/** The update of one record. `next` gets the record or `null`, may be called more than once, and must be pure. */
export interface Update<R> {
  key: Deno.KvKey;
  next(current: unknown): RecordChange<R>;
  /** The record as the caller has read it, which saves a read. If it is stale, the claim is evaluated again. */
  seen?: Deno.KvEntryMaybe<unknown>;
  /** True for a record that is written once and not read again; it is not cached. */
  uncached?: true;
  /** Approximate bytes written, if many. */
  bytes?: number;
}

/** Result of a claim: taken, or refused by one of its updates. */
export type ClaimResult<R> = { taken: true } | { taken: false; refused: R };

interface QueuedClaim extends Queued {
  updates: readonly Update<unknown>[];
  /** Commits that may have applied the claim: at most two. */
  doubts?: Mark[];
  /** The commit that was answered as a conflict: over a network its first try may have applied the claim (D-265). */
  conflict?: Mark;
  resolve(fate: ClaimResult<unknown>): void;
  reject(error: unknown): void;
}

/** Stands for an absent record, which saves a read of a record that rarely exists. */
export function absent(key: Deno.KvKey): Deno.KvEntryMaybe<never> {
  return { key, value: null, versionstamp: null };
}

/** A cached record. */
interface CachedRecord {
  key: Deno.KvKey;
  versionstamp: string | null;
  value: unknown;
}

/** The mark of a commit: its number. */
interface Mark {
  key: Deno.KvKey;
  number: number;
}

/** Options of a group commit. */
export interface GroupCommitOptions {
  clock?: Clock;
  /** Key of the marks of this instance. Without it, a commit whose response is lost counts as failed. */
  markKey?: Deno.KvKey;
  metrics?: Metrics;
  /** Most commits in flight; default 1. */
  inFlight?: number;
}

/** An attempt to commit: its slot, its number, and whether an error may still halve the batch. */
interface Try {
  slot: number;
  attempt: number;
  maySplit: boolean;
}

interface BatchRecord extends CachedRecord {
  /** The change by the batch, after a claim has changed the record. */
  change: Exclude<RecordChange<never>, "hold" | "keep" | { refuse: never }> | null;
  isHeld: boolean;
  also: Write[];
  /** True when every update writes the record only once. */
  uncached: boolean;
}

/** Collects claims and commits them in batches. */
export class GroupCommit {
  readonly #kv: Deno.Kv;
  readonly #queue: ClaimQueue<QueuedClaim>;
  /** Numbers of the commits that may begin now. */
  readonly #freeSlots: number[];
  readonly #clock: Clock;
  readonly #markKey: Deno.KvKey | undefined;
  readonly #metrics: Metrics | undefined;
  /** Records that commits of this instance wrote or held, by key; the next claim on one needs no read. */
  readonly #known = new BoundedMap<string, CachedRecord>(REMEMBERED);
  #willCommit = false;
  /** Number of the next mark, and generation of its key: commits and errors so far. */
  #commits = 0;
  #errors = 0;

  constructor(kv: Deno.Kv, maxChecks: number, options: GroupCommitOptions = {}) {
    const { clock = systemClock, markKey, metrics, inFlight = 1 } = options;
    this.#kv = kv;
    this.#queue = new ClaimQueue(maxChecks);
    this.#freeSlots = Array.from({ length: inFlight }, (_, i) => i);
    this.#clock = clock;
    this.#markKey = markKey;
    this.#metrics = metrics;
  }

  /** Wait of the oldest claim without a result, milliseconds. */
  get oldestWaitMs(): number {
    const since = this.#queue.oldest;
    return since === undefined ? 0 : Math.max(0, this.#clock.now() - since);
  }

  /**
   * Adds a claim. Resolves after its commit, or when a current record refuses it.
   *
   * @throws {StoreUnavailable} when the store fails, when conflicts do not end, when too many claims wait, or when one
   * waits for too long
   */
  claim<R>(updates: readonly Update<R>[]): Promise<ClaimResult<R>> {
    if (this.#queue.size >= LIMITS.claimsWaiting || this.oldestWaitMs > LIMITS.claimWaitMs) {
      return Promise.reject(new StoreUnavailable(new Error("Too many claims wait, or one for too long")));
    }
    return new Promise<ClaimResult<R>>((resolve, reject) => {
      const ids = updates.map((update) => idOf(update.key));
      const bytes = updates.reduce((sum, update) => sum + (update.bytes ?? 0), 0);
      const since = this.#clock.now();
      this.#queue.add({ updates, ids, bytes, since, resolve: resolve as QueuedClaim["resolve"], reject });
      if (this.#willCommit || this.#freeSlots.length === 0) return;
      this.#willCommit = true;
      queueMicrotask(() => {
        this.#willCommit = false;
        this.#fillSlots();
      });
    });
  }

  /** Returns the record after the last commit of this instance. A claim that uses a stale record is evaluated again. */
  cachedRecord(key: Deno.KvKey): Deno.KvEntryMaybe<unknown> | undefined {
    return this.#known.get(idOf(key)) as Deno.KvEntryMaybe<unknown> | undefined;
  }

  /** Begins commits until every slot is in use or every waiting claim must wait for one in flight. */
  #fillSlots(): void {
    while (this.#freeSlots.length > 0) {
      const batch = this.#queue.take();
      if (batch.length === 0) return;
      void this.#useSlot(this.#freeSlots.pop() ?? 0, batch);
    }
  }

  async #useSlot(slot: number, batch: readonly QueuedClaim[]): Promise<void> {
    await this.#commit(batch, { slot, attempt: 1, maySplit: true });
    this.#queue.done(batch);
    this.#freeSlots.push(slot);
    this.#fillSlots();
  }

  async #commit(whole: readonly QueuedClaim[], now: Try): Promise<void> {
    // The first attempt uses cached records. A refusal or a stale record needs a read from the store.
    const isFresh = now.attempt > 1;
    let batch = whole, fates: ClaimResult<unknown>[] = [], refused: QueuedClaim[] = [], mark: Mark | undefined;
    try {
      const entries = await this.#entries(batch, isFresh);
      batch = await this.#undoubted(batch);
      [batch, fates] = applyAll(batch, entries);
      mark = this.#markKey && { key: [...this.#markKey, now.slot, this.#errors], number: ++this.#commits };
      this.#metrics?.observe("store_batch_claims", batch.length);
      if (await this.#write(entries, mark)) {
        refused = isFresh ? [] : batch.filter((_, i) => !fates[i]?.taken);
        batch.forEach((claim, i) => {
          const fate = fates[i] ?? { taken: true };
          if (fate.taken || isFresh) claim.resolve(fate);
        });
        if (refused.length === 0) return;
      } else if (mark) {
        // Deno repeats a call over the network whose answer was lost. The repeat conflicts with the first try.
        const sent = mark;
        batch.forEach((claim, i) => fates[i]?.taken && (claim.conflict = sent));
      }
    } catch (error) {
      const sent = mark;
      if (sent) batch.forEach((claim, i) => fates[i]?.taken && (claim.doubts ??= []).push(sent));
      return await this.#afterError(batch, now, error);
    }
    const next = { ...now, attempt: now.attempt + 1 };
    if (refused.length > 0) return await this.#commit(refused, next);
    // A cached record was stale. Try again, so that the other claims of the batch are not affected.
    if (!isFresh) return await this.#commit(batch, next);
    if (batch.length > 1) return await this.#split(batch, next);
    if (now.attempt < LIMITS.commitRetries) return await this.#commit(batch, next);
    batch[0]?.reject(new StoreUnavailable(new Error("Conflicts did not end")));
  }

  async #split(batch: readonly QueuedClaim[], now: Try): Promise<void> {
    const half = batch.length >> 1;
    await this.#commit(batch.slice(0, half), now);
    await this.#commit(batch.slice(half), now);
  }

  /** Handles an error: rejects the claims that caused it and halves the others once, or rejects all of them. */
  async #afterError(batch: readonly QueuedClaim[], { slot, attempt, maySplit }: Try, error: unknown): Promise<void> {
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
    if (maySplit && batch.length > 1) return await this.#split(rest, { slot, attempt: attempt + 1, maySplit: false });
    for (const claim of rest) claim.reject(error);
  }

  /** Resolves the claims of an earlier commit that took effect although its response was lost. Returns the others. */
  async #undoubted(batch: readonly QueuedClaim[]): Promise<readonly QueuedClaim[]> {
    const doubtsOf = ({ doubts = [], conflict }: QueuedClaim) => conflict ? [...doubts, conflict] : doubts;
    const doubts = new Set(batch.flatMap(doubtsOf));
    if (doubts.size === 0) return batch;
    const marks = [...doubts];
    const found = await this.#kv.getMany<unknown[]>(marks.map(({ key }) => key));
    const done = new Set(marks.filter(({ number }, i) => found[i]?.value === number));
    const rest: QueuedClaim[] = [];
    for (const claim of batch) {
      if (doubtsOf(claim).some((mark) => done.has(mark))) claim.resolve({ taken: true });
      else rest.push(claim);
    }
    return rest;
  }

  /** Returns the records of a batch, from the cache or the store. */
  async #entries(batch: readonly QueuedClaim[], isFresh: boolean): Promise<Map<string, BatchRecord>> {
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
    const began = this.#clock.now();
    const result = await countedCommit(operation, this.#metrics);
    this.#metrics?.observe("store_commit_seconds", (this.#clock.now() - began) / 1000);
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

/** Returns a key as one text. No two keys of a table differ only by a NUL or by the type of a part. */
function idOf(key: Deno.KvKey): string {
  return key.join("\0");
}

function untouched({ key, value, versionstamp }: CachedRecord): BatchRecord {
  return { key, value, versionstamp, change: null, isHeld: false, also: [], uncached: true };
}

/** Returns the later of two versions of a record. */
function newer(a: CachedRecord | undefined, b: CachedRecord | undefined): CachedRecord | undefined {
  if (!a || !b) return a ?? b;
  return (a.versionstamp ?? "") >= (b.versionstamp ?? "") ? a : b;
}

/** Adds a write to a commit. */
export function addWrite(operation: Deno.AtomicOperation, change: Write): void {
  if ("delete" in change) operation.delete(change.key);
  else operation.set(change.key, change.value, { expireIn: change.expireInMs });
}

/** Applies claims in order. A claim whose update throws is rejected with this error and left out. */
function applyAll(
  batch: readonly QueuedClaim[],
  entries: Map<string, BatchRecord>,
): [QueuedClaim[], ClaimResult<unknown>[]] {
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

/** Rejects a claim that the store refuses regardless of the rest of its commit. Returns false for any other claim. */
function rejectIfWrong(claim: QueuedClaim, error: unknown): boolean {
  const isWrong = claim.updates.some((update) => writesOf(update).some(isWrongMutation));
  if (isWrong) claim.reject(error);
  return isWrong;
}

/** Returns what an update writes without an existing record; nothing when it requires one. */
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

/** Applies all updates of a claim to the batch's records, or none. */
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
