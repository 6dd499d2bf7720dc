import type { AtomicOperation, KvCommitError, KvCommitResult } from "../kv.ts";
import type { Metrics } from "../metrics/metrics.ts";

/** Commits an operation, counts its result, and returns what the store answers. Without metrics nothing is counted. */
export async function countedCommit(
  operation: AtomicOperation,
  metrics: Metrics | undefined,
): Promise<KvCommitResult | KvCommitError> {
  try {
    const result = await operation.commit();
    metrics?.count("store_commits_total", result.ok ? "ok" : "conflict");
    return result;
  } catch (error) {
    metrics?.count("store_commits_total", "error");
    throw error;
  }
}
