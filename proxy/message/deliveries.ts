/**
 * Deliveries (D-69, D-72): which message was sent with which request ID, and its response. The same message within a day
 * of its 202 gets the same response. A duplicate that arrives during the first delivery waits for it.
 *
 * A delivery that begins is put into the record of its sender; the commit checks that it has no delivery record. Its
 * end is written as a delivery record. So a delivery record, if there is one, decides, and otherwise the record of the
 * sender. A delivery without room there begins with a delivery record. The sweep does the same for those whose instance
 * has ended without an outcome, so that they are kept like any other.
 */
import type { KvEntryMaybe, KvKey } from "../../shared/server/kv.ts";
import type { ReceiptStatus } from "../../shared/protocol/api/receipts.ts";
import type { HookAnswer } from "../../shared/protocol/api/relay.ts";
import type { DeliveryState } from "../../shared/protocol/frames.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { toIso } from "../../shared/protocol/time.ts";
import type { Clock } from "../../shared/clock.ts";
import { BoundedMap } from "../../shared/bounded_map.ts";
import {
  absent,
  type GroupCommit,
  idOf,
  type RecordChange,
  type Update,
  type Write,
} from "../../shared/server/store/group_commit.ts";
import type { Log } from "../../shared/server/log.ts";
import { KEYS } from "../schema/kv_keys.ts";
import { deliveryEnd, packDelivery, unpackDelivery } from "../schema/delivery_record.ts";
import type { DeliveryRecord } from "../schema/records.ts";
import { type BegunDelivery, unpackSender } from "../schema/sender_record.ts";
import type { Beginning, Sender, Senders } from "./sender.ts";

/** With more, each request of the sender reads and writes a larger record. */
export const BEGUN_MAX = 16;
/** With less, a delivery whose outcome is on its way would get a record of its own. */
export const SETTLED_MS = 5_000;

/** Identifies a message: sender, recipient and request ID. */
export interface DeliveryId {
  readonly sender: string;
  readonly recipient: string;
  readonly requestId: string;
  /** The key of the delivery record, and that as one text, once they were needed: a message needs them several times. */
  key?: KvKey;
  name?: string;
}

/** The new state of a message, in milliseconds since the Unix epoch, with the status of its receipt if that gave it. */
export interface DeliveryOutcome {
  state: DeliveryState;
  at: number;
  status?: ReceiptStatus;
}

/** One attempt to deliver a message: the instance that began it, and what its record says. Times are of its clock. */
export interface Attempt {
  instance: string;
  /** Milliseconds since the Unix epoch, as `until`. */
  startedAt: number;
  /** The attempt counts until then. */
  until: number;
  bodySha256: string;
}

/** Why a message is not sent again. `under_way`: another instance delivers it. */
export type DuplicateResult =
  | { repeat: "same"; answer: HookAnswer }
  | { repeat: "other_body" }
  | { repeat: "under_way"; instance: string };

/** The service deletes ended records. The expiry in the store is later, for records that the service missed. */
const MARGIN_MS = LIMITS.sweepMarginSeconds * 1000;

/** This instance, and the present time of others by their clocks: `null` for one that is not known. */
interface Instances {
  readonly instance: string;
  timeAt(instance: string): number | null;
}

/** What decides about a repeated request: the instance, its time, and the clocks of the others. */
interface Judging {
  now: number;
  /** Longest duration of an attempt, milliseconds. */
  attemptMs: number;
  leases: Instances;
}

/** Returns why a request with the ID of this record is not sent by this instance now, or `null` when it is. */
export function checkDuplicate(
  record: DeliveryRecord | null,
  bodySha256: string,
  { now, attemptMs, leases }: Judging,
): DuplicateResult | null {
  if (!record) return null;
  const { answer, answeredAt, startedAt } = record;
  if (answer && now < answeredAt + LIMITS.sameAnswerSeconds * 1000) {
    return record.bodySha256 === bodySha256 ? { repeat: "same", answer } : { repeat: "other_body" };
  }
  // An attempt of this instance that is not in memory ended with a crash.
  if (answer || !record.instance || record.instance === leases.instance) return null;
  // The start is a time of that instance's clock, because with another one its attempt could seem to be over.
  const isUnderWay = (leases.timeAt(record.instance) ?? now) < startedAt + attemptMs;
  return isUnderWay ? { repeat: "under_way", instance: record.instance } : null;
}

interface DeliveriesDeps {
  clock: Clock;
  commits: GroupCommit;
  log: Log;
  leases: Instances;
  senders: Senders;
  /** Longest duration of an attempt, milliseconds. */
  attemptMs: number;
}

export class Deliveries {
  readonly #deps: DeliveriesDeps;
  /** Deliveries in progress on this instance, with what ends the wait of others for one. */
  readonly #underWay = new Map<string, PromiseWithResolvers<void> | null>();
  /** Deliveries of this instance in the records of their senders, without a stored outcome. */
  readonly #open = new BoundedMap<string, DeliveryRecord>(REMEMBERED);

  constructor(deps: DeliveriesDeps) {
    this.#deps = deps;
  }

  /** Returns true while a message with this ID is being delivered here. */
  isUnderWay(id: DeliveryId): boolean {
    return this.#underWay.has(nameOf(id));
  }

  /** Begins a delivery of which none is under way here. Its end is `leave`. */
  enter(id: DeliveryId): void {
    this.#underWay.set(nameOf(id), null);
  }

  leave(id: DeliveryId): void {
    const name = nameOf(id), others = this.#underWay.get(name);
    this.#underWay.delete(name);
    others?.resolve();
  }

  /** Resolves when the delivery with this ID that is under way here has ended. */
  async ended(id: DeliveryId): Promise<void> {
    const name = nameOf(id);
    let end = this.#underWay.get(name);
    if (end === undefined) return;
    if (end === null) this.#underWay.set(name, end = Promise.withResolvers());
    await end.promise;
  }

  /**
   * Returns why a request with this ID is not sent, or `null`. Changes nothing.
   *
   * @throws {StoreUnavailable}
   */
  async repeat(id: DeliveryId, bodySha256: string): Promise<DuplicateResult | null> {
    const now = this.#deps.clock.now();
    const sender = this.#deps.senders.of(id.sender);
    // A claim sees a 202 that waits for its commit, but a read of the store does not.
    const found = await this.#deps.commits.claim<DuplicateResult>([{
      key: keyOf(id),
      uncached: true,
      next: (current) => {
        const record = unpackDelivery(current, id.requestId) ?? begunIn(sender.begun, id);
        const repeat = this.#check(record, bodySha256, now);
        return repeat ? { refuse: repeat } : "hold";
      },
    }], { live: { record: sender } });
    return found.taken ? null : found.refused;
  }

  /** Returns the parts of a claim that begin an attempt, with its 202 if it has one. An earlier 202 refuses it. */
  begin(
    id: DeliveryId,
    bodySha256: string,
    answer: HookAnswer | null = null,
  ): BeginningOfDelivery {
    const { clock, leases, attemptMs } = this.#deps;
    const judging = { now: clock.now(), attemptMs, leases };
    return new BeginningOfDelivery(id, bodySha256, answer, judging, this.#open);
  }

  /** Records the 202 with the next commit, after 20 ms at the latest. Never rejects: a failure is logged. */
  answered(id: DeliveryId, answer: HookAnswer): Promise<void> {
    const answeredAt = this.#deps.clock.now();
    return this.#end(id, (record) => ({ ...record, instance: null, answer, answeredAt }), { mayWait: true });
  }

  /**
   * Returns what records the 202 of an attempt together with the queued message. It refuses with `"over"` when
   * the attempt has an outcome: its instance has answered meanwhile, and may have queued the message itself.
   */
  queued(id: DeliveryId, attempt: Attempt, answer: HookAnswer): { update: Update<"over">; live: { record: Sender } } {
    const now = this.#deps.clock.now(), sender = this.#deps.senders.of(id.sender);
    const update: Update<"over"> = {
      key: keyOf(id),
      uncached: true,
      next: (current) => {
        if (!isBegun(id, attempt, sender.begun, current)) return { refuse: "over" };
        const { bodySha256, startedAt } = attempt;
        return stored({ bodySha256, startedAt, instance: null, answer, answeredAt: now, receiptAt: 0 }, now);
      },
    };
    return { update, live: { record: sender } };
  }

  /** The outcome of an attempt of this instance is stored. */
  settled(id: DeliveryId): void {
    this.#open.delete(nameOf(id));
  }

  /** Records that the attempt of this instance ended without a 202, so that no duplicate waits for it. */
  markFailed(id: DeliveryId): Promise<void> {
    return this.#end(
      id,
      (record) => record.instance === this.#deps.leases.instance ? { ...record, instance: null } : record,
    );
  }

  /** Records that the attempt of an instance that has stopped ended without a 202. Never rejects: a failure is logged. */
  async markLost(id: DeliveryId, instance: string): Promise<void> {
    const hasEnded = (one: BegunDelivery) => one.instance === instance;
    await this.#settle(id.sender, [id], hasEnded, instance).catch((cause) => this.#lost(id, cause));
  }

  /**
   * Gives delivery records to the begun deliveries of a sender's record that are too old to be under way.
   *
   * @throws {StoreUnavailable}
   */
  async settle(value: unknown): Promise<void> {
    const before = this.#deps.clock.now() - this.#deps.attemptMs - SETTLED_MS;
    const isOld = ({ startedAt }: BegunDelivery) => startedAt < before;
    const old = unpackSender(value).begun.filter(isOld);
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
    const { clock, commits, senders } = this.#deps;
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

  #end(
    id: DeliveryId,
    change: (record: DeliveryRecord) => DeliveryRecord,
    options: { mayWait?: boolean } = {},
  ): Promise<void> {
    const name = nameOf(id), key = keyOf(id);
    const open = this.#open.get(name);
    const update: Update<never> = {
      key,
      id: name,
      ...(open ? { seen: absent(key) } : {}),
      uncached: true,
      next: (current) => {
        const record = unpackDelivery(current, id.requestId) ?? open;
        return record ? stored(change(record), this.#deps.clock.now()) : "keep";
      },
    };
    const ended = () => void (this.#open.get(name) === open && this.#open.delete(name));
    return this.#deps.commits.claim([update], options).then(ended, (cause) => this.#lost(id, cause));
  }

  #lost(id: DeliveryId, cause: unknown): void {
    this.#deps.log("error", "delivery_outcome_lost", { requestId: id.requestId, agentDid: id.sender, cause });
  }

  #check(record: DeliveryRecord | null, bodySha256: string, now: number): DuplicateResult | null {
    const { leases, attemptMs } = this.#deps;
    return checkDuplicate(record, bodySha256, { now, attemptMs, leases });
  }
}

/** A claim that begins an attempt: the check of its delivery record, and its place in the record of the sender. */
class BeginningOfDelivery implements Beginning<DuplicateResult>, Update<DuplicateResult> {
  readonly startedAt: number;
  readonly key: KvKey;
  readonly seen: KvEntryMaybe<never>;
  readonly check = this;
  readonly id: string;
  readonly #id: DeliveryId;
  readonly #record: DeliveryRecord;
  readonly #judging: Judging;
  readonly #open: Map<string, DeliveryRecord>;
  /** Whether the claim found no delivery record. */
  #isNew = true;

  constructor(
    id: DeliveryId,
    bodySha256: string,
    answer: HookAnswer | null,
    judging: Judging,
    open: Map<string, DeliveryRecord>,
  ) {
    const { now, leases } = judging;
    this.startedAt = now;
    this.key = keyOf(id);
    this.id = nameOf(id);
    this.seen = absent(this.key);
    this.#id = id;
    this.#judging = judging;
    this.#open = open;
    this.#record = {
      bodySha256,
      startedAt: now,
      instance: answer ? null : leases.instance,
      answer,
      answeredAt: answer ? now : 0,
      receiptAt: 0,
    };
  }

  next(current: unknown): RecordChange<DuplicateResult> {
    this.#isNew = current === null;
    const repeat = this.#repeatOf(unpackDelivery(current, this.#id.requestId));
    if (repeat) return { refuse: repeat };
    return this.#isNew && !this.#record.answer ? "hold" : stored(this.#record, this.startedAt);
  }

  place(before: readonly BegunDelivery[]): ReturnType<Beginning<DuplicateResult>["place"]> {
    const id = this.#id, { instance } = this.#judging.leases, startedAt = this.startedAt;
    const others: BegunDelivery[] = [];
    for (const one of before) {
      // One of this instance whose outcome is stored leaves the record.
      if (one.instance === instance && !this.#open.has(nameOf(one))) continue;
      if (!isSame(one, id)) {
        others.push(one);
        continue;
      }
      const repeat = this.#isNew ? this.#repeatOf(recordOf(one)) : null;
      if (repeat) return { refuse: repeat };
    }
    if (this.#record.answer || !this.#isNew) return { begun: others, also: NOTHING };
    if (others.length >= BEGUN_MAX) {
      return { begun: others, also: [{ key: this.key, ...stored(this.#record, startedAt) }] };
    }
    this.#open.set(this.id, this.#record);
    const { sender, recipient, requestId } = id;
    others.push({ sender, recipient, requestId, startedAt, instance });
    return { begun: others, also: NOTHING };
  }

  #repeatOf(record: DeliveryRecord | null): DuplicateResult | null {
    return checkDuplicate(record, this.#record.bodySha256, this.#judging);
  }

  cancel(): void {
    if (this.#open.get(this.id) === this.#record) this.#open.delete(this.id);
  }
}

const NOTHING: readonly Write[] = [];

/** Most deliveries in progress. Those whose outcome could not be stored stay until the sweep gives them a record. */
const REMEMBERED = 10_000;
/** Deliveries in one claim: a commit over the network holds ten checks. */
const SETTLED_TOGETHER = 8;

/**
 * Returns the update that records the time of a delivery's first receipt, which shortens its lifetime. Without a record
 * of the delivery it refuses with `"unknown"`.
 *
 * @param found called with the delivery, also again when the commit is repeated
 */
export function receiptUpdate(
  id: DeliveryId,
  sender: Sender,
  now: number,
  found: (delivery: DeliveryRecord) => void,
): Update<"unknown"> {
  return {
    key: keyOf(id),
    uncached: true,
    next: (current) => {
      // A delivery leaves the record of its sender only when it has a record of its own, whose absence the commit checks.
      const record = unpackDelivery(current, id.requestId) ?? begunIn(sender.begun, id);
      if (!record || now >= deliveryEnd(record)) return { refuse: "unknown" };
      found(record);
      return record.receiptAt > 0 ? "hold" : stored({ ...record, receiptAt: now }, now);
    },
  };
}

/**
 * Returns the update that records when a queued message was handed over, or got its receipt. Such a message has a delivery
 * record if any.
 *
 * @param found called with that record, also again when the commit is repeated
 */
export function queuedUpdate(
  id: DeliveryId,
  what: "handedOverAt" | "receiptAt",
  now: number,
  found: (delivery: DeliveryRecord) => void = () => {},
): Update<never> {
  return {
    key: keyOf(id),
    uncached: true,
    next: (current) => {
      const record = unpackDelivery(current, id.requestId);
      if (!record || now >= deliveryEnd(record)) return "keep";
      found(record);
      return record[what] ? "hold" : stored({ ...record, [what]: now }, now);
    },
  };
}

/** Returns the begun deliveries of a stored sender's record as delivery records, with their IDs. */
export function begunDeliveries(value: unknown): { id: DeliveryId; record: DeliveryRecord }[] {
  if (value === null || value === undefined) return [];
  return unpackSender(value).begun.map((begun) => ({ id: begun, record: recordOf(begun) }));
}

/** Returns true while an attempt has no outcome: `delivery` is its stored record or `null`. */
export function isBegun(
  id: DeliveryId,
  { instance, startedAt }: Attempt,
  sender: readonly BegunDelivery[],
  delivery: unknown,
): boolean {
  const record = unpackDelivery(delivery, id.requestId) ?? begunIn(sender, id);
  return record !== null && record.answer === null && record.instance === instance && record.startedAt === startedAt;
}

/** Returns the body of the response for a queued message. */
export function queuedAnswer(
  { requestId }: DeliveryId,
  { expiresAt, connectedSockets }: { expiresAt: number; connectedSockets: number },
): HookAnswer {
  return { accepted: true, delivered: false, connectedSockets, requestId, queued: true, expiresAt: toIso(expiresAt) };
}

function begunIn(begun: readonly BegunDelivery[], id: DeliveryId): DeliveryRecord | null {
  const found = begun.find((one) => isSame(one, id));
  return found ? recordOf(found) : null;
}

/** Returns the record of a delivery without an answer. Nothing reads the hash of its body. */
function recordOf({ startedAt, instance }: BegunDelivery): DeliveryRecord {
  return { bodySha256: "", startedAt, instance, answer: null, answeredAt: 0, receiptAt: 0 };
}

function isSame(one: DeliveryId, other: DeliveryId): boolean {
  return one.requestId === other.requestId && one.recipient === other.recipient && one.sender === other.sender;
}

function stored(record: DeliveryRecord, now: number): { value: Uint8Array; expireInMs: number } {
  return { value: packDelivery(record), expireInMs: Math.max(1, deliveryEnd(record) - now) + MARGIN_MS };
}

function nameOf(id: DeliveryId): string {
  return id.name ??= idOf(keyOf(id));
}

function keyOf(id: DeliveryId): KvKey {
  return id.key ??= KEYS.delivery(id.recipient, id.requestId, id.sender);
}
