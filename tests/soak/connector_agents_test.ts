/**
 * The connectors of a hundred agents in one process, and their memory; agents that come and go, one after the other,
 * while the process reads its list of agents every 10 s.
 */
import { assert, assertEquals } from "@std/assert";
import { AgentSet, SharedRuntime } from "../cli/connector/agent_set.ts";
import { FleetProcess, isThere, manyAgents } from "../cli/connector/many_agents.ts";
import { eventually, Service, tempFolder } from "../support/process.ts";

const GOAL_MB = 182;

Deno.test("100 agents in one process get their own messages, also when three of them fail", async (t) => {
  await manyAgents(t, 100, GOAL_MB);
});

Deno.test("agents that are created and deleted take effect in a running process", async (t) => {
  await using service = await Service.open();
  await using folder = await tempFolder();
  await using runtime = new SharedRuntime();
  const agents = await AgentSet.create(folder.path, service, runtime, 0);
  await using fleet = new FleetProcess(folder.path, "--all");

  await t.step("an agent is connected after its creation, also when it is the first", async () => {
    for (const name of ["a", "b"]) {
      await agents.add(name);
      const began = Date.now();
      await fleet.connected([name]);
      console.log(`${name} was connected after ${((Date.now() - began) / 1000).toFixed(1)} s`);
    }
    await agents.deliverToEach(["a", "b"], "for");
  });

  await t.step("the connector of a deleted agent ends, and the other goes on", async () => {
    await agents.svc("agent", "delete", "a", "--yes");
    await eventually(60_000, "the connector of a ends", () => fleet.agentsWith("stopped").includes("a") || undefined);
    // The next agent shows that the list was read again.
    await agents.add("c");
    await fleet.connected(["c"]);
    const { length } = fleet.events;
    assert(!await isThere(`${folder.path}/agents/a`));
    await agents.deliverToEach(["b", "c"], "again for");
    assertEquals(fleet.events.slice(length).filter(({ agent }) => agent === "a"), []);
  });

  assertEquals((await fleet.end("SIGTERM")).code, 0);
});
