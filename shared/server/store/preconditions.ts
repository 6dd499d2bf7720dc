/**
 * Preconditions of a claim (D-101): records that must be unchanged when the claim commits. A cached record may be used to
 * accept. A record that would cause a refusal is read from the store first. The commit makes the final check.
 */
import type { GroupCommit, Update } from "./group_commit.ts";
import type { BatchedReads } from "./batched_reads.ts";

/** The cache and the reader of records. */
export interface RecordReader {
  commits: GroupCommit;
  reads: BatchedReads;
}

/**
 * Returns the cached record if it is good, else the record read from the store.
 *
 * @param isGood pure
 */
export function readCached<T>(
  { commits, reads }: RecordReader,
  key: Deno.KvKey,
  isGood: (value: T | null) => boolean,
): Deno.KvEntryMaybe<T> | Promise<Deno.KvEntryMaybe<T>> {
  const known = commits.cachedRecord(key) as Deno.KvEntryMaybe<T> | undefined;
  return known && isGood(known.value) ? known : reads.get<T>(key);
}

/** Returns the update that requires an unchanged record. It refuses with `refuse` when the record is no longer good. */
export function requireUnchanged<T, R>(
  seen: Deno.KvEntryMaybe<T>,
  isGood: (value: T | null) => boolean,
  refuse: R,
): Update<R> {
  return { key: seen.key, seen, next: (current) => isGood(current as T | null) ? "hold" : { refuse } };
}
