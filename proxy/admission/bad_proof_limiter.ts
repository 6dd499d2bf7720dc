/**
 * Rejects a client that repeatedly sends bad proofs before its body is read (D-94). It counts per address and token
 * together, so that an attacker who knows a token can lock out neither its agent nor other agents at the same address.
 * The counts are bounded and in memory. They only reduce load.
 */
import type { Clock } from "../../shared/clock.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { BoundedMap } from "../../shared/bounded_map.ts";
import { digest } from "../../shared/server/crypto.ts";
import type { RequestContext } from "../../shared/server/http/route.ts";
import { authorizationToken } from "../../shared/server/http/signed_request.ts";

const MAX_KEPT = 10_000;

/** Authorization scheme of the token: an AIT, or an admin token. */
type Scheme = "Svc" | "Bearer";

interface Count {
  /** Milliseconds since the Unix epoch. */
  since: number;
  failures: number;
}

export class BadProofLimiter {
  readonly #clock: Clock;
  /** Counts by address and digest of the token. */
  readonly #counts = new BoundedMap<string, Count>(MAX_KEPT);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Checks the count of the address and token of a request.
   *
   * @throws {ServiceError} `PROXY_RATE_LIMIT_EXCEEDED` for a token with too many bad proofs from this address
   */
  rejectIfOver(exchange: RequestContext, scheme: Scheme = "Svc"): void {
    if (this.#counts.size === 0) return;
    const key = keyOf(exchange, scheme);
    const count = key === null ? undefined : this.#counts.get(key);
    if (!count || count.failures < LIMITS.badProofs) return;
    const rest = count.since + LIMITS.badProofsWindowMs - this.#clock.now();
    if (rest <= 0 || rest > LIMITS.badProofsWindowMs) return;
    throw new ServiceError("PROXY_RATE_LIMIT_EXCEEDED", {
      message: "Too many bad proofs with this token from this address",
      headers: { "Retry-After": String(Math.ceil(rest / 1000)) },
    });
  }

  /** Counts a bad proof of the address and token of a request. */
  recordFailure(exchange: RequestContext, scheme: Scheme = "Svc"): void {
    const key = keyOf(exchange, scheme);
    if (key === null) return;
    const now = this.#clock.now();
    const count = this.#counts.get(key);
    const isOver = !count || now - count.since >= LIMITS.badProofsWindowMs || now < count.since;
    this.#counts.set(key, isOver ? { since: now, failures: 1 } : { ...count, failures: count.failures + 1 });
  }
}

/** Returns the key of the count. The token is parsed as in check 1, so that header spelling does not change it (D-241). */
function keyOf({ request, ip }: RequestContext, scheme: Scheme): string | null {
  const token = authorizationToken(request.headers, scheme);
  return token ? `${ip} ${digest(token)}` : null;
}
