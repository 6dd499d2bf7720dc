/**
 * Revocations reach a hundred instances, on paper: each instance is woken, builds the revocation list again, at most
 * once a second when it is long, and then closes the sockets. Every instance reads and signs the whole list.
 */
import { REBUILD_FREE_ENTRIES, REBUILD_MS } from "../../registry/revocation/crl.ts";
import { numbersFrom } from "../support/seeded_random.ts";
import { Events, nextWait, quantile, type UnitCosts } from "./scale_store.ts";

export interface RevocationLoad {
  instances: number;
  perSecond: number;
  /** Entries of the list. */
  entries: number;
  ms: number;
  seed: number;
}

export interface RevocationFigures {
  wakeUpsPerSecond: number;
  buildsPerSecond: number;
  /** Records of the list that all instances read, per second. */
  recordsPerSecond: number;
  /** Share of a core that the list uses at one instance. */
  instanceCore: number;
  /** From the commit of a revocation until the last instance has a list with it, ms. */
  p50Ms: number | null;
  p99Ms: number | null;
  listBytes: number;
}

/** Records of the list that one call reads: `BATCH` of registry/revocation/crl.ts. */
const BATCH = 500;

/** Simulates the lists of all instances. */
export function simulateRevocations(load: RevocationLoad, costs: UnitCosts): RevocationFigures {
  const { instances, perSecond, entries, ms, seed } = load;
  const chance = numbersFrom(seed), events = new Events();
  const buildMs = entries * costs.crlEntryMs + Math.ceil(entries / BATCH) * costs.roundTripMs;
  const pauseMs = entries > REBUILD_FREE_ENTRIES ? REBUILD_MS : 0;
  const missing = new Map<number, { began: number; left: number }>();
  const waits: number[] = [];
  let wakeUps = 0, builds = 0, revocations = 0;

  const listing = () => {
    let isBuilding = false, builtAt = -Infinity, wanted: number[] = [];
    const build = () => {
      if (isBuilding || wanted.length === 0) return;
      isBuilding = true;
      events.after(Math.max(0, builtAt + pauseMs - events.now), () => {
        builtAt = events.now;
        builds++;
        const included = wanted;
        wanted = [];
        events.after(buildMs, () => {
          isBuilding = false;
          for (const number of included) done(number);
          build();
        });
      });
    };
    return (number: number) => {
      // From the commit: half a round trip to the watch, one to read the note, one for the head of the list.
      events.after(costs.roundTripMs * (0.5 + 1 + 1) * (1 + chance() / 10), () => {
        wakeUps++;
        wanted.push(number);
        build();
      });
    };
  };
  const done = (number: number) => {
    const one = missing.get(number)!;
    if (--one.left > 0) return;
    missing.delete(number);
    waits.push(events.now - one.began);
  };
  const lists = Array.from({ length: instances }, listing);
  const revoke = () => {
    const number = revocations++;
    missing.set(number, { began: events.now, left: instances });
    for (const tell of lists) tell(number);
    events.after(nextWait(perSecond / 1000, chance()), revoke);
  };
  events.after(nextWait(perSecond / 1000, chance()), revoke);
  events.runUntil(ms);
  const rate = (count: number) => count / ms * 1000;
  return {
    wakeUpsPerSecond: rate(wakeUps),
    buildsPerSecond: rate(builds),
    recordsPerSecond: rate(builds) * entries,
    instanceCore: rate(builds) / instances * entries * costs.crlEntryMs / 1000,
    p50Ms: quantile(waits, 0.5),
    p99Ms: quantile(waits, 0.99),
    listBytes: entries * costs.crlEntryBytes,
  };
}
