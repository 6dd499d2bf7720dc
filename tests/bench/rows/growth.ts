/**
 * How time and size affect the message path: the same load on a store of 100 agents and on one of many agents with the
 * nonces of ten minutes, and a long run.
 */
import { ROOT } from "../../support/process.ts";
import { figure, median, type Outcome, ratio, type Trial } from "../figures.ts";
import { freePort, UNLIMITED, type World } from "../world.ts";
import { compared, serviceTarget, trial } from "./messages.ts";

const AT_ONCE = 64;
const FEW_AGENTS = 100;
const PREPARED = /^prepared$/;

/** Measures a filled store against a small one. */
export async function growth(world: World): Promise<Outcome> {
  const { grownAgents, grownNonces } = world.scale;
  const targets = [];
  for (const [agents, nonces] of [[FEW_AGENTS, FEW_AGENTS], [grownAgents, grownNonces]] as const) {
    world.say(`writing ${agents} agents and ${nonces} nonces`);
    const store = world.newStore();
    const env = { ...UNLIMITED, PORT: String(freePort()), KV_URL: store };
    const { place, admin } = await world.together(env);
    const [first] = place.children;
    await first?.end();
    const leave = ["read", "write"].map((kind) => `--allow-${kind}=${world.folder}`);
    const file = `${ROOT}/tests/bench/grow.ts`;
    const filling = world.spawn(["run", "--no-prompt", ...leave, file, store, String(agents), String(nonces)]);
    if (!PREPARED.test(await filling.line())) throw new Error("The store was not filled");
    const { child, url } = await world.service(env);
    targets.push(
      await serviceTarget(
        world,
        `${agents} agents`,
        { registryUrl: url, proxyUrl: url, children: [child] },
        admin,
      ),
    );
  }
  return await compared(world, targets, { concurrency: [AT_ONCE], goal: { atLeast: 0.9 } });
}

/** Measures the end of a long run against its start. */
export async function lasting(world: World): Promise<Outcome> {
  const { place, admin } = await world.together(UNLIMITED);
  const target = await serviceTarget(world, "service", place, admin);
  await trial(world, target, AT_ONCE, world.scale.warmUp);
  const slices: Trial[] = [];
  const began = performance.now();
  while (performance.now() - began < world.scale.lastingSeconds * 1000 || slices.length < 4) {
    world.say(`slice ${slices.length + 1}`);
    slices.push(await trial(world, target, AT_ONCE));
  }
  const part = Math.max(1, Math.floor(slices.length / 4));
  const cpu = (some: readonly Trial[]) => median(some.map(({ cpuUs }) => cpuUs));
  const [first, last] = [cpu(slices.slice(0, part)), cpu(slices.slice(-part))];
  return {
    figures: [
      figure("length of the run", (performance.now() - began) / 1000, "s"),
      figure("first quarter: server CPU per message", first, "µs"),
      figure("last quarter: server CPU per message", last, "µs"),
      ratio("first quarter / last quarter: server CPU per message", first, last, { atLeast: 0.9 }),
    ],
  };
}
