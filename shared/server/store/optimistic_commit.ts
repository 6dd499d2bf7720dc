/** Retries a change of records until no other change conflicts with its commit (D-197, D-208). */
import { type Clock, sleep } from "../../clock.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { fraction, type Random } from "../../random.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { countedCommit } from "./counted_commit.ts";
import { StoreUnavailable } from "./store_errors.ts";

/** One attempt of a change: the operation to commit and the result of the change. */
export interface CommitAttempt<T> {
  operation: Deno.AtomicOperation;
  result: T;
}

type Attempt<T> = CommitAttempt<T> | { done: T };

/**
 * Returns the result of a change after its commit. Repeats the attempt on a conflict, at most 10 times, with a growing
 * random pause from the third attempt on.
 *
 * @param attempt reads the records and prepares the commit, or returns `done` when there is nothing to commit; an
 * exception ends the change
 * @throws {StoreUnavailable} when every attempt met a conflict
 */
export async function commitOptimistically<T>(
  deps: { clock: Clock; random: Random; metrics?: Metrics },
  attempt: () => Attempt<T> | Promise<Attempt<T>>,
): Promise<T> {
  for (let tries = 1; tries <= LIMITS.commitRetries; tries++) {
    if (tries > 2) await sleep(deps.clock, fraction(deps.random) * 2 ** tries);
    const outcome = await attempt();
    if ("done" in outcome) return outcome.done;
    if ((await countedCommit(outcome.operation, deps.metrics)).ok) return outcome.result;
  }
  throw new StoreUnavailable(new Error("The records stayed contended"));
}
