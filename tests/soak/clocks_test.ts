/** Instances whose clocks differ by 20 s (D-390): they deliver to each other's agents, and each says so in its log. */
import { assertEquals } from "@std/assert";
import { findDenokv } from "../support/denokv.ts";
import { eventually, newId, pair, tempFolder } from "../support/process.ts";
import { type ChaosAgent, World } from "./chaos/clients.ts";
import { Cluster, findFaketime } from "./chaos/cluster.ts";
import { areConnected, pause, register } from "./chaos/fleet.ts";
import { INSTANCES } from "./chaos/plan.ts";

const denokv = await findDenokv();
const faketime = await findFaketime();
if (faketime === null) console.log("skipped: clocks that differ; no libfaketime; apt-get install faketime");

/** Seconds that each instance is ahead of the machine. */
const AHEAD = [0, 20, -20];
/** Longer than a lease, so that the first look at each lease decides nothing. */
const SETTLE_MS = 15_000;

Deno.test({
  name: "instances whose clocks are 20 s apart deliver to each other's agents",
  ignore: denokv === null || faketime === null,
  async fn() {
    await using folder = await tempFolder();
    await using cluster = await Cluster.open(denokv ?? "", folder.path, { faketime });
    for (const [i, seconds] of AHEAD.entries()) await cluster.setClock(i, seconds);
    const world = new World(cluster);
    const agents = await register(world, INSTANCES);
    for (const [i, agent] of agents.entries()) await pair(agent.live, (agents[(i + 1) % INSTANCES] as ChaosAgent).live);
    for (const agent of agents) agent.connect();
    await eventually(20_000, "every agent is connected", () => areConnected(agents));
    await pause(SETTLE_MS);
    const answers: string[] = [];
    for (const from of agents) {
      for (const to of agents.filter((agent) => agent !== from)) {
        const answer = await from.send(to, newId(), false);
        answers.push(`${AHEAD[from.number]} to ${AHEAD[to.number]}: ${answer}`);
      }
    }
    assertEquals(answers.filter((answer) => !answer.endsWith("delivered")), []);
    for (const { process } of cluster.instances) {
      const lines = process?.stderr.lines.filter((line) => line.includes('"event":"clocks_differ"')) ?? [];
      assertEquals(lines.length, 1, "one warning in the first minute");
    }
    for (const agent of agents) await agent.stop();
  },
});
