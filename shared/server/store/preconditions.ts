/**
 * Preconditions of a claim (D-101): records that must be unchanged when the claim commits. A cached record is enough to
 * accept; one that would cause a refusal is first read from the store. The commit makes the final check. Over a network
 * it has only ten checks, so there a precondition is instead read from the store at most 1 s before.
 */
import type { KvEntryMaybe, KvKey } from "../kv.ts";
import type { Update } from "./batch.ts";
import type { GroupCommit } from "./group_commit.ts";
import type { BatchedReads } from "./batched_reads.ts";

export interface RecordReader {
  commits: GroupCommit;
  reads: BatchedReads;
}

/** An access token with the agent and the AIT of its request. */
export interface AccessTokenCheck {
  accessToken: string;
  agentDid: string;
  aitJti: string;
}

/**
 * Checks an access token, for a proxy that shares process and store with the registry (D-63). Returns `null` for an
 * invalid token. For a valid one, it returns the updates that make a claim depend on the token being valid at its
 * commit; each of them refuses with `refuse`.
 */
export type CheckAccessToken = <R>(
  claim: AccessTokenCheck,
  records: RecordReader,
  refuse: R,
) => Promise<readonly Update<R>[] | null>;

/** Returns the cached record if it is good, or else the record in the store. */
export function readCached<T>(
  { commits, reads }: RecordReader,
  key: KvKey,
  isGood: (value: T | null) => boolean,
): KvEntryMaybe<T> | Promise<KvEntryMaybe<T>> {
  const known = commits.cachedRecord(key) as KvEntryMaybe<T> | undefined;
  return known && isGood(known.value) ? known : reads.get<T>(key);
}

/** Returns the record of a precondition: as `readCached()` does if commits check it, or else as it is in the store. */
export function readPrecondition<T>(
  records: RecordReader,
  key: KvKey,
  isGood: (value: T | null) => boolean,
): KvEntryMaybe<T> | Promise<KvEntryMaybe<T>> {
  return records.commits.checksAll ? readCached(records, key, isGood) : records.reads.get<T>(key);
}

/**
 * Returns the update that requires an unchanged record. Many claims may share it. It refuses with `refuse` when the
 * record is no longer good.
 *
 * @param seenAt a time before the record was read, milliseconds since the Unix epoch
 */
export function requireUnchanged<T, R>(
  { commits }: Pick<RecordReader, "commits">,
  seen: KvEntryMaybe<T>,
  seenAt: number,
  isGood: (value: T | null) => boolean,
  refuse: R,
): Update<R> {
  return {
    key: seen.key,
    seen,
    ...(commits.checksAll ? {} : { seenAt }),
    held: null,
    next: (current) => isGood(current as T | null) ? "hold" : { refuse },
  };
}
