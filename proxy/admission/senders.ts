/**
 * The records of senders (D-261): one update covers nonce, rate-limit window and begun delivery of a request. This file also
 * remembers the nonces that left the record, so that a request needs no read of the sealed parts.
 *
 * An instance remembers the nonces of the records that it has seen stored. A request that finds a record with a sealed
 * part that this instance does not remember is refused with `LOOK_AGAIN`: another instance has sealed it. The parts are then
 * read and the request is claimed again. A record seals only what its instance remembers, so that the claims of one
 * batch do not hide nonces from each other.
 */
import type { Beginning } from "../caller.ts";
import { KEYS } from "../schema/kv_keys.ts";
import {
  isUsedIn,
  newSender,
  NONCE_BYTES,
  NONCE_HASH_BYTES,
  noncesIn,
  nonceTotal,
  PackedWindow,
  packWindow,
  partEnd,
  seal,
  type SenderRecord,
  storedSender,
  unpackPart,
  unpackSender,
  withNonce,
} from "../schema/sender_record.ts";
import { readAscii } from "../schema/ascii.ts";
import type { Clock } from "../../shared/clock.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { digestBytes } from "../../shared/server/crypto.ts";
import type { Reservation } from "../../shared/server/nonces.ts";
import { decide, type Decision, type WindowRule } from "../../shared/server/rate_limit.ts";
import type { RecordChange, Update, Write } from "../../shared/server/store/group_commit.ts";
import { StoreUnavailable } from "../../shared/server/store/store_errors.ts";

/** The record has sealed parts that this instance does not remember, or no room: `look` and claim again. */
export const LOOK_AGAIN = Symbol("look again");

/** How a request counts in the window of its sender. */
export interface Count<R> {
  rule: WindowRule;
  /** Time of the commit, so that a slow request does not leave the window early. */
  now: () => number;
  /** Gets the decision each time the update is applied. */
  seen: (decision: Decision) => void;
  /** What a full window does: nothing, or refuse the claim. */
  whenFull: "keep" | { refuse: R };
}

/** What a request changes in the record of its sender, beside its nonce. */
interface Change<R> {
  count: Count<R> | undefined;
  beginning: Beginning<R> | undefined;
}

/** The nonces of one record of a sender that this instance remembers. */
class KnownNonces {
  /** Every nonce with a smaller running number that has not ended is known. */
  upTo = 0;
  /** Time of the newest pruning or reading, milliseconds since the Unix epoch: what had ended then is not known. */
  asOf = 0;
  /** Reading of parts in progress. */
  reading: Promise<void> | null = null;
  /** When each one ends, by its hash, in the order of use. */
  readonly #ends = new Map<string, number>();

  /** @param since of the record */
  constructor(readonly since: number) {}

  get size(): number {
    return this.#ends.size;
  }

  /** Returns true when all sealed nonces of a record are known. */
  covers({ since, sealed }: SenderRecord): boolean {
    return sealed === 0 || (since === this.since && sealed * LIMITS.senderPartNonces <= this.upTo);
  }

  rejects(hash: Uint8Array, now: number): boolean {
    return now < (this.#ends.get(nameOf(hash)) ?? 0);
  }

  /** Adds nonces; `first` is the running number of the first one. */
  add(nonces: Uint8Array, first: number): void {
    const fresh = nonces.subarray(Math.max(0, this.upTo - first) * NONCE_BYTES);
    for (const [at, { expiresAt }] of noncesIn(fresh)) this.#ends.set(nameOf(fresh.subarray(at)), expiresAt);
  }

  /** Forgets nonces that have ended, now and then. */
  prune(now: number): void {
    if (now < this.asOf + LIMITS.noncePruneMs) return;
    this.asOf = now;
    for (const [name, end] of this.#ends) {
      // One that is dated ahead keeps the later ones for five minutes more.
      if (now < end) return;
      this.#ends.delete(name);
    }
  }
}

interface SendersDeps {
  kv: Deno.Kv;
  clock: Clock;
  /** Length of the window "agent", milliseconds. */
  windowMs: number;
}

export class Senders {
  readonly #deps: SendersDeps;
  /** By sender, that of the oldest request first. */
  readonly #known = new Map<string, KnownNonces>();
  /** Looks until the nonces are counted again. */
  #untilCount = 0;

  constructor(deps: SendersDeps) {
    this.#deps = deps;
  }

  /**
   * Remembers the nonces of a stored record; reads sealed parts that were not seen before.
   *
   * @throws {StoreUnavailable} also when there are more parts than an instance reads
   */
  async look(sender: string, { value }: Deno.KvEntryMaybe<unknown>): Promise<void> {
    if (value === null) return;
    const record = unpackSender(value);
    // A record far from full seals nothing before the next look at it.
    if (record.sealed === 0 && record.nonces.length < LOOKED_AT_BYTES) return;
    const now = this.#deps.clock.now();
    const known = this.#turnTo(sender, record.since, now);
    while (!known.covers(record)) {
      known.reading ??= this.#readParts(sender, known, record.sealed, now).finally(() => known.reading = null);
      await known.reading;
    }
    known.add(record.nonces, record.sealed * LIMITS.senderPartNonces);
    known.upTo = Math.max(known.upTo, nonceTotal(record));
    known.prune(now);
    this.#forgetOldest();
  }

  /**
   * Returns the update that stores the nonce of a request, counts it and begins its delivery. Refuses with `"replay"`, with
   * `LOOK_AGAIN`, and as `count` and `beginning` say.
   */
  update<R>(
    sender: string,
    seen: Deno.KvEntryMaybe<unknown>,
    { nonce, record: { timestamp, expiresAt }, now }: Reservation,
    { count, beginning }: Change<R>,
  ): Update<R | "replay" | typeof LOOK_AGAIN> {
    const known = this.#known.get(sender) ?? NOTHING_KNOWN;
    const hash = digestBytes(nonce);
    const { windowMs } = this.#deps;
    return {
      key: KEYS.sender(sender),
      seen,
      ...(seen.value instanceof Uint8Array ? { bytes: seen.value.length } : {}),
      next(current): RecordChange<R | "replay" | typeof LOOK_AGAIN> {
        const before = current === null ? newSender(now) : unpackSender(current);
        if (!known.covers(before)) return { refuse: LOOK_AGAIN };
        if (isUsedIn(before.nonces, hash, timestamp, now) || known.rejects(hash, now)) return { refuse: "replay" };
        const window = count ? countIn(before.window, count) : before.window;
        if ("refuse" in window) return window;
        const placed = beginning ? beginning.place(before.begun) : { begun: before.begun, also: [] };
        if ("refuse" in placed) return placed;
        const { record, parts } = seal(before, known.since === before.since ? known.upTo : 0, now);
        if (record.nonces.length >= LIMITS.senderNoncesMax * NONCE_BYTES) return { refuse: LOOK_AGAIN };
        const nonces = withNonce(record.nonces, hash, { timestamp, expiresAt });
        const sealed: Write[] = parts.map(({ number, bytes }) => ({
          key: KEYS.senderPart(sender, number),
          value: bytes,
          expireInMs: Math.max(1, partEnd(bytes) - now) + MARGIN_MS,
        }));
        const after = storedSender({ ...record, nonces, window, begun: placed.begun }, windowMs);
        return { ...after, also: [...sealed, ...placed.also] };
      },
    };
  }

  /** Returns the update that begins a delivery of a request whose nonce and count are durable. */
  begin<R>(sender: string, beginning: Beginning<R>): Update<R> {
    return {
      key: KEYS.sender(sender),
      next: (current) => {
        const record = current === null ? newSender(this.#deps.clock.now()) : unpackSender(current);
        const placed = beginning.place(record.begun);
        if ("refuse" in placed) return placed;
        return { ...storedSender({ ...record, begun: placed.begun }, this.#deps.windowMs), also: placed.also };
      },
    };
  }

  async #readParts(sender: string, known: KnownNonces, sealed: number, now: number): Promise<void> {
    const first = Math.floor(known.upTo / LIMITS.senderPartNonces);
    const selector = { start: KEYS.senderPart(sender, first), end: KEYS.senderPart(sender, sealed) };
    const limit = LIMITS.senderPartsRead;
    let read = 0;
    for await (
      const { key, value } of this.#deps.kv.list(selector, { reverse: true, limit, batchSize: PARTS_AT_ONCE })
    ) {
      if (++read === limit) throw new StoreUnavailable(new Error("A sender has too many sealed parts"));
      // Nonces of older parts were used earlier, so they end at most this much later.
      if (partEnd(value) + LIMITS.timestampSkewSeconds * 2000 <= now) break;
      known.add(unpackPart(value), Number(key.at(-1)) * LIMITS.senderPartNonces);
    }
    known.asOf = now;
    known.upTo = Math.max(known.upTo, sealed * LIMITS.senderPartNonces);
  }

  /**
   * Returns what is known of a record. Nothing is known of another record of the sender, and nothing more after the clock
   * has stepped back: what had ended may count again.
   */
  #turnTo(sender: string, since: number, now: number): KnownNonces {
    let known = this.#known.get(sender);
    if (known?.since !== since || now < known.asOf - CLOCK_GRACE_MS) known = new KnownNonces(since);
    // The sender of the newest request is the last to be forgotten.
    this.#known.delete(sender);
    this.#known.set(sender, known);
    return known;
  }

  /** Forgets the senders of the oldest requests while they or their nonces are too many. */
  #forgetOldest(): void {
    if (--this.#untilCount > 0) return;
    this.#untilCount = LOOKS_PER_COUNT;
    let total = 0;
    for (const { size } of this.#known.values()) total += size;
    for (const [sender, { size }] of this.#known) {
      if (total <= LIMITS.senderNoncesKnown && this.#known.size <= LIMITS.sendersKnown) return;
      this.#known.delete(sender);
      total -= size;
    }
  }
}

const PARTS_AT_ONCE = 200;
const LOOKS_PER_COUNT = 1_000;
/** Below half of the nonces of a full record, its nonces need not be remembered. */
const LOOKED_AT_BYTES = LIMITS.senderNonces * NONCE_BYTES / 2;
/** A nonce rejects this much longer than a request with its timestamp is accepted. */
const CLOCK_GRACE_MS = (LIMITS.nonceGraceSeconds - LIMITS.timestampSkewSeconds) * 1000;
const NO_WINDOW = new Uint8Array();
const NOTHING_KNOWN = new KnownNonces(NaN);
/** The service deletes ended parts. The expiry in the store is later, for parts that the service missed (D-217). */
const MARGIN_MS = LIMITS.sweepMarginSeconds * 1000;

/** Returns the window "agent" of a stored record. */
export function windowOf(value: unknown): PackedWindow {
  return new PackedWindow(value === null ? NO_WINDOW : unpackSender(value).window);
}

/** Returns the packed window with one more request, or the refusal. */
function countIn<R>(window: Uint8Array, { rule, now, seen, whenFull }: Count<R>): Uint8Array | { refuse: R } {
  const decision = decide(rule, new PackedWindow(window), now());
  seen(decision);
  if (!decision.allowed && whenFull !== "keep") return whenFull;
  return packWindow(decision.record());
}

function nameOf(hash: Uint8Array): string {
  return readAscii(hash, 0, NONCE_HASH_BYTES);
}
