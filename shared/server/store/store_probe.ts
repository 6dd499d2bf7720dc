/**
 * Whether the store works, as a health check reports it: it can be read, it can be written (D-220), and no claim waits
 * over 5 s for its commit (D-216). A check takes 5 s at most, also when the store hangs.
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
  /** The record that is written. */
  readonly #key: Deno.KvKey;
  /** When the newest probe was written, and what became of it. */
  #wroteAt = -Infinity;
  #written: Promise<unknown> = Promise.resolve();

  constructor(deps: StoreProbeDeps, key: Deno.KvKey) {
    this.#deps = deps;
    this.#key = key;
  }

  /** Reads and, once in 5 s, writes; between two writes the result of the last one stands. */
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
