/**
 * A region is lost and its agents connect to the instances that are left, on paper. The waits are those of the
 * connectors. A connection waits for the CPU of its instance and for the CPU of the store; its client gives up after
 * the time-out of the handshake, and the work for it is done nevertheless.
 */
import { HANDSHAKE_MS } from "../../cli/link/link.ts";
import { reconnectWait } from "../../cli/link/reconnect.ts";
import { numbersFrom } from "../support/seeded_random.ts";
import { Events, quantile, type UnitCosts } from "./scale_store.ts";

export interface ReconnectLoad {
  /** Agents of the lost region, and instances that are left. */
  agents: number;
  instances: number;
  /** Cores of the store, a denokv: its commits use one of them. */
  storeCores: number;
  /** Commits and calls that read of one connection. One of the commits is a claim of its instance's commit queue. */
  commits: number;
  readCalls: number;
  /** Wait above which an instance refuses a connection at once, ms. */
  refusedAfterMs: number;
  seed: number;
}

export interface ReconnectFigures {
  /** Time until a share of the agents is connected, seconds; `null` when that never happens within the run. */
  halfS: number | null;
  mostS: number | null;
  allS: number | null;
  /** Attempts of one agent, on average. */
  attempts: number;
  /** Commits of all attempts together. */
  commits: number;
  /** Share of the attempts whose client had given up. */
  wasted: number;
}

/** Length of a run. */
export const END_MS = 600_000;
/** Agents for which one simulated agent stands. */
const WEIGHT = 10;

/** Simulates the return of the agents. */
export function simulateReconnect(load: ReconnectLoad, costs: UnitCosts): ReconnectFigures {
  const { instances, storeCores, refusedAfterMs, seed } = load;
  const agents = Math.ceil(load.agents / WEIGHT);
  const chance = numbersFrom(seed), events = new Events();
  const freeAt = new Float64Array(instances);
  const storeCpuMs = load.commits * costs.storeCommitMs + load.readCalls * costs.storeReadMs;
  const storeMs = WEIGHT * Math.max(storeCpuMs / storeCores, load.commits * costs.storeWriteMs);
  const pathMs = costs.roundTripMs * (load.commits + load.readCalls);
  const laneMs = WEIGHT * Math.max(costs.connectMs, costs.roundTripMs / costs.commitsInFlight);
  const back: number[] = [];
  let storeFreeAt = 0, attempts = 0, wasted = 0, done = 0;

  const attempt = (failures: number) => {
    const { now } = events;
    const instance = Math.floor(chance() * instances);
    const again = (after: number) => {
      const wait = reconnectWait(failures + 1, chance());
      if (now + after + wait < END_MS) events.after(after + wait, () => attempt(failures + 1));
    };
    attempts++;
    const waitMs = Math.max(freeAt[instance]!, storeFreeAt) - now;
    // An instance whose claims wait this long refuses at once.
    if (waitMs > refusedAfterMs) return again(0);
    done++;
    freeAt[instance] = Math.max(now, freeAt[instance]!) + laneMs;
    storeFreeAt = Math.max(now, storeFreeAt) + storeMs;
    const ready = Math.max(freeAt[instance]!, storeFreeAt) + pathMs;
    if (ready - now <= HANDSHAKE_MS) return void back.push(ready);
    wasted++;
    again(HANDSHAKE_MS);
  };
  for (let i = 0; i < agents; i++) events.after(reconnectWait(0, chance()), () => attempt(0));
  events.runUntil(END_MS);

  const seconds = (share: number) => {
    const needed = Math.ceil(agents * share);
    if (back.length < needed) return null;
    return (quantile(back, Math.min(1, (needed - 1) / back.length)) ?? 0) / 1000;
  };
  return {
    halfS: seconds(0.5),
    mostS: seconds(0.99),
    allS: seconds(1),
    attempts: attempts / agents,
    commits: WEIGHT * done * load.commits,
    wasted: wasted / attempts,
  };
}
