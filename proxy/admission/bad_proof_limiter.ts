/**
 * Rejects a client whose requests are refused again and again, before its body is read.
 *
 * - It counts per address and token together, because an attacker who knows a token could otherwise lock out its agent,
 *   or other agents at the same address.
 * - It also counts per owner, because a person with a hundred agents would otherwise have a hundred counts. Requests
 *   that certainly come from the owner's agents count over all addresses. Others count per address, because a stranger
 *   may have made them.
 * - The counts are bounded and in memory, because they only reduce load.
 */
import { type Clock, sleep } from "../../shared/clock.ts";
import { BoundedMap } from "../../shared/bounded_map.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { digest } from "../../shared/server/crypto.ts";
import { declaredBytes } from "../../shared/server/http/body.ts";
import type { RequestContext } from "../../shared/server/http/route.ts";
import { authorizationToken } from "../../shared/server/http/signed_request.ts";
import { bodyRefusal, type OwnerBudgets, rateRefusal } from "../owner_budgets.ts";

/**
 * Refused requests of a token from one address in the window. With more, bad proofs would cost the time that checks of
 * good ones need. With less, a client would be locked out for few mistakes.
 */
export const BAD_PROOFS_MAX = 200;
/** Length of the window. With more, a token whose client was repaired stays refused for longer. */
const BAD_PROOFS_WINDOW_MS = 10_000;

const MAX_KEPT = 10_000;
/**
 * Refused requests of an owner in the window, as many as those of five agents. With more, a hundred agents could keep a
 * core busy. With less, one program that asks too often would stop the owner's other agents.
 */
const OWNER_FAILURES = 5 * BAD_PROOFS_MAX;

/**
 * How many refusals of a locked-out client are answered at once, so that it learns of the lock quickly. If it goes on,
 * it waits a second for each answer, because it would otherwise ask again as fast as it is refused.
 */
const QUICK_REFUSALS = 20;
const SLOW_REFUSAL_MS = 1_000;
/** Refusals of one count that may wait at a time. More are answered at once, because each one holds a connection. */
const MAX_WAITING = 256;

/** Authorization scheme of the token: an AIT, or an admin token. */
type Scheme = "Svc" | "Bearer";

interface Count {
  /** Milliseconds since the Unix epoch. */
  since: number;
  failures: number;
  /** Requests refused since the limit was reached, and those of them that wait for their answer. */
  refused: number;
  waiting: number;
}

export class BadProofLimiter {
  /** Counts by address and digest of the token, by owner, and by address and owner. */
  readonly #counts = new BoundedMap<string, Count>(MAX_KEPT);
  /** Owners of the tokens that failed, by address and digest of the token. */
  readonly #owners = new BoundedMap<string, string>(MAX_KEPT);
  /** When a request was counted last, milliseconds since the Unix epoch. */
  #newest = -Infinity;

  constructor(private readonly clock: Clock, private readonly budgets: Pick<OwnerBudgets, "bodyWaitMs">) {}

  /**
   * Refuses a request whose counts are over their limits: it throws at once, or returns a promise that rejects later.
   *
   * @throws {ServiceError} `PROXY_RATE_LIMIT_EXCEEDED` for a token with too many refused requests from this address, or
   * whose owner has too many, or sends another large body
   */
  rejectIfOver(exchange: RequestContext, scheme: Scheme = "Svc"): Promise<never> | undefined {
    if (!this.#isCounting()) return;
    const key = keyOf(exchange, scheme);
    if (key === null) return;
    const ownerDid = this.#owners.get(key);
    return this.#rejectOver(key, BAD_PROOFS_MAX, "Too many refused requests with this token from this address") ??
      (ownerDid === undefined
        ? undefined
        : this.#rejectOwner(ownerDid) ?? this.#rejectOwner(`${exchange.ip} ${ownerDid}`) ??
          this.#rejectBody(exchange, ownerDid));
  }

  /** Forgets all counts once the newest is over, because each request would otherwise pay for the digest of its token. */
  #isCounting(): boolean {
    const age = this.clock.now() - this.#newest;
    if (age >= 0 && age < BAD_PROOFS_WINDOW_MS) return true;
    this.#counts.clear();
    this.#owners.clear();
    return false;
  }

  /**
   * Refuses a large body unread when the owner was refused often and has too little body budget left, because reading
   * and hashing the body and writing the nonce would take time from other callers. A body of unknown length counts as
   * the largest, because a hostile client would otherwise leave the length out.
   */
  #rejectBody(exchange: RequestContext, ownerDid: string): Promise<never> | undefined {
    const bytes = declaredBytes(exchange.request) ?? LIMITS.hookBodyBytes;
    const count = this.#counts.get(ownerDid);
    if (bytes <= LIMITS.bodyFreeBytes || !count || count.failures < QUICK_REFUSALS) return;
    const waitMs = this.#restMs(count) > 0 ? this.budgets.bodyWaitMs(ownerDid, bytes) : 0;
    if (waitMs === 0) return;
    this.#count(`${exchange.ip} ${ownerDid}`);
    return this.#refuse(count, bodyRefusal([ownerDid]), waitMs);
  }

  #rejectOwner(key: string): Promise<never> | undefined {
    return this.#rejectOver(key, OWNER_FAILURES, "Too many refused requests of the agents of your account");
  }

  #rejectOver(key: string, limit: number, message: string): Promise<never> | undefined {
    const count = this.#counts.get(key);
    if (!count || count.failures < limit) return;
    const restMs = this.#restMs(count);
    return restMs > 0 ? this.#refuse(count, message, restMs) : undefined;
  }

  /**
   * Returns how many milliseconds a count still lasts. After a step back of the clock it is 0, because the count would
   * otherwise last longer.
   */
  #restMs({ since }: Count): number {
    const rest = since + BAD_PROOFS_WINDOW_MS - this.clock.now();
    return rest > BAD_PROOFS_WINDOW_MS ? 0 : Math.max(0, rest);
  }

  #refuse(count: Count, message: string, waitMs: number): Promise<never> {
    const refusal = rateRefusal(waitMs, message);
    if (++count.refused <= QUICK_REFUSALS || count.waiting >= MAX_WAITING) throw refusal;
    count.waiting++;
    return sleep(this.clock, SLOW_REFUSAL_MS).then(() => {
      count.waiting--;
      throw refusal;
    });
  }

  /**
   * Counts a refused request. `isProven` is true when the token's key has signed it. `failing` is `null` for an admin
   * token, which has no owner.
   */
  recordFailure(exchange: RequestContext, failing: { ownerDid: string; isProven: boolean } | null): void {
    const key = keyOf(exchange, failing ? "Svc" : "Bearer");
    if (key === null) return;
    this.#count(key);
    if (!failing) return;
    const { ownerDid, isProven } = failing;
    this.#owners.set(key, ownerDid);
    this.#count(isProven ? ownerDid : `${exchange.ip} ${ownerDid}`);
  }

  #count(key: string): void {
    const now = this.clock.now();
    const count = this.#counts.get(key);
    const isOver = !count || now - count.since >= BAD_PROOFS_WINDOW_MS || now < count.since;
    this.#newest = now;
    if (isOver) this.#counts.set(key, { since: now, failures: 1, refused: 0, waiting: 0 });
    else count.failures++;
  }
}

/**
 * Returns the key of the count. The token is parsed as in check 1, because another spelling of the header would
 * otherwise have another count.
 */
function keyOf({ request, ip }: RequestContext, scheme: Scheme): string | null {
  const token = authorizationToken(request.headers, scheme);
  return token ? `${ip} ${digest(token)}` : null;
}
