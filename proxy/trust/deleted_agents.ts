/**
 * Removes the pairs of an agent, and the record of its last connection, when a revocation list names it as deleted,
 * because it would otherwise use up quotas of its peers and count as offline. Every instance does this, in commits of a
 * few pairs, and skips pairs that another instance has removed. The store keeps the time up to which deletions are
 * processed. A start repeats the hour before that time, because a crash could otherwise lose a removal.
 */
import type { KvEntryMaybe } from "../../shared/server/kv.ts";
import type { ServiceDeps } from "../../shared/server/http/app.ts";
import { sleep, yieldToEventLoop } from "../../shared/clock.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { unixSeconds } from "../../shared/protocol/time.ts";
import { fraction } from "../../shared/random.ts";
import { KEYS } from "../schema/kv_keys.ts";
import type { PairCount } from "../schema/records.ts";
import { pairsOf, writeCount } from "./store.ts";

interface PairRemovalDeps extends Pick<ServiceDeps, "kv" | "clock" | "log" | "random" | "maxChecks"> {
  /** Times of deletion by agent DID in the newest revocation list, unix seconds. */
  crl: { readonly deletedAgents: ReadonlyMap<string, number> };
}

/** Pairs in one commit. With more, the keys could pass 80 KiB with long DIDs, and the store would refuse it. */
const PAIRS_AT_ONCE = 25;
/** Allowance for clock differences between registry instances and for the duration of a commit, seconds. */
const OVERLAP_SECONDS = 3_600;
/** Delay of the second check, milliseconds. A confirmation that ran during the deletion has ended by then. */
const SECOND_CHECK_MS = 60_000;
const AGENTS_PER_TURN = 1_000;
/** How many peers one read serves: each has two records, and a read has at most ten keys. */
const PEERS_PER_READ = 5;

export class PairRemoval {
  /** Deleted agents whose pairs are removed. It is the map of the list that was processed last. */
  #done: ReadonlyMap<string, number> | null = null;
  /** Agents to check a second time. */
  #recent: string[] = [];
  #isDue = false;
  #running: Promise<void> | null = null;
  readonly #stopped = new AbortController();

  constructor(private readonly deps: PairRemovalDeps) {}

  stop(): void {
    this.#stopped.abort();
  }

  /** Handles a new list. Resolves when the pairs of all its deleted agents are removed. */
  listed(): Promise<void> {
    this.#isDue = true;
    this.#running ??= this.#run();
    return this.#running;
  }

  /** Removes the pairs of deleted agents of another registry. Never rejects, because its next list tries again. */
  async visitorsListed(authority: string, deleted: ReadonlyMap<string, number>): Promise<void> {
    try {
      // Goes through the agents with pairs here and not through the list, which a hostile registry can make very long.
      for await (const { key } of this.deps.kv.list(KEYS.pairCountsOf(authority))) {
        if (this.#stopped.signal.aborted) return;
        if (deleted.has(String(key.at(-1)))) await this.#removeAll(String(key.at(-1)));
      }
    } catch (cause) {
      this.deps.log("warn", "pair_removal_failed", { cause });
    }
  }

  async #run(): Promise<void> {
    for (let failures = 0; this.#isDue && !this.#stopped.signal.aborted;) {
      this.#isDue = false;
      try {
        await this.#workOff(this.deps.crl.deletedAgents);
        failures = 0;
      } catch (cause) {
        this.deps.log("warn", "pair_removal_failed", { cause });
        this.#isDue = true;
        const wait = Math.min(LIMITS.mailboxRetryMs * 2 ** Math.min(failures++, 10), LIMITS.mailboxRetryMaxMs);
        await sleep(this.deps.clock, wait, this.#stopped.signal);
      }
    }
    // Cleared here and not when the promise resolves, because a list that comes in between would wait for the next
    // list.
    this.#running = null;
  }

  async #workOff(deleted: ReadonlyMap<string, number>): Promise<void> {
    const { kv, clock } = this.deps;
    if (deleted === this.#done || deleted.size === 0) return;
    const mark = (await kv.get<number>(KEYS.pairsEnded())).value ?? 0;
    const now = unixSeconds(clock.now());
    const from = this.#done === null ? mark - OVERLAP_SECONDS : 0;
    let newest = mark, seen = 0;
    for (const [agentDid, deletedAt] of deleted) {
      if (++seen % AGENTS_PER_TURN === 0) await yieldToEventLoop();
      if (this.#stopped.signal.aborted) return;
      newest = Math.max(newest, deletedAt);
      if (deletedAt < from || this.#done?.has(agentDid)) continue;
      await this.#removeAll(agentDid);
      if (deletedAt > now - OVERLAP_SECONDS) this.#recent.push(agentDid);
    }
    // Bounded by the present time, because a registry clock that is ahead would make a later start skip deletions.
    const next = Math.min(newest, now);
    if (next > mark) await kv.set(KEYS.pairsEnded(), next);
    this.#done = deleted;
    if (this.#recent.length > 0) void this.#checkAgainLater();
  }

  async #checkAgainLater(): Promise<void> {
    const agentDids = this.#recent.splice(0);
    await sleep(this.deps.clock, SECOND_CHECK_MS, this.#stopped.signal);
    try {
      for (const agentDid of agentDids) await this.#removeAll(agentDid);
    } catch (cause) {
      this.deps.log("warn", "pair_removal_failed", { cause });
      // Checked once more, because no later list has these agents as new ones, and their pairs would stay.
      this.#recent.push(...agentDids);
      if (!this.#stopped.signal.aborted) void this.#checkAgainLater();
    }
  }

  async #removeAll(agentDid: string): Promise<void> {
    const { clock, random } = this.deps;
    while (!this.#stopped.signal.aborted) {
      const result = await this.#removeSome(agentDid);
      if (result === "none") return;
      // Tried again after a wait, because another instance removes the same pairs, or a peer confirms another pair.
      if (result === "conflict") await sleep(clock, 1 + fraction(random) * 50, this.#stopped.signal);
    }
  }

  /** Commits the removal of some pairs in both directions with the new counts of the peers. */
  async #removeSome(agentDid: string): Promise<"none" | "some" | "conflict"> {
    const { kv, maxChecks } = this.deps;
    const limit = Math.min(PAIRS_AT_ONCE, maxChecks);
    const pairs = await Array.fromAsync(kv.list({ prefix: KEYS.pairs(agentDid) }, { limit, batchSize: limit }));
    const operation = kv.atomic();
    if (pairs.length === 0) {
      const rest = await kv.getMany<unknown[]>([KEYS.pairCount(agentDid), KEYS.seen(agentDid)]);
      for (const { key, value } of rest) if (value !== null) await kv.delete(key);
      return "none";
    }
    const peers = pairs.map(({ key }) => String(key.at(-1)));
    for (let i = 0; i < peers.length; i += PEERS_PER_READ) {
      const keys = peers.slice(i, i + PEERS_PER_READ).map((peer) => [KEYS.pairCount(peer), KEYS.pair(agentDid, peer)]);
      // Pair and count come from one read, because a pair removed between two reads would be subtracted twice.
      const entries = await kv.getMany<unknown[]>(keys.flat());
      for (let k = 0; k < entries.length; k += 2) {
        const [count, pair] = entries.slice(k, k + 2) as [KvEntryMaybe<PairCount>, KvEntryMaybe<unknown>];
        if (pair.value === null) continue;
        writeCount(operation.check(count), count, pairsOf(count) - 1);
        operation.delete(pair.key).delete(KEYS.pair(String(pair.key.at(-1)), agentDid));
      }
    }
    return (await operation.commit()).ok ? "some" : "conflict";
  }
}
