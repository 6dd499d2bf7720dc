/**
 * Delivers mailboxes (D-68): the messages of each connected recipient one after the other, with trust and revocation
 * checked again. A sweep dead-letters expired messages. A message stays queued while the store or the registry fails.
 */
import { type Clock, sleep } from "../../shared/clock.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import type { Log } from "../../shared/server/log.ts";
import type { Metrics } from "../../shared/server/metrics/metrics.ts";
import type { CrlCache } from "../admission/crl_cache.ts";
import { arePaired } from "../trust/store.ts";
import type { ConnectedAgents } from "./connected_agents.ts";
import type { Mailbox } from "./mailbox.ts";
import type { MailboxEntry } from "../schema/records.ts";
import type { SenderStatus } from "./sender_status.ts";

/** Expired messages that are dead-lettered at the same time. */
const SWEPT_TOGETHER = 20;

interface DrainDeps {
  kv: Deno.Kv;
  clock: Clock;
  log: Log;
  metrics: Metrics;
  hub: ConnectedAgents;
  crl: CrlCache;
  senders: SenderStatus;
  mailbox: Mailbox;
  ackTimeoutMs: number;
}

export class MailboxDelivery {
  readonly #deps: DrainDeps;
  /** Recipients whose mailbox is being delivered; each promise resolves at the end. */
  readonly #lines = new Map<string, Promise<void>>();
  /** Recipients that got a message during the delivery, possibly after its last read. */
  readonly #again = new Set<string>();
  /** Acknowledged messages that are being removed. */
  readonly #removals = new Set<Promise<void>>();
  readonly #stopped = new AbortController();
  #cancelSweep = () => {};
  /** When the queued messages are counted again, milliseconds since the Unix epoch. */
  #measureAt = 0;

  constructor(deps: DrainDeps) {
    this.#deps = deps;
  }

  /** Returns a promise for the end of a mailbox delivery in progress. A message that may not queue waits for it. */
  inProgress(recipient: string): Promise<void> | undefined {
    return this.#lines.get(recipient);
  }

  /** Delivers the mailbox of a recipient that is connected here. */
  deliverTo(recipient: string): void {
    if (!this.#isConnected(recipient)) return;
    if (this.#lines.has(recipient)) {
      this.#again.add(recipient);
      return;
    }
    const line = this.#handOver(recipient).finally(() => {
      this.#lines.delete(recipient);
      if (this.#again.delete(recipient)) this.deliverTo(recipient);
    });
    this.#lines.set(recipient, line);
  }

  /** Starts the sweep. */
  start(): void {
    this.#cancelSweep = this.#deps.clock.after(LIMITS.mailboxSweepMs, async () => {
      try {
        await this.sweep();
        await this.#measure();
      } catch (cause) {
        this.#deps.log("warn", "mailbox_sweep_failed", { cause });
      }
      if (!this.#stopped.signal.aborted) this.start();
    });
  }

  /** Ends all deliveries and the sweep. Messages that were not acknowledged stay queued. */
  stop(): void {
    this.#stopped.abort();
    this.#cancelSweep();
  }

  /** Waits until the acknowledged messages are removed: a message that stays is delivered again. Never rejects. */
  async finish(): Promise<void> {
    await Promise.allSettled(this.#removals);
  }

  /**
   * Dead-letters every expired message.
   *
   * @throws {StoreUnavailable}
   */
  async sweep(): Promise<void> {
    const { mailbox } = this.#deps;
    let together: Promise<void>[] = [];
    for await (const entry of mailbox.expired()) {
      // Claims made together share commits.
      together.push(mailbox.deadLetter(entry));
      if (together.length < SWEPT_TOGETHER) continue;
      await Promise.all(together);
      together = [];
    }
    await Promise.all(together);
  }

  /** Refreshes the gauges over the store, when something reads them. A store that takes long is counted rarely. */
  async #measure(): Promise<void> {
    const { mailbox, metrics, clock } = this.#deps;
    if (!metrics.isRead || clock.now() < this.#measureAt) return;
    const took = await mailbox.measure();
    if (took > LIMITS.mailboxCountSlowMs) this.#measureAt = clock.now() + LIMITS.mailboxCountRareMs;
  }

  async #handOver(recipient: string): Promise<void> {
    const { mailbox, clock, log } = this.#deps;
    for (let failures = 0; this.#isConnected(recipient);) {
      let wait = 0;
      try {
        const entry = await mailbox.first(recipient);
        if (!entry) return;
        wait = await this.#handOverOne(entry, failures);
        failures = wait === 0 ? 0 : failures + 1;
      } catch (cause) {
        log("warn", "mailbox_hand_over_failed", { agentDid: recipient, cause });
        wait = backoff(failures++);
      }
      if (wait > 0) await sleep(clock, wait, this.#stopped.signal);
    }
  }

  /** Handles the oldest message. Returns the milliseconds to wait before the next read. */
  async #handOverOne(entry: MailboxEntry, failures: number): Promise<number> {
    const { mailbox, hub, clock, ackTimeoutMs } = this.#deps;
    const now = clock.now();
    if (now >= entry.expiresAt || !(await this.#isStillAllowed(entry))) {
      await mailbox.deadLetter(entry);
      return 0;
    }
    if (now < entry.notBefore) return entry.notBefore - now;
    const message = await mailbox.load(entry);
    const session = hub.session(entry.message.toAgentDid);
    if (!session || this.#stopped.signal.aborted) return 0;
    if (!message) {
      // The message was removed, which makes this a no-op, or it is incomplete and would block the mailbox.
      await mailbox.deadLetter(entry);
      return 0;
    }
    const isStillAllowed = () => this.#isStillAllowed(entry);
    const outcome = await session.deliver(message, ackTimeoutMs, isStillAllowed, entry.nacks);
    if (!outcome.acked) return backoff(failures);
    if (outcome.accepted) {
      this.#deps.metrics.count("relay_handovers_total", "delivered");
      const removal = mailbox.remove(entry);
      this.#removals.add(removal);
      await removal.finally(() => this.#removals.delete(removal));
      return 0;
    }
    this.#deps.metrics.count("relay_handovers_total", "nacked");
    const noted = await mailbox.noteNack(entry);
    if (noted.nacks < LIMITS.mailboxNacks) return noted.notBefore - clock.now();
    await mailbox.deadLetter(noted);
    return 0;
  }

  /**
   * Returns true while the sender is paired with the recipient, and neither deleted nor revoked.
   *
   * @throws {RegistryUnavailable} when the status of the sender is not known: the message stays queued
   * @throws {StoreUnavailable}
   */
  async #isStillAllowed({ message }: MailboxEntry): Promise<boolean> {
    const { kv, crl, senders } = this.#deps;
    const { fromAgentDid, toAgentDid, identity } = message;
    if (!(await arePaired(kv, fromAgentDid, toAgentDid))) return false;
    if (await crl.isSenderRevoked(fromAgentDid, identity.aitJti)) return false;
    return await senders.isActive(identity);
  }

  #isConnected(recipient: string): boolean {
    return !this.#stopped.signal.aborted && this.#deps.hub.session(recipient) !== undefined;
  }
}

function backoff(failures: number): number {
  return Math.min(LIMITS.mailboxRetryMs * 2 ** failures, LIMITS.mailboxRetryMaxMs);
}
