/**
 * Combines many small claims into one atomic commit. A claim is a list of record updates without side effects. It is
 * applied completely or rejected, and gets its own result. Claims that arrive during a commit form the next batch, and
 * a claim for which no request waits may wait for a commit of others. Nonces, rate-limit windows and delivery records
 * are written only here, because another writer would miss the claims that wait.
 *
 * Over a network several commits run at a time, on different records, and the store treats them like commits of several
 * instances. Such a commit does not check the records on which a claim only depends, if they were read at most 1 s
 * before. In a store that no other process has open, a record that one commit has checked is not checked again for at
 * most a second, as long as no record of its kind is written.
 *
 * A commit whose call fails or is late may have taken effect, or may still do so (D-216):
 * - After an error its mark is read. If the mark has the number of the commit, the claims of that commit have taken
 *   effect.
 * - If not, the batch is read again and committed again in halves: once after a fault of the store, and after a
 *   defect of a claim until that claim is alone. The mark is read after the records, so a commit that takes effect late
 *   is either found by its mark, or changes a record that the new commit checks.
 * - A claim is rejected with the error of its commit when it was alone in it, when the mark cannot be read, or when the
 *   second commit fails. After a fault of the store it may still take effect. A later request has a claim of its own,
 *   so the same nonce in another request is a replay.
 * - A claim ends after 10 s in any case, because its sender gives up soon after. A commit that is late is not tried
 *   again in halves, because each half would be as late, and the claims behind it would wait for both.
 */
import type { Kv, KvEntryMaybe, KvKey } from "../kv.ts";
import { readAtOnce } from "./batched_reads.ts";
import { type Cancel, type Clock, systemClock, yieldToEventLoop } from "../../clock.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { BoundedMap } from "../../bounded_map.ts";
import { countedCommit, type Metrics } from "../metrics/metrics.ts";
import { isUnwritten, type WriteWatch } from "../write_watch.ts";
import {
  addWrite,
  applyAll,
  type BatchClaim,
  type BatchRecord,
  type CachedRecord,
  type ClaimResult,
  idOf,
  isRelied,
  type LiveChange,
  type LiveRecord,
  newer,
  recordId,
  untouched,
  type Update,
  type Write,
} from "./batch.ts";
import { ClaimQueue, type Queued } from "./claim_queue.ts";
import { CommitMarks, type Mark, MARK_KEPT_MS } from "./commit_marks.ts";
import { StoreBusy, StoreLate, StoreUnavailable } from "./store_errors.ts";

/** Most claims that wait. More could not be committed before their deadline, and would only hold memory. */
export const CLAIMS_WAITING_MAX = 10_000;
/** Once the oldest claim has waited this long, new ones are refused. With more, callers give up before the commit. */
export const CLAIM_WAIT_MS = 3_000;
/**
 * How long a claim that may wait does so. With more, a crash leaves more outcomes unwritten; with less, such a claim
 * rarely finds a commit to join.
 */
export const JOINING_WAIT_MS = 20;

interface QueuedClaim extends Queued, BatchClaim {
  /** Marks of the commits that may have applied the claim. */
  doubts?: Mark[];
  promise: Promise<unknown>;
  resolve(fate: ClaimResult<unknown>): void;
}

export interface GroupCommitOptions {
  clock?: Clock;
  /** The beginning of the keys of this instance's marks. Without it, a commit whose answer is lost counts as failed. */
  markKey?: KvKey;
  metrics?: Metrics;
  /** Most commits that run at a time (default 1). */
  inFlight?: number;
  /** How long a record may be relied on without a check, milliseconds. With 0, the default, every commit checks it. */
  reliedMs?: number;
  /** Sees the writes of a store that only this process has open. Without it, every commit checks what it depends on. */
  writes?: WriteWatch | null;
}

/** An attempt to commit: its slot, its number, and whether the batch may still be halved after an error. */
interface Try {
  slot: number;
  attempt: number;
  /** True to read the records from the store, because cached ones may have caused the failure before. */
  isFresh: boolean;
  maySplit: boolean;
}

export class GroupCommit {
  readonly #queue: ClaimQueue<QueuedClaim>;
  /** Slots of the commits that may begin now. */
  readonly #freeSlots: number[];
  readonly #clock: Clock;
  readonly #marks: CommitMarks;
  /** Records that commits of this instance wrote or held, by key, so that the next claim on one needs no read. */
  readonly #known = new BoundedMap<string, CachedRecord>(REMEMBERED);
  #willCommit = false;
  #willJoin = false;
  /** Stops the timer for the oldest claim. */
  #cancelDeadline: Cancel | null = null;

  /** True when no commit trusts a record only because it was just read (`seenAt`), so readers may use cached ones. */
  readonly checksAll: boolean;

  constructor(
    private readonly kv: Kv,
    private readonly maxChecks: number,
    private readonly options: GroupCommitOptions = {},
  ) {
    const { clock = systemClock, markKey, inFlight = 1, reliedMs = 0 } = options;
    this.#queue = new ClaimQueue(maxChecks);
    this.#freeSlots = Array.from({ length: inFlight }, (_, i) => i);
    this.#clock = clock;
    this.#marks = new CommitMarks(kv, markKey);
    this.checksAll = reliedMs === 0;
  }

  /** How long the oldest claim for which a request waits has waited, milliseconds. */
  get oldestWaitMs(): number {
    return Math.max(0, this.#clock.now() - this.#queue.oldest);
  }

  /**
   * Adds a claim. Resolves after its commit, or when a record in its present state refuses the claim. A claim with
   * `mayWait` joins the next commit, or begins one after 20 ms. A claim may read or change at most one live record.
   * Later claims see that change at once; reads of the store see it after the commit.
   *
   * @throws {StoreUnavailable} when the store fails, when conflicts do not end, when too many claims wait, when one
   * waits too long for a commit to begin, or after 10 s
   */
  claim<R>(
    updates: readonly Update<R>[],
    { live, mayWait = false }: { live?: LiveChange<R> | undefined; mayWait?: boolean } = {},
  ): Promise<ClaimResult<R>> {
    const now = this.#clock.now();
    // A claim that waits behind a late commit on its record does not count, because claims on other records pass it.
    if (this.#queue.size >= CLAIMS_WAITING_MAX || now - (this.#queue.oldestUnblocked ?? now) > CLAIM_WAIT_MS) {
      return Promise.reject(new StoreBusy(new Error("Too many claims wait, or one for too long")));
    }
    const { promise, resolve, reject } = Promise.withResolvers<ClaimResult<R>>();
    const ids: string[] = live ? [live.record.id] : [];
    let bytes = 0;
    for (let i = 0; i < updates.length; i++) {
      const update = updates[i] as Update<R>;
      bytes += update.bytes ?? 0;
      const isShared = update.held !== undefined && this.options.writes;
      if (!isShared && !isRelied(update)) ids.push(recordId(update));
    }
    const settle = resolve as QueuedClaim["resolve"];
    this.#queue.add({ updates, live, ids, bytes, since: now, mayWait, promise, resolve: settle, reject });
    this.#cancelDeadline ??= this.#clock.after(WAIT_MS, () => this.#endOverdue());
    if (mayWait) this.#commitLater(JOINING_WAIT_MS);
    if (mayWait || this.#willCommit || this.#freeSlots.length === 0) return promise;
    this.#willCommit = true;
    const begin = () => {
      this.#willCommit = false;
      this.#fillSlots();
    };
    if (this.#queue.gathers) void yieldToEventLoop().then(begin);
    else queueMicrotask(begin);
    return promise;
  }

  /**
   * Commits the claims that wait to join another commit, after `ms` milliseconds. Only one timer runs at a time. It
   * runs on even when a commit has taken its claims meanwhile, because that costs less than cancelling it for each
   * commit.
   */
  #commitLater(ms: number): void {
    if (this.#willJoin) return;
    this.#willJoin = true;
    this.#clock.after(ms, () => {
      this.#willJoin = false;
      const since = this.#queue.waitingSince;
      if (since === undefined) return;
      const rest = since + JOINING_WAIT_MS - this.#clock.now();
      // If the clock was set back, the claims are committed now, because they would otherwise wait that much longer.
      if (rest > 0 && rest <= JOINING_WAIT_MS) this.#commitLater(rest);
      else this.#commitAll();
    });
  }

  /** Rejects claims that have waited 10 s, because their callers have given up, and sets the timer for the next. */
  #endOverdue(): void {
    const now = this.#clock.now();
    for (const claim of this.#queue.takeOverdue(now - WAIT_MS, now)) {
      claim.reject(new StoreLate(new Error(`No commit within ${WAIT_MS} ms`)));
    }
    const rest = this.#queue.oldestOpen + WAIT_MS - now;
    this.#cancelDeadline = rest === Infinity ? null : this.#clock.after(Math.max(1, rest), () => this.#endOverdue());
  }

  /**
   * Commits even the claims that may wait. Resolves when each claim that was made before has its result. It does not
   * wait for later claims, because under load there is always another one, and its caller would never get an answer.
   */
  async flush(): Promise<void> {
    const before = this.#queue.open().map(({ promise }) => promise);
    this.#commitAll();
    await Promise.allSettled(before);
  }

  /** Returns the record as this instance last committed it. If it is stale, a claim that uses it is evaluated again. */
  cachedRecord(key: KvKey): KvEntryMaybe<unknown> | undefined {
    return this.#known.get(idOf(key)) as KvEntryMaybe<unknown> | undefined;
  }

  #commitAll(): void {
    this.#queue.makeAllDue();
    this.#fillSlots();
  }

  /** Begins commits until every slot is in use, every waiting claim waits for a running commit, or none is needed. */
  #fillSlots(): void {
    while (this.#freeSlots.length > 0 && this.#queue.isDue) {
      const batch = this.#queue.take();
      if (batch.length === 0) return;
      void this.#useSlot(this.#freeSlots.pop() ?? 0, batch);
    }
  }

  async #useSlot(slot: number, batch: readonly QueuedClaim[]): Promise<void> {
    await this.#commit(batch, { slot, attempt: 1, isFresh: false, maySplit: true });
    this.#queue.done(batch);
    this.#freeSlots.push(slot);
    if (!this.#willCommit) this.#fillSlots();
    if (this.#queue.size > 0) return;
    this.#cancelDeadline?.();
    this.#cancelDeadline = null;
  }

  async #commit(whole: readonly QueuedClaim[], now: Try): Promise<void> {
    const { isFresh } = now;
    let batch = whole.some(({ isOver }) => isOver) ? whole.filter(({ isOver }) => !isOver) : whole;
    if (batch.length === 0) return;
    let fates: ClaimResult<unknown>[] = [], refused: QueuedClaim[] = [], mark: Mark | undefined;
    let known: ReadonlySet<LiveRecord> = NO_RECORDS;
    const changed = new Map<LiveRecord, Write[]>();
    const doubt = () => {
      for (const [i, claim] of batch.entries()) if (mark && fates[i]?.taken) (claim.doubts ??= []).push(mark);
    };
    try {
      let entries = await this.#entries(batch, isFresh);
      if (isFresh) { for (const { live } of batch) live?.record.drop(); }
      // While one record is read, another may be dropped, or a held one written, so all are looked at again. The marks
      // are read after the records.
      for (let isInDoubtStill = batch.some(isInDoubt);;) {
        const loading = loadAll(batch);
        if (loading) {
          await loading;
          isInDoubtStill = batch.some(isInDoubt);
        } else if (isInDoubtStill) {
          const seen = new Map(batch.map(({ live }) => [live?.record, live?.record.versionstamp]));
          batch = await this.#undoubted(batch);
          // A version that another instance has told since may contain the commit in doubt. Its claims would be refused
          // as replays.
          isInDoubtStill = batch.some((one) =>
            isInDoubt(one) && one.live?.record.versionstamp !== seen.get(one.live?.record)
          );
        } else if (this.#isOutdated(batch, entries)) entries = await this.#entries(batch, isFresh);
        else break;
      }
      if (this.#isTooLarge(batch, entries) || hasTwins(batch)) return await this.#split(batch, now);
      [batch, fates] = applyAll(batch, entries, changed);
      mark = this.#marks.next(now.slot);
      this.options.metrics?.observe("store_batch_claims", batch.length);
      const held = batch, read = entries;
      const written = await this.#write(entries, changed, mark, () => !this.#isOutdated(held, read));
      if (written.ok) {
        refused = isFresh ? [] : batch.filter((_, i) => !fates[i]?.taken);
        batch.forEach((claim, i) => {
          const fate = fates[i] ?? { taken: true };
          if (fate.taken || isFresh) claim.resolve(fate);
        });
        if (refused.length === 0) return;
      } else known = written.known;
      // Deno sends a commit over the network again if its answer was lost. The second then conflicts with the first.
      if (!written.ok && known.size === 0) doubt();
    } catch (error) {
      doubt();
      return await this.#afterError(batch, now, error);
    }
    const next = { ...now, attempt: now.attempt + 1, isFresh: true };
    // Another instance was first, and has told what it stored, so nothing is read. The claims on these records are
    // tried again alone and after the others, because the others would otherwise fail, or wait, with each further
    // change.
    if (known.size > 0) {
      const isMet = ({ live }: QueuedClaim) => live !== undefined && known.has(live.record);
      await this.#commit(batch.filter((claim) => !isMet(claim)), { ...now, isFresh: false });
      return await this.#commit(batch.filter(isMet), { ...now, isFresh: false });
    }
    if (refused.length > 0) return await this.#commit(refused, next);
    // A cached record was out of date. The whole batch is tried again, because its other claims would otherwise fail
    // too.
    if (!isFresh) return await this.#commit(batch, next);
    // Claims on one live record stay together for a while, because each half would meet the same conflict.
    const record = batch[0]?.live?.record, isOneRecord = record && batch.every(({ live }) => live?.record === record);
    const staysWhole = isOneRecord && now.attempt < LIMITS.commitRetries / 2;
    if (batch.length > 1 && !staysWhole) return await this.#split(batch, next);
    if (now.attempt < LIMITS.commitRetries) return await this.#commit(batch, next);
    batch[0]?.reject(new StoreBusy(new Error("Conflicts did not end")));
  }

  async #split(batch: readonly QueuedClaim[], now: Try): Promise<void> {
    const half = batch.length >> 1;
    this.#marks.newKeys();
    await this.#commit(batch.slice(0, half), now);
    await this.#commit(batch.slice(half), now);
  }

  /** Handles an error: halves the batch, or rejects its claims. */
  async #afterError(batch: readonly QueuedClaim[], { slot, attempt, maySplit }: Try, error: unknown): Promise<void> {
    this.#marks.newKeys();
    for (const { ids, live } of batch) {
      live?.record.drop();
      for (const id of ids) this.#known.delete(id);
    }
    const rest = await this.#undoubted(batch).catch(() => {
      maySplit = false;
      return batch;
    });
    if (maySplit && !(error instanceof StoreLate) && batch.length > 1) {
      // A defect of one claim is no fault of the store, so the batch is halved until that claim is alone.
      return await this.#split(rest, {
        slot,
        attempt: attempt + 1,
        isFresh: true,
        maySplit: !(error instanceof StoreUnavailable),
      });
    }
    for (const claim of rest) claim.reject(error);
  }

  /** Resolves the claims of earlier commits that took effect although their answer was lost. Returns the others. */
  async #undoubted(batch: readonly QueuedClaim[]): Promise<readonly QueuedClaim[]> {
    const marks = new Set(batch.flatMap(({ doubts = [] }) => doubts));
    if (marks.size === 0) return batch;
    const done = await this.#marks.found([...marks]);
    const rest: QueuedClaim[] = [];
    for (const claim of batch) {
      if (claim.doubts?.some((mark) => done.has(mark))) claim.resolve({ taken: true });
      else rest.push(claim);
    }
    return rest;
  }

  /** Returns the records of a batch, from the cache or the store. */
  async #entries(batch: readonly QueuedClaim[], isFresh: boolean): Promise<Map<string, BatchRecord>> {
    const entries = new Map<string, BatchRecord>();
    const unknown = new Map<string, KvKey>();
    const now = this.#clock.now(), oldest = now - (this.options.reliedMs ?? 0);
    for (const { updates } of batch) {
      for (const update of updates) {
        const { key, seen, seenAt = 0, held } = update;
        if (!isFresh && held && isUnwritten(held.at, now)) continue;
        const id = recordId(update);
        if (entries.has(id) || unknown.has(id)) continue;
        const isTaken = isRelied(update), isTooOld = isFresh || isTaken && seenAt < oldest;
        const known = isTooOld ? undefined : isTaken ? seen : newer(this.#known.get(id), seen);
        if (known) entries.set(id, untouched(id, known));
        else unknown.set(id, key);
      }
    }
    // If other records must be read, those that are relied on are read again with them, because they would be older
    // after that read.
    if (unknown.size > 0 && !this.checksAll) {
      for (const update of batch.flatMap(({ updates }) => updates)) {
        if (isRelied(update) && entries.delete(recordId(update))) unknown.set(recordId(update), update.key);
      }
    }
    if (unknown.size === 0) return entries;
    const ids = [...unknown.keys()], keys = [...unknown.values()];
    (await readAtOnce<unknown>(this.kv, keys)).forEach((entry, i) => {
      const id = ids[i] ?? "";
      entries.set(id, untouched(id, entry));
    });
    return entries;
  }

  /** Tells whether a record of these claims is neither in `entries` nor held. */
  #isOutdated(batch: readonly QueuedClaim[], entries: ReadonlyMap<string, BatchRecord>): boolean {
    const now = this.#clock.now();
    for (const { updates } of batch) {
      for (const update of updates) {
        if (update.held && !isUnwritten(update.held.at, now) && !entries.has(recordId(update))) return true;
      }
    }
    return false;
  }

  /** Tells whether a commit would have too many checks, because some records are no longer held. */
  #isTooLarge(batch: readonly QueuedClaim[], entries: ReadonlyMap<string, BatchRecord>): boolean {
    if (!this.options.writes || batch.length === 1 || entries.size + batch.length <= this.maxChecks) return false;
    return entries.size + new Set(batch.flatMap(({ live }) => live?.record ?? [])).size > this.maxChecks;
  }

  async #write(
    entries: Map<string, BatchRecord>,
    changed: Map<LiveRecord, Write[]>,
    mark: Mark | undefined,
    mayRepeat: () => boolean,
  ): Promise<{ ok: boolean; known: ReadonlySet<LiveRecord> }> {
    let isChange = false;
    const began = this.#clock.now();
    const operation = this.kv.atomic();
    const concerned: BatchRecord[] = [];
    for (const entry of entries.values()) {
      const { key, change, also } = entry;
      if (!change && !entry.isHeld) continue;
      concerned.push(entry);
      if (entry.holders) entry.moment = this.options.writes?.momentOf(key, began) ?? null;
      operation.check(entry);
      if (!change) continue;
      isChange = true;
      addWrite(operation, key, change);
      for (const more of also) addWrite(operation, more.key, more);
    }
    for (const [record, more] of changed) {
      isChange = true;
      const { value, expireInMs, also } = record.pack();
      operation.check(record).set(record.key, value, { expireIn: expireInMs });
      for (const write of also) addWrite(operation, write.key, write);
      for (const write of more) addWrite(operation, write.key, write);
    }
    if (concerned.length === 0 && !isChange) return { ok: true, known: NO_RECORDS };
    if (mark && isChange) {
      addWrite(operation, mark.key, { value: mark.number, expireInMs: MARK_KEPT_MS });
    }
    const result = await countedCommit(operation, this.options.metrics, {
      mayRepeat,
      mark: isChange ? mark : undefined,
    });
    this.options.metrics?.observe("store_commit_seconds", (this.#clock.now() - began) / 1000);
    for (const entry of concerned) {
      const { id, key, value, change } = entry;
      this.#known.delete(id);
      if (!result.ok) continue;
      // If this commit has changed the record, its holders have not seen the new value.
      const at = change ? null : entry.moment;
      for (const update of entry.holders ?? []) update.held = at && { value, at };
      if (entry.uncached || value === null) continue;
      this.#known.set(id, { key, value, versionstamp: change ? result.versionstamp : entry.versionstamp });
    }
    const known = new Set<LiveRecord>();
    for (const record of changed.keys()) {
      if (result.ok) record.committed(result.versionstamp);
      else if (record.undo()) known.add(record);
    }
    return { ok: result.ok, known };
  }
}

/** Tells whether an earlier commit may have applied the claim. */
function isInDoubt({ doubts }: QueuedClaim): boolean {
  return doubts !== undefined;
}

/**
 * Tells whether claims have different objects of one live record, because it was forgotten and read again between them.
 * In one commit the second object would overwrite what the first has stored, and a nonce would be accepted twice.
 */
function hasTwins(batch: readonly QueuedClaim[]): boolean {
  if (batch.length < 2) return false;
  const records = new Map<string, LiveRecord>();
  for (const { live } of batch) {
    if (!live) continue;
    const { record } = live, other = records.get(record.id);
    if (other === undefined) records.set(record.id, record);
    else if (other !== record) return true;
  }
  return false;
}

/** Loads the live records of claims that are not in memory; `null` when all are. */
function loadAll(batch: readonly QueuedClaim[]): Promise<unknown> | null {
  let loading: Map<LiveRecord, Promise<void>> | null = null;
  for (const { live } of batch) {
    if (live && !live.record.isLoaded) (loading ??= new Map()).set(live.record, live.record.load());
  }
  return loading && Promise.all(loading.values());
}

const NO_RECORDS: ReadonlySet<LiveRecord> = new Set();
const REMEMBERED = 5_000;
/**
 * How long a claim may take. With more, a sender has given up before its answer; with less, claims on a slow disk are
 * refused in vain.
 */
const WAIT_MS = LIMITS.commitWaitMs;
