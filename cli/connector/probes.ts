/** Messages of `provider relay-test`, which the connector answers itself, so that no agent and no runtime sees them. */
import { BoundedMap } from "../../shared/bounded_map.ts";

/** A longer payload is no probe, so that the long payloads of peers are not parsed in vain. */
const PROBE_CHARACTERS = 256;
const MINUTE_MS = 60_000;
/** With more, a peer could make this agent send receipts without end. */
export const PROBES_A_MINUTE = 10;
const PEERS = 1_000;

/** Whether a payload, which is JSON, is `{"svcProbe": <text>}`. */
export function isProbe(payload: string): boolean {
  if (payload.length > PROBE_CHARACTERS || !payload.includes('"svcProbe"')) return false;
  const value: unknown = JSON.parse(payload);
  if (typeof value !== "object" || value === null) return false;
  const [first, second] = Object.entries(value);
  return first?.[0] === "svcProbe" && typeof first[1] === "string" && second === undefined;
}

export class ProbeCounts {
  readonly #counts = new BoundedMap<string, { since: number; count: number }>(PEERS);

  /** Counts a probe of a peer. Returns false when it gets no receipt, because there were too many. */
  mayAnswer(from: string, now: number): boolean {
    const known = this.#counts.get(from);
    // A time that is much later comes from a clock that was set back, and would end the answers until then.
    const isOver = known === undefined || Math.abs(now - known.since) >= MINUTE_MS;
    const current = isOver ? { since: now, count: 0 } : known;
    current.count++;
    this.#counts.set(from, current);
    return current.count <= PROBES_A_MINUTE;
  }
}
