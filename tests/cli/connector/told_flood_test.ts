/** What a relay tells without an end. */
import { assertEquals } from "@std/assert";
import { World } from "../../support/world.ts";
import { story } from "./bench.ts";
import { until } from "../../support/until.ts";
import { flushTasks } from "../../support/manual_clock.ts";

Deno.test("a relay that says without an end that agents have paired fills no log", async () => {
  await using world = await World.open();
  const { a, b, bench } = await story(world);
  const before = bench.eventsOf("paired").length;
  const { connectedAgents } = world.proxy.deps;
  for (let i = 0; i < 500; i++) {
    connectedAgents.tellPaired(b.agent.did, a.agent.did, { agentName: `a${i}`, humanName: "h" });
  }
  await until(() => bench.eventsOf("paired").length > before);
  await flushTasks();
  assertEquals(bench.eventsOf("paired").length - before, 50);
});
