/**
 * The deliveries of this instance, and what changes a delivery apart from its message: a receipt, the mailbox, the end
 * of an instance. A duplicate that arrives during the first delivery waits for it. When an instance has ended without
 * an outcome of a delivery, the sweep gives that delivery a record, because it would otherwise keep one of the few
 * places in the record of its sender.
 */
import type { ReceiptStatus } from "../../shared/protocol/api/receipts.ts";
import type { HookAnswer } from "../../shared/protocol/api/relay.ts";
import type { DeliveryState } from "../../shared/protocol/frames.ts";
import { sleep, timeLeft } from "../../shared/clock.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { BoundedMap } from "../../shared/bounded_map.ts";
import type { Update } from "../../shared/server/store/batch.ts";
import type { GroupCommit } from "../../shared/server/store/group_commit.ts";
import type { ServiceDeps } from "../../shared/server/http/app.ts";
import { deliveryEnd, unpackDelivery } from "../schema/delivery_record.ts";
import type { DeliveryRecord } from "../schema/records.ts";
import { type BegunDelivery, begunOf, type SenderEntry } from "../schema/sender_record.ts";
import {
  BeginningOfDelivery,
  begunIn,
  checkDuplicate,
  type DeliveryId,
  type DuplicateResult,
  EndOfDelivery,
  isSame,
  type Judging,
  keyOf,
  nameOf,
  recordOf,
  stored,
} from "./delivery.ts";
import type { Sender, Senders } from "./sender.ts";

/** How long after the longest attempt a delivery counts as lost. With less, its outcome may be about to be stored. */
export const SETTLED_MS = 5_000;

/** The new state of a message, since when (milliseconds since the epoch), and the status of a receipt that set it. */
export interface DeliveryOutcome {
  state: DeliveryState;
  at: number;
  status?: ReceiptStatus;
}

/** One attempt to deliver a message. Its times are by the clock of the instance that began it. */
export interface Attempt {
  instance: string;
  /** Milliseconds since the Unix epoch, as `until`. */
  startedAt: number;
  /** The attempt delivers nothing after this time. */
  until: number;
  bodySha256: string;
}

interface DeliveriesDeps extends Judging, Pick<ServiceDeps, "clock" | "log"> {
  commits: GroupCommit;
  senders: Senders;
}

export class Deliveries {
  /** Deliveries in progress on this instance, each with the promise of its end when another request waits for it. */
  readonly #underWay = new Map<string, PromiseWithResolvers<void> | null>();
  /** Deliveries of this instance in the records of their senders, without a stored outcome. */
  readonly #open = new BoundedMap<string, DeliveryRecord>(REMEMBERED);

  constructor(private readonly deps: DeliveriesDeps) {}

  /** Returns a promise for the end of the delivery with this ID that is under way here; `undefined` without one. */
  underWay(id: DeliveryId): Promise<void> | undefined {
    const name = nameOf(id);
    let end = this.#underWay.get(name);
    if (end === null) this.#underWay.set(name, end = Promise.withResolvers());
    return end?.promise;
  }

  /** Begins a delivery, which `leave` ends. None with this ID may be under way, or its waiters would never be woken. */
  enter(id: DeliveryId): void {
    this.#underWay.set(nameOf(id), null);
  }

  leave(id: DeliveryId): void {
    const name = nameOf(id), others = this.#underWay.get(name);
    this.#underWay.delete(name);
    others?.resolve();
  }

  /**
   * Returns why a request with this ID is not sent, or `null`. Changes nothing.
   *
   * @throws {StoreUnavailable}
   */
  async repeat(id: DeliveryId, bodySha256: string): Promise<DuplicateResult | null> {
    const { clock, commits, senders } = this.deps;
    const now = clock.now(), sender = senders.of(id.sender);
    // A claim and not a read, because a read of the store does not see a 202 that waits for its commit.
    const found = await commits.claim<DuplicateResult>([{
      key: keyOf(id),
      uncached: true,
      next: (current) => {
        const record = unpackDelivery(current, id.requestId) ?? begunIn(sender.begun, id);
        const repeat = checkDuplicate(record, bodySha256, now, this.deps);
        return repeat ? { refuse: repeat } : "hold";
      },
    }], { live: { record: sender } });
    return found.taken ? null : found.refused;
  }

  /**
   * Returns what begins an attempt as part of a claim. `answer` is the 202 of a message that is queued at once. The
   * claim is refused when the message has a 202 already.
   */
  begin(
    id: DeliveryId,
    bodySha256: string,
    answer: HookAnswer | null = null,
  ): BeginningOfDelivery {
    return new BeginningOfDelivery(id, bodySha256, answer, this.deps.clock.now(), this.deps, this.#open);
  }

  /**
   * Records the end of an attempt of this instance. A 202 may wait 20 ms to share another commit. An end without a 202
   * does not, because a duplicate would wait for it too. Never rejects; a failure is logged. A 202 is then tried again
   * for ten minutes, and this instance answers repeats with it, because they would otherwise be delivered again.
   */
  end(id: DeliveryId, answer: HookAnswer | null): Promise<void> {
    const { clock, commits, leases } = this.deps, name = nameOf(id), open = this.#open.get(name), now = clock.now();
    const end = new EndOfDelivery(id, open, answer, leases.instance, now);
    const ended = () => void (this.#open.get(name) === open && this.#open.delete(name));
    return commits.claim([end], { mayWait: answer !== null }).then(ended, async (cause) => {
      this.#lost(id, cause);
      if (!answer) return;
      if (open) Object.assign(open, { answer, answeredAt: now });
      const left = timeLeft(clock, OUTCOME_TRIED_MS);
      for (let isStored = false; !isStored && left() > 0;) {
        await sleep(clock, OUTCOME_PAUSE_MS);
        isStored = await commits.claim([end]).then(() => true, () => false);
      }
      ended();
    });
  }

  /**
   * Returns what records the 202 of an attempt together with the queued message. It refuses with `"over"` when the
   * attempt has an outcome, because its instance has then answered, and may have queued the message itself.
   */
  queued(id: DeliveryId, attempt: Attempt, answer: HookAnswer): { update: Update<"over">; live: { record: Sender } } {
    const now = this.deps.clock.now(), sender = this.deps.senders.of(id.sender);
    const update: Update<"over"> = {
      key: keyOf(id),
      uncached: true,
      next: (current) => {
        const record = unpackDelivery(current, id.requestId) ?? begunIn(sender.begun, id);
        if (record === null || !isUnderWay(record, attempt)) return { refuse: "over" };
        const { bodySha256, startedAt } = attempt;
        return stored({ bodySha256, startedAt, instance: null, answer, answeredAt: now, receiptAt: 0 }, now);
      },
    };
    return { update, live: { record: sender } };
  }

  /** Notes that an outcome of this instance is stored. Its entry then leaves the record of its sender. */
  settled(id: DeliveryId): void {
    this.#open.delete(nameOf(id));
  }

  /** Records that the attempt of a stopped instance ended without a 202. Never rejects; a failure is logged. */
  async markLost(id: DeliveryId, instance: string): Promise<void> {
    const hasEnded = (one: BegunDelivery) => one.instance === instance;
    await this.#settle(id.sender, [id], hasEnded, instance).catch((cause) => this.#lost(id, cause));
  }

  /**
   * Gives delivery records to the begun deliveries of a sender's record that are too old to be under way, by the clock of
   * their instance. With a clock that is ahead, a message that is under way would be sent a second time.
   *
   * @throws {StoreUnavailable}
   */
  async settle(stored: SenderEntry): Promise<void> {
    const { clock, leases, attemptMs } = this.deps, keptMs = attemptMs + SETTLED_MS;
    const isOld = ({ startedAt, instance }: BegunDelivery) =>
      startedAt < (leases.timeAt(instance) ?? clock.now()) - keptMs;
    // One with an answer is about to be stored with it.
    const old = begunOf(stored).filter((one) => isOld(one) && !this.#open.get(nameOf(one))?.answer);
    for (let i = 0; i < old.length; i += SETTLED_TOGETHER) {
      const some = old.slice(i, i + SETTLED_TOGETHER);
      await this.#settle(some[0]?.sender ?? "", some, isOld);
      for (const id of some) this.#open.delete(nameOf(id));
    }
  }

  /** Moves begun deliveries of a sender that have ended into delivery records without an answer. */
  async #settle(
    sender: string,
    ids: readonly DeliveryId[],
    hasEnded: (begun: BegunDelivery) => boolean,
    instance?: string,
  ): Promise<void> {
    const { clock, commits, senders } = this.deps;
    const record = senders.of(sender);
    const isEnded = (one: BegunDelivery) => hasEnded(one) && ids.some((id) => isSame(one, id));
    const records = ids.map((id): Update<never> => ({
      key: keyOf(id),
      uncached: true,
      next: (current) => {
        const begun = record.begun.find((one) => isEnded(one) && isSame(one, id));
        const delivery = unpackDelivery(current, id.requestId) ?? (begun ? recordOf(begun) : null);
        if (!delivery || current !== null && delivery.instance !== instance) return "keep";
        return stored({ ...delivery, instance: null }, clock.now());
      },
    }));
    const take = () => {
      record.begun = record.begun.filter((one) => !isEnded(one));
      return [];
    };
    await commits.claim(records, { live: { record, take } });
  }

  #lost(id: DeliveryId, cause: unknown): void {
    this.deps.log("error", "delivery_outcome_lost", { requestId: id.requestId, agentDid: id.sender, cause });
  }
}

/**
 * How many deliveries without a stored outcome are remembered. With fewer, one in progress would lose its 202, and a
 * repeat of its message would be delivered again.
 */
const REMEMBERED = 10_000;
/** Pause between tries to store an outcome, and how long it is tried. With less, a longer outage costs more outcomes. */
const OUTCOME_PAUSE_MS = 5_000;
const OUTCOME_TRIED_MS = 600_000;
/** How many deliveries are settled in one claim. A commit over the network holds only ten checks. */
const SETTLED_TOGETHER = 8;

/**
 * Returns the update that records when a delivery got its first receipt, which shortens the lifetime of its record, or
 * when a queued message was handed over.
 *
 * @param sender `null` for a queued message, which is never in the record of its sender. An unknown delivery is refused
 *   with `"unknown"`, but with `null` it only changes nothing
 * @param found called with the delivery, and called again when the commit is repeated
 */
export function timeUpdate(
  id: DeliveryId,
  sender: Sender | null,
  what: "handedOverAt" | "receiptAt",
  now: number,
  found: (delivery: DeliveryRecord) => void = () => {},
): Update<"unknown"> {
  return {
    key: keyOf(id),
    uncached: true,
    next: (current) => {
      // A delivery leaves its sender's record only for a record of its own, whose absence the commit checks.
      const record = unpackDelivery(current, id.requestId) ?? (sender && begunIn(sender.begun, id));
      if (!record || now >= deliveryEnd(record)) return sender ? { refuse: "unknown" } : "keep";
      found(record);
      return record[what] ? "hold" : stored({ ...record, [what]: now }, now);
    },
  };
}

/** Tells whether a delivery record is that of an attempt without an outcome. */
export function isUnderWay({ answer, instance, startedAt }: DeliveryRecord, attempt: Attempt): boolean {
  return answer === null && instance === attempt.instance && startedAt === attempt.startedAt;
}

export function queuedAnswer(
  { requestId }: DeliveryId,
  { expiresAt, connectedSockets }: { expiresAt: number; connectedSockets: number },
): HookAnswer {
  return { accepted: true, delivered: false, connectedSockets, requestId, queued: true, expiresAt: toIso(expiresAt) };
}
