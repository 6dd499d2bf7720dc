/**
 * The grounds of a decision (D-101): records that must stand for it, and must still stand when its claim takes effect. One that
 * this instance has seen stand need not be read for that; one that would refuse is read first. Never the last word: that
 * is the commit's.
 */
import type { GroupCommit, Update } from "./group_commit.ts";
import type { BatchedReads } from "./batched_reads.ts";

/** Where records are known from, and read. */
export interface RecordReader {
  commits: GroupCommit;
  reads: BatchedReads;
}

/**
 * A record as it was last seen here, if that will do, or as it is read now.
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

/** The update that holds a record to what was found; refuses when it no longer is. */
export function requireUnchanged<T, R>(
  seen: Deno.KvEntryMaybe<T>,
  isGood: (value: T | null) => boolean,
  refuse: R,
): Update<R> {
  return { key: seen.key, seen, next: (current) => isGood(current as T | null) ? "hold" : { refuse } };
}
