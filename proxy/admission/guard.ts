/**
 * A coarse guard in front of admission (D-94): who keeps sending bad proofs is answered before the body is read. It
 * counts per address and token together, so that nobody can shut out an agent whose token he has seen, nor its
 * neighbours at the same address. In memory, bounded, and of no meaning for anything but load.
 */
import type { Clock } from "../../shared/clock.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { HEADERS } from "../../shared/protocol/proof.ts";
import type { Exchange } from "../../shared/server/route.ts";
import { digest } from "../../shared/server/crypto.ts";

const MAX_KEPT = 10_000;

interface Count {
  /** Milliseconds since the Unix epoch. */
  since: number;
  failures: number;
}

export class Guard {
  readonly #clock: Clock;
  /** Address → digest of the token → bad proofs. */
  readonly #counts = new Map<string, Map<string, Count>>();
  #kept = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** @throws {ServiceError} `PROXY_RATE_LIMIT_EXCEEDED` for a token with too many bad proofs from this address */
  look(exchange: Exchange): void {
    const tokens = this.#counts.get(exchange.ip);
    const count = tokens?.get(tokenOf(exchange));
    if (!count || count.failures < LIMITS.badProofs) return;
    const rest = count.since + LIMITS.badProofsWindowMs - this.#clock.now();
    if (rest <= 0 || rest > LIMITS.badProofsWindowMs) return;
    throw new ServiceError("PROXY_RATE_LIMIT_EXCEEDED", {
      message: "Too many bad proofs with this token from this address",
      headers: { "Retry-After": String(Math.ceil(rest / 1000)) },
    });
  }

  /** Notes a bad proof. */
  note(exchange: Exchange): void {
    const now = this.#clock.now();
    if (this.#kept >= MAX_KEPT) {
      this.#counts.clear();
      this.#kept = 0;
    }
    const tokens = this.#counts.get(exchange.ip) ?? new Map<string, Count>();
    this.#counts.set(exchange.ip, tokens);
    const token = tokenOf(exchange);
    const count = tokens.get(token);
    if (!count) this.#kept++;
    const isOver = !count || now - count.since >= LIMITS.badProofsWindowMs || now < count.since;
    tokens.set(token, isOver ? { since: now, failures: 1 } : { ...count, failures: count.failures + 1 });
  }
}

function tokenOf({ request }: Exchange): string {
  return digest(request.headers.get(HEADERS.authorization) ?? "");
}
