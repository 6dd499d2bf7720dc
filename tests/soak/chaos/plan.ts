/** The events of a chaos run, from a seed. Pure. */
import { numbersFrom } from "../../support/seeded_random.ts";

/** Instances of a run. */
export const INSTANCES = 3;
/** Agents of a run. The last ones may be revoked. */
export const AGENTS = 12;
/** Agents that no event revokes. */
export const LASTING = 9;

/** One event. `at` and `ms` are milliseconds; `at` counts from the start of the run. */
export type ChaosEvent =
  & { at: number }
  & (
    | { kind: "kill_instance"; instance: number; ms: number }
    | { kind: "kill_store"; ms: number }
    | { kind: "stall_store"; ms: number }
    | { kind: "stall_store_link" | "cut_store_link"; instance: number; ms: number }
    | { kind: "reset_store_links" | "reconnect_all" | "rotate_keys" | "redeem_twice" }
    | { kind: "clock"; instance: number; seconds: number; ms: number }
    | { kind: "revoke" | "refresh_twice"; agent: number }
    | { kind: "remove_pair"; agent: number; peer: number }
  );

/** Peers of an agent by number: a message goes to one of them. Two of them begin at the agent's own instance. */
export function peersOf(agent: number): number[] {
  return [1, INSTANCES, AGENTS - 1, AGENTS - INSTANCES].map((step) => (agent + step) % AGENTS);
}

/** Time in which events start. */
const SPAN_MS = 9_000;

/**
 * Returns the events of a seed in the order of their times.
 *
 * @param hasClock false where the clock of an instance cannot be set
 */
export function planOf(seed: number, hasClock: boolean): ChaosEvent[] {
  const next = numbersFrom(seed);
  const below = (n: number) => Math.floor(next() * n);
  const between = (least: number, most: number) => least + below(most - least);
  const faults: (() => ChaosEvent)[] = [
    () => ({ at: 0, kind: "kill_instance", instance: below(INSTANCES), ms: between(200, 3_000) }),
    () => ({ at: 0, kind: "kill_store", ms: between(200, 2_000) }),
    () => ({ at: 0, kind: "stall_store", ms: next() < 0.8 ? between(2_000, 5_000) : between(11_000, 14_000) }),
    () => ({
      at: 0,
      kind: "stall_store_link",
      instance: below(INSTANCES),
      ms: next() < 0.6 ? between(2_000, 6_000) : between(11_000, 14_000),
    }),
    () => ({ at: 0, kind: "cut_store_link", instance: below(INSTANCES), ms: between(500, 6_000) }),
    () => ({ at: 0, kind: "reset_store_links" }),
    () => ({ at: 0, kind: "reset_store_links" }),
    () => ({ at: 0, kind: "reconnect_all" }),
  ];
  const seconds = next() < 0.5 ? 200 : -200;
  faults.push(() => ({ at: 0, kind: "clock", instance: below(INSTANCES), seconds, ms: between(2_000, 6_000) }));
  const changes: (() => ChaosEvent)[] = [
    () => ({ at: 0, kind: "revoke", agent: between(LASTING, AGENTS) }),
    () => ({ at: 0, kind: "refresh_twice", agent: below(LASTING) }),
    () => ({ at: 0, kind: "remove_pair", agent: LASTING - 1, peer: LASTING }),
    () => ({ at: 0, kind: "rotate_keys" }),
    () => ({ at: 0, kind: "redeem_twice" }),
  ];
  const some = (from: (() => ChaosEvent)[], count: number) =>
    Array.from({ length: count }, () => ({ ...from[below(from.length)]?.() as ChaosEvent, at: below(SPAN_MS) }));
  const events = [...some(faults, between(2, 5)), ...some(changes, between(3, 7))].sort((a, b) => a.at - b.at);
  return events.filter(({ kind }) => hasClock || kind !== "clock");
}
