/**
 * Rate limits with sliding windows (D-49): the decision, and the record of a window in the store. No window contains
 * more requests than its limit, and rejected requests do not count. High limits count in steps, because the record
 * would otherwise have an entry for each request.
 */
import type { Kv, KvEntryMaybe, KvKey } from "./kv.ts";
import type { Clock } from "../clock.ts";
import type { Update } from "./store/batch.ts";
import type { GroupCommit } from "./store/group_commit.ts";

/**
 * Largest limit that counts each request by itself. A larger one counts in steps of its window, because its record
 * would otherwise grow with the limit.
 */
export const EXACT_WINDOW_REQUESTS_MAX = 1_000;

/** The largest number of requests in any window of `windowMs` milliseconds. */
export interface WindowRule {
  /** The name in the `RateLimit` header. */
  name: string;
  requests: number;
  windowMs: number;
}

/** Requests that were counted: a time (milliseconds since the Unix epoch), and the number of requests at that time. */
export type WindowRecord = (readonly [at: number, count: number])[];

export interface Decision {
  allowed: boolean;
  /** Requests that are left after this one. */
  remaining: number;
  /** Milliseconds until the oldest request leaves the window, after which a refused one may succeed. */
  resetMs: number;
  /**
   * True when the window must be stored even for a refusal, because the clock was set back and times were corrected.
   */
  mended: boolean;
}

/**
 * The counted requests of one window. It is kept in memory, so that a decision costs the same for few requests and for
 * many. With a limit over 1,000, requests within a sixtieth of the window share an entry, which counts until all of
 * them have left the window.
 */
export class Window {
  readonly #times: number[] = [];
  readonly #counts: number[] = [];
  #used = 0;

  constructor(record: WindowRecord = []) {
    for (const [at, count] of record) this.push(at, count);
  }

  get length(): number {
    return this.#times.length;
  }

  /** Time of an entry, milliseconds since the Unix epoch. */
  timeOf(index: number): number {
    return this.#times[index] ?? 0;
  }

  countOf(index: number): number {
    return this.#counts[index] ?? 0;
  }

  record(): WindowRecord {
    return Array.from({ length: this.length }, (_, i) => [this.timeOf(i), this.countOf(i)]);
  }

  /** Returns the decision about one more request, without counting it. `now` is milliseconds since the Unix epoch. */
  peek(rule: WindowRule, now: number): Decision {
    const life = rule.windowMs + grainOf(rule);
    const mended = this.#mend(now, life);
    while (this.length > 0 && now >= this.timeOf(0) + life) {
      this.#times.shift();
      this.#used -= this.#counts.shift() ?? 0;
    }
    const allowed = this.#used < rule.requests;
    return {
      allowed,
      remaining: allowed ? rule.requests - this.#used - 1 : 0,
      resetMs: (this.length > 0 ? this.timeOf(0) : now) + life - now,
      mended,
    };
  }

  /** Counts a request that `peek` has just allowed. */
  add(rule: WindowRule, now: number): void {
    const at = this.#times.at(-1) ?? -Infinity;
    this.push(now - at < grainOf(rule) ? at : now, 1);
  }

  /**
   * Corrects entries in the future, which come from a clock that was set back. They count as made now, because they
   * would otherwise end late. One that is ahead by its whole life ends at once, because a full window that only refuses
   * is not stored again, and would stay full for as long as the step.
   */
  #mend(now: number, life: number): boolean {
    let ahead = 0;
    while (this.length > 0 && (this.#times.at(-1) ?? 0) > now) {
      const at = this.#times.pop() ?? 0, count = this.#counts.pop() ?? 0;
      this.#used -= count;
      if (at - now < life) ahead += count;
    }
    if (ahead === 0) return false;
    this.push(now, ahead);
    return true;
  }

  /** Adds requests behind the others, none of which may be newer. */
  push(at: number, count: number): void {
    const last = this.length - 1;
    if (this.#times[last] === at) this.#counts[last] = this.countOf(last) + count;
    else {
      this.#times.push(at);
      this.#counts.push(count);
    }
    this.#used += count;
  }
}

function grainOf({ requests, windowMs }: WindowRule): number {
  return requests > EXACT_WINDOW_REQUESTS_MAX ? windowMs / 60 : 0;
}

/** Returns the decision about one more request in a stored window, and the record to store. */
export function decide(rule: WindowRule, record: WindowRecord, now: number): Decision & { record(): WindowRecord } {
  const window = new Window(record);
  const decision = window.peek(rule, now);
  if (decision.allowed) window.add(rule, now);
  return { ...decision, record: () => window.record() };
}

/**
 * Returns the update that counts a request. The time is that of its commit, because a slow request would otherwise
 * leave the window early. `seen` gets the decision each time the update is applied. A full window keeps its record, or
 * refuses the whole claim with `whenFull.refuse`.
 */
export function windowUpdate<R = never>(
  key: KvKey,
  rule: WindowRule,
  now: () => number,
  seen: (decision: Decision) => void,
  whenFull: "keep" | { refuse: R } = "keep",
  entry?: KvEntryMaybe<unknown>,
): Update<R> {
  return {
    key,
    ...(entry ? { seen: entry } : {}),
    next(current) {
      const decision = decide(rule, (current as WindowRecord | null) ?? [], now());
      seen(decision);
      if (!decision.allowed && whenFull !== "keep") return whenFull;
      if (!decision.allowed && !decision.mended) return "keep";
      return { value: decision.record(), expireInMs: rule.windowMs * 2 };
    },
  };
}

/** Returns `RateLimit`, `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers) and, for a refusal, `Retry-After`. */
export function rateLimitHeaders(rule: WindowRule, decision: Decision): Record<string, string> {
  const seconds = Math.max(1, Math.ceil(decision.resetMs / 1000));
  return {
    "RateLimit-Policy": `"${rule.name}";q=${rule.requests};w=${Math.ceil(rule.windowMs / 1000)}`,
    "RateLimit": `"${rule.name}";r=${decision.remaining};t=${seconds}`,
    ...(decision.allowed ? {} : { "Retry-After": String(seconds) }),
  };
}

/** Windows in the store, for limits that are committed by themselves. */
export class RateLimiter {
  /** Windows that are being read, by rule and caller. */
  readonly #reads = new Map<string, Promise<KvEntryMaybe<WindowRecord>>>();

  constructor(
    private readonly kv: Kv,
    private readonly commits: GroupCommit,
    private readonly clock: Clock,
    private readonly keyOf: (rule: string, who: string) => KvKey,
  ) {}

  /**
   * Returns the decision without counting the request. Requests of one caller share a read that is under way, because
   * thousands at once would otherwise hold up the reads of all others for seconds. What is counted meanwhile may be
   * missed, so a limit must also hold where it counts.
   */
  async peek(rule: WindowRule, who: string): Promise<Decision> {
    const name = `${rule.name} ${who}`;
    const read = this.#reads.get(name) ??
      this.kv.get<WindowRecord>(this.keyOf(rule.name, who)).finally(() => this.#reads.delete(name));
    this.#reads.set(name, read);
    const { value } = await read;
    return decide(rule, value ?? [], this.clock.now());
  }

  /** Counts one request unless the window is full, and returns the decision. */
  async hit(rule: WindowRule, who: string): Promise<Decision> {
    let decision: Decision | undefined;
    const seen = (latest: Decision) => decision = latest;
    await this.commits.claim([windowUpdate(this.keyOf(rule.name, who), rule, () => this.clock.now(), seen)]);
    return decision as Decision;
  }
}
