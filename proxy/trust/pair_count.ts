/**
 * The number of pairs of an agent, stored in a record of its own (D-215). Every commit that changes a pair checks and
 * writes the counts of both agents. A missing count is computed from the pairs once.
 */
import { KEYS } from "../schema/kv_keys.ts";
import type { PairCount } from "../schema/records.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { StoreUnavailable } from "../../shared/server/store/store_errors.ts";

/** Time that an empty count is kept, milliseconds. It is longer than any request, so that a running request detects the change. */
const KEPT_EMPTY_MS = 3_600_000;

/**
 * Returns the count of an agent. An unknown count is computed from the pairs and stored at once, so that a request after
 * a refusal does not read the pairs again.
 *
 * @throws {StoreUnavailable} when the pairs keep changing
 */
export async function knownCount(
  kv: Deno.Kv,
  agentDid: string,
  entry: Deno.KvEntryMaybe<PairCount>,
): Promise<{ entry: Deno.KvEntryMaybe<PairCount>; pairs: number }> {
  for (let tries = 1; tries <= LIMITS.commitRetries; tries++) {
    if (entry.value && entry.value.pairs !== null) return { entry, pairs: entry.value.pairs };
    let pairs = 0;
    for await (const _ of kv.list({ prefix: KEYS.pairs(agentDid) }, { batchSize: 500 })) pairs++;
    if (pairs === 0) return { entry, pairs };
    const operation = kv.atomic();
    setCount(operation, entry, pairs);
    await operation.commit();
    entry = await kv.get<PairCount>(entry.key);
  }
  throw new StoreUnavailable(new Error("The pairs stayed contended"));
}

/** Adds a new count to a commit. The commit fails if the count has changed since it was read. */
export function setCount(
  operation: Deno.AtomicOperation,
  entry: Deno.KvEntryMaybe<PairCount>,
  pairs: number | null,
): void {
  const value: PairCount = { pairs: pairs === null ? null : Math.max(0, pairs) };
  operation.check(entry).set(entry.key, value, value.pairs ? {} : { expireIn: KEPT_EMPTY_MS });
}
