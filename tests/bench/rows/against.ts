/**
 * This version of the service against another one: a message with everything on, in turns in one run, so that both
 * sides of a ratio had the same machine. The other version runs from its own folder; the load processes are ours. All
 * servers and load processes stay up, and only one server and its load process work at a time.
 */
import { ROOT } from "../../support/process.ts";
import { type Figure, figure, type Goal, median, type Outcome, ratio, type Round, type Trial } from "../figures.ts";
import type { Scale } from "../scale.ts";
import { UNLIMITED, type World } from "../world.ts";
import { floorTarget, generatorBound, medianRatio, serviceTarget, type Target, trial } from "./messages.ts";

/** A figure of a trial, with the goal of its ratio by messages at once. */
interface Measure {
  name: string;
  unit: string;
  of(trial: Trial): number | null;
  goals: Readonly<Record<number, Goal>>;
}

const CPU: Measure = {
  name: "server CPU per message",
  unit: "µs",
  of: ({ cpuUs }) => cpuUs,
  goals: { 1: { atMost: 0.6 }, 64: { atMost: 0.55 } },
};
const MEASURES: readonly Measure[] = [
  CPU,
  { name: "messages", unit: "/s", of: ({ perSecond }) => perSecond, goals: { 64: { atLeast: 1.6 } } },
  { name: "p50", unit: "ms", of: ({ p50 }) => p50, goals: { 1: { atMost: 0.65 } } },
  { name: "p99", unit: "ms", of: ({ p99 }) => p99, goals: {} },
];
const FLOOR_GOALS: Readonly<Record<number, Goal>> = { 64: { atLeast: 0.4 } };
/** Share of a trial's time that the floor gets: its ratio needs CPU only. */
const FLOOR_SHARE = 0.4;
/** Without limits, and with access tokens that outlast a long comparison. */
const LASTING = { ...UNLIMITED, ACCESS_TOKEN_TTL_SECONDS: "7200" };
/** Messages before the measurement, of those of a usual row: short rounds show code that is not compiled yet. */
const WARM_UP_FACTOR = 4;
/** A file that every version with the signed context (D-140) has. */
const CONTEXT_FILE = "shared/protocol/message_context.ts";

/** How long and how often to compare. */
export interface Rounds {
  rounds: number;
  concurrency: readonly number[];
  seconds: number;
}

/** Returns the sizes of a comparison; all others are those of `scale`. */
export function comparisonScale(scale: Scale, { rounds, concurrency, seconds }: Rounds): Scale {
  return { ...scale, trials: rounds, concurrency, seconds, warmUp: scale.warmUp * WARM_UP_FACTOR };
}

/** Measures this version and the one in the folder `root` in turns, with the floor. */
export async function against(world: World, root: string): Promise<Outcome> {
  const own = await versionTarget(world, "this", ROOT);
  const other = await versionTarget(world, "other", root);
  const floor = { ...await floorTarget(world), seconds: world.scale.seconds * FLOOR_SHARE };
  const targets: readonly Target[] = [own, other, floor];
  const notes = [`this is ${await commitOf(ROOT)}, other is ${await commitOf(root)}`];
  const figures: Figure[] = [];
  const rounds: Round[] = [];
  const { trials, warmUp, concurrency } = world.scale;
  for (const target of targets) await trial(world, target, Math.max(...concurrency), warmUp);
  for (const atOnce of concurrency) {
    for (const target of targets) await trial(world, target, atOnce, Math.ceil(warmUp / 4));
    for (let round = 1; round <= trials; round++) {
      for (const target of targets) {
        world.say(`${target.name}, ${atOnce} at once, ${round} of ${trials}`);
        rounds.push({ target: target.name, atOnce, round, ...await trial(world, target, atOnce) });
      }
    }
    figures.push(...comparison(rounds, atOnce));
    for (const { name } of targets) {
      notes.push(...generatorBound(`${name}, ${atOnce} at once`, roundsOf(rounds, name, atOnce)));
    }
  }
  return { figures, notes, rounds };
}

/** Returns the figures and ratios of the rounds with this number of messages at once. */
export function comparison(rounds: readonly Round[], atOnce: number): Figure[] {
  const [own = [], other = [], floor = []] = ["this", "other", "floor"].map((name) => roundsOf(rounds, name, atOnce));
  const figures: Figure[] = [];
  for (const measure of MEASURES) {
    const { name, unit } = measure;
    for (const [whose, trials] of [["this", own], ["other", other]] as const) {
      figures.push(figure(`${whose}, ${atOnce} at once: ${name}`, median(trials.map(measure.of)), unit));
    }
    const quotient = medianRatio(own, other, measure.of);
    figures.push(ratio(`this / other, ${atOnce} at once: ${name}`, quotient, 1, measure.goals[atOnce]));
  }
  const floorCpu = median(floor.map(CPU.of));
  figures.push(figure(`floor, ${atOnce} at once: ${CPU.name}`, floorCpu, CPU.unit));
  const name = (whose: string) => `floor / ${whose}, ${atOnce} at once: ${CPU.name}`;
  figures.push(ratio(name("this"), medianRatio(floor, own, CPU.of), 1, FLOOR_GOALS[atOnce]));
  figures.push(ratio(name("other"), medianRatio(floor, other, CPU.of), 1));
  return figures;
}

function roundsOf(rounds: readonly Round[], name: string, atOnce: number): Round[] {
  return rounds.filter((round) => round.target === name && round.atOnce === atOnce);
}

async function versionTarget(world: World, name: string, root: string): Promise<Target> {
  world.say(`starting ${name}`);
  const { place, admin } = await world.together(LASTING, root);
  return await serviceTarget(world, name, place, admin, !await hasContext(root));
}

async function hasContext(root: string): Promise<boolean> {
  return await Deno.stat(`${root}/${CONTEXT_FILE}`).then(({ isFile }) => isFile, () => false);
}

/** Returns the commit of a checkout, with a mark when files differ from it. */
async function commitOf(root: string): Promise<string> {
  const unknown = "of an unknown commit";
  const args = ["-C", root, "describe", "--always", "--dirty", "--match="];
  try {
    const { success, stdout } = await new Deno.Command("git", { args, stderr: "null" }).output();
    return success ? new TextDecoder().decode(stdout).trim() : unknown;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return unknown;
    throw error;
  }
}
