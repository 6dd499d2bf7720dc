/** `connector start` in one process: how a wrong clock is corrected before there is a link, and when keys are read. */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { ConnectorLockedError, lockConnector, lockHolder } from "../../../cli/connector/connector_lock.ts";
import { startConnectors } from "../../../cli/connector/start.ts";
import { CliError } from "../../../cli/errors.ts";
import { ApiError, LocalDown } from "../../../shared/client/errors.ts";
import { get } from "../../../shared/client/local_client.ts";
import { Output } from "../../../cli/terminal/output.ts";
import { freePort } from "../../support/process.ts";
import { PROXY_URL, World } from "../../support/world.ts";
import { until } from "../../support/until.ts";
import { passing, stopping } from "./bench.ts";
import { contextOf } from "./context.ts";
import { holdConnectorLock } from "./held_lock.ts";
import type { Machine } from "../cli_world.ts";
import { connectorOfAlpha, folderOf, machineWithAlpha, pairAlpha } from "./local_machine.ts";

Deno.test("a connector signs its refresh with the registry's time when the registry refuses its own", async () => {
  await using world = await World.open();
  await using machine = await machineWithAlpha(world);
  await world.clock.advance(16 * 60_000);
  const aheadMs = 10 * 60_000;
  const signedAt: number[] = [];
  machine.fetch = (input, init) => {
    if (!String(input).endsWith("/refresh")) return Promise.reject(new TypeError("not there"));
    signedAt.push(Number(new Headers(init?.headers).get("X-Svc-Timestamp")) * 1000 - world.clock.now());
    const error = { code: "AGENT_AUTH_REFRESH_UNAUTHORIZED", message: "m" };
    const headers = { Date: new Date(world.clock.now() + aheadMs).toUTCString() };
    return Promise.resolve(Response.json({ error }, { status: 401, headers }));
  };
  const options = { "proxy-ws-url": `ws://127.0.0.1:${freePort()}`, port: String(freePort()) };
  const context = contextOf(world, machine);
  const ended = startConnectors(context, ["alpha"], options);
  await until(() => signedAt.length >= 2);
  context.interrupt.press();
  await world.clock.advance(5_000);
  assertEquals(await ended, 0);
  assertEquals(signedAt.slice(0, 2).map((ms) => Math.round(ms / 60_000)), [0, 10]);
});

Deno.test("keys are read only in the foreground, or with --keys where the system does not say", async (t) => {
  await using world = await World.open();
  await using machine = await machineWithAlpha(world);
  const cases: [foreground: boolean | null, keys: boolean, isRead: boolean][] = [
    [true, false, true],
    [false, false, false],
    [false, true, false],
    [null, false, false],
    [null, true, true],
  ];
  for (const [foreground, keys, isRead] of cases) {
    await t.step(`${foreground} ${keys}`, async () => {
      let opened = 0, restored = 0, screen = "";
      const keyboard = {
        isInForeground: () => Promise.resolve(foreground),
        open: (onBytes: (bytes: Uint8Array) => void) => {
          opened++;
          onBytes(new TextEncoder().encode("q"));
          return () => void restored++;
        },
      };
      const stdout = (text: string) => (screen += text, true);
      const terminal = { stdout, stderr: () => {}, stdoutIsTerminal: true, stderrIsTerminal: true };
      const silent = contextOf(world, machine);
      const out = new Output(terminal, world.clock, { json: false, colour: false });
      const options = {
        ...{ "proxy-ws-url": `ws://127.0.0.1:${freePort()}`, port: String(freePort()) },
        keys,
      };
      const ended = startConnectors({ ...silent, terminal, out, keyboard }, ["alpha"], options);
      await until(() => screen.includes("alpha of "));
      // Without keys, q does nothing.
      if (!isRead) silent.interrupt.press();
      await world.clock.advance(5_000);
      assertEquals([await ended, opened, restored], [0, Number(isRead), Number(isRead)]);
    });
  }
});

/** A connector of alpha on a terminal, whose proxy refuses connections, so that a message to beta waits in it. */
async function connectorWithUnsent(world: World, machine: Machine, agents: readonly string[] | "all") {
  await pairAlpha(world, machine, "beta");
  machine.answer(new RegExp(PROXY_URL), () => Promise.reject(new TypeError("refused")));
  const said: string[] = [];
  const [stdout, stderr] = [(text: string) => said.push(text) > 0, (text: string) => void said.push(text)];
  const terminal = { stdout, stderr, stdoutIsTerminal: false, stderrIsTerminal: true };
  const context = contextOf(world, machine), out = new Output(terminal, world.clock, { json: false, colour: false });
  const env = (name: keyof typeof machine.env) => machine.env[name];
  const options = agents === "all" ? {} : { port: String(freePort()) };
  const ended = startConnectors({ ...context, env, terminal, out }, agents, options);
  await until(async () => (await machine.svc("connector", "status")).stdout.includes("alpha is"));
  assertStringIncludes(
    (await machine.svc("send", "beta", "hi")).stderr,
    `Kept: ${PROXY_URL} cannot be reached. Sent when`,
  );
  return { context, ended, said: () => said.join("") };
}

Deno.test("the unsent messages of an agent that was deleted are not counted at the end", async () => {
  await using world = await World.open();
  await using machine = await machineWithAlpha(world);
  const { context, ended, said } = await connectorWithUnsent(world, machine, "all");
  await Deno.rename(`${machine.dir}/agents/alpha`, `${machine.dir}/alpha`);
  await passing(world, 60, () => said().includes('"event":"stopped"'));
  context.interrupt.press();
  await stopping(world, ended);
  assertEquals(said().includes("not sent yet"), false);
});

Deno.test("a connector says at its end what it has not sent, and svc sent which command sends it", async () => {
  await using world = await World.open();
  await using machine = await machineWithAlpha(world);
  const { context, ended, said } = await connectorWithUnsent(world, machine, ["alpha"]);
  assertStringIncludes((await machine.svc("sent")).stdout, "next try in");
  context.interrupt.press();
  await world.clock.advance(5_000);
  assertEquals(await ended, 0);
  assertStringIncludes(said(), "1 message is not sent yet.\n");
  const first = machine.json("sent");
  await stopping(world, first);
  const { requestId } = (await first).messages[0];
  for (const args of [[], [requestId]]) {
    const listing = machine.svc("sent", ...args);
    await stopping(world, listing);
    const { stdout, stderr } = await listing;
    assertEquals([stdout.includes("waits here"), stdout.includes("next try")], [true, false], stdout);
    assertStringIncludes(stderr, "Next, to send what waits here: svc connector start alpha");
  }
});

Deno.test("the event of a deleted agent names it in the commands that make it again", async () => {
  await using world = await World.open();
  await using machine = await machineWithAlpha(world);
  const { agents: [agent] } = await machine.json("agent", "list");
  await world.client.deleteAgent(machine.env.SVC_API_KEY ?? "", agent.id);
  world.clock.step(16 * 60_000);
  const said: string[] = [];
  const terminal = {
    stdout: (text: string) => said.push(text) > 0,
    stderr: () => {},
    stdoutIsTerminal: false,
    stderrIsTerminal: false,
  };
  const env = (name: keyof typeof machine.env) => machine.env[name];
  const ended = startConnectors({ ...contextOf(world, machine), env, terminal }, ["alpha"], { port: `${freePort()}` });
  await assertRejects(() => stopping(world, ended), ApiError, "alpha was deleted");
  assertStringIncludes(said.join(""), "svc agent delete alpha, then svc agent create alpha");
});

Deno.test("the end of a session names the command of its agent, also for a command that does not name the agent", async () => {
  await using world = await World.open();
  await using machine = await machineWithAlpha(world);
  await machine.svc("agent", "create", "other");
  await machine.svc("agent", "auth", "revoke", "alpha");
  world.clock.step(16 * 60_000);
  const env = (name: keyof typeof machine.env) => machine.env[name];
  const ended = startConnectors({ ...contextOf(world, machine), env }, ["alpha"], { port: `${freePort()}` });
  const { fix = "" } = await assertRejects(() => stopping(world, ended), ApiError);
  assertStringIncludes(fix, "svc agent reissue alpha");
});

Deno.test("--keys without a terminal, or with --json, is a usage error", async () => {
  await using world = await World.open();
  await using machine = await machineWithAlpha(world);
  const keyboard = { isInForeground: () => Promise.resolve(true), open: () => () => {} };
  const options = { keys: true };
  const ctx = contextOf(world, machine);
  for (const context of [ctx, { ...ctx, keyboard }]) {
    await assertRejects(() => startConnectors(context, ["alpha"], options), CliError, "--keys needs a terminal");
  }
});

Deno.test("a connector that stops takes no more calls of its own view, whose waits would end at once and hold up the stop", async () => {
  await using world = await World.open();
  const machine = await machineWithAlpha(world);
  await using alpha = await connectorOfAlpha(world, machine);
  const wait = () => alpha.calls.send({ ...get("/v1/inbox?after=0&wait=25"), waitSeconds: 25 });
  const waiting = wait();
  void alpha.stop();
  await assertRejects(wait, LocalDown, "does not run");
  assertEquals((await waiting).status, 200);
});

Deno.test("a runtime of the environment is refused for several agents, because it would get the messages of all", async () => {
  await using machine = await machineWithAlpha();
  await machine.json("agent", "create", "beta");
  for (const name of ["SVC_RUNTIME_BASE_URL", "OPENCLAW_BASE_URL", "SVC_HOOK_PATH"] as const) {
    machine.env[name] = name === "SVC_HOOK_PATH" ? "/in" : "http://127.0.0.1:9";
    for (const which of [["--all"], ["alpha", "beta"]]) {
      const { exit, message } = await machine.failure("connector", "start", ...which);
      assertEquals(exit, 2);
      assertStringIncludes(message, `${name} cannot be used for several agents. Unset it`);
    }
    delete machine.env[name];
  }
});

Deno.test("the start says of which of several agents a runtime answers the peers, in lines that fit the window", async () => {
  await using world = await World.open();
  await using machine = await machineWithAlpha(world);
  await machine.json("agent", "create", "beta");
  await machine.json("install", "--for", "nanobot", "--agent-name", "beta");
  let screen = "";
  const stdout = (text: string) => (screen += text, true);
  const terminal = { stdout, stderr: () => {}, stdoutIsTerminal: true, stderrIsTerminal: true, columns: () => 40 };
  const context = contextOf(world, machine), out = new Output(terminal, world.clock, { json: false, colour: false });
  const env = (name: keyof typeof machine.env) => machine.env[name];
  const ended = startConnectors({ ...context, env, terminal, out }, "all", {});
  await until(() => screen.includes("--replies"));
  context.interrupt.press();
  await stopping(world, ended);
  const said = screen.slice(screen.indexOf("beta · The runtime's"), screen.indexOf("--replies off.") + 14).split("\n");
  const whole = "beta · The runtime's answers go back to the peers that asked. To keep them here: --replies off.";
  assertEquals([said.join(" "), said.filter((line) => line.length > 39)], [whole, []]);
  assertEquals(screen.includes("alpha · The runtime's"), false);
});

Deno.test("a second start names a command that shows the connector that runs, with and without a runtime", async () => {
  await using machine = await machineWithAlpha();
  using _lock = await holdConnectorLock(`${machine.dir}/agents/alpha`);
  const cases: [options: string[], fix: string][] = [
    [[], "inbox --follow --agent alpha"],
    [["--hook-path", "/in"], "connector status alpha"],
  ];
  for (const [options, fix] of cases) {
    const { code, message } = await machine.failure("connector", "start", "alpha", ...options);
    assertEquals([code, message.endsWith(`: svc ${fix}`)], ["CLI_BUSY", true], message);
  }
});

Deno.test("of twenty starts at once one has the agent, the others name it, and its end frees the agent", async () => {
  await using machine = await machineWithAlpha();
  const folder = await folderOf(machine, "alpha");
  for (let round = 0; round < 2; round++) {
    const starts = await Promise.allSettled(Array.from({ length: 20 }, (_, i) => lockConnector(folder, 100 + i)));
    const held = starts.flatMap((start) => start.status === "fulfilled" ? [start.value] : []);
    assertEquals([held.length, lockHolder(folder)], [
      1,
      String(100 + starts.findIndex((one) => one.status === "fulfilled")),
    ]);
    for (const start of starts) {
      if (start.status === "rejected") {
        assertEquals(start.reason instanceof ConnectorLockedError, true, String(start.reason));
      }
    }
    for (const lock of held) lock[Symbol.dispose]();
  }
});

Deno.test("a process that finds the lock of a connector taken never reads the ID of an earlier holder", async () => {
  await using machine = await machineWithAlpha();
  const folder = await folderOf(machine, "alpha"), path = `${folder.path}/connector.lock`;
  const { tryLock } = Deno.FsFile.prototype;
  const found: string[] = [];
  Deno.FsFile.prototype.tryLock = function (exclusive) {
    const taken = tryLock.call(this, exclusive);
    // After the code that waits for the lock has gone on, and before any other task of this process.
    queueMicrotask(() => void taken.then((isTaken) => isTaken && found.push(Deno.readTextFileSync(path))));
    return taken;
  };
  try {
    for (let pid = 1; pid <= 50; pid++) {
      using _ = await lockConnector(folder, pid);
      const [text = ""] = found.splice(0);
      assert(["", `${pid}\n`].includes(text), `${pid} has the lock, and the file says ${text}`);
      assertEquals(lockHolder(folder), String(pid));
    }
  } finally {
    Deno.FsFile.prototype.tryLock = tryLock;
  }
});
