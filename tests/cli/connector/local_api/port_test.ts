/** The port of an agent's local API: chosen once, kept, and never that of another agent. */
import { assert, assertEquals, assertNotEquals, assertRejects } from "@std/assert";
import { AgentStore } from "../../../../cli/agents/agent_store.ts";
import { addPeer } from "../../../../cli/commands/a2a.ts";
import { readA2aPeers } from "../../../../cli/connector/local_api/a2a_peers.ts";
import { CliError } from "../../../../cli/errors.ts";
import { firstPort, LOWEST_PORT, openPort, PORTS, readPort } from "../../../../cli/connector/local_api/port.ts";
import { freePort } from "../../../support/process.ts";
import type { World } from "../../../support/world.ts";
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
  await using machine = await Machine.ofPerson();
  const { store, alpha, beta } = await twoAgents(machine.world, machine);
  const first = freePort();
  const chosen = await openPort(store, alpha, null, answer, { first });
  await chosen.listener.shutdown();
  const { port } = chosen.listener.addr;
  assertEquals([chosen.movedFrom, readPort(alpha)], [null, port]);
  const other = await openPort(store, beta, null, answer, { first });
  assertNotEquals(other.listener.addr.port, port);
  for (let n = 0; n < 3; n++) {
    const again = await openPort(store, alpha, null, answer, { first: freePort() });
    assertEquals([again.listener.addr.port, again.movedFrom], [port, null]);
    await again.listener.shutdown();
  }
  await other.listener.shutdown();
});

Deno.test("agents that start together for the first time get ports of their own", async () => {
  await using machine = await Machine.ofPerson();
  const { store, alpha, beta } = await twoAgents(machine.world, machine);
  const first = freePort();
  const opened = await Promise.all([alpha, beta].map((folder) => openPort(store, folder, null, answer, { first })));
  const ports = opened.map(({ listener }) => listener.addr.port);
  for (const { listener } of opened) await listener.shutdown();
  assertEquals([readPort(alpha), readPort(beta)], ports);
  assertNotEquals(ports[0], ports[1]);
});

Deno.test("a port in use by another program is skipped for one run; --port changes it permanently", async () => {
  await using machine = await Machine.ofPerson();
  const { store, alpha } = await twoAgents(machine.world, machine);
  const chosen = await openPort(store, alpha, null, answer, { first: freePort() });
  const { port } = chosen.listener.addr;
  const moved = await openPort(store, alpha, null, answer, { first: 1 });
  assertEquals([moved.movedFrom, readPort(alpha)], [port, port]);
  assert(moved.listener.addr.port > port);
  for (const { listener } of [chosen, moved]) await listener.shutdown();
  const wanted = freePort();
  const changed = await openPort(store, alpha, wanted, answer, { first: 1 });
  assertEquals([changed.listener.addr.port, changed.movedFrom, readPort(alpha)], [wanted, null, wanted]);
  await changed.listener.shutdown();
  machine.write("agents/alpha/port", "not a port");
  assertEquals(readPort(alpha), null);
});

Deno.test("the first port follows from user and configuration directory, over all the places", () => {
  const of = (uid: number | null, configDir: string) => firstPort({ uid, configDir });
  assertEquals(of(1000, "/home/ada/.config/svc"), of(1000, "/home/ada/.config/svc/"));
  assertNotEquals(of(1000, "/home/ada/.config/svc"), of(1001, "/home/ada/.config/svc"));
  assertNotEquals(of(null, "C:/ada"), of(null, "C:/bob"));
  const found = Array.from({ length: 10_000 }, (_, uid) => of(uid, "/home/svc"));
  assert(found.every((one) => one >= LOWEST_PORT && one < LOWEST_PORT + PORTS));
  // Even use of the places: each tenth of them gets a tenth of the users.
  const tenths = Map.groupBy(found, (one) => Math.floor((one - LOWEST_PORT) / (PORTS / 10)));
  assertEquals(tenths.size, 10);
  for (const users of tenths.values()) assert(users.length > 800 && users.length < 1_200, `${users.length}`);
});

Deno.test("a port of a runtime that does not run is left free for it", async () => {
  await using machine = await Machine.ofPerson();
  const { store, alpha } = await twoAgents(machine.world, machine);
  const first = freePort();
  const { listener } = await openPort(store, alpha, null, answer, { first, reserved: [first] });
  assert(listener.addr.port > first);
  await listener.shutdown();
});

Deno.test("no A2A address is given out while another program has the agent's port", async (t) => {
  await using machine = await Machine.ofPerson();
  const { alpha: folder } = await twoAgents(machine.world, machine);
  await folder.write("port", "12000");
  const peer = { alias: "beta", did: "did:svc:registry.example.test:agent:01KHYQ5H00BBBBBBBBBBBBBBBB" };
  const add = (isTaken: boolean, movedFrom?: number | null) => {
    const ctx = { ...contextOf(machine.world, machine), reach: () => Promise.resolve(isTaken) };
    const text = JSON.stringify({ api: { url: "http://127.0.0.1:12001", movedFrom } });
    const send = () => Promise.resolve({ status: 200, headers: new Headers(), text });
    const client = movedFrom === undefined ? null : { agentName: "alpha", send };
    return addPeer(ctx, { folder, client }, peer, false, null);
  };
  const taken: [what: string, movedFrom?: number][] = [["no connector runs"], ["the connector has moved", 12_000]];
  for (const [what, movedFrom] of taken) {
    await t.step(what, async () => {
      const { code, message } = await assertRejects(() => add(true, movedFrom), CliError);
      assertEquals([code, message.includes("http://127.0.0.1:12000")], ["CLI_BUSY", true]);
      assertEquals(readA2aPeers(folder), []);
    });
  }
  await t.step("the port is free, or the connector has it", async () => {
    assertEquals((await add(false)).url, "http://127.0.0.1:12000/a2a/beta");
    assertEquals((await add(true, null)).url, "http://127.0.0.1:12000/a2a/beta");
  });
});

Deno.test("the token of an A2A address works on when OpenClaw changes its settings while a new one is made", async () => {
  await using machine = await Machine.ofPerson();
  const { alpha: folder } = await twoAgents(machine.world, machine);
  await folder.write("port", "12000");
  const peer = { alias: "beta", did: "did:svc:registry.example.test:agent:01KHYQ5H00BBBBBBBBBBBBBBBB" };
  const settings = "openclaw/openclaw.json",
    ctx = { ...contextOf(machine.world, machine), reach: () => Promise.resolve(false) };
  const add = (random = ctx.random) =>
    addPeer({ ...ctx, random }, { folder, client: null }, peer, true, machine.path("openclaw"));
  await Deno.mkdir(machine.path("openclaw"));
  machine.write(settings, "{}");
  await add();
  const [text, known] = [machine.read(settings), readA2aPeers(folder)];
  let writes = 0;
  const bytes = (length: number) => {
    machine.write(settings, text + " ".repeat(++writes));
    return ctx.random.bytes(length);
  };
  const { code } = await assertRejects(() => add({ ...ctx.random, bytes }), CliError);
  assertEquals([code, readA2aPeers(folder)], ["CLI_BUSY", known]);
});

Deno.test("--port refuses the port of another agent, for a start and for a service, and names that agent", async () => {
  await using machine = await Machine.ofPerson();
  await twoAgents(machine.world, machine);
  Object.assign(machine.env, { HOME: machine.dir, SVC_PROXY_WS_URL: "ws://127.0.0.1:1" });
  machine.write("agents/beta/port", "23456");
  for (const start of [["start"], ["service", "install", "--platform", "systemd"]]) {
    const port = ["connector", ...start, "alpha", "--port"];
    await machine.refuses([...port, "23456"], 2, "CLI_USAGE", "Port 23456 is the port of your agent beta");
    assertEquals((await machine.failure(...port, "none")).code, "CLI_USAGE");
  }
  assertEquals(Object.keys(machine.tree()).filter((path) => /alpha\/port|systemd/.test(path)), []);
});
