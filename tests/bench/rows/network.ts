/**
 * The service on a store over the network: instances with links, a denokv with the options of its unit, and a fixed delay
 * between them. With several instances, a message goes either to any of them, or to the one of its sender, as behind a balancer
 * that chooses by `Authorization`; half of the recipients are then at another one. Instances, denokv, the link and the load
 * processes share the cores of this machine. A figure is marked CPU-bound when they left less than 10 % of them idle in most
 * seconds; the one of several instances is then repeated with ten times the delay.
 */
import os from "node:os";
import { accessToken, denokvProgram, NO_DENOKV, unitOptions } from "../../support/denokv.ts";
import { SlowLink } from "../../tools/slow_link.ts";
import { pause } from "../child.ts";
import { type Figure, figure, median, type Outcome, ratio } from "../figures.ts";
import { type Admin, freePort, type Place, type Server, UNLIMITED, type World } from "../world.ts";
import { serviceTarget, type Target, trial } from "./messages.ts";

const CPU_BOUND_SHARE = 0.9;
/** Times between a commit and its answer, milliseconds. */
const ROUND_TRIP_MS = 10;
/** Part of the goal for a message between instances: 100 ms and four round trips. */
const ACROSS_MS = 100;

/** Most CPU of a message to another instance, as a multiple of one within an instance. */
const CROSSING_CPU = 1.5;

/**
 * How much longer a trial with ten times the delay is. The time until the last answer counts, and with a short trial one
 * message of two seconds would be half of it.
 */
const LONGER = 5;

/** Several instances, with the round trip and the goal of their row. */
const SPREADS: readonly { instances: number; roundTripMs: number; atLeast: number }[] = [
  { instances: 2, roundTripMs: 20, atLeast: 1.6 },
  { instances: 4, roundTripMs: 20, atLeast: 2.8 },
];

/** Instances on one denokv, each with its own agents and load process. */
interface Cluster {
  link: SlowLink;
  places: Place[];
  /** One for each instance, with agents that are connected there. */
  targets: Target[];
  /** The same again, for senders at the next instance. */
  crossing: Target[];
  admin: Admin;
}

/** Trials of one setting. */
interface Run {
  perSecond: number;
  p50: number;
  p99: number;
  /** CPU of the servers for a message, microseconds. */
  cpuUs: number;
  isCpuBound: boolean;
}

export async function network(world: World): Promise<Outcome> {
  if (world.scale.instances === 0) return { skipped: "not in a quick run" };
  const program = await denokvProgram();
  if (program === null) return { skipped: NO_DENOKV };
  const notes: string[] = [];
  const atOnce = Math.max(...world.scale.concurrency);
  const { place, admin } = await world.together(UNLIMITED);
  const file = await serviceTarget(world, "file", place, admin);
  const cluster = await open(world, program);
  await using _ = cluster.link;
  const [first] = cluster.targets as [Target];
  const at = async (
    name: string,
    targets: readonly Target[],
    roundTripMs: number,
    each = atOnce,
    seconds = world.scale.seconds,
  ): Promise<Run> => {
    cluster.link.delayMs = roundTripMs / 2;
    const run = await measured(world, name, targets.map((target) => ({ ...target, seconds })), each);
    if (run.isCpuBound) notes.push(`${name}: CPU-bound`);
    return run;
  };
  const [onFile, near] = [await at("file", [file], 0), await at("denokv, no delay", [first], 0)];
  const far = await at(`denokv, ${ROUND_TRIP_MS} ms`, [first], ROUND_TRIP_MS);
  const figures: Figure[] = [
    figure(`file, ${atOnce} at once: messages`, onFile.perSecond, "/s"),
    figure(`denokv, ${atOnce} at once: messages`, near.perSecond, "/s"),
    ratio("denokv without delay / file: throughput", near.perSecond, onFile.perSecond, { atLeast: 0.4 }),
    figure(`denokv, ${ROUND_TRIP_MS} ms: messages`, far.perSecond, "/s"),
    ratio(`denokv, ${ROUND_TRIP_MS} ms: messages a second / 1,000`, far.perSecond, 1_000, { atLeast: 1 }),
    ratio(`denokv, ${ROUND_TRIP_MS} ms: p50 / round trip`, far.p50, ROUND_TRIP_MS, { atMost: 4 }),
  ];
  for (const { instances, roundTripMs, atLeast } of SPREADS) {
    if (instances > world.scale.instances) continue;
    while (cluster.targets.length < instances) await join(world, cluster);
    const { targets, crossing } = cluster;
    const urls = cluster.places.slice(0, instances).map(({ proxyUrl }) => proxyUrl);
    const any = targets.slice(0, instances).map((target) => spread(target, cluster, urls));
    const own = urls.flatMap((url, i) => {
      const next = crossing[(i + 1) % instances] as Target;
      return [spread(targets[i] as Target, cluster, [url]), spread(next, cluster, [url])];
    });
    const compare = async (ms: number, seconds: number): Promise<boolean> => {
      const one = await at(`1 instance, ${ms} ms`, [first], ms, atOnce, seconds);
      let isCpuBound = false;
      for (const [how, several] of [["any", any], ["the sender's", own]] as const) {
        const name = `${instances} instances, ${ms} ms, at ${how}`;
        const all = await at(name, several, ms, atOnce * instances / several.length, seconds);
        figures.push(figure(`${name}: messages`, all.perSecond, "/s"));
        figures.push(ratio(`${name} / 1 instance: throughput`, all.perSecond, one.perSecond, { atLeast }));
        isCpuBound ||= all.isCpuBound;
      }
      return isCpuBound;
    };
    const { seconds } = world.scale;
    if (await compare(roundTripMs, seconds)) await compare(roundTripMs * 10, seconds * LONGER);
  }
  cluster.link.delayMs = ROUND_TRIP_MS / 2;
  const [one, two] = cluster.places as [Place, Place];
  const target = await serviceTarget(world, "across", two, cluster.admin);
  const across = spread({ ...target, servers: [...one.children, ...two.children] }, cluster, [one.proxyUrl]);
  const lone = await measured(world, "to another instance", [across], 1);
  const allowed = ACROSS_MS + 4 * ROUND_TRIP_MS;
  figures.push(
    ratio(`to another instance, ${ROUND_TRIP_MS} ms: p99 / ${allowed} ms`, lone.p99, allowed, { atMost: 1 }),
  );
  figures.push(ratio(`to another instance, ${ROUND_TRIP_MS} ms: p50 / round trip`, lone.p50, ROUND_TRIP_MS));
  const within = spread({ ...target, servers: [...one.children, ...two.children] }, cluster, [two.proxyUrl]);
  for (const count of new Set([1, atOnce])) {
    const [here, there] = [
      await measured(world, "within", [within], count),
      await measured(world, "across", [across], count),
    ];
    const name = `to another instance / within, ${count} at once: CPU per message`;
    figures.push(ratio(name, there.cpuUs, here.cpuUs, count === atOnce ? { atMost: CROSSING_CPU } : undefined));
  }
  return { figures, notes };
}

/** The messages of a target, sent over some instances. All instances have the origin of the first. */
function spread(target: Target, { places: [first] }: Cluster, urls: readonly string[]): Target {
  const plan = (count: number) => ({ ...target.plan(count), proxyUrl: first?.registryUrl ?? "" });
  return { ...target, urls, plan };
}

/** Starts denokv and waits until it answers. */
export async function startDenokv(world: World, program: string): Promise<Server> {
  const port = freePort();
  const file = world.newStore();
  const args = ["--sqlite-path", file, "serve", "--addr", `127.0.0.1:${port}`, ...await unitOptions()];
  const child = world.spawn(args, { DENO_KV_ACCESS_TOKEN: accessToken() }, program);
  const url = `http://127.0.0.1:${port}`;
  while (!(await fetch(url).then((answer) => answer.body?.cancel().then(() => true) ?? true, () => false))) {
    await pause(50);
  }
  return { child, url };
}

/** Starts denokv, and one instance behind a link without a delay. */
async function open(world: World, program: string): Promise<Cluster> {
  const denokv = await startDenokv(world, program);
  const link = new SlowLink(denokv.url);
  const { place, admin } = await world.together(networkVariables(link));
  place.children.push(denokv.child);
  const targets = [await serviceTarget(world, "1", place, admin)];
  return { link, places: [place], targets, crossing: [await serviceTarget(world, "1 crossing", place, admin)], admin };
}

/** Starts one more instance with agents of its own. */
async function join(world: World, cluster: Cluster): Promise<void> {
  const [{ registryUrl }] = cluster.places as [Place];
  const origin = { REGISTRY_URL: registryUrl, PROXY_URL: registryUrl };
  cluster.link.delayMs = 0;
  const { child, url } = await world.service({ ...networkVariables(cluster.link), ...origin });
  const place: Place = { registryUrl, proxyUrl: url, children: [child] };
  cluster.places.push(place);
  const name = String(cluster.places.length);
  cluster.targets.push(await serviceTarget(world, name, place, cluster.admin));
  cluster.crossing.push(await serviceTarget(world, `${name} crossing`, place, cluster.admin));
}

function networkVariables(link: SlowLink): Record<string, string> {
  const between = { INSTANCE_LISTEN: "127.0.0.1:0", KV_URL: link.address, DENO_KV_ACCESS_TOKEN: accessToken() };
  return { ...UNLIMITED, ...between };
}

/** Runs trials on all targets at the same time. Returns their sum and medians. */
async function measured(world: World, name: string, targets: readonly Target[], atOnce: number): Promise<Run> {
  const together = (count?: number) => Promise.all(targets.map((target) => trial(world, target, atOnce, count)));
  await together(world.scale.warmUp);
  const runs: Run[] = [];
  for (let i = 1; i <= world.scale.trials; i++) {
    world.say(`${name}, ${i} of ${world.scale.trials}`);
    const busy = busySeconds();
    const trials = await together();
    const shares = busy();
    runs.push({
      perSecond: trials.reduce((sum, one) => sum + one.perSecond, 0),
      p50: Math.max(...trials.map(({ p50 }) => p50)),
      p99: Math.max(...trials.map(({ p99 }) => p99)),
      cpuUs: trials.reduce((sum, { cpuUs, perSecond }) => sum + (cpuUs ?? NaN) * perSecond, 0) /
        trials.reduce((sum, { perSecond }) => sum + perSecond, 0),
      isCpuBound: shares.filter((share) => share > CPU_BOUND_SHARE).length * 2 > shares.length,
    });
  }
  const middle = (of: (run: Run) => number) => median(runs.map(of)) ?? NaN;
  return {
    perSecond: middle((run) => run.perSecond),
    p50: middle((run) => run.p50),
    p99: middle((run) => run.p99),
    cpuUs: middle((run) => run.cpuUs),
    isCpuBound: runs.filter((run) => run.isCpuBound).length * 2 > runs.length,
  };
}

/** Returns a function that ends the watch and returns the busy share of this machine's cores in each second since. */
function busySeconds(): () => number[] {
  const times = () =>
    os.cpus().reduce(([all, idle], { times }) => {
      const { user, nice, sys, irq } = times;
      return [all + user + nice + sys + irq + times.idle, idle + times.idle] as const;
    }, [0, 0] as readonly [number, number]);
  const shares: number[] = [];
  let before = times();
  const timer = setInterval(() => {
    const now = times();
    shares.push(1 - (now[1] - before[1]) / (now[0] - before[0]));
    before = now;
  }, 1_000);
  return () => {
    clearInterval(timer);
    return shares;
  };
}
