/**
 * Sliding-window rate limits (D-49, D-51, D-65): the pure decision and its record in the store. No window contains more
 * requests than the limit. Rejected requests are not counted.
 */
import { LIMITS } from "../protocol/limits.ts";
import type { Clock } from "../clock.ts";
import type { GroupCommit, Update } from "./store/group_commit.ts";

/** Most requests in any window of `windowMs` milliseconds. */
export interface WindowRule {
  /** Name in the `RateLimit` header. */
  name: string;
  requests: number;
  windowMs: number;
}

/** Counted requests: time (milliseconds since the Unix epoch) and number of requests at it. */
export type WindowRecord = (readonly [at: number, count: number])[];

/** The counted requests of a window, in order of time, in another form than a list. */
export interface Entries {
  readonly length: number;
  timeOf(index: number): number;
  countOf(index: number): number;
}

/** Decision of a window about a request. */
export interface Decision {
  allowed: boolean;
  /** Requests left after this one. */
  remaining: number;
  /** Time until a retry can succeed or the window is empty, milliseconds. */
  resetMs: number;
  /** Returns the new record. Most requests need it once of three decisions. */
  record(): WindowRecord;
  /** True when the record must be stored although the request is rejected, because the clock stepped back. */
  mended: boolean;
}

/**
 * Returns the decision about one more request. With a limit over 1,000, requests within a sixtieth of the window share an
 * entry; an entry counts until all of its requests have left the window.
 *
 * @param now milliseconds since the Unix epoch
 */
export function decide(rule: WindowRule, record: WindowRecord | Entries, now: number): Decision {
  const entries = Array.isArray(record) ? new ListEntries(record) : record;
  const grain = rule.requests > LIMITS.exactWindowRequests ? rule.windowMs / 60 : 0;
  const life = rule.windowMs + grain;
  // Entries in the future come from a clock that stepped back. They count as made now, so they end after one window.
  const timeOf = (index: number) => Math.min(entries.timeOf(index), now);
  const last = entries.length - 1;
  const mended = last >= 0 && entries.timeOf(last) > now;
  let gone = 0, used = 0;
  for (let i = 0; i <= last; i++) {
    if (now >= timeOf(i) + life) gone++;
    else used += entries.countOf(i);
  }
  const allowed = used < rule.requests;
  const resetMs = (gone <= last ? timeOf(gone) : now) + life - now;
  return {
    allowed,
    remaining: allowed ? rule.requests - used - 1 : 0,
    resetMs,
    mended,
    record() {
      const next: [at: number, count: number][] = [];
      for (let i = gone; i <= last; i++) add(next, timeOf(i), entries.countOf(i), 0);
      if (allowed) add(next, now, 1, grain);
      return next;
    },
  };
}

/** Adds requests to the last entry if it is of this time, or less than `grain` milliseconds older, else as a new one. */
function add(record: [at: number, count: number][], at: number, count: number, grain: number): void {
  const last = record.at(-1);
  if (last && (at === last[0] || at - last[0] < grain)) last[1] += count;
  else record.push([at, count]);
}

class ListEntries implements Entries {
  readonly #list: WindowRecord;

  constructor(list: WindowRecord) {
    this.#list = list;
  }

  get length(): number {
    return this.#list.length;
  }

  timeOf(index: number): number {
    return this.#list[index]?.[0] ?? 0;
  }

  countOf(index: number): number {
    return this.#list[index]?.[1] ?? 0;
  }
}

/**
 * Returns the update that counts a request at the time of its commit, so that a slow request does not leave the window
 * early. `seen` gets the decision each time the update is applied. A full window keeps the record, or refuses the whole
 * claim with `whenFull.refuse`.
 */
export function windowUpdate<R = never>(
  key: Deno.KvKey,
  rule: WindowRule,
  now: () => number,
  seen: (decision: Decision) => void,
  whenFull: "keep" | { refuse: R } = "keep",
  entry?: Deno.KvEntryMaybe<unknown>,
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

/** Returns `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers), and `Retry-After` for a rejected request. */
export function rateLimitHeaders(rule: WindowRule, decision: Decision): Record<string, string> {
  const seconds = Math.max(1, Math.ceil(decision.resetMs / 1000));
  return {
    "RateLimit-Policy": `"${rule.name}";q=${rule.requests};w=${Math.ceil(rule.windowMs / 1000)}`,
    "RateLimit": `"${rule.name}";r=${decision.remaining};t=${seconds}`,
    ...(decision.allowed ? {} : { "Retry-After": String(seconds) }),
  };
}

/** Windows in the store, for limits that have their own commit. */
export class RateLimiter {
  readonly #kv: Deno.Kv;
  readonly #commits: GroupCommit;
  readonly #clock: Clock;
  readonly #keyOf: (rule: string, who: string) => Deno.KvKey;

  constructor(kv: Deno.Kv, commits: GroupCommit, clock: Clock, keyOf: (rule: string, who: string) => Deno.KvKey) {
    this.#kv = kv;
    this.#commits = commits;
    this.#clock = clock;
    this.#keyOf = keyOf;
  }

  /** Returns the decision without counting. */
  async peek(rule: WindowRule, who: string): Promise<Decision> {
    const { value } = await this.#kv.get<WindowRecord>(this.#keyOf(rule.name, who));
    return decide(rule, value ?? [], this.#clock.now());
  }

  /** Counts one request unless the window is full. Returns the decision. */
  async hit(rule: WindowRule, who: string): Promise<Decision> {
    let decision: Decision | undefined;
    const seen = (latest: Decision) => decision = latest;
    await this.#commits.claim([windowUpdate(this.#keyOf(rule.name, who), rule, () => this.#clock.now(), seen)]);
    return decision as Decision;
  }
}
