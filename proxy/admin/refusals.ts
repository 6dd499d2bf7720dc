/**
 * The newest refusals of this instance (D-173), in memory: a bounded number for each code, so that a flood of one code
 * keeps the others. They end with the process.
 */
import type { Clock } from "../../shared/clock.ts";
import type { ErrorCode } from "../../shared/protocol/errors.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import type { RequestContext } from "../../shared/server/http/route.ts";
import { withoutSecrets } from "../../shared/server/log.ts";

/** A refusal as it is kept. It holds nothing of the request's path, query, body or credential. */
export interface KeptRefusal {
  /** Rises with each refusal of this instance. */
  number: number;
  /** Milliseconds since the Unix epoch. */
  at: number;
  requestId: string;
  code: ErrorCode;
  check: number | null;
  method: string;
  route: string | null;
  agentDid: string | null;
}

const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

export class Refusals {
  readonly #clock: Clock;
  /** Refusals by code; `next` is the position that the next one takes. */
  readonly #rings = new Map<ErrorCode, { kept: KeptRefusal[]; next: number }>();
  #count = 0;
  /** When the first refusal could be kept, milliseconds since the Unix epoch. */
  readonly since: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.since = clock.now();
  }

  /** Keeps a refusal in place of the oldest one of its code. */
  record(code: ErrorCode, { request, requestId, check, route, agentDid }: RequestContext): void {
    const refusal: KeptRefusal = {
      number: ++this.#count,
      at: this.#clock.now(),
      requestId: withoutSecrets(requestId),
      code,
      check: check ?? null,
      method: METHODS.includes(request.method) ? request.method : "other",
      route: route ?? null,
      agentDid: agentDid ?? null,
    };
    const ring = this.#rings.get(code) ?? { kept: [], next: 0 };
    this.#rings.set(code, ring);
    ring.kept[ring.next] = refusal;
    ring.next = (ring.next + 1) % LIMITS.refusalsPerCode;
  }

  /** Returns the refusals that fit the filter, newest first. */
  list(filter: { requestId?: string | undefined; agentDid?: string | undefined; limit: number }): KeptRefusal[] {
    const { requestId, agentDid, limit } = filter;
    return [...this.#rings.values()].flatMap(({ kept }) => kept)
      .filter((refusal) => requestId === undefined || refusal.requestId === requestId)
      .filter((refusal) => agentDid === undefined || refusal.agentDid === agentDid)
      .sort((a, b) => b.number - a.number)
      .slice(0, limit);
  }
}
