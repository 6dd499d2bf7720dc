/**
 * How many pairs an agent has, in a record beside the pairs (D-215). Every commit that changes a pair checks and writes
 * the counts of both agents. A missing count is made from the pairs, once.
 */
import { KEYS } from "../keys.ts";

/** The count of one agent; `null` when pairs were removed from a count that was never made. */
export interface PairCount {
  pairs: number | null;
}

/** How long a count stays that says nothing. Longer than any request, so that a request in flight sees the change. */
const KEPT_EMPTY_MS = 3_600_000;

/** The number of an agent's pairs: as counted, or read from the pairs where no count was made yet. */
export async function countPairs(
  kv: Deno.Kv,
  agentDid: string,
  { value }: Deno.KvEntryMaybe<PairCount>,
): Promise<number> {
  if (value && value.pairs !== null) return value.pairs;
  let pairs = 0;
  for await (const _ of kv.list({ prefix: KEYS.pairs(agentDid) }, { batchSize: 500 })) pairs++;
  return pairs;
}

/** Adds a new count to a commit, which fails if the count has changed since it was read. */
export function setCount(
  operation: Deno.AtomicOperation,
  entry: Deno.KvEntryMaybe<PairCount>,
  pairs: number | null,
): void {
  const value: PairCount = { pairs: pairs === null ? null : Math.max(0, pairs) };
  operation.check(entry).set(entry.key, value, value.pairs ? {} : { expireIn: KEPT_EMPTY_MS });
}
