/**
 * The message path: the floor, the service in one process, and the two services in two processes. Each is measured in
 * turns with the floor, so that both sides of a ratio had the same machine. The result is server CPU per message.
 */
import { pause } from "../child.ts";
import type { Child } from "../child.ts";
import { type Figure, figure, type Goal, median, type Outcome, ratio, type Round, type Trial } from "../figures.ts";
import type { Pair, PlanOf } from "../jobs.ts";
import { bareCommits } from "./store.ts";
import { type Admin, cpuOf, type Load, type Place, UNLIMITED, type World } from "../world.ts";

/** A server that accepts messages. */
export interface Target {
  name: string;
  load: Load;
  servers: readonly Child[];
  /** Returns the plan for `count` messages. */
  plan(count: number): PlanOf<"messages">;
  /** Latest messages per second, by concurrency: determines how many to prepare. */
  pace: number;
  /** Longest trial, seconds (default: that of the scale). */
  seconds?: number;
  /** Addresses over which the messages are spread (default: the one of the plan). */
  urls?: readonly string[];
}

const BODY_BYTES = 120;
/** Messages in progress at once while a server warms up. */
const WARM_UP_AT_ONCE = 16;
/** Share of a core above which the load process, not the server, limits the pace. */
const BOUND_SHARE = 0.9;
/** Messages per second and CPU per message. */
const BASE_FIGURES = 2;

export async function floor(world: World): Promise<Outcome> {
  return await compared(world, [await floorTarget(world)]);
}

export async function together(world: World): Promise<Outcome> {
  const { place, admin } = await world.together(UNLIMITED);
  const { single } = await bareCommits(world);
  const targets = [await floorTarget(world), await serviceTarget(world, "service", place, admin)];
  return await compared(world, targets, { goal: { atLeast: 0.5 }, bareCommitMs: single.us / 1000 });
}

export async function apart(world: World): Promise<Outcome> {
  const { place, admin } = await world.apart(UNLIMITED);
  const targets = [await floorTarget(world), await serviceTarget(world, "apart", place, admin)];
  return await compared(world, targets, { goal: { atLeast: 0.3 } });
}

/** Agents 0 and 1 are a pair, 2 and 3, and so on. The even ones send. */
export function pairsOf(count: number): Pair[] {
  return Array.from({ length: count }, (_, i) => [2 * i, 2 * i + 1]);
}

/** Returns the floor with pairs of agents. */
export async function floorTarget(world: World): Promise<Target> {
  const load = world.load();
  const pairs = pairsOf(world.scale.pairs);
  const { publicKey, aitSha256 } = await load.ask("invent", { count: pairs.length * 2 });
  const { child, url: proxyUrl } = await world.bare("floor.ts", [publicKey, aitSha256]);
  await load.ask("connect", { proxyUrl, agents: pairs.map(([, recipient]) => recipient) });
  const plan = (count: number): PlanOf<"messages"> => ({
    kind: "messages",
    proxyUrl,
    pairs,
    count,
    bodyBytes: BODY_BYTES,
    identity: false,
  });
  return { name: "floor", load, servers: [child], plan, pace: 0 };
}

/**
 * Returns a service with pairs of agents.
 *
 * @param plain true for a server from before the signed context (D-140)
 */
export async function serviceTarget(
  world: World,
  name: string,
  place: Place,
  admin: Admin,
  { plain = false, senders = world.scale.pairs } = {},
): Promise<Target> {
  const pairs = pairsOf(senders);
  const load = await world.agents(place, admin, pairs.length * 2);
  const { proxyUrl, children } = place;
  await load.ask("pair", { proxyUrl, pairs });
  await load.ask("connect", { proxyUrl, agents: pairs.map(([, recipient]) => recipient) });
  const plan = (count: number): PlanOf<"messages"> => ({
    kind: "messages",
    proxyUrl,
    pairs,
    count,
    bodyBytes: BODY_BYTES,
    identity: true,
    plainTarget: plain,
  });
  return { name, load, servers: children, plan, pace: 0 };
}

/** How two targets are compared. */
interface Comparison {
  /** Numbers of messages in progress at once, one figure each. */
  concurrency?: readonly number[];
  /** Goal of the CPU ratio at the highest of these numbers. */
  goal?: Goal;
  /** Time of a bare commit, for the goal of a single message. */
  bareCommitMs?: number;
}

/** Measures the targets in turns. With two, returns the ratio of the first to the second. */
export async function compared(
  world: World,
  targets: readonly Target[],
  { concurrency = world.scale.concurrency, goal, bareCommitMs }: Comparison = {},
): Promise<Outcome> {
  const { trials, warmUp } = world.scale;
  for (const target of targets) await trial(world, target, WARM_UP_AT_ONCE, warmUp);
  const figures: Figure[] = [];
  const notes: string[] = [];
  const rounds: Round[] = [];
  for (const atOnce of concurrency) {
    const seen = new Map<Target, Trial[]>(targets.map((target) => [target, []]));
    for (const target of targets) await trial(world, target, atOnce, Math.ceil(warmUp / 4));
    for (let i = 1; i <= trials; i++) {
      for (const target of targets) {
        world.say(`${target.name}, ${atOnce} at once, ${i} of ${trials}`);
        const one = await trial(world, target, atOnce);
        seen.get(target)?.push(one);
        rounds.push({ target: target.name, atOnce, round: i, ...one });
      }
    }
    for (const target of targets) {
      const own = seen.get(target) ?? [];
      const all = figuresOf(`${target.name}, ${atOnce} at once`, own);
      // Of the floor, only the figures that the ratios use are shown.
      figures.push(...target === targets.at(-1) ? all : all.slice(0, BASE_FIGURES));
      notes.push(...generatorBound(`${target.name}, ${atOnce} at once`, own));
    }
    const [base = [], other = []] = [...seen.values()];
    if (targets.length < 2) continue;
    const name = `${targets[0]?.name} / ${targets[1]?.name}, ${atOnce} at once`;
    figures.push(...ratios(name, base, other, atOnce === Math.max(...concurrency) ? goal : undefined));
    if (bareCommitMs === undefined || atOnce > 1) continue;
    const [least, own] = [base, other].map((trials) => median(trials.map(({ p50 }) => p50)));
    const allowed = least === null || least === undefined ? null : least + 1.5 * bareCommitMs;
    figures.push(ratio("service / (floor + 1.5 bare commits), 1 at once: p50", own ?? null, allowed, { atMost: 1 }));
  }
  return { figures, notes, rounds };
}

/** Returns a note when the load process, not the server, may have limited the pace. */
export function generatorBound(name: string, trials: readonly Trial[]): string[] {
  const share = Math.max(...trials.map(({ loadShare }) => loadShare));
  return share > BOUND_SHARE ? [`${name}: generator-bound (${Math.round(share * 100)} % of a core)`] : [];
}

function figuresOf(name: string, trials: readonly Trial[]): Figure[] {
  const middle = (of: (trial: Trial) => number | null) => median(trials.map(of));
  return [
    figure(`${name}: messages`, middle((one) => one.perSecond), "/s"),
    figure(`${name}: server CPU per message`, middle((one) => one.cpuUs), "µs"),
    figure(`${name}: p50`, middle((one) => one.p50), "ms"),
    figure(`${name}: p99`, middle((one) => one.p99), "ms"),
    figure(`${name}: generator's CPU`, middle((one) => one.loadShare * 100), "% of a core"),
  ];
}

function ratios(name: string, base: readonly Trial[], other: readonly Trial[], goal?: Goal): Figure[] {
  return [
    ratio(`${name}: server CPU per message`, medianRatio(base, other, (one) => one.cpuUs), 1, goal),
    ratio(`${name}: throughput`, medianRatio(base, other, (one) => one.perSecond), 1),
  ];
}

/** Returns the median of the ratios of each trial to the one that was measured next to it. */
export function medianRatio(
  above: readonly Trial[],
  below: readonly Trial[],
  of: (trial: Trial) => number | null,
): number | null {
  return median(above.map((one, i) => {
    const [own, other] = [of(one), below[i] ? of(below[i]) : null];
    return own === null || other === null || other === 0 ? null : own / other;
  }));
}

/** Runs once. Prepares as many requests as the latest pace needs, or exactly `count`. */
export async function trial(world: World, target: Target, atOnce: number, count?: number): Promise<Trial> {
  const { messages, trailingMs } = world.scale;
  const { seconds = world.scale.seconds, urls } = target;
  const wanted = count ?? Math.max(50, Math.ceil(target.pace * seconds * 1.2));
  await target.load.ask("prepare", target.plan(Math.min(messages, wanted)));
  const before = cpuOf(target.servers);
  const run = await target.load.ask("run", {
    concurrency: atOnce,
    seconds,
    strict: true,
    ...urls === undefined ? {} : { urls },
  });
  // Work after the last response belongs to its message.
  await pause(trailingMs);
  const after = cpuOf(target.servers);
  target.pace = run.sent / run.seconds;
  return {
    perSecond: target.pace,
    cpuUs: before === null || after === null ? null : (after - before) * 1_000_000 / run.sent,
    p50: run.p50,
    p99: run.p99,
    loadShare: run.cpuSeconds / run.seconds,
  };
}
