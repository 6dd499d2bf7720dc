/**
 * A reconnect storm: agents on three instances over one denokv, and one instance is killed. Measures when all are back,
 * how many presences were written, and the CPU of each process meanwhile. All processes share the cores of this
 * machine.
 */
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import { accessToken, denokvProgram, NO_DENOKV } from "../../support/denokv.ts";
import { type Child, pause } from "../child.ts";
import { type Figure, figure, type Outcome, percentile, ratio } from "../figures.ts";
import { type Server, UNLIMITED, type World } from "../world.ts";
import { startDenokv } from "./network.ts";

const INSTANCES = 3;
const GOAL_SECONDS = 15;
/** Share of a core that an instance may use for longer than `GOAL_BUSY_SECONDS` at no time. */
const BUSY_SHARE = 0.8;
const GOAL_BUSY_SECONDS = 5;
const SAMPLE_MS = 250;
/** The most agents that come back within this time show whether they come at once. */
const TOGETHER_MS = 500;
const LONGEST_MS = 120_000;
const VARIABLES = { ...UNLIMITED, ACCESS_TOKEN_TTL_SECONDS: "7200" };

export async function storm(world: World): Promise<Outcome> {
  const { stormAgents } = world.scale;
  if (stormAgents === 0) return { skipped: "three instances with 5,000 agents: only with --full" };
  const program = await denokvProgram();
  if (program === null) return { skipped: NO_DENOKV };
  const denokv = await startDenokv(world, program);
  const env = { ...VARIABLES, KV_URL: denokv.url, DENO_KV_ACCESS_TOKEN: accessToken() };
  const { place, admin } = await world.together(env);
  const [first] = place.children as [Child];
  const instances: Server[] = [{ child: first, url: place.proxyUrl }];
  while (instances.length < INSTANCES) {
    instances.push(await world.service({ ...env, REGISTRY_URL: place.registryUrl, PROXY_URL: place.proxyUrl }));
  }
  const load = await world.agents(place, admin, stormAgents);
  world.say(`connecting ${stormAgents} agents`);
  const agents = Array.from({ length: stormAgents }, (_, i) => i);
  await load.ask("keep", { proxyUrls: instances.map(({ url }) => url), agents });
  const before = await presences(denokv.url);

  world.say("an instance is lost");
  const lost = agents.filter((i) => i % INSTANCES === INSTANCES - 1).length;
  const left = instances.slice(0, -1).map(({ child }) => child);
  const watch = watchCpu([...left, denokv.child]);
  const killedAt = Date.now();
  instances.at(-1)?.child.kill();
  const { at, failures, cpuSeconds, seconds } = await load.ask("returned", { count: lost, waitMs: LONGEST_MS });
  const samples = await watch.end();
  if (at.length < lost) throw new Error(`Only ${at.length} of ${lost} agents came back within ${LONGEST_MS} ms`);
  const after = await presences(denokv.url);

  const back = at.map((time) => (time - killedAt) / 1000);
  const last = back.at(-1) ?? 0;
  const written = [...after].filter(([agent, version]) => version !== before.get(agent)).length;
  const busiest = samples.slice(0, left.length).map((shares) => longestBusy(shares) * SAMPLE_MS / 1000);
  const names = [...left.map((_, i) => `instance ${i + 1}`), "denokv"];
  return {
    figures: [
      figure("agents of the lost instance", lost, ""),
      figure("half of them are back", percentile(back, 0.5), "s"),
      figure("all of them are back", last, "s"),
      figure(`most that came within ${TOGETHER_MS} ms`, mostTogether(at) * 100 / lost, "%"),
      figure("attempts that failed, of each agent", failures / lost, ""),
      ...samples.flatMap((shares, i) => cpuFigures(names[i] ?? "", shares)),
      figure("generator's CPU", cpuSeconds * 100 / seconds, "% of a core"),
      ratio(`all are back / ${GOAL_SECONDS} s`, last, GOAL_SECONDS, { atMost: 1 }),
      ratio("presences that were written / agents of the lost instance", written, lost, { atMost: 1 }),
      ratio(
        `longest time of an instance above ${BUSY_SHARE * 100} % of a core / ${GOAL_BUSY_SECONDS} s`,
        Math.max(...busiest),
        GOAL_BUSY_SECONDS,
        { atMost: 1 },
      ),
    ],
  };
}

function cpuFigures(name: string, shares: readonly number[]): Figure[] {
  const mean = shares.reduce((sum, share) => sum + share, 0) / Math.max(1, shares.length);
  return [figure(`${name}: mean CPU until all are back`, mean * 100, "% of a core")];
}

/** Returns the versionstamps of all presences, by the DID of the agent. */
async function presences(address: string): Promise<Map<string, string>> {
  using kv = await Deno.openKv(address);
  const found = await Array.fromAsync(kv.list({ prefix: KEYS.allPresences() }));
  return new Map(found.map(({ key, versionstamp }) => [String(key.at(-1)), versionstamp]));
}

/** Samples the CPU of processes until the end. Returns for each the shares of a core. */
function watchCpu(children: readonly Child[]): { end(): Promise<number[][]> } {
  const shares = children.map((): number[] => []);
  let isWatching = true;
  const watched = (async () => {
    let before = children.map((child) => child.cpuSeconds() ?? 0), since = performance.now();
    while (isWatching) {
      await pause(SAMPLE_MS);
      const now = performance.now(), after = children.map((child) => child.cpuSeconds() ?? 0);
      shares.forEach((own, i) => own.push(((after[i] ?? 0) - (before[i] ?? 0)) * 1000 / (now - since)));
      [before, since] = [after, now];
    }
  })();
  return {
    async end() {
      isWatching = false;
      await watched;
      return shares;
    },
  };
}

/** Returns the number of samples in the longest row of busy ones. */
export function longestBusy(shares: readonly number[]): number {
  let longest = 0, own = 0;
  for (const share of shares) {
    own = share > BUSY_SHARE ? own + 1 : 0;
    longest = Math.max(longest, own);
  }
  return longest;
}

/** Returns the most of these times, ascending, that lie within `TOGETHER_MS`. */
export function mostTogether(times: readonly number[]): number {
  let most = 0, first = 0;
  times.forEach((time, i) => {
    while (time - (times[first] ?? time) >= TOGETHER_MS) first++;
    most = Math.max(most, i - first + 1);
  });
  return most;
}
