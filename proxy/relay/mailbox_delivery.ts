/**
 * Delivers mailboxes (D-68): the messages of each connected recipient one at a time, after trust and revocation are
 * checked again. Messages of one sender stay in order. Senders take turns, because a message for which its recipient
 * has no space would otherwise hold up the messages of all others. A sweep dead-letters expired messages. While the
 * store or the registry fails, a message stays queued.
 */
import { type Clock, repeat, sleep } from "../../shared/clock.ts";
import { TEMPORARY_REASONS } from "../../shared/protocol/frames.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import type { ProxyConfig } from "../config.ts";
import type { CrlCache } from "../admission/crl_cache.ts";
import { arePaired } from "../trust/store.ts";
import type { Visitors } from "../federation/visitors.ts";
import type { ConnectedAgents } from "./connected_agents.ts";
import { type Mailbox, retryWait } from "./mailbox.ts";
import type { MailboxEntry } from "../schema/records.ts";
import type { SenderStatus } from "./sender_status.ts";
import type { ServiceDeps } from "../../shared/server/http/app.ts";

/**
 * Time from one sweep to the next. With more, an expired message waits longer for its dead letter. With less, idle
 * mailboxes are read more often.
 */
const SWEEP_MS = 30_000;

/** How many expired messages are dead-lettered at the same time. With more, new messages wait for the store. */
const SWEPT_TOGETHER = 20;

interface MailboxDeliveryDeps extends Pick<ServiceDeps, "kv" | "clock" | "log" | "metrics"> {
  connectedAgents: ConnectedAgents;
  crl: CrlCache;
  senders: SenderStatus;
  visitors: Pick<Visitors, "mayStillSend">;
  mailbox: Mailbox;
  config: Pick<ProxyConfig, "registryUrl" | "ackTimeoutMs">;
}

/** The mailbox of a recipient while it is delivered. */
class Line {
  /** The queued messages of each sender, oldest first; the sender whose turn is next comes first. */
  readonly senders = new Map<string, MailboxEntry[]>();
  /** Number of the newest message that was read. */
  #read = 0;
  /** True when a message may have come since the last read began. */
  hasMore = true;
  #isReading = false;
  #wake = new AbortController();
  #step = Promise.withResolvers<void>();

  /** Returns a promise for the next change of the line, if the line may hold a message of a sender. */
  holds(sender: string): Promise<void> | undefined {
    return this.hasMore || this.#isReading || this.senders.has(sender) ? this.#step.promise : undefined;
  }

  /** Resolves the promises of `holds()`, because the line has changed. */
  changed(): void {
    this.#step.resolve();
    this.#step = Promise.withResolvers();
  }

  /** Ends the present `sleep()` of the line, or the next one. */
  wake(): void {
    this.#wake.abort();
  }

  async sleep(clock: Clock, ms: number): Promise<void> {
    await sleep(clock, ms, this.#wake.signal);
    if (this.#wake.signal.aborted) this.#wake = new AbortController();
  }

  /** Adds the messages that have come since the last read. @throws {StoreUnavailable} */
  async readMore(mailbox: Pick<Mailbox, "after">, recipient: string): Promise<void> {
    this.hasMore = false;
    this.#isReading = true;
    try {
      for (const entry of await mailbox.after(recipient, this.#read)) {
        const { fromAgentDid: sender } = entry.message;
        this.senders.set(sender, [...this.senders.get(sender) ?? [], entry]);
        this.#read = entry.number;
      }
    } finally {
      this.#isReading = false;
    }
  }

  /** Returns the first message that may be tried now, or else for how many milliseconds the earliest one waits. */
  next(now: number): MailboxEntry | number {
    let wait = Infinity;
    for (const [first] of this.senders.values()) {
      if (first === undefined) continue;
      const rest = Math.min(first.notBefore, first.expiresAt) - now;
      // A wait above the longest comes from a clock that stepped back, and would last for as long as the step.
      if (rest <= 0 || first.notBefore - now > LIMITS.mailboxRetryMaxMs) return first;
      wait = Math.min(wait, rest);
    }
    return wait;
  }

  /** Replaces the oldest message of a sender, or removes it (`null`). The other senders go first then. */
  replace({ message: { fromAgentDid: sender } }: MailboxEntry, entry: MailboxEntry | null): void {
    const [, ...later] = this.senders.get(sender) ?? [];
    const rest = entry === null ? later : [entry, ...later];
    this.senders.delete(sender);
    if (rest.length > 0) this.senders.set(sender, rest);
  }
}

export class MailboxDelivery {
  /** Mailboxes that are being delivered, by recipient. */
  readonly #lines = new Map<string, Line>();
  /** Acknowledged messages that are being removed. */
  readonly #removals = new Set<Promise<void>>();
  readonly #stopped = new AbortController();
  #cancelSweep = () => {};

  constructor(private readonly deps: MailboxDeliveryDeps) {}

  /**
   * Returns a promise for the next change of a mailbox that may hold a message of a sender, or `undefined`. A later
   * message of that sender waits for the change or is queued too, because it would otherwise overtake.
   */
  inProgress(recipient: string, sender: string): Promise<void> | undefined {
    return this.#lines.get(recipient)?.holds(sender);
  }

  /** Delivers the mailbox of a recipient that is connected here. */
  deliverTo(recipient: string): void {
    if (!this.#isConnected(recipient)) return;
    const line = this.#lines.get(recipient);
    if (line) {
      line.hasMore = true;
      return line.wake();
    }
    const begun = new Line();
    this.#lines.set(recipient, begun);
    void this.#handOver(recipient, begun);
  }

  start(): void {
    const { clock, log } = this.deps;
    const sweep = () => this.sweep().catch((cause) => log("warn", "mailbox_sweep_failed", { cause }));
    this.#cancelSweep = repeat(clock, () => SWEEP_MS, sweep);
  }

  /** Ends all deliveries and the sweep. Messages that were not acknowledged stay queued. */
  stop(): void {
    this.#stopped.abort();
    this.#cancelSweep();
    for (const line of this.#lines.values()) line.wake();
  }

  /** Waits until acknowledged messages are removed, because they would otherwise be delivered again. Never rejects. */
  async finish(): Promise<void> {
    await Promise.allSettled(this.#removals);
  }

  /**
   * Dead-letters every expired message.
   *
   * @throws {StoreUnavailable}
   */
  async sweep(): Promise<void> {
    const { mailbox } = this.deps;
    const together: MailboxEntry[] = [];
    // Claims that are made together share commits. They are awaited before the next read, because one could otherwise
    // fail before anything waits for it.
    const deadLetter = () => Promise.all(together.splice(0).map((entry) => mailbox.deadLetter(entry)));
    for await (const entry of mailbox.expired()) {
      if (together.push(entry) === SWEPT_TOGETHER) await deadLetter();
    }
    await deadLetter();
  }

  /** Delivers a mailbox until it is empty or the recipient has gone. Never rejects. */
  async #handOver(recipient: string, line: Line): Promise<void> {
    const { mailbox, clock, log } = this.deps;
    for (let failures = 0; this.#isConnected(recipient);) {
      let wait = 0;
      try {
        if (line.hasMore) await line.readMore(mailbox, recipient);
        const next = line.next(clock.now());
        if (next === Infinity && !line.hasMore) break;
        if (typeof next === "number") wait = next === Infinity ? 0 : next;
        else {
          wait = await this.#handOverOne(line, next, failures);
          failures = wait === 0 ? 0 : failures + 1;
        }
      } catch (cause) {
        log("warn", "mailbox_hand_over_failed", { agentDid: recipient, cause });
        line.hasMore = true;
        wait = retryWait(failures++);
      }
      line.changed();
      if (wait > 0) await line.sleep(clock, wait);
    }
    // Nothing is awaited before this, because a message that came meanwhile would join a line that no loop delivers.
    this.#lines.delete(recipient);
    line.changed();
  }

  /**
   * Handles the oldest message of a sender. Returns the milliseconds to wait before the next attempt for this
   * recipient, whose other senders wait too.
   */
  async #handOverOne(line: Line, entry: MailboxEntry, failures: number): Promise<number> {
    const { mailbox, connectedAgents, clock, config } = this.deps;
    const isOver = clock.now() >= entry.expiresAt || !(await this.#isStillAllowed(entry));
    const message = isOver ? null : await mailbox.load(entry);
    if (!message) {
      // The message is over, or incomplete and would block its sender. If it was removed, this has no effect.
      await mailbox.deadLetter(entry);
      line.replace(entry, null);
      return 0;
    }
    const sockets = connectedAgents.socketsOf(entry.message.toAgentDid);
    if (!sockets || this.#stopped.signal.aborted) return 0;
    // The socket stays open until the message is removed, because an instance to which the agent moves would otherwise
    // send the message again.
    let removal: Promise<void> | undefined;
    const outcome = await sockets.deliver(message, {
      timeoutMs: config.ackTimeoutMs,
      isStillAllowed: () => this.#isStillAllowed(entry),
      triedBefore: entry.nacks,
      after: (result) => result.acked && result.accepted ? removal = this.#remove(entry) : undefined,
    });
    if (!outcome.acked) return retryWait(failures);
    if (outcome.accepted) {
      this.deps.metrics.count("relay_handovers_total", "delivered");
      await removal;
      line.replace(entry, null);
      return 0;
    }
    this.deps.metrics.count("relay_handovers_total", "nacked");
    const noted = await mailbox.noteNack(entry, TEMPORARY_REASONS.has(outcome.reason ?? ""));
    const isDead = noted.finalNacks >= LIMITS.mailboxNacks;
    if (isDead) await mailbox.deadLetter(noted);
    line.replace(entry, isDead ? null : noted);
    return 0;
  }

  /**
   * Removes an acknowledged message and tries until it succeeds, because one that stays after a failure of the store
   * would be delivered again.
   *
   * @throws {StoreUnavailable} when this instance stops
   */
  #remove(entry: MailboxEntry): Promise<void> {
    const removal = this.#removeWithRetries(entry).finally(() => this.#removals.delete(removal));
    this.#removals.add(removal);
    return removal;
  }

  async #removeWithRetries(entry: MailboxEntry): Promise<void> {
    const { mailbox, clock, log } = this.deps;
    for (let failures = 0;; failures++) {
      try {
        return await mailbox.remove(entry);
      } catch (cause) {
        if (this.#stopped.signal.aborted) throw cause;
        log("warn", "mailbox_removal_failed", { agentDid: entry.message.toAgentDid, cause });
        await sleep(clock, retryWait(failures), this.#stopped.signal);
      }
    }
  }

  /**
   * Returns true while the sender is paired with the recipient, and neither deleted nor revoked.
   *
   * @throws {RegistryUnavailable} when the status of the sender is not known, so the message stays queued
   * @throws {StoreUnavailable}
   */
  async #isStillAllowed({ message, recipientOwnerDid }: MailboxEntry): Promise<boolean> {
    const { kv, crl, senders, visitors, config } = this.deps;
    const { fromAgentDid, toAgentDid, identity } = message;
    const maySend = identity.issuer === config.registryUrl
      ? !(await crl.isSenderRevoked(fromAgentDid, identity.aitJti)) && await senders.isActive(identity)
      : await visitors.mayStillSend(identity, recipientOwnerDid);
    // The pair is read last, because the answers above may take seconds, and it may end meanwhile.
    return maySend && await arePaired(kv, fromAgentDid, toAgentDid);
  }

  #isConnected(recipient: string): boolean {
    return !this.#stopped.signal.aborted && this.deps.connectedAgents.socketsOf(recipient) !== undefined;
  }
}
