/** Access to a connector (D-119): a command attaches to the one that runs, or runs one; the lock decides, not the port. */
import { assert, assertEquals, assertNotEquals, assertRejects } from "@std/assert";
import { type AgentFolder, AgentStore } from "../../../cli/agents/agent_store.ts";
import { type Access, access } from "../../../cli/connector/attach.ts";
import { isConnectorLocked, lockConnector } from "../../../cli/connector/connector_lock.ts";
import { readConnectorFile } from "../../../cli/connector/local_api/discovery_file.ts";
import { CliError } from "../../../cli/errors.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import { World } from "../../support/world.ts";
import { Machine } from "../cli_world.ts";
import { contextOf } from "./context.ts";

/** An agent of a machine whose requests to loopback are real ones. */
class Agents implements AsyncDisposable {
  readonly sent: string[] = [];

  private constructor(readonly world: World, readonly machine: Machine, readonly folder: AgentFolder) {}

  static async open(): Promise<Agents> {
    const world = await World.open();
    const machine = await Machine.ofPerson(world);
    await machine.json("agent", "create", "alpha");
    // Nothing listens there: the link is not part of these tests.
    await machine.json("config", "set", "proxyUrl", "http://127.0.0.1:9");
    const agents = new Agents(world, machine, await new AgentStore(contextOf(world, machine)).open("alpha"));
    machine.fetch = (input, init) => {
      const url = String(input);
      if (!url.startsWith("http://127.0.0.1:")) return world.fetch(input, init);
      agents.sent.push(url);
      return fetch(input, init);
    };
    return agents;
  }

  access(): Promise<Access> {
    const { world, machine, folder } = this;
    return access(contextOf(world, machine), folder);
  }

  /** Moves the clock until a promise is settled. */
  async settled<T>(promise: PromiseLike<T>): Promise<T> {
    let isSettled = false;
    promise.then(() => isSettled = true, () => isSettled = true);
    while (!isSettled) {
      await flushTasks();
      await this.world.clock.advance(250);
    }
    return await promise;
  }

  async end(one: Access): Promise<void> {
    await this.settled(one[Symbol.asyncDispose]());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.machine[Symbol.asyncDispose]();
    await this.world[Symbol.asyncDispose]();
  }
}

Deno.test("access runs a connector while no other process does, and ends it when it is disposed", async () => {
  await using agents = await Agents.open();
  const { folder } = agents;
  const host = await agents.access();
  assertEquals([host.isHost, await isConnectorLocked(folder)], [true, true]);
  const { agent } = await host.call("GET", "/v1/status") as { agent: { name: string } };
  assertEquals([agent.name, readConnectorFile(folder)?.pid], ["alpha", Deno.pid]);
  await agents.end(host);
  assertEquals([await isConnectorLocked(folder), readConnectorFile(folder)], [false, null]);
});

Deno.test("a disposed access starts no connector for a call, also when the call was in progress", async () => {
  await using agents = await Agents.open();
  const host = await agents.access();
  const held = Promise.withResolvers<void>(), asked = Promise.withResolvers<void>();
  const { fetch } = agents.machine;
  agents.machine.fetch = async (input, init) => {
    asked.resolve();
    await held.promise;
    return await fetch(input, init);
  };
  const refused = assertRejects(() => host.call("GET", "/v1/status"), CliError, "has ended its use of the connector");
  await asked.promise;
  await agents.end(host);
  held.resolve();
  await agents.settled(refused);
  await assertRejects(() => host.call("GET", "/v1/status"), CliError, "has ended its use of the connector");
  assertEquals([await isConnectorLocked(agents.folder), readConnectorFile(agents.folder)], [false, null]);
});

Deno.test("access attaches to a connector that runs, and leaves it running", async () => {
  await using agents = await Agents.open();
  const host = await agents.access();
  const guest = await agents.access();
  assertEquals([host.isHost, guest.isHost], [true, false]);
  const { pid } = await guest.call("GET", "/v1/status") as { pid: number };
  assertEquals(pid, Deno.pid);
  await agents.end(guest);
  assertEquals(await isConnectorLocked(agents.folder), true);
  await agents.end(host);
});

Deno.test("access by many at once gives one host", async () => {
  await using agents = await Agents.open();
  const all = await agents.settled(Promise.all(Array.from({ length: 8 }, () => agents.access())));
  assertEquals(all.filter(({ isHost }) => isHost).length, 1);
  const pids = await Promise.all(all.map(async (one) => (await one.call("GET", "/v1/status") as { pid: number }).pid));
  assertEquals(new Set(pids).size, 1);
  for (const one of all) await agents.end(one);
});

Deno.test("access continues as the host when the connector has ended", async () => {
  await using agents = await Agents.open();
  const host = await agents.access();
  const guest = await agents.access();
  const before = readConnectorFile(agents.folder)?.token;
  await agents.end(host);
  const status = guest.call("POST", "/v1/dead-letter/purge", { all: true });
  assertEquals(await agents.settled(status), { purged: 0 });
  assertEquals(guest.isHost, true);
  assertNotEquals(readConnectorFile(agents.folder)?.token, before);
  await agents.end(guest);
});

Deno.test("nothing is sent to the port of a connector that has ended, also when its file is still there", async () => {
  await using agents = await Agents.open();
  const { folder, machine, world } = agents;
  let received = 0;
  await using other = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, () => {
    received++;
    return new Response();
  });
  const { port } = other.addr;
  const { did: agentDid } = folder.identity();
  const file = { url: `http://127.0.0.1:${port}`, port, token: "t", pid: 1, agentDid, startedAt: "" };
  await folder.writeJson("connector.json", file);
  const host = await agents.access();
  assertEquals(host.isHost, true);
  await agents.end(host);

  // A new connector has the lock and has not written its file yet.
  await folder.writeJson("connector.json", file);
  const lock = await lockConnector(folder, Deno.pid);
  const waiting = access(contextOf(world, machine), folder);
  for (let n = 0; n < 20; n++) {
    await flushTasks();
    await world.clock.advance(250);
  }
  lock[Symbol.dispose]();
  await agents.end(await agents.settled(waiting));
  assertEquals(received, 0);
});

Deno.test("access fails with CLI_CONNECTOR_DOWN when the holder of the lock does not answer for 20 s", async () => {
  await using agents = await Agents.open();
  const { folder, world } = agents;
  using _lock = await lockConnector(folder, Deno.pid);
  const began = world.clock.now();
  const error = await assertRejects(() => agents.settled(agents.access()), CliError);
  assertEquals([error.code, error.message, error.fix], [
    "CLI_CONNECTOR_DOWN",
    "The connector of alpha runs, but does not answer",
    `Stop process ${Deno.pid}, then run svc connector start alpha.`,
  ]);
  // The clock also moves while files are read, so only the least time is certain.
  assert(world.clock.now() - began >= 20_000);
  assertEquals(agents.sent, []);
});

Deno.test("a connector starts while many processes ask whether one runs", async () => {
  await using agents = await Agents.open();
  const { folder } = agents;
  let isOver = false;
  const asking = Array.from({ length: 4 }, async () => {
    while (!isOver) await isConnectorLocked(folder);
  });
  for (let n = 0; n < 50; n++) (await lockConnector(folder, Deno.pid))[Symbol.dispose]();
  isOver = true;
  await Promise.all(asking);
});

Deno.test("a call that may not be repeated is not sent again when the connection is lost", async () => {
  await using agents = await Agents.open();
  const { machine } = agents;
  const host = await agents.access();
  const guest = await agents.access();
  const real = machine.fetch;
  let calls = 0;
  machine.fetch = (input, init) => {
    if (!String(input).includes("/v1/dead-letter") && !String(input).endsWith("/v1/pair/peers")) {
      return real(input, init);
    }
    calls++;
    return Promise.reject(new TypeError("connection reset"));
  };
  const purge = () => guest.call("POST", "/v1/dead-letter/purge", { all: true });
  assertEquals((await assertRejects(purge, CliError)).code, "CLI_CONNECTOR_DOWN");
  assertEquals(calls, 1);
  await assertRejects(() => guest.call("POST", "/v1/dead-letter/purge", { all: true }, undefined, true), CliError);
  await assertRejects(() => guest.call("GET", "/v1/pair/peers"), CliError);
  assertEquals(calls, 7);
  machine.fetch = real;
  for (const one of [guest, host]) await agents.end(one);
});
