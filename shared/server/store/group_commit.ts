/**
 * Combines many small claims into one atomic commit. Claims that arrive during a commit form the next batch; a claim that
 * no request waits for may wait for a commit of others (D-260). A claim is a list of pure record updates. It is applied
 * completely or rejected, and receives its own result. The only writer of nonces, rate-limit windows and delivery records.
 * Over a network several commits are in flight, on different records (D-254): to the store they are like commits of
 * several instances. There a commit does not check the records that a claim only depends on, if they were read at most
 * 1 s before (D-255). In a store that no other process has open, a commit does not check again a record that an earlier one
 * has checked, while no record of its kind is written (D-262).
 *
 * A commit whose call fails or is late may have taken effect, or may still do so (D-216).
 * - After an error its mark is read. When it has the commit's number, the claims of that commit have taken effect.
 * - When it has not, the batch is halved once, read again and committed again. The mark is read after the records, so a
 *   commit that takes effect late is either found by its mark or changes a record that the new commit checks.
 * - A claim is rejected with `StoreUnavailable` when the mark cannot be read or the second commit fails. It may still
 *   take effect. A later request has its own claim: the same nonce in another request is a replay.
 */
import { type Clock, systemClock } from "../../clock.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { BoundedMap } from "../../bounded_map.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { isUnwritten, type Moment, type WriteWatch } from "../write_watch.ts";
import {
  addWrite,
  applyAll,
  type BatchClaim,
  type BatchRecord,
  type CachedRecord,
  type ClaimResult,
  newer,
  rejectIfWrong,
  untouched,
  type Update,
} from "./batch.ts";
import { ClaimQueue, type Queued } from "./claim_queue.ts";
import { CommitMarks, type Mark, MARK_KEPT_MS } from "./commit_marks.ts";
import { countedCommit } from "./counted_commit.ts";
import { JoiningClaims } from "./joining_claims.ts";
import { StoreUnavailable } from "./store_errors.ts";

export { absent, addWrite } from "./batch.ts";
export type { ClaimResult, RecordChange, Update, Write } from "./batch.ts";

interface QueuedClaim extends Queued, BatchClaim {
  /** Commits that may have applied the claim: at most two. */
  doubts?: Mark[];
  /** The commit that was answered as a conflict: over a network its first try may have applied the claim (D-265). */
  conflict?: Mark;
  resolve(fate: ClaimResult<unknown>): void;
}

/** Options of a group commit. */
export interface GroupCommitOptions {
  clock?: Clock;
  /** Key of the marks of this instance. Without it, a commit whose response is lost counts as failed. */
  markKey?: Deno.KvKey;
  metrics?: Metrics;
  /** Most commits in flight; default 1. */
  inFlight?: number;
  /** How long a record may be relied on without a check, milliseconds; default 0: every commit checks it (D-255). */
  reliedMs?: number;
  /** The writes of a store that this process alone has open; without it every commit checks what it depends on (D-262). */
  writes?: WriteWatch | null;
}

/** An attempt to commit: its slot, its number, and whether an error may still halve the batch. */
interface Try {
  slot: number;
  attempt: number;
  maySplit: boolean;
}

/** Collects claims and commits them in batches. */
export class GroupCommit {
  readonly #kv: Deno.Kv;
  readonly #queue: ClaimQueue<QueuedClaim>;
  /** Numbers of the commits that may begin now. */
  readonly #freeSlots: number[];
  readonly #clock: Clock;
  readonly #marks: CommitMarks;
  readonly #joining: JoiningClaims;
  readonly #metrics: Metrics | undefined;
  readonly #reliedMs: number;
  readonly #writes: WriteWatch | null;
  /** Records that commits of this instance wrote or held, by key; the next claim on one needs no read. */
  readonly #known = new BoundedMap<string, CachedRecord>(REMEMBERED);
  #willCommit = false;

  constructor(kv: Deno.Kv, maxChecks: number, options: GroupCommitOptions = {}) {
    const { clock = systemClock, markKey, metrics, inFlight = 1, reliedMs = 0, writes = null } = options;
    this.#kv = kv;
    this.#queue = new ClaimQueue(maxChecks);
    this.#freeSlots = Array.from({ length: inFlight }, (_, i) => i);
    this.#clock = clock;
    this.#marks = new CommitMarks(kv, markKey);
    this.#joining = new JoiningClaims(clock, this.#queue, () => this.#commitAll());
    this.#metrics = metrics;
    this.#reliedMs = reliedMs;
    this.#writes = writes;
  }

  /** True when commits check each record that a claim depends on, so that a cached one may be used. */
  get checksAll(): boolean {
    return this.#reliedMs === 0;
  }

  /** Wait of the oldest claim that a request waits for, milliseconds. */
  get oldestWaitMs(): number {
    const since = this.#queue.oldest;
    return since === undefined ? 0 : Math.max(0, this.#clock.now() - since);
  }

  /**
   * Adds a claim. Resolves after its commit, or when a current record refuses it. A claim that `mayWait` joins the next
   * commit, or begins one after 20 ms. Later claims see its change at once, reads of the store after its commit.
   *
   * @throws {StoreUnavailable} when the store fails, when conflicts do not end, when too many claims wait, or when one
   * waits too long for a commit to begin
   */
  claim<R>(updates: readonly Update<R>[], { mayWait = false } = {}): Promise<ClaimResult<R>> {
    const now = this.#clock.now();
    // A claim behind a late commit on its record does not count: claims on other records pass it.
    if (this.#queue.size >= LIMITS.claimsWaiting || now - (this.#queue.oldestUnblocked ?? now) > LIMITS.claimWaitMs) {
      return Promise.reject(new StoreUnavailable(new Error("Too many claims wait, or one for too long")));
    }
    const result = new Promise<ClaimResult<R>>((resolve, reject) => {
      const recordIds = updates.map(({ key }) => idOf(key));
      const relied = this.checksAll ? NONE : new Set(recordIds.filter((_, i) => updates[i]?.seenAt !== undefined));
      const ids = relied.size === 0 ? recordIds : recordIds.filter((id) => !relied.has(id));
      const bytes = updates.reduce((sum, update) => sum + (update.bytes ?? 0), 0);
      const settle = { resolve: resolve as QueuedClaim["resolve"], reject };
      this.#queue.add({ updates, recordIds, relied, ids, bytes, since: now, mayWait, ...settle });
      if (mayWait || this.#willCommit || this.#freeSlots.length === 0) return;
      this.#willCommit = true;
      queueMicrotask(() => {
        this.#willCommit = false;
        this.#fillSlots();
      });
    });
    if (mayWait) this.#joining.add(result);
    return result;
  }

  /** Commits the claims that may wait now. Resolves when each of them has its result. */
  async flush(): Promise<void> {
    this.#commitAll();
    await this.#joining.ended();
  }

  /** Returns the record after the last commit of this instance. A claim that uses a stale record is evaluated again. */
  cachedRecord(key: Deno.KvKey): Deno.KvEntryMaybe<unknown> | undefined {
    return this.#known.get(idOf(key)) as Deno.KvEntryMaybe<unknown> | undefined;
  }

  #commitAll(): void {
    this.#queue.makeAllDue();
    this.#fillSlots();
  }

  /** Begins commits until every slot is in use, every waiting claim must wait for one in flight, or none is due. */
  #fillSlots(): void {
    while (this.#freeSlots.length > 0 && this.#queue.isDue) {
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
      mark = this.#marks.next(now.slot);
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
    this.#marks.newKeys();
    await this.#commit(batch.slice(0, half), now);
    await this.#commit(batch.slice(half), now);
  }

  /** Handles an error: rejects the claims that caused it and halves the others once, or rejects all of them. */
  async #afterError(batch: readonly QueuedClaim[], { slot, attempt, maySplit }: Try, error: unknown): Promise<void> {
    this.#marks.newKeys();
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
    const done = await this.#marks.found([...doubts]);
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
    const oldest = this.#clock.now() - this.#reliedMs;
    for (const { updates, recordIds, relied } of batch) {
      for (const [i, { key, seen, seenAt = 0 }] of updates.entries()) {
        const id = recordIds[i] ?? "";
        if (entries.has(id) || unknown.has(id)) continue;
        const isTooOld = isFresh || relied.has(id) && seenAt < oldest;
        const known = isTooOld ? undefined : relied.has(id) ? seen : newer(this.#known.get(id), seen);
        if (known) entries.set(id, untouched(known));
        else unknown.set(id, key);
      }
    }
    // A record that is relied on would be older after a read of others: it is read with them.
    if (unknown.size > 0) {
      for (const id of batch.flatMap(({ relied }) => [...relied])) {
        const entry = entries.get(id);
        if (entry && entries.delete(id)) unknown.set(id, entry.key);
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
    const concerned: [string, BatchRecord, Moment | null][] = [];
    for (const [id, entry] of entries) {
      const { key, versionstamp, change, also, checkedAt } = entry;
      if (!change && (!entry.isHeld || checkedAt && isUnwritten(checkedAt))) continue;
      concerned.push([id, entry, change ? null : this.#writes?.momentOf(key) ?? null]);
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
    for (const [id, entry, moment] of concerned) {
      this.#known.delete(id);
      if (result.ok && !entry.uncached && entry.value !== null) {
        const versionstamp = entry.change ? result.versionstamp : entry.versionstamp;
        this.#known.set(id, { key: entry.key, value: entry.value, versionstamp, checkedAt: moment });
      }
    }
    return result.ok;
  }
}

const REMEMBERED = 5_000;
const NONE: ReadonlySet<string> = new Set();

/** Returns a key as one text. No two keys of a table differ only by a NUL or by the type of a part. */
function idOf(key: Deno.KvKey): string {
  return key.join("\0");
}
