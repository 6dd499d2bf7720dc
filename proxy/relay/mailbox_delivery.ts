/**
 * Handing over what waits in mailboxes (D-68): one line per connected recipient, in order, trust and revocation judged
 * again. Also the sweep that ends messages whose recipient never came. Every message leaves acknowledged or with a
 * receipt; when the store or the registry fails it stays, and is tried again.
 */
import { type Clock, sleep } from "../../shared/clock.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import type { Log } from "../../shared/server/log.ts";
import type { CrlCache } from "../admission/crl_cache.ts";
import { arePaired } from "../trust/store.ts";
import type { ConnectedAgents } from "./connected_agents.ts";
import type { Mailbox } from "./mailbox.ts";
import type { MailboxEntry } from "../schema/records.ts";
import type { SenderStatus } from "./sender_status.ts";

/** Expired messages that are ended at the same time. */
const SWEPT_TOGETHER = 20;

interface DrainDeps {
  kv: Deno.Kv;
  clock: Clock;
  log: Log;
  hub: ConnectedAgents;
  crl: CrlCache;
  senders: SenderStatus;
  mailbox: Mailbox;
  ackTimeoutMs: number;
}

export class MailboxDelivery {
  readonly #deps: DrainDeps;
  /** Recipients whose line is being handed over, with its end. */
  readonly #lines = new Map<string, Promise<void>>();
  /** Of these, the ones that got a message meanwhile, perhaps after the last look. */
  readonly #again = new Set<string>();
  readonly #stopped = new AbortController();
  #cancelSweep = () => {};

  constructor(deps: DrainDeps) {
    this.#deps = deps;
  }

  /** The end of a recipient's line, while there is one; a message that does not queue waits for it. */
  inProgress(recipient: string): Promise<void> | undefined {
    return this.#lines.get(recipient);
  }

  /** Hands over what waits for a recipient that is connected here. */
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
      await this.sweep().catch((cause) => this.#deps.log("warn", "mailbox_sweep_failed", { cause }));
      if (!this.#stopped.signal.aborted) this.start();
    });
  }

  /** Ends everything under way; what was not acknowledged stays in its line. */
  stop(): void {
    this.#stopped.abort();
    this.#cancelSweep();
  }

  /** Ends every message whose time is over. */
  async sweep(): Promise<void> {
    const { mailbox } = this.#deps;
    let together: Promise<void>[] = [];
    for await (const entry of mailbox.expired()) {
      // Their claims share commits.
      together.push(mailbox.deadLetter(entry));
      if (together.length < SWEPT_TOGETHER) continue;
      await Promise.all(together);
      together = [];
    }
    await Promise.all(together);
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

  /** Handles the first message of a line; gives how long to wait before the next look, in milliseconds. */
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
    if (!session) return 0;
    if (!message) {
      // Gone, which changes nothing, or incomplete: it would stay first in line.
      await mailbox.deadLetter(entry);
      return 0;
    }
    const isStillAllowed = () => this.#isStillAllowed(entry);
    const outcome = await session.deliver(message, ackTimeoutMs, isStillAllowed, entry.nacks);
    if (!outcome.acked) return backoff(failures);
    if (outcome.accepted) {
      await mailbox.remove(entry);
      return 0;
    }
    const noted = await mailbox.noteNack(entry);
    if (noted.nacks < LIMITS.mailboxNacks) return noted.notBefore - clock.now();
    await mailbox.deadLetter(noted);
    return 0;
  }

  /**
   * True while the sender is paired with the recipient, and neither deleted nor revoked.
   *
   * @throws {RegistryUnavailable} while that cannot be asked: the message waits
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
