/**
 * A burst: many messages at once, each on its own connection, to one recipient; and the same burst spread over as many
 * recipients as there are senders. The result is how much longer the burst to one recipient takes.
 */
import { pause } from "../child.ts";
import { type Figure, figure, median, type Outcome, ratio } from "../figures.ts";
import type { Pair } from "../jobs.ts";
import { cpuOf, UNLIMITED, type World } from "../world.ts";
import { pairsOf } from "./messages.ts";

const BODY_BYTES = 120;
const LONGEST_SECONDS = 60;
/** The recipient of the first pair. */
const RECIPIENT = 1;

/** One burst. Times are milliseconds. */
interface Burst {
  p50: number;
  last: number;
  cpuUs: number | null;
}

export async function burst(world: World): Promise<Outcome> {
  const { burst: count, pairs, trials, trailingMs } = world.scale;
  const { place, admin } = await world.together(UNLIMITED);
  const { proxyUrl, children } = place;
  const load = await world.agents(place, admin, pairs * 2);
  const spread = pairsOf(pairs);
  const toOne = spread.map(([sender]): Pair => [sender, RECIPIENT]);
  await load.ask("pair", { proxyUrl, pairs: [...spread, ...toOne.slice(1)] });
  await load.ask("connect", { proxyUrl, agents: spread.map(([, recipient]) => recipient) });

  const measure = async (pairs: Pair[]): Promise<Burst> => {
    await load.ask("prepare", { kind: "messages", proxyUrl, pairs, count, bodyBytes: BODY_BYTES, identity: true });
    const before = cpuOf(children);
    const run = await load.ask("run", { concurrency: count, seconds: LONGEST_SECONDS, strict: true });
    // Work after the last response belongs to its message.
    await pause(trailingMs);
    const after = cpuOf(children);
    if (run.sent !== count) throw new Error(`Only ${run.sent} of ${count} messages were sent`);
    const cpuUs = before === null || after === null ? null : (after - before) * 1_000_000 / count;
    return { p50: run.p50, last: run.max, cpuUs };
  };
  await measure(spread);
  await measure(toOne);
  const turns: { spread: Burst; toOne: Burst }[] = [];
  for (let i = 1; i <= trials; i++) {
    world.say(`burst ${i} of ${trials}`);
    turns.push({ spread: await measure(spread), toOne: await measure(toOne) });
  }
  return {
    figures: [
      ...figuresOf(`${count} at once to one recipient`, turns.map(({ toOne }) => toOne)),
      ...figuresOf(`${count} at once to ${pairs} recipients`, turns.map(({ spread }) => spread)),
      ratio("one recipient / many: last answer", median(turns.map(({ toOne, spread }) => toOne.last / spread.last)), 1),
    ],
  };
}

function figuresOf(name: string, bursts: readonly Burst[]): Figure[] {
  return [
    figure(`${name}: p50`, median(bursts.map(({ p50 }) => p50)), "ms"),
    figure(`${name}: last answer`, median(bursts.map(({ last }) => last)), "ms"),
    figure(`${name}: server CPU of each`, median(bursts.map(({ cpuUs }) => cpuUs)), "µs"),
  ];
}
