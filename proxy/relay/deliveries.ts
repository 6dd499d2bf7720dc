/**
 * Delivery records (D-69, D-72): which message was sent with which request ID, and its response. The same message
 * within a day of its 202 gets the same response. A duplicate that arrives during the first delivery waits for it.
 */
import type { HookAnswer } from "../../shared/protocol/api/relay.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import type { Clock } from "../../shared/clock.ts";
import { absent, type GroupCommit, type Update } from "../../shared/server/store/group_commit.ts";
import type { Log } from "../../shared/server/log.ts";
import { KEYS } from "../schema/kv_keys.ts";
import { deliveryEnd, packDelivery, unpackDelivery } from "../schema/delivery_record.ts";
import type { DeliveryRecord } from "../schema/records.ts";

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
}

export class Deliveries {
  readonly #deps: DeliveriesDeps;
  /** Deliveries in progress on this instance. */
  readonly #underWay = new Map<string, Promise<void>>();

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
    // A claim sees a 202 that waits for its commit; a read of the store does not (D-260).
    const found = await this.#deps.commits.claim<DuplicateResult>([{
      key: keyOf(id),
      uncached: true,
      next: (current) => {
        const repeat = this.#check(unpackDelivery(current, id.requestId), bodySha256, now);
        if (repeat) return { refuse: repeat };
        return current === null ? "keep" : "hold";
      },
    }]);
    return found.taken ? null : found.refused;
  }

  /** Returns the update that records a new attempt, with its 202 if it has one. An earlier 202 refuses it. */
  begin(id: DeliveryId, bodySha256: string, answer: HookAnswer | null = null): Update<DuplicateResult> {
    const now = this.#deps.clock.now();
    const answeredAt = answer ? now : 0;
    const instance = answer ? null : this.#deps.instance;
    const record: DeliveryRecord = { bodySha256, startedAt: now, instance, answer, answeredAt, receiptAt: 0 };
    const written = stored(record, now);
    const key = keyOf(id);
    return {
      key,
      seen: absent(key),
      next: (current) => {
        const repeat = this.#check(unpackDelivery(current, id.requestId), bodySha256, now);
        return repeat ? { refuse: repeat } : written;
      },
    };
  }

  /** Records the 202 with the next commit, after 20 ms at the latest (D-260). Never rejects: a failure is logged. */
  answered(id: DeliveryId, answer: HookAnswer): Promise<void> {
    const answeredAt = this.#deps.clock.now();
    return this.#note(id, (record) => ({ ...record, instance: null, answer, answeredAt }), { mayWait: true });
  }

  /**
   * Records that the attempt of an instance (default: this one) ended without a 202, so that no duplicate waits for it.
   */
  markFailed(id: DeliveryId, instance = this.#deps.instance): Promise<void> {
    return this.#note(id, (record) => record.instance === instance ? { ...record, instance: null } : record);
  }

  async #note(
    id: DeliveryId,
    change: (record: DeliveryRecord) => DeliveryRecord,
    options: { mayWait?: boolean } = {},
  ): Promise<void> {
    const update: Update<never> = {
      key: keyOf(id),
      uncached: true,
      next: (current) => {
        const record = unpackDelivery(current, id.requestId);
        return record ? stored(change(record), this.#deps.clock.now()) : "keep";
      },
    };
    try {
      await this.#deps.commits.claim([update], options);
    } catch (cause) {
      this.#deps.log("error", "delivery_outcome_lost", { requestId: id.requestId, agentDid: id.sender, cause });
    }
  }

  #check(record: DeliveryRecord | null, bodySha256: string, now: number): DuplicateResult | null {
    const { instance, attemptMs } = this.#deps;
    return checkDuplicate(record, bodySha256, now, instance, attemptMs);
  }
}

/**
 * Returns the update that records the time of a delivery's first receipt, which shortens its lifetime (D-218). Without
 * a record it refuses with `"unknown"` or changes nothing.
 */
export function receiptUpdate(id: DeliveryId, now: number, whenUnknown: "keep"): Update<never>;
export function receiptUpdate(id: DeliveryId, now: number, whenUnknown: "refuse"): Update<"unknown">;
export function receiptUpdate(id: DeliveryId, now: number, whenUnknown: "keep" | "refuse"): Update<"unknown"> {
  return {
    key: keyOf(id),
    uncached: true,
    next: (current) => {
      const record = unpackDelivery(current, id.requestId);
      if (!record || now >= deliveryEnd(record)) return whenUnknown === "keep" ? "keep" : { refuse: "unknown" };
      return record.receiptAt > 0 ? "hold" : stored({ ...record, receiptAt: now }, now);
    },
  };
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
