/** The port of an agent's local API (D-231): chosen once, kept, and never that of another agent. */
import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { AgentStore } from "../../../../cli/agents/agent_store.ts";
import { openPort, readPort } from "../../../../cli/connector/local_api/discovery_file.ts";
import { freePort } from "../../../support/process.ts";
import { World } from "../../../support/world.ts";
import { Machine } from "../../cli_world.ts";
import { contextOf } from "../context.ts";

const answer = () => Promise.resolve(new Response("ok"));

/** A store with two agents. */
async function twoAgents(world: World, machine: Machine) {
  for (const name of ["alpha", "beta"]) await machine.json("agent", "create", name);
  const store = new AgentStore(contextOf(world, machine));
  return { store, alpha: await store.open("alpha"), beta: await store.open("beta") };
}

Deno.test("an agent keeps the port of its first start, and another agent does not get it meanwhile", async () => {
  await using world = await World.open();
  await using machine = await Machine.ofPerson(world);
  const { store, alpha, beta } = await twoAgents(world, machine);
  const first = freePort();
  const chosen = await openPort(store, alpha, null, answer, first);
  await chosen.listener.close();
  const { port } = chosen.listener;
  assertEquals([chosen.movedFrom, readPort(alpha)], [null, port]);
  const other = await openPort(store, beta, null, answer, first);
  assertNotEquals(other.listener.port, port);
  for (let n = 0; n < 3; n++) {
    const again = await openPort(store, alpha, null, answer, freePort());
    assertEquals([again.listener.port, again.movedFrom], [port, null]);
    await again.listener.close();
  }
  await other.listener.close();
});

Deno.test("agents that start together for the first time get ports of their own", async () => {
  await using world = await World.open();
  await using machine = await Machine.ofPerson(world);
  const { store, alpha, beta } = await twoAgents(world, machine);
  const first = freePort();
  const opened = await Promise.all([alpha, beta].map((folder) => openPort(store, folder, null, answer, first)));
  const ports = opened.map(({ listener }) => listener.port);
  for (const { listener } of opened) await listener.close();
  assertEquals([readPort(alpha), readPort(beta)], ports);
  assertNotEquals(ports[0], ports[1]);
});

Deno.test("a port in use by another program is skipped for one run; --port changes it permanently", async () => {
  await using world = await World.open();
  await using machine = await Machine.ofPerson(world);
  const { store, alpha } = await twoAgents(world, machine);
  const chosen = await openPort(store, alpha, null, answer, freePort());
  const { port } = chosen.listener;
  const moved = await openPort(store, alpha, null, answer);
  assertEquals([moved.movedFrom, readPort(alpha)], [port, port]);
  assert(moved.listener.port > port);
  for (const { listener } of [chosen, moved]) await listener.close();
  const wanted = freePort();
  const changed = await openPort(store, alpha, wanted, answer);
  assertEquals([changed.listener.port, changed.movedFrom, readPort(alpha)], [wanted, null, wanted]);
  await changed.listener.close();
  machine.write("agents/alpha/port", "not a port");
  assertEquals(readPort(alpha), null);
});
