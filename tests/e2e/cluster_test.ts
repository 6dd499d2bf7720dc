/**
 * Three instances as processes on one denokv: one of them is killed while 300 agents are connected (D-266), and all of
 * them are restarted in turn under load (D-267).
 */
import { assert, assertEquals } from "@std/assert";
import { findDenokv } from "../support/denokv.ts";
import { BOOTSTRAP_SECRET, eventually, newAgent, newId, pair, tempFolder } from "../support/process.ts";
import type { Presence } from "../../proxy/schema/records.ts";
import { KEYS } from "../../proxy/schema/kv_keys.ts";
import { ChaosAgent, World } from "./chaos/clients.ts";
import { Cluster } from "./chaos/cluster.ts";
import { lineOf } from "./chaos/history.ts";
import { INSTANCES } from "./chaos/plan.ts";

const denokv = await findDenokv();

/** Agents of the reconnect storm, and registrations at once. */
const STORM_AGENTS = 300;
const AT_ONCE = 20;
/** Most messages a second while the instances restart, and most of one client without an answer. */
const RATE = 200;
const SENDERS = 10;
const OPEN = 3;
/** Pause of a client before it repeats a message: the `Retry-After` of a 503. */
const REPEAT_MS = 1_000;
/** Time between the looks of a load balancer at an instance. */
const LOOK_MS = 250;

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** Registers agents, spread over the instances, without links. */
async function register(world: World, count: number): Promise<ChaosAgent[]> {
  const place = { registryUrl: world.cluster.origin, proxyUrl: world.cluster.origin };
  const apiKey = (await world.registryAt(0).bootstrap(BOOTSTRAP_SECRET)).apiKey.token;
  const agents: ChaosAgent[] = [];
  const one = async (i: number) => {
    const live = await newAgent(place, apiKey, `agent-${i}`, world.depsAt(() => i % INSTANCES));
    agents[i] = new ChaosAgent(world, i, live);
  };
  for (let i = 0; i < count; i += AT_ONCE) {
    await Promise.all(Array.from({ length: Math.min(AT_ONCE, count - i) }, (_, n) => one(i + n)));
  }
  return agents;
}

/** True while an instance is ready, as a load balancer sees it. */
async function readinessOf(address: string): Promise<boolean> {
  try {
    const answer = await fetch(`${address}/readyz`);
    await answer.body?.cancel();
    return answer.ok;
  } catch {
    return false;
  }
}

/** The facts about messages that were received more than once, one line each. */
function historyOfRepeated({ history }: World): string[] {
  const received = history.flatMap((fact) => fact.kind === "received" ? [fact.message] : []);
  const twice = new Set(received.filter((message, i) => received.indexOf(message) !== i));
  const requests = new Set(
    history.flatMap((fact) => fact.kind === "sent" && twice.has(fact.message) ? [fact.request] : []),
  );
  return history.filter((fact) =>
    fact.kind === "opened" || ("message" in fact && twice.has(fact.message)) ||
    ("request" in fact && requests.has(fact.request))
  ).map(lineOf);
}

const areConnected = (agents: ChaosAgent[]) => agents.every(({ isConnected }) => isConnected) || undefined;

Deno.test({
  name: "300 agents come back spread over time, with two presence writes at most, when an instance is killed",
  ignore: denokv === null,
  async fn() {
    await using folder = await tempFolder();
    await using cluster = await Cluster.open(denokv ?? "", folder.path);
    const world = new World(cluster);
    const agents = await register(world, STORM_AGENTS);
    for (const agent of agents) agent.connect();
    await eventually(60_000, "every agent is connected", () => areConnected(agents));
    const epochs = async () => {
      const kv = await Deno.openKv(cluster.store.address);
      const found = new Map<string, number>();
      for await (const { key, value } of kv.list<Presence>({ prefix: KEYS.allPresences() })) {
        found.set(String(key.at(-1)), value.epoch);
      }
      kv.close();
      return found;
    };
    const before = await epochs();
    const lost = agents.filter(({ instance }) => instance === 0);
    const opened = world.history.length;
    const killed = world.now;
    await cluster.kill(0);
    const openings = () =>
      world.history.slice(opened).flatMap((fact) => fact.kind === "opened" ? [fact.at - killed] : []);
    // Right after the kill the agents have not noticed it.
    const areBack = () => openings().length >= lost.length ? areConnected(agents) : undefined;
    await eventually(60_000, "every agent is back", areBack);
    const back = openings().sort((a, b) => a - b);
    assertEquals(back.length, lost.length, "every agent of the killed instance opened one link");
    const most = Math.max(...back.map((from) => back.filter((at) => at >= from && at < from + 500).length));
    assert(most < lost.length / 2, `${most} of ${lost.length} came within 500 ms`);
    const after = await epochs();
    for (const { live: { identity: { did } }, number } of agents) {
      const writes = (after.get(did) ?? 0) - (before.get(did) ?? 0);
      assert(writes <= (lost.some((one) => one.number === number) ? 2 : 0), `${writes} presence writes of one agent`);
    }
    console.log(`${lost.length} agents are back after ${Math.round(back.at(-1) ?? 0)} ms`);
    for (const agent of agents) await agent.stop();
  },
});

Deno.test({
  name: "a rolling restart of three instances loses no message of a client that repeats",
  ignore: denokv === null,
  async fn() {
    await using folder = await tempFolder();
    await using cluster = await Cluster.open(denokv ?? "", folder.path);
    const world = new World(cluster);
    const agents = await register(world, SENDERS);
    const next = (i: number) => agents[(i + 1) % SENDERS] as ChaosAgent;
    for (const [i, agent] of agents.entries()) await pair(agent.live, next(i).live);
    for (const agent of agents) agent.connect();
    await eventually(20_000, "every agent is connected", () => areConnected(agents));

    let isOver = false;
    const unavailable = agents.map(() => 0);
    const refusals: string[] = [];
    const sent: string[] = [];
    let longest = 0;
    const isReady = cluster.instances.map(() => true);
    const looks = isReady.map(async (_, i) => {
      for (; !isOver; await pause(LOOK_MS)) isReady[i] = await readinessOf(cluster.dial(i));
    });
    /** Sends until there is a 202, each time with the same request ID, to an instance that is ready. */
    const insist = async (i: number, message: string) => {
      const agent = agents[i] as ChaosAgent;
      for (;;) {
        const ready = isReady.findIndex((_, n) => isReady[(agent.sendsAt + n) % INSTANCES]);
        const instance = (agent.sendsAt + Math.max(0, ready)) % INSTANCES;
        const began = world.now;
        const answer = await agent.send(next(i), message, true, instance);
        if (answer === "delivered" || answer === "queued") {
          longest = Math.max(longest, world.now - began);
          return void (agent.sendsAt = instance);
        }
        if (/UNAVAILABLE|^503/.test(answer)) {
          unavailable[i] = (unavailable[i] ?? 0) + 1;
          refusals.push(`${Math.round(world.now)} ms: ${answer} of instance ${instance} to client ${i}`);
        }
        // A load balancer that cannot connect tries another instance.
        if (answer === "lost") isReady[instance] = false;
        else await pause(REPEAT_MS);
      }
    };
    const loads = agents.map(async (_, i) => {
      const open = new Set<Promise<void>>();
      while (!isOver) {
        const message = newId();
        sent.push(message);
        const one = insist(i, message).finally(() => open.delete(one));
        open.add(one);
        await pause(1_000 * SENDERS / RATE);
        while (open.size >= OPEN) await Promise.race(open);
      }
      await Promise.all(open);
    });
    for (let i = 0; i < INSTANCES; i++) {
      await pause(500);
      if (Deno.args.includes("--events")) console.log(`${Math.round(world.now)} ms: instance ${i} stops`);
      await cluster.kill(i, "SIGTERM");
      if (Deno.args.includes("--events")) console.log(`${Math.round(world.now)} ms: instance ${i} starts`);
      await cluster.start(i);
      await eventually(60_000, "every agent is connected", () => areConnected(agents));
    }
    isOver = true;
    await Promise.all([...loads, ...looks]);
    const received = () => world.history.flatMap((fact) => fact.kind === "received" ? [fact.message] : []);
    await eventually(20_000, "every message arrives", () => new Set(received()).size === sent.length || undefined);
    const repeated = received().length - sent.length;
    console.log(
      `${sent.length} messages, ${repeated} frames twice, longest wait ${Math.round(longest)} ms; ` +
        `503 by client: ${unavailable.join(" ")}`,
    );
    assertEquals(repeated, 0, historyOfRepeated(world).join("\n"));
    assert(unavailable.every((count) => count <= 1), refusals.join("\n"));
    for (const agent of agents) await agent.stop();
  },
});
