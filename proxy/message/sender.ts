/**
 * The senders of this instance as live objects: their used nonces, their window "agent" and their begun deliveries.
 * Requests judge and change them in memory, and a commit packs the record of a sender once for all requests that share
 * the commit.
 *
 * What is in memory may be ahead of the store, because a nonce is reserved at check 5 and stored with the commit of its
 * request. After a commit that failed, was late or met another instance's record, what was not known to be stored is
 * forgotten, the record is read again (or taken from what another instance has told), and each request is judged again.
 * Otherwise a nonce whose commit took effect unseen would be accepted twice.
 */
import type { Kv, KvKey } from "../../shared/server/kv.ts";
import { KEYS } from "../schema/kv_keys.ts";
import {
  type BegunDelivery,
  newSender,
  NONCE_BYTES,
  type NonceName,
  nonceName,
  noncesIn,
  packPart,
  packSender,
  partEnd,
  putNonce,
  senderKeptMs,
  type SenderRecord,
  type StoredNonce,
  unpackPart,
  unpackSender,
} from "../schema/sender_record.ts";
import { BoundedMap } from "../../shared/bounded_map.ts";
import type { Clock } from "../../shared/clock.ts";
import type { Random } from "../../shared/random.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { rejectedUntil } from "../../shared/server/nonces.ts";
import { hexDigest } from "../../shared/server/crypto.ts";
import { type Decision, Window, type WindowRule } from "../../shared/server/rate_limit.ts";
import type { BatchedReads } from "../../shared/server/store/batched_reads.ts";
import { idOf, type LiveChange, type LiveRecord, type Write } from "../../shared/server/store/batch.ts";
import { StoreBusy, StoreUnavailable } from "../../shared/server/store/store_errors.ts";
import type { BeginningOfDelivery, DuplicateResult, Placed } from "./delivery.ts";
import { UsedNonces } from "./used_nonces.ts";

/**
 * Most sealed parts of a sender that are read at once. With more, one request may read the store for seconds. With
 * less, a sender with a high limit is refused.
 */
const PARTS_READ_MAX = Math.ceil(2 ** 20 / LIMITS.senderPartNonces);
const PARTS_AT_ONCE = 500;
/** With more, senders that are no longer active take memory. With less, a returning one costs a read. */
const SENDERS_KEPT_MAX = 10_000;
/** Nonces of all senders in memory, up to four slots of 20 bytes each. With more, they may take over 80 MB. */
const NONCES_KEPT_MAX = 1_000_000;
/**
 * Time between removals of a sender's ended nonces. With less, each request would look through its nonces. With more,
 * ended ones take memory.
 */
const PRUNE_MS = 10_000;
/** How long an ended nonce is kept: longer than checks take, because they judge by the time when they began. */
const ENDED_KEPT_MS = 15_000;
/** A nonce is refused for this much longer than a request with its timestamp is accepted. */
const CLOCK_GRACE_MS = (LIMITS.nonceGraceSeconds - LIMITS.timestampSkewSeconds) * 1000;
/** The service deletes ended parts. The store deletes them this much later, for those that the service missed. */
const MARGIN_MS = LIMITS.sweepMarginSeconds * 1000;
/**
 * How long this instance tells others what it stores of a sender, once another one has stored something of it. With
 * less, the sender's first request there after a pause costs two round trips more.
 */
const SHARED_MS = 60_000;
/** Most records that instances have told each other. With more, they take over 10 MB; with fewer, more are read. */
const TOLD_MAX = 2_000;
const MOST_BYTES = LIMITS.senderNonces * NONCE_BYTES;
const NO_WRITES: readonly Write[] = [];

interface SendersDeps {
  kv: Kv;
  reads: BatchedReads;
  clock: Clock;
  random: Random;
  /** Length of the window "agent", milliseconds. */
  windowMs: number;
}

/** A sender as a commit has stored it. */
export interface StoredSender {
  agentDid: string;
  value: Uint8Array;
  versionstamp: string;
}

export class Senders {
  /** Called after a commit with the senders of which other instances have got requests too. */
  onShared: (senders: readonly StoredSender[]) => void = () => {};
  /** What was stored of such senders in this turn of the event loop, until `onShared` gets it. */
  #shared: StoredSender[] = [];
  /** Senders by DID. The one that was added first is forgotten first. */
  readonly #kept = new BoundedMap<string, Sender>(SENDERS_KEPT_MAX);
  readonly #told = new BoundedMap<string, StoredSender>(TOLD_MAX);
  #untilCount = 0;

  constructor(private readonly deps: SendersDeps) {}

  /** Returns a sender, which may not be loaded. */
  of(agentDid: string): Sender {
    const kept = this.#kept.get(agentDid);
    if (kept) return kept;
    // What was told before the sender was forgotten may be old, and its commit would conflict.
    this.#told.delete(agentDid);
    const sender = new Sender(agentDid, this.deps, this.#told, (stored) => this.#share(stored));
    this.#kept.set(agentDid, sender);
    return sender;
  }

  /**
   * Notes what another instance has stored of a sender, because the next commit here would otherwise find its record
   * outdated, and take three round trips to the store in place of one. It is only a hint, because the commit checks the
   * version.
   */
  learn(stored: StoredSender): void {
    this.#kept.get(stored.agentDid)?.learn(stored);
  }

  /** Collects the senders of one commit, because a link carries one frame more easily than many. */
  #share(stored: StoredSender): void {
    if (this.#shared.push(stored) > 1) return;
    queueMicrotask(() => this.onShared(this.#shared.splice(0)));
  }

  /**
   * Returns the sender of a request when it is loaded.
   *
   * @throws {StoreUnavailable}
   */
  loaded(agentDid: string, now: number): Sender | Promise<Sender> {
    if (--this.#untilCount <= 0) this.#forgetOldest();
    const sender = this.of(agentDid);
    sender.dropIfOutdated(now);
    return sender.isLoaded ? sender : sender.load().then(() => sender);
  }

  /**
   * Forgets the oldest senders while there are too many nonces. Forgetting one in use is safe, because commits check
   * its version.
   */
  #forgetOldest(): void {
    this.#untilCount = REQUESTS_PER_COUNT;
    let total = 0;
    for (const { known } of this.#kept.values()) total += known.size;
    for (const [agentDid, { known }] of this.#kept) {
      if (total <= NONCES_KEPT_MAX) return;
      this.#kept.delete(agentDid);
      total -= known.size;
    }
  }
}

const REQUESTS_PER_COUNT = 1_000;

export class Sender implements LiveRecord {
  readonly key: KvKey;
  readonly id: string;
  isLoaded = false;
  versionstamp: string | null = null;
  /** Rises each time the record is read or taken over from another instance. What was judged before is judged again. */
  generation = 0;
  window = new Window();
  /** Deliveries that have begun and have no delivery record. */
  begun: readonly BegunDelivery[] = [];
  readonly known: UsedNonces;
  /** Nonces of requests in progress that are not known to be stored. */
  readonly #reserved = new Set<NonceUse>();
  /** Nonces of the commit in flight. */
  readonly #taken: NonceUse[] = [];
  #since = 0;
  #sealed = 0;
  /** The packed nonces that are in no part, oldest first. */
  #nonces = new Uint8Array(MOST_BYTES);
  #view = new DataView(this.#nonces.buffer);
  #bytes = 0;
  /** Parts that were sealed since the last commit. */
  #parts: Write[] = [];
  /** Every stored nonce with a smaller running number is known, unless it has ended. */
  #upTo = 0;
  /** Time of the newest pruning, or reading of all parts. Nonces that had ended by then may be unknown. */
  #asOf = 0;
  /** When the store deletes the record, milliseconds since the Unix epoch. */
  #endsAt = Infinity;
  /** True when the record must be read again after the commit in flight, because an ended nonce may count again. */
  #isOutdated = false;
  /** Generation of the commit in flight; 0 without one. */
  #inFlight = 0;
  #loading: Promise<void> | null = null;
  /** Until when other instances are told what is stored, milliseconds since the Unix epoch. */
  #sharedUntil = 0;
  /** What the commit in flight stores. */
  #packed: Uint8Array | null = null;

  constructor(
    readonly agentDid: string,
    private readonly deps: SendersDeps,
    /** The newest stored version of each sender that instances have told each other. */
    private readonly allTold: Map<string, StoredSender>,
    private readonly share: (stored: StoredSender) => void,
  ) {
    this.known = new UsedNonces(deps.random);
    this.key = KEYS.sender(agentDid);
    this.id = idOf(this.key);
  }

  get #told(): StoredSender | undefined {
    return this.allTold.get(this.agentDid);
  }

  load(): Promise<void> {
    if (!this.#loading && this.#restore()) return Promise.resolve();
    return this.#loading ??= this.#read();
  }

  async #read(): Promise<void> {
    try {
      const { reads, clock } = this.deps;
      const { value, versionstamp } = await reads.get(this.key);
      const now = clock.now(), record = value === null ? newSender(now) : unpackSender(value, this.agentDid);
      if (this.versionstamp !== null && versionstamp !== this.versionstamp) this.#sharedUntil = now + SHARED_MS;
      const first = this.#firstUnknown(record, now);
      this.#adopt(record, versionstamp, first < record.sealed ? await this.#readParts(first, record.sealed, now) : []);
      // Another instance may have told a newer version during the reading.
      if (isNewer(this.#told, this)) this.isLoaded = this.#restore();
    } finally {
      // Cleared in the turn that sets `isLoaded`, because a load after a drop would otherwise wait for this reading and
      // find nothing loaded.
      this.#loading = null;
    }
  }

  /**
   * Notes what another instance has stored. Only the next use takes it over, because most versions of a busy sender are
   * outdated before this instance needs them.
   *
   * @throws {MalformedRecord}
   */
  learn(stored: StoredSender): void {
    unpackSender(stored.value, this.agentDid);
    this.#sharedUntil = this.deps.clock.now() + SHARED_MS;
    if (!isNewer(stored, this.#told) || !isNewer(stored, this)) return;
    this.allTold.set(this.agentDid, stored);
    if (this.#inFlight === 0) this.isLoaded = false;
  }

  /** Takes over the newest version that instances have told. Returns false when the store must be read instead. */
  #restore(): boolean {
    const told = this.#told, record = told && this.#toldAfter(this.versionstamp, told);
    if (!told || !record) {
      this.allTold.delete(this.agentDid);
      return false;
    }
    this.#adopt(record, told.versionstamp, []);
    return true;
  }

  /** Returns what was told, unless it is older than `versionstamp` or follows sealed parts that are not known here. */
  #toldAfter(versionstamp: string | null, told: StoredSender): SenderRecord | null {
    if (told.versionstamp < (versionstamp ?? "")) return null;
    const record = unpackSender(told.value, this.agentDid);
    return this.#firstUnknown(record, this.deps.clock.now()) >= record.sealed ? record : null;
  }

  /**
   * Returns the number of the first sealed part whose nonces are not all known. All parts are read when the record is
   * another one, whose numbers differ, and when the clock went back, because nonces that had ended may count again.
   */
  #firstUnknown({ since }: SenderRecord, now: number): number {
    const isKnown = since === this.#since && now >= this.#asOf - CLOCK_GRACE_MS;
    return isKnown ? Math.floor(this.#upTo / LIMITS.senderPartNonces) : 0;
  }

  /** @param older the nonces of the sealed parts that were not known */
  #adopt(
    { since, sealed, nonces, window, begun }: SenderRecord,
    versionstamp: string | null,
    older: readonly StoredNonce[],
  ): void {
    const now = this.deps.clock.now();
    if (since !== this.#since || now < this.#asOf - CLOCK_GRACE_MS) {
      this.known.clear();
      this.#asOf = now;
    }
    // A nonce that was reserved before or during this reading is known only if the store has it, because its request
    // would otherwise find its own reservation, and be refused as a replay.
    for (const use of this.#reserved) if (use.generation === this.generation) this.known.delete(use.name);
    for (const { name, expiresAt } of older) this.known.set(name, expiresAt);
    for (const { name, expiresAt } of noncesIn(nonces)) this.known.set(name, expiresAt);
    this.#since = since;
    this.#sealed = sealed;
    this.#nonces.set(nonces);
    this.#bytes = nonces.length;
    this.#upTo = sealed * LIMITS.senderPartNonces + nonces.length / NONCE_BYTES;
    this.#endsAt = Infinity;
    this.window = window;
    this.begun = begun;
    this.versionstamp = versionstamp;
    this.generation++;
    this.isLoaded = true;
  }

  /** Returns the nonces of sealed parts that have not ended, oldest first. */
  async #readParts(first: number, sealed: number, now: number): Promise<StoredNonce[]> {
    const parts: Uint8Array[] = [];
    const selector = { start: KEYS.senderPart(this.agentDid, first), end: KEYS.senderPart(this.agentDid, sealed) };
    const options = { reverse: true, limit: PARTS_READ_MAX, batchSize: PARTS_AT_ONCE };
    for await (const { value } of this.deps.kv.list(selector, options)) {
      // Older parts hold nonces that were used earlier, which end at most this much later.
      if (partEnd(value) + LIMITS.timestampSkewSeconds * 2000 <= now) break;
      // The nonces are read only after the count, because a million would take most of a second before the refusal.
      if (parts.push(unpackPart(value)) < PARTS_READ_MAX) continue;
      throw new StoreUnavailable(new Error("A sender has too many sealed parts"));
    }
    return parts.reverse().flatMap((part) => noncesIn(part));
  }

  drop(): void {
    this.allTold.delete(this.agentDid);
    this.#forget();
  }

  undo(): boolean {
    const told = this.#told, taken = this.#taken.slice();
    this.#forget();
    if (!told || told.versionstamp === this.versionstamp || taken.length === 0) return false;
    const record = this.#toldAfter(this.versionstamp, told);
    // If only the commit's answer was lost, its nonces are in that record.
    return record !== null && !noncesIn(record.nonces).some((stored) => taken.some((own) => hasSameName(own, stored)));
  }

  #forget(): void {
    for (const use of this.#taken.splice(0)) this.release(use);
    this.#parts = [];
    this.#packed = null;
    this.#inFlight = 0;
    this.#isOutdated = false;
    this.isLoaded = false;
  }

  /** Drops a record that the store has deleted meanwhile, or that was read before the clock stepped back. */
  dropIfOutdated(now: number): void {
    const isOutdated = now >= this.#endsAt || now < this.#asOf - CLOCK_GRACE_MS;
    if (!isOutdated || !this.isLoaded) return;
    if (this.#inFlight === 0) this.drop();
    else this.#isOutdated = true;
  }

  /**
   * Reserves a nonce for a request whose checks began at `now`, milliseconds since the Unix epoch. Returns `null` when
   * it was used before, or another request has reserved it.
   */
  reserve(nonce: string, timestamp: number, now: number): NonceUse | null {
    this.#prune(now);
    const name = nonceName(hexDigest(nonce));
    if (this.isUsed(name, now)) return null;
    const expiresAt = rejectedUntil(timestamp, now);
    const use: NonceUse = { sender: this, name, timestamp, expiresAt, now, generation: this.generation };
    this.known.set(name, expiresAt);
    this.#reserved.add(use);
    return use;
  }

  isUsed(name: NonceName, now: number): boolean {
    return now < this.known.endOf(name);
  }

  /** Ends the reservation of a request whose claim failed. If the request claims again, its nonce is judged again. */
  release(use: NonceUse): void {
    // A commit in flight may still store it. Another request with this nonce is a replay until that is known.
    if (this.#taken.includes(use)) return;
    if (this.#reserved.delete(use) && use.generation === this.generation) this.known.delete(use.name);
    use.generation = 0;
  }

  /** Forgets nonces that have ended, at most every 10 s. */
  #prune(now: number): void {
    if (now < this.#asOf + PRUNE_MS) return;
    this.#asOf = now;
    this.known.forgetEnded(now - ENDED_KEPT_MS);
  }

  /** Puts a reserved nonce into the record. */
  put(use: NonceUse): void {
    if (this.#bytes === MOST_BYTES) this.#seal(use.now);
    this.known.set(use.name, use.expiresAt);
    this.#reserved.add(use);
    use.generation = this.generation;
    putNonce(this.#view, this.#bytes, use);
    this.#bytes += NONCE_BYTES;
    this.#taken.push(use);
  }

  /** Moves the oldest nonces into a part. The part is not stored when all of them have ended. */
  #seal(now: number): void {
    const size = LIMITS.senderPartNonces * NONCE_BYTES, part = packPart(this.#nonces.subarray(0, size));
    const end = partEnd(part), key = KEYS.senderPart(this.agentDid, this.#sealed++);
    if (now < end) this.#parts.push({ key, value: part, expireInMs: end - now + MARGIN_MS });
    this.#nonces.copyWithin(0, size);
    this.#bytes -= size;
  }

  pack(): { value: Uint8Array; expireInMs: number; also: readonly Write[] } {
    this.#inFlight = this.generation;
    const expireInMs = senderKeptMs(this, this.deps.windowMs);
    this.#endsAt = this.deps.clock.now() + expireInMs;
    const nonces = this.#nonces.subarray(0, this.#bytes);
    const { window, begun } = this;
    const value = packSender({ since: this.#since, sealed: this.#sealed, nonces, window, begun });
    this.#packed = value;
    return { value, expireInMs, also: this.#parts };
  }

  committed(versionstamp: string): void {
    if (this.#inFlight !== this.generation || this.#isOutdated) return this.drop();
    for (const use of this.#taken.splice(0)) this.#reserved.delete(use);
    this.#parts = [];
    this.#inFlight = 0;
    this.#upTo = this.#sealed * LIMITS.senderPartNonces + this.#bytes / NONCE_BYTES;
    this.versionstamp = versionstamp;
    const packed = this.#packed;
    this.#packed = null;
    // Another instance may have read this version, and told its next one, before the answer came.
    if (isNewer(this.#told, this)) {
      this.isLoaded = false;
      return;
    }
    this.allTold.delete(this.agentDid);
    if (!packed || this.deps.clock.now() >= this.#sharedUntil) return;
    const stored = { agentDid: this.agentDid, value: packed, versionstamp };
    this.allTold.set(this.agentDid, stored);
    this.share(stored);
  }
}

function hasSameName({ name: one }: StoredNonce, { name: other }: StoredNonce): boolean {
  return one.a === other.a && one.b === other.b && one.c === other.c;
}

type Version = { readonly versionstamp: string | null } | undefined;

function isNewer(a: Version, b: Version): boolean {
  return (a?.versionstamp ?? "") > (b?.versionstamp ?? "");
}

/** A nonce that a request has reserved. */
export interface NonceUse extends StoredNonce {
  readonly sender: Sender;
  /** When the checks of the request began, milliseconds since the Unix epoch. */
  readonly now: number;
  generation: number;
}

/** Refuses a request whose window is full. A symbol, so that it differs from every refusal of a route's updates. */
export const WINDOW_FULL = Symbol("full");
export const REFUSE_FULL = { refuse: WINDOW_FULL } as const;
export type SenderRefusal = DuplicateResult | "replay" | typeof WINDOW_FULL;

/** What a request changes in its sender's record: its nonce, its place in the window, and the begun delivery. */
export class SenderChange implements LiveChange<SenderRefusal> {
  /** The window's decision at the commit, because a slow request would otherwise leave the window early. */
  decision: Decision | null = null;
  #placed: Placed | null = null;

  /** @param rule of the sender's window; `null` when the request is not counted, or is counted in another window */
  constructor(
    readonly record: Sender,
    readonly clock: Clock,
    readonly use: NonceUse | null,
    readonly rule: WindowRule | null,
    readonly beginning: BeginningOfDelivery | null,
  ) {}

  judge(): { refuse: SenderRefusal } | null {
    const { record, use, rule, beginning } = this;
    if (!record.isLoaded) throw new StoreBusy(new Error("The sender was dropped"));
    if (use && use.generation !== record.generation && record.isUsed(use.name, use.now)) return REPLAY;
    if (rule) {
      this.decision = record.window.peek(rule, this.clock.now());
      if (!this.decision.allowed) return REFUSE_FULL;
    }
    const placed = beginning ? beginning.place(record.begun) : null;
    if (placed && "refuse" in placed) return placed;
    this.#placed = placed;
    return null;
  }

  take(): readonly Write[] {
    const { record, use, rule } = this, placed = this.#placed;
    if (use) record.put(use);
    if (rule) record.window.add(rule, this.clock.now());
    if (!placed) return NO_WRITES;
    record.begun = placed.begun;
    return placed.also;
  }
}

const REPLAY = { refuse: "replay" as const };
