/**
 * Delivers a message to the sockets of its recipient on this instance, regardless of which instance received it.
 * Messages of one sender stay in order. A message is delivered only until its attempt ends, because its sender may then
 * repeat it, and it would arrive twice. What may be queued and does not arrive goes into the mailbox.
 */
import { settledWithin, timeLeft } from "../../shared/clock.ts";
import { BoundedMap } from "../../shared/bounded_map.ts";
import { BatchedReads } from "../../shared/server/store/batched_reads.ts";
import type { GroupCommit } from "../../shared/server/store/group_commit.ts";
import type { ServiceDeps } from "../../shared/server/http/app.ts";
import { TEMPORARY_REASONS } from "../../shared/protocol/frames.ts";
import { type Attempt, type Deliveries, isUnderWay, queuedAnswer } from "../message/deliveries.ts";
import { deliveryIdOf } from "../message/delivery.ts";
import { KEYS } from "../schema/kv_keys.ts";
import type { Envelope, Message, PairRecord, Presence } from "../schema/records.ts";
import { unpackDelivery } from "../schema/delivery_record.ts";
import type { AgentSockets } from "./agent_sockets.ts";
import type { ConnectedAgents } from "./connected_agents.ts";
import type { InstanceLeases } from "./instance_leases.ts";
import { FAILED, type ForwardResult, OFFLINE } from "./instance_note.ts";
import type { Mailbox, MailboxRefusal } from "./mailbox.ts";
import type { MailboxDelivery } from "./mailbox_delivery.ts";

/** Most reads about attempts without an answer. With more, they would be answered after their attempts have ended. */
const LOOKS_MAX = 20_000;

/** Most pairs whose last read is remembered. With fewer, a busy instance would read them for each message. */
const PAIRS_MAX = 20_000;

/** A message that may be queued and is on its way to a socket. */
interface MayQueue {
  /** Ends its wait for an acknowledgement, so that it is queued. */
  giveUp(): void;
  /** Resolves when it has its result. */
  ended: Promise<void>;
}

/** Returns true for a result after which a message may still arrive, when its recipient has come back or has space. */
function mayArriveLater(result: ForwardResult): boolean {
  return result.result === "failed" ||
    result.result === "acked" && !result.accepted && TEMPORARY_REASONS.has(result.reason ?? "");
}

interface LocalDeliveryDeps extends Pick<ServiceDeps, "kv" | "clock"> {
  commits: GroupCommit;
  deliveries: Deliveries;
  leases: InstanceLeases;
  connectedAgents: ConnectedAgents;
  mailbox: Mailbox;
  mailboxDelivery: MailboxDelivery;
  /** How long a record that was read may be relied on, milliseconds; 0 in the only process of a store. */
  reliedMs: number;
}

export class LocalDelivery {
  /** Messages that may be queued and are on their way to sockets of this instance, by sender and recipient. */
  readonly #mayQueue = new Map<string, Set<MayQueue>>();
  /** Called when a message was put into the mailbox of a recipient. */
  onQueued: (recipient: string) => void = () => {};

  /** Reads for the messages that come together over a link. */
  readonly #reads: BatchedReads;
  /** When a pair was read, milliseconds since the Unix epoch. */
  readonly #pairs = new BoundedMap<string, number>(PAIRS_MAX);

  constructor(private readonly deps: LocalDeliveryDeps) {
    this.#reads = new BatchedReads(deps.kv, LOOKS_MAX);
  }

  /**
   * Delivers a message to the recipient's sockets on this instance, after the queued messages of its sender and only
   * while the attempt counts. With `queueFor`, the owner of the recipient, a message that does not arrive is queued.
   *
   * @throws {StoreUnavailable}
   */
  deliver(message: Message, attempt: Attempt, queueFor: string | null): Promise<ForwardResult> {
    return queueFor === null ? this.#handOver(message, attempt) : this.#deliverInOrder(message, attempt, queueFor);
  }

  /** Delivers a message, or queues it behind the earlier ones of its sender that are not delivered. */
  async #deliverInOrder(message: Message, attempt: Attempt, queueFor: string): Promise<ForwardResult> {
    const { connectedAgents, mailboxDelivery } = this.deps;
    const { fromAgentDid: sender, toAgentDid: recipient } = message;
    const pair = `${sender} ${recipient}`, all = this.#mayQueue.get(pair) ?? new Set(), earlier = [...all];
    const givenUp = Promise.withResolvers<ForwardResult>(), ended = Promise.withResolvers<void>();
    const own: MayQueue = { giveUp: () => givenUp.resolve(FAILED), ended: ended.promise };
    this.#mayQueue.set(pair, all.add(own));
    let mayHaveArrived = false;
    try {
      // The earlier ones give up now, because a machine that is gone would hold them, and this one, to their deadlines.
      if (connectedAgents.socketsOf(recipient)?.isSilent) { for (const one of earlier) one.giveUp(); }
      else if (!mailboxDelivery.inProgress(recipient, sender)) {
        const result = await Promise.race([this.#handOver(message, attempt), givenUp.promise]);
        if (!mayArriveLater(result)) return result;
        mayHaveArrived = result.result === "failed";
      }
      await Promise.all(earlier.map(({ ended }) => ended));
      const queued = await this.#queue(message, queueFor, attempt);
      // Senders take a full mailbox as proof that the recipient does not have the message.
      return queued.result === "full" && mayHaveArrived ? FAILED : queued;
    } finally {
      ended.resolve();
      if (all.delete(own) && all.size === 0) this.#mayQueue.delete(pair);
    }
  }

  /** Delivers a message to the recipient's sockets on this instance, after the queued messages of its sender. */
  #handOver(message: Message, attempt: Attempt): Promise<ForwardResult> {
    const { connectedAgents, mailboxDelivery } = this.deps;
    const { fromAgentDid: sender, toAgentDid: recipient } = message;
    const sockets = connectedAgents.socketsOf(recipient);
    const mustWait = connectedAgents.isOpening(recipient) || mailboxDelivery.inProgress(recipient, sender);
    return sockets && !mustWait
      ? this.#deliverTo(sockets, message, attempt, this.restOf(attempt))
      : this.#handOverLater(message, attempt);
  }

  async #handOverLater(message: Message, attempt: Attempt): Promise<ForwardResult> {
    const { connectedAgents, mailboxDelivery, clock } = this.deps;
    const { fromAgentDid: sender, toAgentDid: recipient } = message;
    const inProgress = () => mailboxDelivery.inProgress(recipient, sender);
    const left = timeLeft(clock, this.restOf(attempt));
    let line = inProgress(), isLate = false;
    const hasWaited = line !== undefined || connectedAgents.isOpening(recipient);
    const lineEnds = async () => {
      for (; line && !isLate; line = inProgress()) await line;
    };
    if (line) await settledWithin(clock, lineEnds(), left());
    isLate = line !== undefined;
    const sockets = connectedAgents.socketsOf(recipient) ?? await connectedAgents.opened(recipient);
    // Checked again after a wait, because the pair may have ended meanwhile.
    if (isLate || hasWaited && !(await this.#isStillAllowed(message, attempt))) return FAILED;
    if (!sockets) return OFFLINE;
    return await this.#deliverTo(sockets, message, attempt, left());
  }

  /** @param restMs how long the attempt still counts */
  #deliverTo(sockets: AgentSockets, message: Message, attempt: Attempt, restMs: number): Promise<ForwardResult> {
    if (restMs <= 0) return Promise.resolve(FAILED);
    return sockets.deliver(message, {
      timeoutMs: restMs,
      isStillAllowed: () => this.#isStillAllowed(message, attempt),
    }).then((delivery) => {
      if (!delivery.acked) return FAILED;
      const { accepted, reason } = delivery, connectedSockets = sockets.links.length;
      return { result: "acked", accepted, connectedSockets, ...(reason === undefined ? {} : { reason }) };
    });
  }

  /**
   * Returns for how many milliseconds an attempt still counts. It is the whole time while the clock of the attempt's
   * instance is not known, and after that clock stepped back, because the sender would otherwise wait for as long as
   * the step.
   */
  restOf({ instance, startedAt, until }: Attempt): number {
    return until - Math.max(startedAt, this.deps.leases.timeAt(instance) ?? startedAt);
  }

  async #isStillAllowed(message: Envelope, attempt: Attempt): Promise<boolean> {
    return await this.look(message, attempt) !== "over";
  }

  /**
   * Returns where the recipient of an attempt is connected; "over" when the agents are not paired or the attempt has an
   * outcome. The records decide and not a clock, because clocks differ, and a message could then arrive twice. An attempt
   * without a delivery record has no outcome, because it has begun before its message came here, and the record of an
   * outcome is stored before the begun delivery leaves its sender's record.
   *
   * The pair may have been read up to a second ago over a network. The instance that sends the message relies on it for
   * no longer, so together they let none pass a second after its end.
   */
  async look(message: Envelope, attempt: Attempt): Promise<"here" | "elsewhere" | "over"> {
    const { sender, recipient, requestId } = deliveryIdOf(message), now = this.deps.clock.now();
    const both = `${sender} ${recipient}`, isPaired = Math.abs(now - (this.#pairs.get(both) ?? 0)) < this.deps.reliedMs;
    const [pair, delivery, presence] = await Promise.all([
      isPaired ? null : this.#reads.get<PairRecord>(KEYS.pair(sender, recipient)),
      this.#reads.get<Uint8Array>(KEYS.delivery(recipient, requestId, sender)),
      this.#reads.get<Presence>(KEYS.presence(recipient)),
    ]);
    const stored = unpackDelivery(delivery.value, requestId);
    if (pair?.value === null || stored !== null && !isUnderWay(stored, attempt)) return "over";
    if (!isPaired) this.#pairs.set(both, now);
    return presence.value?.instance === this.deps.leases.instance ? "here" : "elsewhere";
  }

  /**
   * Queues a message while its pair lasts. The same commit records its 202, because the instance that waits for the
   * result may have given up, and a repeat would otherwise be queued a second time.
   */
  async #queue(message: Message, recipientOwnerDid: string, attempt: Attempt): Promise<ForwardResult> {
    if (!(await this.#isStillAllowed(message, attempt))) return FAILED;
    const { mailbox, commits, deliveries, connectedAgents } = this.deps;
    const id = deliveryIdOf(message), expiresAt = mailbox.expiry();
    const connectedSockets = connectedAgents.socketsOf(id.recipient)?.links.length ?? 0;
    const answer = queuedAnswer(id, { expiresAt, connectedSockets });
    const { update, live } = deliveries.queued(id, attempt, answer);
    const claim = await commits.claim<MailboxRefusal | "over">([
      ...mailbox.enqueue(message, recipientOwnerDid, expiresAt),
      update,
    ], { live });
    if (!claim.taken) {
      return claim.refused === "over" ? FAILED : { result: "full", refusal: claim.refused };
    }
    this.onQueued(id.recipient);
    return { result: "queued", answer };
  }
}
