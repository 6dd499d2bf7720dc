/** Repeats a change of records until its commit meets no other change. */
import { type Clock, sleep } from "../../clock.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { fraction, type Random } from "../../random.ts";
import { StoreUnavailable } from "./store_errors.ts";

/** One try of an optimistic change: the operation to commit, and what the change results in. */
export interface CommitAttempt<T> {
  operation: Deno.AtomicOperation;
  result: T;
}

/**
 * Repeats a change until its commit meets no other: read, judge, commit, at most ten times, with a pause that grows.
 *
 * @param attempt reads anew and judges; what it throws ends the change
 * @throws {StoreUnavailable} when the records stay contended
 */
export async function commitOptimistically<T>(
  deps: { clock: Clock; random: Random },
  attempt: () => CommitAttempt<T> | Promise<CommitAttempt<T>>,
): Promise<T> {
  for (let tries = 1; tries <= LIMITS.commitRetries; tries++) {
    if (tries > 2) await sleep(deps.clock, fraction(deps.random) * 2 ** tries);
    const { operation, result } = await attempt();
    if ((await operation.commit()).ok) return result;
  }
  throw new StoreUnavailable(new Error("The records stayed contended"));
}
