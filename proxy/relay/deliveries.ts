/**
 * Deliveries (D-69, D-72): which message was sent with which request ID, and its response. The same message within a day
 * of its 202 gets the same response. A duplicate that arrives during the first delivery waits for it.
 *
 * A delivery that begins is put into the record of its sender (D-261); the commit checks that it has no delivery record. Its
 * end is written as a delivery record. So a delivery record, if there is one, decides, and otherwise the record of the
 * sender. A delivery without room there begins with a delivery record. The sweep does the same for those whose instance
 * has ended without an outcome, so that they are kept as D-218 says.
 */
import type { HookAnswer } from "../../shared/protocol/api/relay.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import type { Clock } from "../../shared/clock.ts";
import { BoundedMap } from "../../shared/bounded_map.ts";
import { absent, type GroupCommit, type Update } from "../../shared/server/store/group_commit.ts";
import type { Log } from "../../shared/server/log.ts";
import type { Beginning } from "../caller.ts";
import { KEYS } from "../schema/kv_keys.ts";
import { deliveryEnd, packDelivery, unpackDelivery } from "../schema/delivery_record.ts";
import type { DeliveryRecord } from "../schema/records.ts";
import { type BegunDelivery, packBegun, storedSender, unpackBegun, unpackSender } from "../schema/sender_record.ts";

/** Identifies a message: sender, recipient and request ID. */
export interface DeliveryId {
  sender: string;
  recipient: string;
  requestId: string;
}

/** Why a message is not sent again. `under_way`: another instance delivers it, until `until` at the latest. */
export type DuplicateResult =
  | { repeat: "same"; answer: HookAnswer }
  | { repeat: "other_body" }
  | { repeat: "under_way"; instance: string; until: number };

/** The service deletes ended records. The expiry in the store is later, for records that the service missed (D-217). */
const MARGIN_MS = LIMITS.sweepMarginSeconds * 1000;

/** Returns why a request with the ID of this record is not sent at `instance` now, or `null` when it is. */
export function checkDuplicate(
  record: DeliveryRecord | null,
  bodySha256: string,
  now: number,
  instance: string,
  attemptMs: number,
): DuplicateResult | null {
  if (!record) return null;
  const { answer, answeredAt, startedAt } = record;
  if (answer && now < answeredAt + LIMITS.sameAnswerSeconds * 1000) {
    return record.bodySha256 === bodySha256 ? { repeat: "same", answer } : { repeat: "other_body" };
  }
  // An attempt of this instance that is not in memory ended with a crash.
  if (answer || !record.instance || record.instance === instance) return null;
  const until = startedAt + attemptMs;
  return now < until ? { repeat: "under_way", instance: record.instance, until } : null;
}

interface DeliveriesDeps {
  clock: Clock;
  commits: GroupCommit;
  log: Log;
  /** ID of this instance. */
  instance: string;
  /** Longest duration of an attempt, milliseconds. */
  attemptMs: number;
  /** Length of the window in a sender's record, milliseconds. */
  windowMs: number;
}

export class Deliveries {
  readonly #deps: DeliveriesDeps;
  /** Deliveries in progress on this instance. */
  readonly #underWay = new Map<string, Promise<void>>();
  /** Deliveries of this instance in the records of their senders, without a stored outcome. */
  readonly #open = new BoundedMap<string, DeliveryRecord>(REMEMBERED);

  constructor(deps: DeliveriesDeps) {
    this.#deps = deps;
  }

  /** Returns true while a message with this ID is being delivered here. */
  isUnderWay(id: DeliveryId): boolean {
    return this.#underWay.has(nameOf(id));
  }

  /** Runs `send` when no other call with the same ID is running. */
  async runExclusive<T>(id: DeliveryId, send: () => Promise<T>): Promise<T> {
    const name = nameOf(id);
    for (let other = this.#underWay.get(name); other; other = this.#underWay.get(name)) await other;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#underWay.set(name, promise);
    try {
      return await send();
    } finally {
      this.#underWay.delete(name);
      resolve();
    }
  }

  /**
   * Returns why a request with this ID is not sent, or `null`. Changes nothing.
   *
   * @throws {StoreUnavailable}
   */
  async repeat(id: DeliveryId, bodySha256: string): Promise<DuplicateResult | null> {
    const now = this.#deps.clock.now();
    let begun: DeliveryRecord | null = null;
    // A claim sees a 202 that waits for its commit; a read of the store does not (D-260).
    const found = await this.#deps.commits.claim<DuplicateResult>([{
      key: KEYS.sender(id.sender),
      next: (current) => {
        begun = begunIn(current, id);
        return current === null ? "keep" : "hold";
      },
    }, {
      key: keyOf(id),
      uncached: true,
      next: (current) => {
        const repeat = this.#check(unpackDelivery(current, id.requestId) ?? begun, bodySha256, now);
        if (repeat) return { refuse: repeat };
        return current === null ? "keep" : "hold";
      },
    }]);
    return found.taken ? null : found.refused;
  }

  /** Returns the parts of a claim that begin an attempt, with its 202 if it has one. An earlier 202 refuses it. */
  begin(id: DeliveryId, bodySha256: string, answer: HookAnswer | null = null): Beginning<DuplicateResult> {
    const now = this.#deps.clock.now();
    const answeredAt = answer ? now : 0;
    const instance = answer ? null : this.#deps.instance;
    const record: DeliveryRecord = { bodySha256, startedAt: now, instance, answer, answeredAt, receiptAt: 0 };
    const written = stored(record, now);
    const key = keyOf(id), name = nameOf(id);
    /** Whether the claim found no delivery record. */
    let isNew = true;
    return {
      check: {
        key,
        seen: absent(key),
        next: (current) => {
          isNew = current === null;
          const repeat = this.#check(unpackDelivery(current, id.requestId), bodySha256, now);
          if (repeat) return { refuse: repeat };
          return isNew && !answer ? "hold" : written;
        },
      },
      place: (packed) => {
        const all = unpackBegun(packed).filter((one) => !this.#isOver(one));
        const others = all.filter((one) => !isSame(one, id));
        const earlier = isNew && all.find((one) => isSame(one, id));
        const repeat = earlier ? this.#check(recordOf(earlier), bodySha256, now) : null;
        if (repeat) return { refuse: repeat };
        if (answer || !isNew) return { begun: packBegun(others), also: [] };
        if (others.length >= LIMITS.senderBegun) return { begun: packBegun(others), also: [{ key, ...written }] };
        this.#open.set(name, record);
        return { begun: packBegun([...others, { ...id, startedAt: now, instance: this.#deps.instance }]), also: [] };
      },
      cancel: () => this.#open.get(name) === record && this.#open.delete(name),
    };
  }

  /** Records the 202 with the next commit, after 20 ms at the latest (D-260). Never rejects: a failure is logged. */
  answered(id: DeliveryId, answer: HookAnswer): Promise<void> {
    const answeredAt = this.#deps.clock.now();
    return this.#end(id, (record) => ({ ...record, instance: null, answer, answeredAt }), { mayWait: true });
  }

  /** Records that the attempt of this instance ended without a 202, so that no duplicate waits for it. */
  markFailed(id: DeliveryId): Promise<void> {
    return this.#end(id, (record) => record.instance === this.#deps.instance ? { ...record, instance: null } : record);
  }

  /** Records that the attempt of an instance that has stopped ended without a 202. Never rejects: a failure is logged. */
  async markLost(id: DeliveryId, instance: string): Promise<void> {
    await this.#logged(id, () => this.#settle(id.sender, [id], (one) => one.instance === instance, instance));
  }

  /**
   * Gives delivery records to the begun deliveries of a sender's record that are too old to be under way.
   *
   * @throws {StoreUnavailable}
   */
  async settle(value: unknown): Promise<void> {
    const before = this.#deps.clock.now() - this.#deps.attemptMs - LIMITS.deliverySettledMs;
    const isOld = ({ startedAt }: BegunDelivery) => startedAt < before;
    const old = unpackBegun(unpackSender(value).begun).filter(isOld);
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
    const { clock, commits, windowMs } = this.#deps;
    let ended: readonly BegunDelivery[] = [];
    const inSender: Update<never> = {
      key: KEYS.sender(sender),
      next: (current) => {
        const record = current === null ? null : unpackSender(current);
        const all = record ? unpackBegun(record.begun) : [];
        ended = all.filter((one) => hasEnded(one) && ids.some((id) => isSame(one, id)));
        if (!record || ended.length === 0) return "keep";
        const begun = packBegun(all.filter((one) => !ended.includes(one)));
        return storedSender({ ...record, begun }, windowMs);
      },
    };
    const records = ids.map((id): Update<never> => ({
      key: keyOf(id),
      uncached: true,
      next: (current) => {
        const begun = ended.find((one) => isSame(one, id));
        const record = unpackDelivery(current, id.requestId) ?? (begun ? recordOf(begun) : null);
        if (!record || current !== null && record.instance !== instance) return "keep";
        return stored({ ...record, instance: null }, clock.now());
      },
    }));
    await commits.claim([inSender, ...records]);
  }

  async #end(
    id: DeliveryId,
    change: (record: DeliveryRecord) => DeliveryRecord,
    options: { mayWait?: boolean } = {},
  ): Promise<void> {
    const name = nameOf(id), key = keyOf(id);
    const open = this.#open.get(name);
    const update: Update<never> = {
      key,
      ...(open ? { seen: absent(key) } : {}),
      uncached: true,
      next: (current) => {
        const record = unpackDelivery(current, id.requestId) ?? open;
        return record ? stored(change(record), this.#deps.clock.now()) : "keep";
      },
    };
    await this.#logged(id, async () => {
      await this.#deps.commits.claim([update], options);
      if (this.#open.get(name) === open) this.#open.delete(name);
    });
  }

  async #logged(id: DeliveryId, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (cause) {
      this.#deps.log("error", "delivery_outcome_lost", { requestId: id.requestId, agentDid: id.sender, cause });
    }
  }

  /** Returns true for a delivery of this instance whose outcome is stored. */
  #isOver(begun: BegunDelivery): boolean {
    return begun.instance === this.#deps.instance && !this.#open.has(nameOf(begun));
  }

  #check(record: DeliveryRecord | null, bodySha256: string, now: number): DuplicateResult | null {
    const { instance, attemptMs } = this.#deps;
    return checkDuplicate(record, bodySha256, now, instance, attemptMs);
  }
}

/** Most deliveries in progress. Those whose outcome could not be stored stay until the sweep gives them a record. */
const REMEMBERED = 10_000;
/** Deliveries in one claim: a commit over the network holds ten checks. */
const SETTLED_TOGETHER = 8;

/**
 * Returns the updates that record the time of a delivery's first receipt, which shortens its lifetime (D-218). Without a
 * record of the delivery they refuse with `"unknown"`.
 */
export function receiptUpdates(id: DeliveryId, now: number): readonly Update<"unknown">[] {
  let begun: DeliveryRecord | null = null;
  return [{
    key: KEYS.sender(id.sender),
    next: (current) => {
      begun = begunIn(current, id);
      return "keep";
    },
  }, {
    key: keyOf(id),
    uncached: true,
    next: (current) => {
      // A delivery leaves the record of its sender only when it has a record of its own, whose absence the commit checks.
      const record = unpackDelivery(current, id.requestId) ?? begun;
      if (!record || now >= deliveryEnd(record)) return { refuse: "unknown" };
      return record.receiptAt > 0 ? "hold" : stored({ ...record, receiptAt: now }, now);
    },
  }];
}

/** Returns the update that records the time of the receipt of a queued message, which has a delivery record if any. */
export function queuedReceiptUpdate(id: DeliveryId, now: number): Update<never> {
  return {
    key: keyOf(id),
    uncached: true,
    next: (current) => {
      const record = unpackDelivery(current, id.requestId);
      if (!record || now >= deliveryEnd(record)) return "keep";
      return record.receiptAt > 0 ? "hold" : stored({ ...record, receiptAt: now }, now);
    },
  };
}

/** Returns the begun deliveries of a stored sender's record as delivery records, with their IDs. */
export function begunDeliveries(value: unknown): { id: DeliveryId; record: DeliveryRecord }[] {
  if (value === null || value === undefined) return [];
  return unpackBegun(unpackSender(value).begun).map((begun) => ({ id: begun, record: recordOf(begun) }));
}

function begunIn(value: unknown, id: DeliveryId): DeliveryRecord | null {
  return begunDeliveries(value).find((one) => isSame(one.id, id))?.record ?? null;
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

function nameOf({ sender, recipient, requestId }: DeliveryId): string {
  return `${sender} ${recipient} ${requestId}`;
}

function keyOf({ recipient, requestId, sender }: DeliveryId): Deno.KvKey {
  return KEYS.delivery(recipient, requestId, sender);
}
