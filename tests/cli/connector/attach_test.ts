/** Access to a connector (D-119): a command attaches to the one that runs, or runs one; the lock decides, not the port. */
import { assert, assertEquals, assertNotEquals, assertRejects } from "@std/assert";
import type { AgentFolder } from "../../../cli/agents/agent_store.ts";
import { type Access, access, connectorOf, keptAccess } from "../../../cli/connector/attach.ts";
import { isConnectorLocked, lockConnector } from "../../../cli/connector/connector_lock.ts";
import { readConnectorFile } from "../../../cli/connector/local_api/discovery_file.ts";
import { statusOf } from "../../../cli/connector/status.ts";
import { CliError } from "../../../cli/errors.ts";
import { LocalDown } from "../../../shared/client/errors.ts";
import { call } from "../../../shared/client/local_client.ts";
import * as z from "zod";
import { flushTasks } from "../../support/manual_clock.ts";
import { World } from "../../support/world.ts";
import type { Machine } from "../cli_world.ts";
import { contextOf } from "./context.ts";
import { folderOf, machineWithAlpha } from "./local_machine.ts";

const PURGE = { method: "POST", target: "/v1/dead-letter/purge", body: '{"all":true}' } as const;

/** An agent of a machine whose requests to loopback are real ones. */
class Agents implements AsyncDisposable {
  readonly sent: string[] = [];

  private constructor(readonly world: World, readonly machine: Machine, readonly folder: AgentFolder) {}

  static async open(): Promise<Agents> {
    const world = await World.open();
    const machine = await machineWithAlpha(world);
    // Nothing listens there: the link is not part of these tests.
    await machine.json("config", "set", "proxyUrl", "http://127.0.0.1:9");
    const agents = new Agents(world, machine, await folderOf(machine, "alpha"));
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

  kept(): Access {
    return keptAccess(contextOf(this.world, this.machine), this.folder);
  }

  async passesUntil(isDone: () => boolean, stepMs = 250): Promise<void> {
    while (!isDone()) {
      await flushTasks();
      await this.world.clock.advance(stepMs);
    }
  }

  /** Moves the clock until a promise is settled. */
  async settled<T>(promise: PromiseLike<T>): Promise<T> {
    let isSettled = false;
    promise.then(() => isSettled = true, () => isSettled = true);
    await this.passesUntil(() => isSettled);
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

Deno.test("a command sends no token to a connector's port that another user has", async () => {
  await using agents = await Agents.open();
  const { folder, sent, world, machine } = agents;
  const host = await agents.access();
  const { url } = readConnectorFile(folder) ?? {};
  for (const isOther of [false, true]) {
    const isOfOtherUser = (asked: string) => Promise.resolve(isOther && asked === url);
    const client = await connectorOf({ ...contextOf(world, machine), isOfOtherUser }, folder);
    assert(client, "the connector runs");
    sent.length = 0;
    const answer = client.send({ method: "GET", target: "/v1/status" });
    if (isOther) await assertRejects(() => answer, LocalDown, "another user");
    else assertEquals((await answer).status, 200);
    assertEquals(sent.length, isOther ? 0 : 1);
  }
  await agents.end(host);
});

Deno.test("access runs a connector while no other process does, and ends it when it is disposed", async () => {
  await using agents = await Agents.open();
  const { folder } = agents;
  const host = await agents.access();
  assertEquals([host.isHost, await isConnectorLocked(folder)], [true, true]);
  const { agent } = await statusOf(host);
  assertEquals([agent.name, readConnectorFile(folder)?.pid], ["alpha", Deno.pid]);
  await agents.end(host);
  assertEquals([await isConnectorLocked(folder), readConnectorFile(folder)], [false, null]);
});

Deno.test("a disposed access starts no connector for a call, also when the call was in progress", async () => {
  await using agents = await Agents.open();
  const host = await agents.access();
  const guest = await agents.access();
  const held = Promise.withResolvers<void>(), asked = Promise.withResolvers<void>();
  const { fetch } = agents.machine;
  agents.machine.fetch = async (input, init) => {
    asked.resolve();
    await held.promise;
    return await fetch(input, init);
  };
  const refused = assertRejects(() => statusOf(guest), CliError, "has ended its use of the connector");
  await asked.promise;
  await agents.end(guest);
  await agents.end(host);
  held.resolve();
  await agents.settled(refused);
  for (const one of [host, guest]) {
    await assertRejects(() => statusOf(one), CliError, "has ended its use of the connector");
  }
  assertEquals([await isConnectorLocked(agents.folder), readConnectorFile(agents.folder)], [false, null]);
});

Deno.test("a host calls its connector without a socket, and a guest over its port, which leaves it running", async () => {
  await using agents = await Agents.open();
  const host = await agents.access();
  const guest = await agents.access();
  assertEquals([host.isHost, guest.isHost], [true, false]);
  agents.sent.length = 0;
  const statuses = [await statusOf(host), await statusOf(guest)];
  assertEquals([statuses.map(({ pid }) => pid), agents.sent.length], [[Deno.pid, Deno.pid], 1]);
  // A call that waits is answered when the connector ends, and a later one is refused.
  const waiting = call(host, z.unknown(), { method: "GET", target: "/v1/inbox?wait=60", waitSeconds: 60 });
  await agents.end(guest);
  assertEquals(await isConnectorLocked(agents.folder), true);
  await agents.end(host);
  assertEquals(await waiting, { messages: [], more: false });
  await assertRejects(() => statusOf(host), CliError, "has ended its use of the connector");
});

Deno.test("access by many at once gives one host", async () => {
  await using agents = await Agents.open();
  const all = await agents.settled(Promise.all(Array.from({ length: 8 }, () => agents.access())));
  assertEquals(all.filter(({ isHost }) => isHost).length, 1);
  const pids = await Promise.all(all.map(async (one) => (await statusOf(one)).pid));
  assertEquals(new Set(pids).size, 1);
  for (const one of all) await agents.end(one);
});

Deno.test("access continues as the host when the connector has ended", async () => {
  await using agents = await Agents.open();
  const host = await agents.access();
  const guest = await agents.access();
  const before = readConnectorFile(agents.folder)?.token;
  await agents.end(host);
  const status = call(guest, z.unknown(), PURGE);
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

  const late = agents.access();
  late.catch(() => {});
  await flushTasks();
  world.clock.step(-86_400_000);
  const since = world.clock.now();
  await assertRejects(() => agents.settled(late), CliError);
  assert(world.clock.now() - since < 60_000, "after the clock was set back it waits for as much longer");
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

Deno.test("a start beside a command that keeps the lock says that a command has it, not a connector", async () => {
  await using agents = await Agents.open();
  using _lock = await lockConnector(agents.folder, null);
  const error = await assertRejects(() => lockConnector(agents.folder, Deno.pid), CliError);
  assertEquals([error.code, error.message], ["CLI_BUSY", `Another command changes ${agents.folder.name} now`]);
});

Deno.test("a lock whose file cannot be written is released", async () => {
  await using agents = await Agents.open();
  const { folder } = agents;
  const { write } = Deno.FsFile.prototype;
  Deno.FsFile.prototype.write = () => Promise.reject(new Error("No space left on device"));
  try {
    const error = await assertRejects(() => lockConnector(folder, Deno.pid), CliError);
    assertEquals(error.code, "CLI_SAVE_FAILED");
  } finally {
    Deno.FsFile.prototype.write = write;
  }
  assertEquals(await isConnectorLocked(folder), false);
  (await lockConnector(folder, Deno.pid))[Symbol.dispose]();
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
  assert((await assertRejects(() => guest.send(PURGE), LocalDown)).wasSent);
  assertEquals(calls, 1);
  await assertRejects(() => guest.send({ ...PURGE, repeatable: true }), LocalDown);
  await assertRejects(() => guest.send({ method: "GET", target: "/v1/pair/peers" }), LocalDown);
  assertEquals(calls, 7);
  machine.fetch = real;
  for (const one of [guest, host]) await agents.end(one);
});

Deno.test("a request waits 10 s for a kept connector, and a later one gets the connector that came since", async () => {
  await using agents = await Agents.open();
  const lock = await lockConnector(agents.folder, Deno.pid);
  const kept = agents.kept();
  const began = agents.world.clock.now();
  const error = await assertRejects(() => agents.settled(statusOf(kept)), CliError);
  assertEquals([error.code, error.fix], ["CLI_CONNECTOR_DOWN", "Call the tool again in some seconds."]);
  assert(agents.world.clock.now() - began >= 10_000);
  lock[Symbol.dispose]();
  assertEquals((await agents.settled(statusOf(kept))).pid, Deno.pid);
  await agents.end(kept);
  assertEquals(await isConnectorLocked(agents.folder), false);
});

Deno.test("the reason why a kept connector cannot start is the error of the request, and the next one tries again", async () => {
  await using agents = await Agents.open();
  await agents.folder.write("runtime.json", "{");
  const kept = agents.kept();
  assertEquals((await assertRejects(() => statusOf(kept), CliError)).code, "CLI_FILE_INVALID");
  await agents.folder.remove("runtime.json");
  assertEquals((await statusOf(kept)).pid, Deno.pid);
  await agents.end(kept);
});

Deno.test("a kept connector that failed in this process is started again", async () => {
  await using agents = await Agents.open();
  const { folder, machine } = agents;
  const kept = agents.kept();
  await statusOf(kept);
  await machine.json("agent", "auth", "revoke", "alpha");
  await agents.passesUntil(() => !kept.isHost, 20_000);
  await machine.json("agent", "reissue", "alpha");
  await agents.passesUntil(() => kept.isHost);
  assertEquals(readConnectorFile(folder)?.pid, Deno.pid);
  await agents.end(kept);
});

Deno.test("a kept connector runs again without a request, and is tried again 30 s after it could not start", async () => {
  await using agents = await Agents.open();
  const { folder } = agents;
  const host = await agents.access();
  const kept = agents.kept();
  assertEquals([(await statusOf(kept)).pid, kept.isHost], [Deno.pid, false]);
  await agents.end(host);
  await agents.passesUntil(() => kept.isHost);
  assertEquals(await isConnectorLocked(folder), true);
  await agents.end(kept);

  await folder.write("runtime.json", "{");
  const late = agents.kept();
  await assertRejects(() => statusOf(late), CliError);
  const failed = agents.world.clock.now();
  await folder.remove("runtime.json");
  await agents.passesUntil(() => late.isHost);
  assert(agents.world.clock.now() - failed >= 30_000);
  await agents.end(late);
});

Deno.test("a kept access ends also when its connector does not come", async () => {
  await using agents = await Agents.open();
  using _lock = await lockConnector(agents.folder, Deno.pid);
  const kept = agents.kept();
  await agents.end(kept);
});
