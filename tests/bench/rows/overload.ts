/**
 * One agent misbehaves: it sends 20 times its rate limit, floods with bad proofs, or stops reading. The result is the
 * latency of the other agents' messages with it, compared with the latency without it.
 */
import { pause } from "../child.ts";
import { type Figure, figure, median, type Outcome, ratio } from "../figures.ts";
import type { Pair, PlanOf, RunAnswer } from "../jobs.ts";
import { type Load, type Place, settledBytes, UNLIMITED, type World } from "../world.ts";
import { pairsOf } from "./messages.ts";

/** Requests per minute of one agent. The others together stay well below it. */
const LIMIT = 600;
const GREED = 20;
const LIMITED = { AGENT_RATE_LIMIT_REQUESTS_PER_MINUTE: String(LIMIT) };
/** Well-behaved agents, in pairs. */
const OTHERS = 20;
const BODY_BYTES = 120;
const BIG_BYTES = 262_144;
/** The others prepare their requests before they send, so the disturber runs this much longer. */
const SPARE_SECONDS = 0.3;
/** Connections of a load process with an even pace. */
const CONNECTIONS = 16;
/** The agent that misbehaves and its recipient. */
const PAIR: Pair[] = [[0, 1]];

/** One measurement without and one with the disturber, and the result of its requests. */
interface Turn {
  calm: RunAnswer;
  disturbed: RunAnswer;
  disturber: RunAnswer;
}

export async function greedySender(world: World): Promise<Outcome> {
  const { idleBeside, overloadSeconds } = world.scale;
  const { place, admin } = await world.together(LIMITED);
  const { proxyUrl } = place;
  const others = await otherAgents(world, place, await world.agents(place, admin, OTHERS * 2));
  const greedy = await world.agents(place, admin, 2);
  await greedy.ask("pair", { proxyUrl, pairs: PAIR });
  await greedy.ask("connect", { proxyUrl, agents: [1] });
  world.say("others alone");
  const alone = await others();

  const idlers = await world.agents(place, admin, idleBeside);
  await idlers.ask("connect", { proxyUrl, agents: Array.from({ length: idleBeside }, (_, i) => i) });
  const rate = LIMIT * GREED / 60;
  const seconds = overloadSeconds + SPARE_SECONDS;
  const prepared = async () => {
    world.say("reaching the rate limit");
    await greedy.ask("prepare", messagesOf(proxyUrl, LIMIT, BODY_BYTES));
    await greedy.ask("run", { concurrency: CONNECTIONS, seconds: 30, strict: false });
    await greedy.ask("prepare", messagesOf(proxyUrl, Math.ceil(rate * seconds), BODY_BYTES));
  };
  const sending = { concurrency: CONNECTIONS, seconds, rate, strict: false };
  const turns = await inTurns(world, others, prepared, () => greedy.ask("run", sending));
  return {
    figures: [
      figure("others alone: p50", alone.p50, "ms"),
      figure("others alone: p99", alone.p99, "ms"),
      ...compared(turns, `beside ${idleBeside} idle sockets`, "beside them and the greedy sender"),
      figure("greedy sender", rateOf(turns), "/s"),
      figure("greedy sender: refused", share(turns, "429"), "%"),
      ratio("p99 beside idle sockets / alone", median(turns.map(({ calm }) => calm.p99)), alone.p99),
    ],
  };
}

export async function badProofs(world: World): Promise<Outcome> {
  const { badProofs: rate, overloadSeconds } = world.scale;
  const { place, admin } = await world.together(LIMITED);
  const { proxyUrl } = place;
  const others = await otherAgents(world, place, await world.agents(place, admin, OTHERS * 2));
  const flooder = await world.agents(place, admin, 2);
  const prepared = () => flooder.ask("prepare", { ...messagesOf(proxyUrl, 64, BODY_BYTES), spoil: true });
  const seconds = overloadSeconds + SPARE_SECONDS;
  const flooding = { concurrency: CONNECTIONS, seconds, rate, repeat: true, strict: true };
  const turns = await inTurns(world, others, prepared, () => flooder.ask("run", flooding));
  return {
    figures: [
      ...compared(turns, "others alone", "beside bad proofs"),
      figure("bad proofs", rateOf(turns), "/s"),
      figure("bad proofs: refused with 401", share(turns, "401"), "%"),
      figure("bad proofs: refused with 429", share(turns, "429"), "%"),
    ],
  };
}

export async function slowReader(world: World): Promise<Outcome> {
  const { bigMessages, ackTimeoutMs, settle } = world.scale;
  const { place, admin } = await world.together({ ...UNLIMITED, RELAY_ACK_TIMEOUT_MS: String(ackTimeoutMs) });
  const { proxyUrl } = place;
  const [server] = place.children;
  if (!server) throw new Error("There is no server");
  const others = await otherAgents(world, place, await world.agents(place, admin, OTHERS * 2));
  const slow = await world.agents(place, admin, 2);
  await slow.ask("pair", { proxyUrl, pairs: PAIR });
  await others();
  const before = await settledBytes(server, settle);
  const watch = watchMemory(server);
  const prepared = async () => {
    await slow.ask("connect", { proxyUrl, agents: [1], stalled: true });
    await slow.ask("prepare", messagesOf(proxyUrl, bigMessages, BIG_BYTES));
  };
  const sending = { concurrency: bigMessages, seconds: 60, strict: false };
  const turns = await inTurns(world, others, prepared, () => slow.ask("run", sending));
  const peak = await watch.end();
  const after = await settledBytes(server, settle);
  const { closed } = await slow.ask("resume", { waitMs: ackTimeoutMs });
  const mib = (bytes: number | null) => bytes === null || before === null ? null : (bytes - before) / 2 ** 20;
  const statuses = turns.flatMap(({ disturber }) => Object.keys(disturber.statuses));
  const answers = [...new Set(statuses)].map((status) => `${Math.round(share(turns, status))} % ${status}`);
  return {
    figures: [
      ...compared(turns, "others alone", "beside the slow reader"),
      figure("longest wait of its sender", Math.max(...turns.map(({ disturber }) => disturber.max)) / 1000, "s"),
      figure("server's memory: growth at its peak", mib(peak), "MiB"),
      figure("server's memory: growth afterwards", mib(after), "MiB"),
    ],
    notes: [`answers to its sender: ${answers.join(", ")}; close codes of its sockets: ${counted(closed)}`],
  };
}

/** Messages of agent 0 to agent 1. */
function messagesOf(proxyUrl: string, count: number, bodyBytes: number): PlanOf<"messages"> {
  return { kind: "messages", proxyUrl, pairs: PAIR, count, bodyBytes, identity: true };
}

/** Starts agents that send to each other at an even pace. Returns the function that measures them once. */
async function otherAgents(world: World, { proxyUrl }: Place, load: Load): Promise<() => Promise<RunAnswer>> {
  const { pace: rate, overloadSeconds: seconds } = world.scale;
  const pairs = pairsOf(OTHERS);
  await load.ask("pair", { proxyUrl, pairs });
  await load.ask("connect", { proxyUrl, agents: pairs.map(([, recipient]) => recipient) });
  const measure = async (forSeconds: number) => {
    const count = Math.ceil(rate * forSeconds);
    await load.ask("prepare", { kind: "messages", proxyUrl, pairs, count, bodyBytes: BODY_BYTES, identity: true });
    return await load.ask("run", { concurrency: CONNECTIONS, seconds: forSeconds, rate, strict: true });
  };
  await measure(Math.min(2, seconds));
  return () => measure(seconds);
}

/** Measures the others without and with the disturber in turns, so that both had the same machine. */
async function inTurns(
  world: World,
  others: () => Promise<RunAnswer>,
  prepared: () => Promise<unknown>,
  disturb: () => Promise<RunAnswer>,
): Promise<Turn[]> {
  const turns: Turn[] = [];
  const { trials } = world.scale;
  for (let i = 1; i <= trials; i++) {
    await prepared();
    world.say(`without, ${i} of ${trials}`);
    const calm = await others();
    world.say(`with, ${i} of ${trials}`);
    const [disturber, disturbed] = await Promise.all([disturb(), others()]);
    turns.push({ calm, disturbed, disturber });
  }
  return turns;
}

function compared(turns: readonly Turn[], without: string, withIt: string): Figure[] {
  const middle = (of: (turn: Turn) => number) => median(turns.map(of));
  return [
    figure(`${without}: p50`, middle(({ calm }) => calm.p50), "ms"),
    figure(`${without}: p99`, middle(({ calm }) => calm.p99), "ms"),
    figure(`${withIt}: p50`, middle(({ disturbed }) => disturbed.p50), "ms"),
    figure(`${withIt}: p99`, middle(({ disturbed }) => disturbed.p99), "ms"),
    ratio(`p50 ${withIt} / without`, middle(({ calm, disturbed }) => disturbed.p50 / calm.p50), 1),
    ratio(`p99 ${withIt} / without`, middle(({ calm, disturbed }) => disturbed.p99 / calm.p99), 1),
  ];
}

function rateOf(turns: readonly Turn[]): number | null {
  return median(turns.map(({ disturber }) => disturber.sent / disturber.seconds));
}

/** Returns the share of the disturber's responses with this status, in percent. */
function share(turns: readonly Turn[], status: string): number {
  const sum = (of: (answer: RunAnswer) => number) => turns.reduce((total, { disturber }) => total + of(disturber), 0);
  return sum(({ statuses }) => statuses[status] ?? 0) * 100 / sum(({ sent }) => sent);
}

function counted(counts: Record<string, number>): string {
  return Object.entries(counts).map(([name, count]) => `${count} × ${name}`).join(", ") || "nothing";
}

/** Polls the memory of a process until the end of the run. Returns the maximum. */
function watchMemory(child: Place["children"][number]): { end(): Promise<number | null> } {
  let watching = true;
  let most: number | null = null;
  const watched = (async () => {
    for (let now = child.residentBytes(); watching && now !== null; now = child.residentBytes()) {
      most = Math.max(most ?? 0, now);
      await pause(25);
    }
  })();
  return {
    async end() {
      watching = false;
      await watched;
      return most;
    },
  };
}
