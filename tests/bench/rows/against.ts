/**
 * This version of the service against another one: a message with everything on, in turns in one run, so that both sides of
 * a ratio had the same machine. Both versions start again in each round, because the first seconds of a server (cold) cost more
 * than those after 20,000 messages (warm), and one start may be unlucky. The other version runs from its own folder; the load
 * processes are ours. Only one server and its load process work at a time.
 */
import { ROOT } from "../../support/process.ts";
import type { Child } from "../child.ts";
import { type Figure, figure, type Goal, median, type Outcome, ratio, type Round, type Trial } from "../figures.ts";
import type { Scale } from "../scale.ts";
import { cpuOf, settledBytes, UNLIMITED, type World } from "../world.ts";
import { floorTarget, generatorBound, medianRatio, pairsOf, serviceTarget, type Target, trial } from "./messages.ts";

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
  goals: { 1: { atMost: 0.6 }, 16: { atMost: 0.6 }, 64: { atMost: 0.55 } },
};
const MEASURES: readonly Measure[] = [
  CPU,
  { name: "messages", unit: "/s", of: ({ perSecond }) => perSecond, goals: { 64: { atLeast: 1.5 } } },
  { name: "p50", unit: "ms", of: ({ p50 }) => p50, goals: {} },
  { name: "p99", unit: "ms", of: ({ p99 }) => p99, goals: {} },
];
const FLOOR_GOALS: Readonly<Record<number, Goal>> = { 64: { atLeast: 0.5 } };
/** Share of a trial's time that the floor gets: its ratio needs CPU only. */
const FLOOR_SHARE = 0.4;
/** Without limits, and with access tokens that outlast a long comparison. */
const LASTING = { ...UNLIMITED, ACCESS_TOKEN_TTL_SECONDS: "7200" };
/** Messages before the warm trials, of those of a usual row: short rounds show code that is not compiled yet. */
const WARM_UP_FACTOR = 20;
/** Time of a cold trial, of that of the others: the first eight seconds. */
const COLD_FACTOR = 1.6;
/** Messages before the memory is read again, of the most of a trial. */
const MEMORY_FACTOR = 5;
/** Longest time for messages that are not measured, seconds. */
const UNMEASURED_SECONDS = 120;
/** Messages at once of cold trials, and of all that is not measured by messages at once. */
const MANY_AT_ONCE = 64;
/** Rate of few and many senders, of the messages a second that the server took from many. */
const RATE_SHARE = 0.5;
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

/** A version that runs, with its memory before its first message. */
interface Version extends Target {
  idleBytes: number | null;
}

/** Measures this version and the one in the folder `root` in turns, with the floor. */
export async function against(world: World, root: string): Promise<Outcome> {
  const { trials, messages, warmUp, concurrency } = world.scale;
  const floor = { ...await floorTarget(world), seconds: world.scale.seconds * FLOOR_SHARE };
  await trial(world, floor, MANY_AT_ONCE, messages);
  const notes = [`this is ${await commitOf(ROOT)}, other is ${await commitOf(root)}`];
  const rounds: Round[] = [], idle: (number | null)[][] = [];
  let memory: Figure[] = [];
  for (let round = 1; round <= trials; round++) {
    const versions = [await startVersion(world, "this", ROOT), await startVersion(world, "other", root)];
    idle.push(versions.map(({ idleBytes }) => idleBytes));
    for (const version of versions) {
      world.say(`${version.name}, cold, ${round} of ${trials}`);
      const cold = { ...version, seconds: world.scale.seconds * COLD_FACTOR };
      rounds.push({
        target: version.name,
        atOnce: MANY_AT_ONCE,
        round,
        isCold: true,
        ...await trial(world, cold, MANY_AT_ONCE, messages),
      });
      await trial(world, { ...version, seconds: UNMEASURED_SECONDS }, MANY_AT_ONCE, warmUp);
    }
    for (const atOnce of concurrency) {
      // Also prepares as many messages as the pace at this number needs.
      for (const target of [...versions, floor]) await trial(world, target, atOnce, Math.ceil(warmUp / WARM_UP_FACTOR));
      for (const target of [...versions, floor]) {
        world.say(`${target.name}, ${atOnce} at once, ${round} of ${trials}`);
        rounds.push({ target: target.name, atOnce, round, ...await trial(world, target, atOnce) });
      }
    }
    if (round === 1) memory = await memoryAfterMessages(world, versions);
    for (const { load, servers } of versions) await Promise.all([load.end(), ...servers.map((child) => child.end())]);
  }
  const figures = [...comparison(rounds, MANY_AT_ONCE, true), ...concurrency.flatMap((n) => comparison(rounds, n))];
  const [own, other] = [0, 1].map((which) => median(idle.map((pair) => pair[which] ?? null)));
  figures.push(...memoryFigures("idle", own ?? null, other ?? null), ...memory, ...await senderCounts(world));
  for (const name of ["this", "other", "floor"]) {
    for (const atOnce of concurrency) {
      notes.push(...generatorBound(`${name}, ${atOnce} at once`, roundsOf(rounds, name, atOnce)));
    }
  }
  return { figures, notes, rounds };
}

/** Returns the figures and ratios of the rounds with this number of messages at once. */
export function comparison(rounds: readonly Round[], atOnce: number, isCold = false): Figure[] {
  const of = (target: string) => roundsOf(rounds, target, atOnce, isCold);
  const own = of("this"), other = of("other"), floor = of("floor");
  const when = `${atOnce} at once${isCold ? ", cold" : ""}`;
  const figures: Figure[] = [];
  for (const measure of MEASURES) {
    const { name, unit } = measure;
    for (const [whose, trials] of [["this", own], ["other", other]] as const) {
      figures.push(figure(`${whose}, ${when}: ${name}`, median(trials.map(measure.of)), unit));
    }
    const quotient = medianRatio(own, other, measure.of);
    figures.push(ratio(`this / other, ${when}: ${name}`, quotient, 1, measure.goals[atOnce]));
  }
  if (isCold) return figures;
  figures.push(figure(`floor, ${when}: ${CPU.name}`, median(floor.map(CPU.of)), CPU.unit));
  const name = (whose: string) => `floor / ${whose}, ${when}: ${CPU.name}`;
  figures.push(ratio(name("this"), medianRatio(floor, own, CPU.of), 1, FLOOR_GOALS[atOnce]));
  figures.push(ratio(name("other"), medianRatio(floor, other, CPU.of), 1));
  return figures;
}

function roundsOf(rounds: readonly Round[], name: string, atOnce: number, isCold = false): Round[] {
  return rounds.filter((one) => one.target === name && one.atOnce === atOnce && (one.isCold ?? false) === isCold);
}

/** Sends many more messages to both versions. Returns their memory after them. */
async function memoryAfterMessages(world: World, versions: readonly Target[]): Promise<Figure[]> {
  const { messages, settle } = world.scale;
  const bytes: (number | null)[] = [];
  for (const version of versions) {
    world.say(`${version.name}, memory`);
    const steady = { ...version, seconds: UNMEASURED_SECONDS };
    for (let i = 0; i < MEMORY_FACTOR; i++) await trial(world, steady, MANY_AT_ONCE, messages);
    bytes.push(await memoryOf(version.servers, settle));
  }
  return memoryFigures(`after ${MEMORY_FACTOR * messages} messages`, bytes[0] ?? null, bytes[1] ?? null);
}

async function memoryOf([server]: readonly Child[], seconds: number): Promise<number | null> {
  return server ? await settledBytes(server, seconds, (child) => child.proportionalBytes()) : null;
}

function memoryFigures(when: string, own: number | null, other: number | null): Figure[] {
  const mebibytes = (bytes: number | null) => bytes === null ? null : bytes / 1024 / 1024;
  return [
    figure(`this, memory ${when}`, mebibytes(own), "MiB"),
    figure(`other, memory ${when}`, mebibytes(other), "MiB"),
    ratio(`this / other, memory ${when}`, own, other, { atMost: 1 }),
  ];
}

/** Measures this version with few and with many senders at the same rate, in turns. */
async function senderCounts(world: World): Promise<Figure[]> {
  const { fewSenders, manySenders, seconds, trials, messages } = world.scale;
  const many = await startVersion(world, "this", ROOT, manySenders);
  const few = { ...many, plan: (count: number) => ({ ...many.plan(count), pairs: pairsOf(fewSenders) }) };
  const both = [few, many];
  for (const target of both) await trial(world, { ...target, seconds: UNMEASURED_SECONDS }, MANY_AT_ONCE, messages);
  const { perSecond } = await trial(world, many, MANY_AT_ONCE, messages);
  const rate = Math.ceil(perSecond * RATE_SHARE);
  const cpu: (number | null)[][] = [[], []];
  for (let round = 1; round <= trials; round++) {
    for (const [i, { load, servers, plan }] of both.entries()) {
      world.say(`${[fewSenders, manySenders][i]} senders, ${round} of ${trials}`);
      await load.ask("prepare", plan(Math.min(messages, Math.ceil(rate * seconds))));
      const before = cpuOf(servers);
      const { sent } = await load.ask("run", { concurrency: MANY_AT_ONCE, seconds, rate, strict: true });
      const after = cpuOf(servers);
      cpu[i]?.push(before === null || after === null ? null : (after - before) * 1e6 / sent);
    }
  }
  const [fewUs = null, manyUs = null] = cpu.map(median);
  return [
    figure(`${fewSenders} senders at ${rate}/s: ${CPU.name}`, fewUs, CPU.unit),
    figure(`${manySenders} senders at ${rate}/s: ${CPU.name}`, manyUs, CPU.unit),
    ratio(`${fewSenders} senders / ${manySenders}: ${CPU.name}`, fewUs, manyUs, { atMost: 1.15 }),
  ];
}

async function startVersion(world: World, name: string, root: string, senders = world.scale.pairs): Promise<Version> {
  world.say(`starting ${name}`);
  const { place, admin } = await world.together(LASTING, root);
  const idleBytes = await memoryOf(place.children, world.scale.settle);
  const target = await serviceTarget(world, name, place, admin, { plain: !await hasContext(root), senders });
  return { ...target, idleBytes };
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
