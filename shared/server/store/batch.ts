/**
 * Claims on records, and the records of one batch of them. Pure: reads and writes no store. group_commit.ts commits a batch.
 */
import type { Moment } from "../write_watch.ts";
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
  /**
   * For an update that never writes: the time before `seen` was read, milliseconds since the Unix epoch. Over a network the
   * commit does not check the record; it is read again when it is over 1 s old (D-255).
   */
  seenAt?: number;
  /** True for a record that is written once and not read again; it is not cached. */
  uncached?: true;
  /** Approximate bytes written, if many. */
  bytes?: number;
}

/** Result of a claim: taken, or refused by one of its updates. */
export type ClaimResult<R> = { taken: true } | { taken: false; refused: R };

/** A claim of a batch. */
export interface BatchClaim {
  updates: readonly Update<unknown>[];
  /** The record of each update, by key. */
  recordIds: readonly string[];
  /** Those of `recordIds` that the commit does not check. */
  relied: ReadonlySet<string>;
  reject(error: unknown): void;
}

/** Stands for an absent record, which saves a read of a record that rarely exists. */
export function absent(key: Deno.KvKey): Deno.KvEntryMaybe<never> {
  return { key, value: null, versionstamp: null };
}

/** A cached record. */
export interface CachedRecord {
  key: Deno.KvKey;
  versionstamp: string | null;
  value: unknown;
  /** The record is unchanged while none of its kind was written since (D-262). */
  checkedAt?: Moment | null;
}

/** A record of a batch, as the claims before have left it. */
export interface BatchRecord extends CachedRecord {
  /** The change by the batch, after a claim has changed the record. */
  change: Exclude<RecordChange<never>, "hold" | "keep" | { refuse: never }> | null;
  isHeld: boolean;
  also: Write[];
  /** True when every update writes the record only once. */
  uncached: boolean;
}

/** Returns a record that no claim has changed. */
export function untouched({ key, value, versionstamp, checkedAt = null }: CachedRecord): BatchRecord {
  return { key, value, versionstamp, checkedAt, change: null, isHeld: false, also: [], uncached: true };
}

/** Returns the later of two versions of a record. */
export function newer(a: CachedRecord | undefined, b: CachedRecord | undefined): CachedRecord | undefined {
  if (!a || !b) return a ?? b;
  return (a.versionstamp ?? "") >= (b.versionstamp ?? "") ? a : b;
}

/** Adds a write to a commit. */
export function addWrite(operation: Deno.AtomicOperation, change: Write): void {
  if ("delete" in change) operation.delete(change.key);
  else operation.set(change.key, change.value, { expireIn: change.expireInMs });
}

/** Applies claims in order. A claim whose update throws is rejected with this error and left out. */
export function applyAll<C extends BatchClaim>(
  batch: readonly C[],
  entries: Map<string, BatchRecord>,
): [C[], ClaimResult<unknown>[]] {
  const applied: C[] = [], fates: ClaimResult<unknown>[] = [];
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

/** Applies all updates of a claim to the batch's records, or none. */
function apply(claim: BatchClaim, entries: Map<string, BatchRecord>): ClaimResult<unknown> {
  const verdicts: [BatchRecord, Update<unknown>, Exclude<RecordChange<never>, "keep" | { refuse: never }>][] = [];
  for (const [i, update] of claim.updates.entries()) {
    const id = claim.recordIds[i] ?? "";
    const entry = entries.get(id);
    if (!entry) continue;
    const verdict = update.next(entry.value);
    if (typeof verdict === "object" && "refuse" in verdict) return { taken: false, refused: verdict.refuse };
    if (verdict !== "keep" && !claim.relied.has(id)) verdicts.push([entry, update, verdict]);
  }
  for (const [entry, { uncached }, verdict] of verdicts) {
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

/** Rejects a claim that the store refuses regardless of the rest of its commit. Returns false for any other claim. */
export function rejectIfWrong(claim: BatchClaim, error: unknown): boolean {
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
