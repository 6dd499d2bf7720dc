/**
 * The part of a health check that concerns the store: the store can be read and written, and no claim waits over 5 s
 * for its commit (D-216). The check takes at most 5 s, because a store that does not answer would otherwise leave it
 * without a result.
 */
import type { Kv, KvKey } from "../kv.ts";
import type { Clock } from "../../clock.ts";
import type { GroupCommit } from "./group_commit.ts";
import { withDeadline } from "./store_errors.ts";

/**
 * How long a claim or the check itself may take. With more, a service that cannot commit gets requests for longer; with
 * less, one slow commit takes it out of use.
 */
export const HEALTHY_MS = 5_000;
/** Time between two writes. With less, each health check of each client would write to the store. */
export const PROBE_MS = 5_000;
/** How long the record of a probe is kept. With more, the probes of ended instances would stay in the store. */
const PROBE_KEPT_SECONDS = 3_600;

export class StoreProbe {
  /** Time and result of the newest write. */
  #wroteAt = -Infinity;
  #written: Promise<unknown> = Promise.resolve();
  /** The check under way. */
  #look: Promise<boolean> | null = null;

  constructor(
    private readonly deps: { kv: Kv; clock: Clock; commits: GroupCommit },
    private readonly key: KvKey,
  ) {}

  /**
   * Tells whether the store works. Checks that are made at the same time share a read, because a stranger with hundreds
   * of connections could otherwise keep the commits of messages waiting. It writes at most once in 5 s and uses the last
   * result in between, because the health checks of many clients would otherwise write all the time.
   */
  async works(): Promise<boolean> {
    const { clock, commits } = this.deps;
    if (commits.oldestWaitMs > HEALTHY_MS) return false;
    this.#look ??= withDeadline(clock, HEALTHY_MS, () => this.#readAndWrite())
      .then(() => true, () => false).finally(() => this.#look = null);
    return await this.#look;
  }

  async #readAndWrite(): Promise<void> {
    const { kv, clock } = this.deps;
    await kv.get(this.key);
    const now = clock.now();
    if (Math.abs(now - this.#wroteAt) >= PROBE_MS) {
      this.#wroteAt = now;
      this.#written = kv.set(this.key, now, { expireIn: PROBE_KEPT_SECONDS * 1000 });
    }
    await this.#written;
  }
}
