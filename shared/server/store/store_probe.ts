/**
 * The store part of a health check: the store can be read and written (D-220), and no claim waits over 5 s for its commit
 * (D-216). A check takes at most 5 s, also when the store does not respond.
 */
import type { Clock } from "../../clock.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { GroupCommit } from "./group_commit.ts";
import { withDeadline } from "./store_errors.ts";

interface StoreProbeDeps {
  kv: Deno.Kv;
  clock: Clock;
  commits: GroupCommit;
}

export class StoreProbe {
  readonly #deps: StoreProbeDeps;
  /** Key of the probe record. */
  readonly #key: Deno.KvKey;
  /** Time and result of the newest probe write. */
  #wroteAt = -Infinity;
  #written: Promise<unknown> = Promise.resolve();

  constructor(deps: StoreProbeDeps, key: Deno.KvKey) {
    this.#deps = deps;
    this.#key = key;
  }

  /** Returns true when the store works. Writes at most once in 5 s; between two writes the last result is used. */
  async works(): Promise<boolean> {
    const { kv, clock, commits } = this.#deps;
    if (commits.oldestWaitMs > LIMITS.claimHealthyMs) return false;
    try {
      return await withDeadline(clock, LIMITS.claimHealthyMs, async () => {
        await kv.get(this.#key);
        await this.#write();
        return true;
      });
    } catch {
      return false;
    }
  }

  #write(): Promise<unknown> {
    const { kv, clock } = this.#deps;
    const now = clock.now();
    if (Math.abs(now - this.#wroteAt) < LIMITS.storeProbeMs) return this.#written;
    this.#wroteAt = now;
    return this.#written = kv.set(this.#key, now, { expireIn: LIMITS.storeProbeSeconds * 1000 });
  }
}
