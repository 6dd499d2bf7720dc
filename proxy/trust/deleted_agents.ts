/**
 * Removes the pairs of an agent, and the record of its last connection, when a revocation list names it as deleted,
 * because it would otherwise use up quotas of its peers and count as offline. What waits for the agent is dead-lettered,
 * because its senders would otherwise be told for a day that it waits. Every instance does this, in commits of a few
 * records, and skips those that another instance has removed. The store keeps the time up to which deletions are
 * processed. A start repeats the hour before that time, because a crash could otherwise lose a removal.
 */
import type { ServiceDeps } from "../../shared/server/http/app.ts";
import { sleep, yieldToEventLoop } from "../../shared/clock.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { unixSeconds } from "../../shared/protocol/time.ts";
import { KEYS } from "../schema/kv_keys.ts";
import { endPair } from "./store.ts";
import type { MailboxEntry } from "../schema/records.ts";
import type { Changes } from "../../shared/server/store/changes.ts";

interface PairRemovalDeps extends Pick<ServiceDeps, "kv" | "clock" | "log"> {
  changes: Changes;
  mailbox: {
    after(recipient: string, number: number, limit: number): Promise<MailboxEntry[]>;
    deadLetter(entry: MailboxEntry): Promise<void>;
  };
  /** Times of deletion by agent DID in the newest revocation list, unix seconds. */
  crl: { readonly deletedAgents: ReadonlyMap<string, number> };
}

/** Pairs, and messages, that are removed at once. With more, a person who pairs at that time waits for more commits. */
const AT_ONCE = 25;
/** Allowance for clock differences between registry instances and for the duration of a commit, seconds. */
const OVERLAP_SECONDS = 3_600;
/** Delay of the second check, milliseconds. A confirmation that ran during the deletion has ended by then. */
const SECOND_CHECK_MS = 60_000;
const AGENTS_PER_TURN = 1_000;

export class PairRemoval {
  /** Deleted agents whose pairs are removed. It is the map of the list that was processed last. */
  #done: ReadonlyMap<string, number> | null = null;
  /** Agents to check a second time now. Each stays until that has succeeded, because no later list has it as new. */
  readonly #again = new Set<string>();
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
    for (const agentDid of this.#again) {
      await this.#removeAll(agentDid);
      this.#again.delete(agentDid);
    }
    if (deleted === this.#done || deleted.size === 0) return;
    const mark = (await kv.get<number>(KEYS.pairsEnded())).value ?? 0;
    const now = unixSeconds(clock.now());
    const from = this.#done === null ? mark - OVERLAP_SECONDS : 0;
    let newest = mark, seen = 0;
    const recent: string[] = [];
    for (const [agentDid, deletedAt] of deleted) {
      if (++seen % AGENTS_PER_TURN === 0) await yieldToEventLoop();
      newest = Math.max(newest, deletedAt);
      if (deletedAt < from || this.#done?.has(agentDid)) continue;
      await this.#removeAll(agentDid);
      if (deletedAt > now - OVERLAP_SECONDS) recent.push(agentDid);
    }
    // After a stop the removals did nothing, and the list would otherwise count as processed at the next start.
    if (this.#stopped.signal.aborted) return;
    // Bounded by the present time, because a registry clock that is ahead would make a later start skip deletions.
    const next = Math.min(newest, now);
    if (next > mark) await kv.set(KEYS.pairsEnded(), next);
    this.#done = deleted;
    if (recent.length === 0) return;
    void sleep(clock, SECOND_CHECK_MS, this.#stopped.signal).then(() => {
      for (const agentDid of recent) this.#again.add(agentDid);
      return this.listed();
    });
  }

  /** Removes pairs and waiting messages of an agent a few at a time, and then what else the store has of it. */
  async #removeAll(agentDid: string): Promise<void> {
    const { kv, changes, mailbox } = this.deps;
    while (!this.#stopped.signal.aborted) {
      const pairs = await Array.fromAsync(kv.list({ prefix: KEYS.pairs(agentDid) }, { limit: AT_ONCE }));
      const waiting = await mailbox.after(agentDid, 0, AT_ONCE);
      if (pairs.length + waiting.length === 0) {
        const rest = await kv.getMany<unknown[]>([KEYS.pairCount(agentDid), KEYS.seen(agentDid)]);
        for (const { key, value } of rest) if (value !== null) await kv.delete(key);
        return;
      }
      await Promise.all([
        ...pairs.map(({ key }) => endPair(changes, agentDid, String(key.at(-1)))),
        ...waiting.map((entry) => mailbox.deadLetter(entry)),
      ]);
    }
  }
}
