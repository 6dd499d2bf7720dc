/**
 * What one person may use of this instance, over all their agents and sockets. With limits for each agent alone, a
 * person with a hundred agents could take a hundred shares and leave none for others. The counts are in memory. A new
 * instance begins without them, which costs at most one more window.
 */
import { Window, type WindowRule } from "../shared/server/rate_limit.ts";
import { BoundedMap } from "../shared/bounded_map.ts";
import { type Clock, MINUTE_MS } from "../shared/clock.ts";
import { ServiceError } from "../shared/protocol/errors.ts";
import { LIMITS } from "../shared/protocol/limits.ts";
import { TokenBucket } from "../shared/server/token_bucket.ts";

/** Frames over all sockets of an owner. With ten times as many, one person could hold a core with heartbeats. */
export const FRAMES_PER_SECOND = 200;
/** Bytes of frames over all sockets of an owner. With more, one person's frames (0.3 ms for 8 KiB) hold the core. */
const FRAME_BYTES_PER_SECOND = 262_144;
/** Wait of an owner after a socket that sent too much. With less, closing the socket would slow no sender down. */
const CONNECT_WAIT_MS = 10_000;
/** Wait of an owner whose socket filled the memory. With less, the memory would be full again before the next look. */
export const CONNECT_WAIT_MAX_MS = 60_000;
/**
 * Bytes of bodies a second, for each request of the owner in a minute: 2 MiB with the default. Large messages are read,
 * parsed and written to the disk that all share, so a hundred at once would stop every other request for a second.
 */
const BODY_BYTES_PER_REQUEST = 1_748;
/** Seconds of the budget that may come at once: 8 large messages, up to 15 ms each. With 2, others wait 0.25 s. */
const BODY_BURST_SECONDS = 1;
/** Turns of an owner's connects. Each takes two commits, so four hundred at once would stop all other requests. */
const CONNECTS = { atOnce: 8, waiting: 1_000, waitMs: 5_000 };
/**
 * Budgets of an owner that another registry has. With one, a person there whom one person here lets in could use up what
 * all people of that registry have.
 */
const ISSUER_SHARES = 4;
/** How many owners are remembered, the most recently active ones. With more, those of the past take memory. */
const MAX_OWNERS = 10_000;

/** Returns who shares the budgets of a request, for its refusal. */
function sharers({ length }: readonly string[]): string {
  return length === 1
    ? "The agents of your account"
    : "The agents of your server, or all visitors of your peer's account,";
}

/** Returns how many budgets of an owner a payer has. Of all payers only another registry is named by its origin. */
function sharesOf(payer: string): number {
  return payer.startsWith("http") ? ISSUER_SHARES : 1;
}

function ruleOf(payer: string, ofOne: WindowRule): WindowRule {
  const shares = sharesOf(payer);
  return shares === 1 ? ofOne : { ...ofOne, requests: ofOne.requests * shares };
}

export const bodyRefusal = (payers: readonly string[]): string => `${sharers(payers)} together send too many bytes`;

/**
 * Share of an owner's requests that may make a ticket or accept a pair. Each writes 1.6 KB that is kept for a day or longer,
 * so with all requests one person would write 2.7 GB a day.
 */
const PAIRING_SHARE = 0.1;
const PAIRING = "pairing";

/** Returns the refusal of a request that may be sent again after `ms` milliseconds. */
export function rateRefusal(ms: number, message: string, policy: Record<string, string> = {}): ServiceError {
  const headers = { "Retry-After": String(Math.max(1, Math.ceil(ms / 1000))), ...policy };
  return new ServiceError("PROXY_RATE_LIMIT_EXCEEDED", { message, headers });
}

interface Use {
  frames: TokenBucket;
  bytes: TokenBucket;
  bodyBytes: TokenBucket;
  /** Requests by the name of their window. */
  windows: Map<string, Window>;
  /** When a socket may be opened again, milliseconds since the Unix epoch. */
  connectAt: number;
  /** Bytes of signed receipts when the last one was counted, and that time, milliseconds since the Unix epoch. */
  receipts: { bytes: number; at: number };
}

export class OwnerBudgets {
  readonly #bodyBytes: number;
  /** Turns of each owner's agents that connect. */
  readonly connects: Turns;
  readonly #uses = new BoundedMap<string, Use>(MAX_OWNERS);

  /** @param requests of all agents of an owner in a minute */
  constructor(private readonly clock: Clock, private readonly requests: number) {
    // With a smaller budget the largest message would never fit.
    this.#bodyBytes = Math.max(LIMITS.hookBodyBytes, requests * BODY_BYTES_PER_REQUEST);
    this.connects = new Turns(clock, CONNECTS);
  }

  /**
   * Counts a request in the budget of its sender's owner, or one that costs as much as `count`. A visitor uses two
   * budgets. A request for which one of them has no room is not counted, because its repeats would otherwise keep the
   * window full.
   *
   * @param factor of the limit of this window
   * @throws {ServiceError} `PROXY_RATE_LIMIT_EXCEEDED`
   */
  takeRequest(payers: readonly string[], name: string, factor: number, count = 1): void {
    const now = this.clock.now();
    const ofOne = { name, requests: Math.ceil(this.requests * factor), windowMs: MINUTE_MS };
    for (const payer of payers) {
      const rule = ruleOf(payer, ofOne), { requests } = rule;
      const { allowed, remaining, resetMs } = this.#windowOf(payer, name).peek(rule, now);
      if (allowed && remaining + 1 >= count) continue;
      throw rateRefusal(
        resetMs,
        `${sharers(payers)} together have sent ${requests} ${name === PAIRING ? "pairing " : ""}requests in a minute`,
        {
          "RateLimit-Policy": `"owner";q=${requests};w=${MINUTE_MS / 1000}`,
        },
      );
    }
    for (const payer of payers) {
      const window = this.#windowOf(payer, name), rule = ruleOf(payer, ofOne);
      for (let i = 0; i < count; i++) window.add(rule, now);
    }
  }

  /** Counts a request that makes a ticket or accepts a pair. @throws {ServiceError} `PROXY_RATE_LIMIT_EXCEEDED` */
  takePairing(payers: readonly string[]): void {
    this.takeRequest(payers, PAIRING, PAIRING_SHARE);
  }

  /** Counts the body of a request. @throws {ServiceError} `PROXY_RATE_LIMIT_EXCEEDED` */
  takeBody(payers: readonly string[], bytes: number): void {
    const now = this.clock.now();
    for (const payer of payers) {
      const { bodyBytes } = this.#useOf(payer);
      if (!bodyBytes.take(bytes, now)) throw rateRefusal(bodyBytes.waitMs(bytes), bodyRefusal(payers));
    }
  }

  /** Returns for how many milliseconds a body of this size would be refused; 0 when it would be accepted. */
  bodyWaitMs(ownerDid: string, bytes: number): number {
    const { bodyBytes } = this.#useOf(ownerDid);
    bodyBytes.take(0, this.clock.now());
    return bodyBytes.waitMs(bytes);
  }

  /** Counts a frame of an owner's socket. Returns false when the owner has sent too many frames or bytes. */
  takeFrame(ownerDid: string, bytes: number): boolean {
    const { frames, bytes: ofBytes } = this.#useOf(ownerDid), now = this.clock.now();
    return frames.take(1, now) && ofBytes.take(bytes, now);
  }

  /** Lets no agent of the owner open a socket for a time, in milliseconds. */
  holdConnects(ownerDid: string, ms = CONNECT_WAIT_MS): void {
    const use = this.#useOf(ownerDid);
    use.connectAt = this.clock.now() + Math.max(ms, this.connectWaitMs(ownerDid));
  }

  /**
   * Returns how many milliseconds the owner's agents must wait before they open a socket. After a step back of the
   * clock it is 0, because the wait would otherwise be longer.
   */
  connectWaitMs(ownerDid: string): number {
    const rest = (this.#uses.get(ownerDid)?.connectAt ?? 0) - this.clock.now();
    return rest > CONNECT_WAIT_MAX_MS ? 0 : Math.max(0, rest);
  }

  /** Counts a signed receipt of the owner's agents. */
  addReceipt(ownerDid: string, bytes: number, keptMs: number): void {
    const kept = this.receiptBytes(ownerDid, keptMs);
    this.#useOf(ownerDid).receipts = { bytes: kept + bytes, at: this.clock.now() };
  }

  /**
   * Returns about how many bytes the owner's signed receipts take, each of which is kept for `keptMs` milliseconds. The
   * sum fades over that time, because to remember the time of each receipt would take memory.
   */
  receiptBytes(ownerDid: string, keptMs: number): number {
    const { bytes, at } = this.#useOf(ownerDid).receipts;
    return bytes * Math.exp(-Math.max(0, this.clock.now() - at) / keptMs);
  }

  #windowOf(payer: string, name: string): Window {
    return this.#useOf(payer).windows.getOrInsertComputed(name, () => new Window());
  }

  #useOf(payer: string): Use {
    const use = this.#uses.get(payer) ?? {
      frames: new TokenBucket(FRAMES_PER_SECOND),
      bytes: new TokenBucket(FRAME_BYTES_PER_SECOND),
      bodyBytes: new TokenBucket(this.#bodyBytes * sharesOf(payer), BODY_BURST_SECONDS),
      windows: new Map(),
      connectAt: 0,
      receipts: { bytes: 0, at: 0 },
    };
    this.#uses.set(payer, use);
    return use;
  }
}

interface TurnLimits {
  /** Jobs of one party that run at once. */
  atOnce: number;
  /** Jobs of one party that wait. Each holds a request in memory. */
  waiting: number;
  /** Longest wait, milliseconds. */
  waitMs: number;
}

interface Party {
  running: number;
  waiting: (() => void)[];
}

/**
 * Lets a few of each party's jobs run at once, while the others wait in order, because a party with many jobs would
 * otherwise delay all others.
 */
export class Turns {
  /** Parties with a job. */
  readonly #parties = new Map<string, Party>();

  constructor(private readonly clock: Clock, private readonly limits: TurnLimits) {}

  /** Tells whether a job of this party would run at once. */
  isFree(name: string): boolean {
    return (this.#parties.get(name)?.running ?? 0) < this.limits.atOnce;
  }

  /** Waits for a turn. Returns the function that ends it, or `null` when too many wait or the time is over. */
  async take(name: string): Promise<(() => void) | null> {
    const party = this.#parties.getOrInsert(name, { running: 0, waiting: [] });
    if (party.running < this.limits.atOnce) party.running++;
    else if (!await this.#wait(party)) return null;
    let isRunning = true;
    return () => {
      if (isRunning) this.#end(name, party);
      isRunning = false;
    };
  }

  #wait(party: Party): Promise<boolean> {
    if (party.waiting.length >= this.limits.waiting) return Promise.resolve(false);
    return new Promise((resolve) => {
      const begin = () => {
        cancel();
        resolve(true);
      };
      const cancel = this.clock.after(this.limits.waitMs, () => {
        party.waiting.splice(party.waiting.indexOf(begin), 1);
        resolve(false);
      });
      party.waiting.push(begin);
    });
  }

  /** Ends a turn. The first job of the party that waits begins in its place. */
  #end(name: string, party: Party): void {
    const next = party.waiting.shift();
    if (next) return next();
    if (--party.running === 0) this.#parties.delete(name);
  }
}
