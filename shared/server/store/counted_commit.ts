/** Commits an operation and counts its result. */
import type { Metrics } from "../metrics/metrics.ts";

/** Returns what the store answers. Without metrics nothing is counted. */
export async function countedCommit(
  operation: Deno.AtomicOperation,
  metrics: Metrics | undefined,
): Promise<Deno.KvCommitResult | Deno.KvCommitError> {
  try {
    const result = await operation.commit();
    metrics?.count("store_commits_total", result.ok ? "ok" : "conflict");
    return result;
  } catch (error) {
    metrics?.count("store_commits_total", "error");
    throw error;
  }
}
