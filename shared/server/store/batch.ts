/**
 * Claims on records, and the records of a batch of claims as the claims change them. Nothing here reads or writes the
 * store; group_commit.ts commits.
 */
import type { AtomicOperation, KvEntryMaybe, KvKey } from "../kv.ts";
import type { Moment } from "../write_watch.ts";

/** A key that is written or deleted without a check, together with a record that is checked. */
export type Write = { key: KvKey; value: unknown; expireInMs: number } | { key: KvKey; delete: true };

/**
 * The result of an update. `also` is written together with the new value. `"hold"` keeps the record, and the commit
 * requires that it is unchanged. `"keep"` keeps it without that condition.
 */
export type RecordChange<R> =
  | { value: unknown; expireInMs: number; also?: readonly Write[] }
  | { delete: true; also?: readonly Write[] }
  | { refuse: R }
  | "hold"
  | "keep";

/**
 * The update of one record. `next` gets the record, or `null` without one. It must have no side effects, because each
 * attempt to commit calls it again.
 */
export interface Update<R> {
  readonly key: KvKey;
  /** The key as `idOf` returns it; set when it was first needed. */
  id?: string;
  next(current: unknown): RecordChange<R>;
  /** The record as the caller has read it, which saves a read. If it is out of date, the claim is evaluated again. */
  seen?: KvEntryMaybe<unknown>;
  /**
   * Only for an update that never writes, over a network: a time before `seen` was read, milliseconds since the Unix
   * epoch. The commit does not check such a record; the record is read again if it is over 1 s old.
   */
  seenAt?: number;
  /**
   * Only for an update that never writes and that many claims share: the record as a commit has checked it, and the
   * moment since which no record of its kind was written. While that is so, a commit neither reads the record nor
   * checks it.
   */
  held?: { value: unknown; at: Moment } | null;
  /** True for a record that is written once and never read again, so it is not cached. */
  uncached?: true;
  /** Approximate number of bytes written, if there are many. */
  bytes?: number;
}

/** A record that is kept in memory as an object. It is stored once for all claims of a commit that change it. */
export interface LiveRecord {
  readonly key: KvKey;
  /** The key as `idOf` returns it. */
  readonly id: string;
  readonly isLoaded: boolean;
  /** Versionstamp of the newest version that was read or written. */
  readonly versionstamp: string | null;
  /** Reads the record, and resolves when it is loaded. @throws {StoreUnavailable} */
  load(): Promise<void>;
  /** Forgets everything that may not be stored, so that the record is loaded again before its next use. */
  drop(): void;
  /**
   * Forgets what a commit that met another version would have stored. Returns true when that version is known without
   * reading, and shows that the commit has not taken effect.
   */
  undo(): boolean;
  /** Returns what the commit stores. */
  pack(): { value: unknown; expireInMs: number; also: readonly Write[] };
  committed(versionstamp: string): void;
}

/** What a claim does with a live record. The record is loaded before this runs. */
export interface LiveChange<R> {
  readonly record: LiveRecord;
  /**
   * Returns why the claim is refused, or `null`. It must change nothing that is stored, because a refused claim would
   * otherwise have an effect.
   */
  judge?(): { refuse: R } | null;
  /** Changes the record, once all updates of the claim were accepted. Without it, the record is only read. */
  take?(): readonly Write[];
}

export type ClaimResult<R> = { taken: true } | { taken: false; refused: R };

export interface BatchClaim {
  updates: readonly Update<unknown>[];
  live: LiveChange<unknown> | undefined;
  reject(error: unknown): void;
}

/** Returns a record as absent without a read, for records that rarely exist. The commit checks that it is absent. */
export function absent(key: KvKey): KvEntryMaybe<never> {
  return { key, value: null, versionstamp: null };
}

type StoredChange = Exclude<RecordChange<never>, "hold" | "keep" | { refuse: never }>;

export interface CachedRecord {
  key: KvKey;
  versionstamp: string | null;
  value: unknown;
}

/** A record of a batch, as the earlier claims of the batch have left it. */
export interface BatchRecord extends CachedRecord {
  /** The key as `idOf` returns it. */
  readonly id: string;
  /** What the batch changes in the record; `null` until a claim changes it. */
  change: StoredChange | null;
  isHeld: boolean;
  /** Shared updates that hold the record. `moment` is a time at which no write of its kind was under way. */
  holders: Update<unknown>[] | null;
  moment: Moment | null;
  also: readonly Write[];
  /** True while every update of the record is `uncached`. */
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

/** Applies claims in order. If an update of a claim throws, the claim is rejected with that error and left out. */
export function applyAll<C extends BatchClaim>(
  batch: readonly C[],
  entries: Map<string, BatchRecord>,
  changed: Map<LiveRecord, Write[]>,
): [C[], ClaimResult<unknown>[]] {
  const applied: C[] = [], fates: ClaimResult<unknown>[] = [];
  for (const claim of batch) {
    try {
      fates.push(apply(claim, entries, changed));
      applied.push(claim);
    } catch (error) {
      claim.reject(error);
    }
  }
  return [applied, fates];
}

type Verdict = Exclude<RecordChange<never>, { refuse: never }>;

const TAKEN = { taken: true } as const;

/** Applies all updates of a claim to the records of the batch, or none. */
function apply(
  { updates, live }: BatchClaim,
  entries: Map<string, BatchRecord>,
  changed: Map<LiveRecord, Write[]>,
): ClaimResult<unknown> {
  const found: (BatchRecord | undefined)[] = [], verdicts: Verdict[] = [];
  for (let i = 0; i < updates.length; i++) {
    const update = updates[i] as Update<unknown>, entry = entries.get(recordId(update));
    const verdict = update.next(entry ? entry.value : update.held?.value ?? null);
    if (isRefusal(verdict)) return { taken: false, refused: verdict.refuse };
    found.push(entry);
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
    const update = updates[i] as Update<unknown>, verdict = verdicts[i], entry = found[i];
    if (!entry || verdict === undefined || verdict === "keep" || isRelied(update)) continue;
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

export function isRefusal<R>(change: RecordChange<R>): change is { refuse: R } {
  return typeof change === "object" && "refuse" in change;
}

/** Returns the key of an update as one text. */
export function recordId(update: Update<unknown>): string {
  return update.id ??= idOf(update.key);
}

/** Tells whether the commit relies on the record of an update without a check. */
export function isRelied({ seenAt }: Update<unknown>): boolean {
  return seenAt !== undefined;
}

/**
 * Returns a key as one text. Two keys get the same text if they differ only by a NUL or by the type of a part, but no
 * key table has such keys.
 */
export function idOf(key: KvKey): string {
  return key.join("\0");
}
