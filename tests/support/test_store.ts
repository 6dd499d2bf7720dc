/**
 * The empty store of one test: in memory, or a denokv of its own in a run with `--store denokv`. The tests are the
 * same; over the network a commit holds at most ten checks.
 */
import { LIMITS } from "../../shared/protocol/limits.ts";

/** Variable with the address that gives a new database for each request. */
export const DATABASES = "SVC_TEST_DATABASES";

/** Time after `close` in which calls of the test that are still under way can end. */
const GRACE_MS = 1_000;

const databases = granted(DATABASES) ? Deno.env.get(DATABASES) : undefined;

/** True when the stores of this run are reached over the network. */
export const IS_REMOTE = databases !== undefined;

/** Most checks of one commit of a test's store. */
export const MAX_CHECKS = IS_REMOTE ? LIMITS.commitChecksConnect : LIMITS.commitChecks;

/** Servers whose store is closed. */
const closed: { pid: number; at: number }[] = [];

/** Tests with a store in memory have no permission to read variables. */
function granted(variable: string): boolean {
  return Deno.permissions.querySync({ name: "env", variable }).state === "granted";
}

/** Opens a new, empty store. Its calls have no deadline: see `wrapStoreErrors`. */
export async function openTestKv(): Promise<Deno.Kv> {
  if (databases === undefined) return await Deno.openKv(":memory:");
  endClosed();
  const { address, pid } = await (await fetch(databases)).json() as { address: string; pid: number };
  const kv = await Deno.openKv(address);
  const close = kv.close.bind(kv);
  kv.close = kv[Symbol.dispose] = () => {
    close();
    closed.push({ pid, at: performance.now() });
  };
  return kv;
}

function endClosed(): void {
  while (closed[0] && performance.now() - closed[0].at > GRACE_MS) {
    try {
      Deno.kill(closed.shift()!.pid, "SIGKILL");
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
}
