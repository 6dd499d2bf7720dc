/**
 * The newest refusals of this instance. They are in memory and end with the process, because a flood of refusals would
 * otherwise load the store. Each code has a bounded number, because a flood of one code would otherwise push out the
 * others.
 */
import { type Clock, HOUR_MS } from "../../shared/clock.ts";
import type { Refusal, RefusalGroup, RefusalQuery } from "../../shared/protocol/api/relay_admin.ts";
import type { ErrorCode } from "../../shared/protocol/errors.ts";
import type { RequestContext } from "../../shared/server/http/route.ts";
import { withoutSecrets } from "../../shared/redaction.ts";

/** Refusals kept of each code. With more, a flood of refusals takes memory; with less, it hides those before it. */
export const REFUSALS_PER_CODE = 50;

/** A refusal as it is kept, without path, query, body and credential of the request, because they may hold secrets. */
interface KeptRefusal extends Omit<Refusal, "at"> {
  /** Rises with each refusal of this instance. */
  number: number;
  /** Milliseconds since the Unix epoch. */
  at: number;
}

const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/** Most pairs of agent and code that an hour counts. With more, an attacker with many agents could fill the memory. */
export const GROUPS_MAX = 1_000;

/** How often an agent was refused with a code; the time is milliseconds since the Unix epoch. */
type RefusalCount = Omit<RefusalGroup, "lastAt"> & { lastAt: number };

interface RefusedHour {
  /** Hours since the Unix epoch. */
  hour: number;
  byAgent: Map<string, RefusalCount>;
  others: number;
}

export class Refusals {
  /** This hour and the one before, newest first. */
  #hours: RefusedHour[] = [];
  /** Refusals by code, oldest first. */
  readonly #kept = new Map<ErrorCode, KeptRefusal[]>();
  #count = 0;
  /** When the first refusal could be kept, milliseconds since the Unix epoch. */
  readonly since: number;

  constructor(private readonly clock: Clock) {
    this.since = clock.now();
  }

  /** Keeps a refusal, in place of the oldest one of its code once `REFUSALS_PER_CODE` of them are kept. */
  record(code: ErrorCode, { request, requestId, check, route, agentDid }: RequestContext): void {
    const refusal: KeptRefusal = {
      number: ++this.#count,
      at: this.clock.now(),
      requestId: withoutSecrets(requestId),
      code,
      check: check ?? null,
      method: METHODS.includes(request.method) ? request.method : "other",
      route: route ?? null,
      agentDid: agentDid ?? null,
    };
    this.#tally(refusal);
    const kept = this.#kept.getOrInsert(code, []);
    if (kept.push(refusal) > REFUSALS_PER_CODE) kept.shift();
  }

  /** Counts a refusal in its hour, and forgets all but that hour and the one before. */
  #tally({ code, check, agentDid, at }: KeptRefusal): void {
    const now = Math.floor(at / HOUR_MS);
    const current = this.#hours[0];
    const hour = current?.hour === now ? current : { hour: now, byAgent: new Map(), others: 0 };
    if (hour !== current) this.#hours = [hour, ...this.#recent(now)];
    const name = `${code} ${agentDid}`;
    const known = hour.byAgent.get(name);
    if (known) Object.assign(known, { check, count: known.count + 1, lastAt: at });
    else if (hour.byAgent.size < GROUPS_MAX) hour.byAgent.set(name, { code, check, agentDid, count: 1, lastAt: at });
    else hour.others++;
  }

  #recent(now: number): RefusedHour[] {
    return this.#hours.filter(({ hour }) => hour === now || hour === now - 1);
  }

  /** Returns how often each agent was refused in this hour and the one before, the most frequent first. */
  byAgent(): { since: number; byAgent: RefusalCount[]; others: number } {
    const now = Math.floor(this.clock.now() / HOUR_MS);
    const hours = this.#recent(now);
    const all = new Map<string, RefusalCount>();
    for (const [name, { count, ...last }] of hours.toReversed().flatMap(({ byAgent }) => [...byAgent])) {
      all.set(name, { ...last, count: count + (all.get(name)?.count ?? 0) });
    }
    return {
      since: Math.max(this.since, (now - 1) * HOUR_MS),
      byAgent: [...all.values()].sort((a, b) => b.count - a.count),
      others: hours.reduce((sum, { others }) => sum + others, 0),
    };
  }

  /** Returns the refusals that fit the filter, newest first. */
  list({ requestId, agentDid, limit }: Omit<RefusalQuery, "group">): KeptRefusal[] {
    return [...this.#kept.values()].flat()
      .filter((refusal) => requestId === undefined || refusal.requestId === requestId)
      .filter((refusal) => agentDid === undefined || refusal.agentDid === agentDid)
      .sort((a, b) => b.number - a.number)
      .slice(0, limit);
  }
}
