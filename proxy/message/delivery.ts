/**
 * One delivery: its beginning, at which a repeat of the message joins it or is refused, and its end. A delivery (D-69,
 * D-72) says which message was sent with which request ID, and its response. The same message within a day of its 202
 * gets the same response.
 *
 * A delivery that begins is put into the record of its sender, and the commit checks that it has no delivery record.
 * Its end is written as a delivery record. So a delivery record decides if there is one, and otherwise the record of
 * the sender. When the record of the sender has no room, a delivery begins with a delivery record.
 */
import type { KvEntryMaybe, KvKey } from "../../shared/server/kv.ts";
import type { HookAnswer } from "../../shared/protocol/api/relay.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { absent, idOf, type RecordChange, type Update, type Write } from "../../shared/server/store/batch.ts";
import { KEYS } from "../schema/kv_keys.ts";
import { deliveryEnd, packDelivery, unpackDelivery } from "../schema/delivery_record.ts";
import type { DeliveryRecord, Envelope } from "../schema/records.ts";
import type { BegunDelivery } from "../schema/sender_record.ts";

/** Begun deliveries in a sender's record. With more, each of its requests reads and writes a larger record. */
export const BEGUN_MAX = 16;
/** The service deletes ended records. The store deletes them this much later, for those that the service missed. */
const MARGIN_MS = LIMITS.sweepMarginSeconds * 1000;

/** Identifies a message: sender, recipient and request ID. */
export interface DeliveryId {
  readonly sender: string;
  readonly recipient: string;
  readonly requestId: string;
  /** The key of the delivery record, and its text. Both are kept, because a message needs them often. */
  key?: KvKey;
  name?: string;
}

/** Why a message is not sent again. `under_way` means that another instance delivers it. */
export type DuplicateResult =
  | { repeat: "same"; answer: HookAnswer }
  | { repeat: "other_body" }
  | { repeat: "under_way"; instance: string };

/** This instance, and what the clocks of other instances show now; `null` for an instance that is not known. */
interface Instances {
  readonly instance: string;
  timeAt(instance: string): number | null;
}

/** What decides about a repeated request, beside the time. */
export interface Judging {
  /** Longest duration of an attempt, milliseconds. */
  attemptMs: number;
  leases: Instances;
}

/** Returns why a request with the ID of this record is not sent by this instance now, or `null` when it is. */
export function checkDuplicate(
  record: DeliveryRecord | null,
  bodySha256: string,
  now: number,
  { attemptMs, leases }: Judging,
): DuplicateResult | null {
  if (!record) return null;
  const { answer, answeredAt, startedAt } = record;
  if (answer && now < answeredAt + LIMITS.sameAnswerSeconds * 1000) {
    return record.bodySha256 === bodySha256 ? { repeat: "same", answer } : { repeat: "other_body" };
  }
  // An attempt of this instance has ended, because a repeat waits for one under way before this check.
  if (answer || !record.instance || record.instance === leases.instance) return null;
  // The clock of that instance decides, because it set the start. By another clock, the attempt could seem to be over.
  const isUnderWay = (leases.timeAt(record.instance) ?? now) < startedAt + attemptMs;
  return isUnderWay ? { repeat: "under_way", instance: record.instance } : null;
}

/** The begun deliveries of a sender, and what is written beside its record. */
export interface Placed {
  begun: readonly BegunDelivery[];
  also: readonly Write[];
}

/** A claim that begins an attempt. It checks the delivery record, and takes a place in the record of the sender. */
export class BeginningOfDelivery implements Update<DuplicateResult> {
  readonly key: KvKey;
  readonly seen: KvEntryMaybe<never>;
  readonly id: string;
  readonly #record: DeliveryRecord;
  /** Whether the claim found no delivery record. */
  #isNew = true;

  constructor(
    private readonly delivery: DeliveryId,
    bodySha256: string,
    answer: HookAnswer | null,
    readonly startedAt: number,
    private readonly judging: Judging,
    private readonly open: Map<string, DeliveryRecord>,
  ) {
    this.key = keyOf(delivery);
    this.id = nameOf(delivery);
    this.seen = absent(this.key);
    this.#record = {
      bodySha256,
      startedAt,
      instance: answer ? null : judging.leases.instance,
      answer,
      answeredAt: answer ? startedAt : 0,
      receiptAt: 0,
    };
  }

  next(current: unknown): RecordChange<DuplicateResult> {
    this.#isNew = current === null;
    const repeat = this.#repeatOf(unpackDelivery(current, this.delivery.requestId));
    if (repeat) return { refuse: repeat };
    return this.#isNew && !this.#record.answer ? "hold" : stored(this.#record, this.startedAt);
  }

  /** Returns the sender's begun deliveries with this one added, or refuses. It runs after `next`. */
  place(before: readonly BegunDelivery[]): Placed | { refuse: DuplicateResult } {
    const id = this.delivery, { instance } = this.judging.leases, startedAt = this.startedAt;
    const others: BegunDelivery[] = [];
    for (const one of before) {
      // A delivery of this instance whose outcome is stored leaves the record.
      if (one.instance === instance && !this.open.has(nameOf(one))) continue;
      if (!isSame(one, id)) {
        others.push(one);
        continue;
      }
      const repeat = this.#isNew ? this.#repeatOf(this.#known(one)) : null;
      if (repeat) return { refuse: repeat };
    }
    if (this.#record.answer || !this.#isNew) return { begun: others, also: NOTHING };
    if (others.length >= BEGUN_MAX) {
      const { value, expireInMs } = stored(this.#record, startedAt);
      return { begun: others, also: [{ key: this.key, value, expireInMs }] };
    }
    this.open.set(this.id, this.#record);
    const { sender, recipient, requestId } = id, { key, id: name } = this;
    const own: BegunDelivery & DeliveryId = { sender, recipient, requestId, startedAt, instance, key, name };
    others.push(own);
    return { begun: others, also: NOTHING };
  }

  /** Returns a begun delivery, with its answer when that waits here to be stored. */
  #known(begun: BegunDelivery): DeliveryRecord {
    const open = begun.instance === this.judging.leases.instance ? this.open.get(this.id) : undefined;
    return open?.answer ? open : recordOf(begun);
  }

  #repeatOf(record: DeliveryRecord | null): DuplicateResult | null {
    return checkDuplicate(record, this.#record.bodySha256, this.startedAt, this.judging);
  }

  /** Called when the claim was not committed. */
  cancel(): void {
    if (this.open.get(this.id) === this.#record) this.open.delete(this.id);
  }
}

const NOTHING: readonly Write[] = [];

/** The end of an attempt of this instance: with its 202, or without one. */
export class EndOfDelivery implements Update<never> {
  readonly key: KvKey;
  readonly id: string;
  readonly uncached = true;
  declare readonly seen?: KvEntryMaybe<never>;

  /** @param open the delivery while it is in the record of its sender */
  constructor(
    private readonly delivery: DeliveryId,
    private readonly open: DeliveryRecord | undefined,
    private readonly answer: HookAnswer | null,
    private readonly instance: string,
    private readonly now: number,
  ) {
    this.key = keyOf(delivery);
    this.id = nameOf(delivery);
    if (open) this.seen = absent(this.key);
  }

  next(current: unknown): RecordChange<never> {
    const record = unpackDelivery(current, this.delivery.requestId) ?? this.open;
    if (!record || this.answer === null && record.instance !== this.instance) return "keep";
    // The sweep may have stored the delivery without its hash, so that a repeat of the message would be refused as
    // another one.
    const bodySha256 = record.bodySha256 || (this.open?.bodySha256 ?? "");
    const { startedAt, receiptAt, handedOverAt } = record;
    const ended: DeliveryRecord = {
      bodySha256,
      startedAt,
      instance: null,
      answer: this.answer ?? record.answer,
      answeredAt: this.answer ? this.now : record.answeredAt,
      receiptAt,
    };
    if (handedOverAt !== undefined) ended.handedOverAt = handedOverAt;
    return stored(ended, this.now);
  }
}

export function begunIn(begun: readonly BegunDelivery[], id: DeliveryId): DeliveryRecord | null {
  const found = begun.find((one) => isSame(one, id));
  return found ? recordOf(found) : null;
}

/** Returns the record of a delivery without an answer. Its body's hash is not known, and only an answer needs it. */
export function recordOf({ startedAt, instance }: BegunDelivery): DeliveryRecord {
  return { bodySha256: "", startedAt, instance, answer: null, answeredAt: 0, receiptAt: 0 };
}

export function isSame(one: DeliveryId, other: DeliveryId): boolean {
  return one.requestId === other.requestId && one.recipient === other.recipient && one.sender === other.sender;
}

export function stored(record: DeliveryRecord, now: number): { value: Uint8Array; expireInMs: number } {
  return { value: packDelivery(record), expireInMs: Math.max(1, deliveryEnd(record) - now) + MARGIN_MS };
}

/** Returns the key of a delivery record as one text. */
export function nameOf(id: DeliveryId): string {
  return id.name ??= idOf(keyOf(id));
}

export function deliveryIdOf({ fromAgentDid, toAgentDid, requestId }: Envelope): DeliveryId {
  return { sender: fromAgentDid, recipient: toAgentDid, requestId };
}

export function keyOf(id: DeliveryId): KvKey {
  return id.key ??= KEYS.delivery(id.recipient, id.requestId, id.sender);
}
