/**
 * Claims on records, and the records of one batch of them. Pure: reads and writes no store; group_commit.ts commits.
 */
import type { AtomicOperation, KvEntryMaybe, KvKey } from "../kv.ts";
import type { Moment } from "../write_watch.ts";

/** A key that is written or deleted without a check, together with a checked record. */
export type Write = { key: KvKey; value: unknown; expireInMs: number } | { key: KvKey; delete: true };

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

/** The update of one record. `next` gets the record or `null`. Each attempt calls it again, so it must be pure. */
export interface Update<R> {
  readonly key: KvKey;
  /** The key as `idOf` returns it, once it was needed. */
  id?: string;
  next(current: unknown): RecordChange<R>;
  /** The record as the caller has read it, which saves a read. If it is stale, the claim is evaluated again. */
  seen?: KvEntryMaybe<unknown>;
  /**
   * For an update that never writes: a time before `seen` was read, milliseconds since the Unix epoch. Over a network
   * the commit does not check the record; it is read again when it is over 1 s old.
   */
  seenAt?: number;
  /**
   * For an update that never writes and that many claims share: the record as a commit has checked it, and since when
   * no record of its kind was written. While that is so, a commit neither looks for the record nor checks it.
   */
  held?: { value: unknown; at: Moment } | null;
  /** True for a record that is written once and not read again; it is not cached. */
  uncached?: true;
  /** Approximate bytes written, if many. */
  bytes?: number;
}

/** A record that is kept in memory as an object, and stored once for all claims of a commit that change it. */
export interface LiveRecord {
  readonly key: KvKey;
  /** The key as `idOf` returns it. */
  readonly id: string;
  readonly isLoaded: boolean;
  /** Versionstamp of the newest version that was read or written. */
  readonly versionstamp: string | null;
  /** Reads the record; resolves when it is loaded. @throws {StoreUnavailable} */
  load(): Promise<void>;
  /** Forgets what is not known to be stored, so the record is loaded again before its next use. */
  drop(): void;
  /** Returns what the commit stores. */
  pack(): { value: unknown; expireInMs: number; also: readonly Write[] };
  committed(versionstamp: string): void;
}

/** What a claim does with a live record. The record is loaded before this runs. */
export interface LiveChange<R> {
  readonly record: LiveRecord;
  /** Returns why the claim is refused, or `null`. Changes nothing that is stored. */
  judge?(): { refuse: R } | null;
  /** Changes the record once all updates of the claim were accepted. Without it the record is only read. */
  take?(): readonly Write[];
}

export type ClaimResult<R> = { taken: true } | { taken: false; refused: R };

export interface BatchClaim {
  updates: readonly Update<unknown>[];
  live: LiveChange<unknown> | undefined;
  /** True when the commit does not check the updates that have `seenAt`. */
  relies: boolean;
  reject(error: unknown): void;
}

/** Returns a record as absent without a read, because it rarely exists. The commit checks that. */
export function absent(key: KvKey): KvEntryMaybe<never> {
  return { key, value: null, versionstamp: null };
}

type StoredChange = Exclude<RecordChange<never>, "hold" | "keep" | { refuse: never }>;

export interface CachedRecord {
  key: KvKey;
  versionstamp: string | null;
  value: unknown;
}

/** A record of a batch, as the claims before have left it. */
export interface BatchRecord extends CachedRecord {
  /** The key as `idOf` returns it. */
  readonly id: string;
  /** The change by the batch, after a claim has changed the record. */
  change: StoredChange | null;
  isHeld: boolean;
  /** Shared updates that hold the record; `moment`: when no write of its kind was under way. */
  holders: Update<unknown>[] | null;
  moment: Moment | null;
  also: readonly Write[];
  /** True when every update writes the record only once. */
  uncached: boolean;
}

const NONE: readonly never[] = [];

export function untouched(id: string, { key, value, versionstamp }: CachedRecord): BatchRecord {
  return {
    id,
    key,
    value,
    versionstamp,
    change: null,
    isHeld: false,
    holders: null,
    moment: null,
    also: NONE,
    uncached: true,
  };
}

export function newer(a: CachedRecord | undefined, b: CachedRecord | undefined): CachedRecord | undefined {
  if (!a || !b) return a ?? b;
  return (a.versionstamp ?? "") >= (b.versionstamp ?? "") ? a : b;
}

export function addWrite(operation: AtomicOperation, key: KvKey, change: Write | StoredChange): void {
  if ("delete" in change) operation.delete(key);
  else operation.set(key, change.value, { expireIn: change.expireInMs });
}

/** Applies claims in order. A claim whose update throws is rejected with this error and left out. */
export function applyAll<C extends BatchClaim>(
  batch: readonly C[],
  entries: Map<string, BatchRecord>,
  changed: Map<LiveRecord, Write[]>,
): [C[], ClaimResult<unknown>[]] {
  const applied: C[] = [], fates: ClaimResult<unknown>[] = [], verdicts: Verdict[] = [];
  for (const claim of batch) {
    verdicts.length = 0;
    try {
      fates.push(apply(claim, entries, changed, verdicts));
      applied.push(claim);
    } catch (error) {
      claim.reject(error);
    }
  }
  return [applied, fates];
}

type Verdict = Exclude<RecordChange<never>, { refuse: never }>;

const TAKEN = { taken: true } as const;

/** Applies all updates of a claim to the batch's records, or none. `verdicts` is empty. */
function apply(
  { updates, relies, live }: BatchClaim,
  entries: Map<string, BatchRecord>,
  changed: Map<LiveRecord, Write[]>,
  verdicts: Verdict[],
): ClaimResult<unknown> {
  for (let i = 0; i < updates.length; i++) {
    const update = updates[i] as Update<unknown>, entry = entries.get(recordId(update));
    const verdict = update.next(entry ? entry.value : update.held?.value ?? null);
    if (typeof verdict === "object" && "refuse" in verdict) return { taken: false, refused: verdict.refuse };
    verdicts.push(verdict);
  }
  const refusal = live?.judge?.();
  if (refusal) return { taken: false, refused: refusal.refuse };
  if (live?.take) {
    const also = changed.get(live.record) ?? [];
    changed.set(live.record, also);
    const writes = live.take();
    if (writes.length > 0) also.push(...writes);
  }
  for (let i = 0; i < updates.length; i++) {
    const update = updates[i] as Update<unknown>, verdict = verdicts[i];
    const entry = entries.get(recordId(update));
    if (!entry || verdict === undefined || verdict === "keep" || isRelied(update, relies)) continue;
    entry.uncached &&= update.uncached === true;
    if (verdict === "hold") {
      entry.isHeld = true;
      if (update.held !== undefined) (entry.holders ??= []).push(update);
      continue;
    }
    entry.change = verdict;
    entry.value = "delete" in verdict ? null : verdict.value;
    if (verdict.also) entry.also = entry.also.concat(verdict.also);
  }
  return TAKEN;
}

/** Returns the key of an update as one text. */
export function recordId(update: Update<unknown>): string {
  return update.id ??= idOf(update.key);
}

/** Returns true when the commit does not check the record of an update. */
export function isRelied({ seenAt }: Update<unknown>, relies: boolean): boolean {
  return relies && seenAt !== undefined;
}

/** Returns a key as one text. Keys that differ only by a NUL or the type of a part get one text; no table has them. */
export function idOf(key: KvKey): string {
  return key.join("\0");
}
