/** Where messages go when nothing was chosen, and the question before unread ones go to a runtime. */
import { store } from "./store/disk.ts";
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { startConnectors } from "../../../cli/connector/start.ts";
import { lockConnector } from "../../../cli/connector/connector_lock.ts";
import { CliError } from "../../../cli/errors.ts";
import { Output } from "../../../cli/terminal/output.ts";
import { until } from "../../support/until.ts";
import { contextOf } from "./context.ts";
import type { StartOptions } from "../../../cli/connector/start_options.ts";
import type { Machine } from "../cli_world.ts";
import { connectorOfAlpha, folderOf, machineWithAlpha, pairAlpha } from "./local_machine.ts";

const OWN = "agents/alpha/runtime.json";
const CHANGE = "1 unread message of alpha goes to a generic webhook now";

/** Runs the connector of alpha for a moment. Returns its platform. */
async function platformOf(machine: Machine, options: Partial<StartOptions> = {}): Promise<string> {
  await using running = await connectorOfAlpha(machine.world, machine, options);
  return running.connector.status().runtime.platform;
}

/** A machine whose agent was started, and has an unread message. `chosen`: the command that chose its platform before. */
async function withUnread(...chosen: string[]): Promise<Machine> {
  const machine = await machineWithAlpha();
  if (chosen.length > 0) await machine.json(...chosen);
  const beta = await pairAlpha(machine.world, machine, "beta");
  await using running = await connectorOfAlpha(machine.world, machine);
  store(running.connector.store.received, "request-1", { from: beta.agent.did }, machine.world.clock.now());
  return machine;
}

Deno.test("an agent for which nothing was chosen reads its messages, and a later choice for every agent counts", async () => {
  await using machine = await machineWithAlpha();
  assertEquals(await platformOf(machine), "inbox");
  assertEquals(JSON.parse(machine.read(OWN)).chosen, "default");
  await machine.json("install", "--for", "generic");
  assertEquals(await platformOf(machine), "generic");
  assertEquals(await platformOf(machine, { inbox: true }), "inbox");
  assertEquals(await platformOf(machine), "inbox", "--inbox is saved at once");
  assertEquals(await platformOf(machine, { "hook-path": "/in" }), "openclaw");
  assertEquals(await platformOf(machine), "inbox", "an address is for one start");
});

Deno.test("runtime settings are kept with --save only, and the status names their source", async () => {
  await using machine = await machineWithAlpha();
  const statusOf = async (options: Partial<StartOptions> = {}) => {
    await using running = await connectorOfAlpha(machine.world, machine, options);
    const { url, platform, source } = running.connector.status().runtime;
    return [url, platform, source];
  };
  assertEquals((await machine.failure("connector", "start", "alpha", "--save")).code, "CLI_USAGE");
  const base = "http://127.0.0.1:9";
  const given = { "runtime-base-url": base, "hook-path": "/in", "hook-token": "hook-token" };
  await Deno.writeTextFile(
    machine.path("runtime.json"),
    JSON.stringify({ platform: "generic", baseUrl: base, hookPath: "/all" }),
    { mode: 0o600 },
  );
  assertEquals(await statusOf(), [`${base}/all`, "generic", "install"]);
  assertEquals(await statusOf(given), [`${base}/in`, "generic", "option"]);
  assert(!(OWN in machine.tree()), "no setting is saved without --save");
  assertEquals(await statusOf({ ...given, save: true }), [`${base}/in`, "generic", "option"]);
  assertEquals(JSON.parse(machine.read(OWN)).webhookToken, "hook-token");
  assertEquals((Deno.statSync(machine.path(OWN)).mode ?? 0) & 0o777, 0o600);
  assertEquals(await statusOf(), [`${base}/in`, "generic", "agent"]);
});

Deno.test("each command that would hand unread messages to a runtime asks first", async () => {
  await using machine = await withUnread();
  for (const command of [["install", "--for", "generic"], ["provider", "setup", "--for", "generic"]]) {
    const { exit, code, message } = await machine.failure(...command);
    assertEquals([exit, code], [2, "CLI_PLATFORM_CHANGE"]);
    assertStringIncludes(message, CHANGE);
    assertStringIncludes(message, "svc inbox --agent alpha,");
    machine.answers = false;
    assertEquals((await machine.svc(...command)).code, 2);
    machine.answers = null;
  }
  assert(!("runtime.json" in machine.tree()), "a refused choice is not saved");
  const address = { "runtime-base-url": "http://127.0.0.1:9" };
  await assertRejects(() => platformOf(machine, address), CliError, CHANGE);
  assertEquals(await platformOf(machine, { ...address, yes: true }), "generic");
  assertEquals(await platformOf(machine), "inbox");
  machine.answers = true;
  assertEquals((await machine.svc("install", "--for", "generic")).code, 0);
  // A service restarts without a person, so the answer was for every later start.
  assertEquals(await platformOf(machine), "generic");
});

Deno.test("a start asks before the view has the keyboard and draws, and starts after a yes", async (t) => {
  for (const answer of [true, false]) {
    await t.step(`${answer}`, async () => {
      await using machine = await withUnread();
      const steps: string[] = [];
      const step = (name: string) => void (steps.at(-1) === name || steps.push(name));
      const context = contextOf(machine.world, machine);
      const stdout = (text: string) => (step(text.includes("alpha of ") ? "shown" : "drawn"), true);
      const terminal = { stdout, stderr: () => {}, stdoutIsTerminal: true, stderrIsTerminal: true };
      const started = startConnectors(
        {
          ...context,
          env: (name: keyof typeof machine.env) => machine.env[name],
          terminal,
          out: new Output(terminal, context.clock, { json: false, colour: false }),
          keyboard: {
            isInForeground: () => Promise.resolve(true),
            open: (onBytes) => (step("keys"), onBytes(new TextEncoder().encode("q")), () => {}),
          },
          confirm: async (question) => {
            step(question);
            // A person reads for longer than the time between two redraws.
            await machine.world.clock.advance(3_000);
            return answer;
          },
        },
        ["alpha"],
        { "runtime-base-url": "http://127.0.0.1:9" },
      );
      const outcome = started.catch((error) => (error as CliError).code);
      if (answer) await until(() => steps.includes("shown"));
      await machine.world.clock.advance(5_000);
      assertEquals(await outcome, answer ? 0 : "CLI_PLATFORM_CHANGE");
      assertEquals(steps.slice(0, 2), answer ? [`${CHANGE}. Continue?`, "keys"] : [`${CHANGE}. Continue?`]);
    });
  }
});

Deno.test("a start that asked nothing, because another connector ran, hands over nothing once that one has ended", async () => {
  await using machine = await withUnread();
  const context = contextOf(machine.world, machine), asked: string[] = [];
  const terminal = { stdout: () => true, stderr: () => {}, stdoutIsTerminal: true, stderrIsTerminal: true };
  using other = await lockConnector(await folderOf(machine, "alpha"), 1);
  const open = (onBytes: (bytes: Uint8Array<ArrayBuffer>) => void) => {
    other[Symbol.dispose]();
    onBytes(new TextEncoder().encode("q"));
    return () => {};
  };
  const started = startConnectors(
    {
      ...context,
      env: (name: keyof typeof machine.env) => machine.env[name],
      terminal,
      out: new Output(terminal, context.clock, { json: false, colour: false }),
      keyboard: { isInForeground: () => Promise.resolve(true), open },
      confirm: (question) => (asked.push(question), Promise.resolve(true)),
    },
    ["alpha"],
    { "runtime-base-url": "http://127.0.0.1:9" },
  ).catch((error) => (error as CliError).code);
  await machine.world.clock.advance(5_000);
  assertEquals([await started, asked], ["CLI_PLATFORM_CHANGE", []]);
});

Deno.test("what a runtime writes into its settings while a person is asked stays", async () => {
  await using machine = await withUnread();
  machine.env.HOME = machine.path("home");
  const path = machine.path("home/.openclaw/openclaw.json");
  await Deno.mkdir(machine.path("home/.openclaw"), { recursive: true });
  await Deno.writeTextFile(path, "{}");
  const answer = {
    then(resolve: (isYes: boolean) => void) {
      Deno.writeTextFileSync(path, '{"model":"new"}');
      resolve(true);
    },
  };
  machine.answers = answer as unknown as boolean;
  const { code, stderr } = await machine.svc("provider", "setup", "--for", "openclaw");
  assertEquals(code, 0, stderr);
  const { model, hooks } = JSON.parse(await Deno.readTextFile(path));
  assertEquals([model, hooks.enabled], ["new", true]);
});

Deno.test("also an inbox that was chosen for every agent is left only after a question", async () => {
  await using machine = await withUnread("install", "--for", "inbox");
  assert(!(OWN in machine.tree()), "the choice is that of every agent");
  const { agents: [alpha] } = await machine.json("status") as { agents: { unread: number | null }[] };
  assertEquals(alpha?.unread, 1);
  const address = { "runtime-base-url": "http://127.0.0.1:9" };
  await assertRejects(() => platformOf(machine, address), CliError, CHANGE);
  assertStringIncludes((await machine.failure("install", "--for", "generic")).message, CHANGE);
  assertEquals(await platformOf(machine), "inbox", "a refused choice is not saved");
  await machine.json("install", "--for", "generic", "--yes");
  assertEquals(await platformOf(machine), "generic");
});

Deno.test("without a name the only agent starts, and of several all if the person says so", async () => {
  await using machine = await machineWithAlpha();
  await machine.json("agent", "create", "gamma");
  const { exit, message } = await machine.failure("connector", "start");
  assertEquals(exit, 2);
  assertStringIncludes(message, "alpha, gamma");
  assertEquals((await machine.failure("connector", "start", "alpha", "gamma", "--port", "1")).exit, 2);
  const { message: unknown } = await machine.failure("connector", "start", "alpha", "ghost", "--inbox", "--save");
  assertStringIncludes(unknown, "ghost");
});

Deno.test("a runtime on another machine needs --allow-insecure, also with https, and each text about it says so", async () => {
  await using machine = await machineWithAlpha();
  const advice = "Add --allow-insecure if messages may leave this machine";
  const setup = ["provider", "setup", "--for", "generic", "--agent-name", "alpha", "--yes", "--platform-base-url"];
  for (const url of ["http://runtime.example:9", "https://runtime.example"]) {
    await machine.refuses(["connector", "start", "alpha", "--runtime-base-url", url], 2, "CLI_INSECURE_URL", advice);
    const { stderr } = await machine.svc(...setup, url);
    assertStringIncludes(
      stderr,
      "Next, if messages may leave this machine: svc connector start alpha --allow-insecure\n",
    );
    await machine.refuses(["connector", "start", "alpha"], 2, "CLI_INSECURE_URL", advice);
  }
  const { stdout, stderr } = await machine.svc(...setup, "http://127.0.0.1:9");
  assertStringIncludes(stdout, "A generic webhook accepts messages for alpha at http://127.0.0.1:9");
  assertStringIncludes(stderr, "Next: svc connector start alpha\n");
});

Deno.test("a wrong address or token of a runtime is refused by the name of the option that gave it", async () => {
  await using machine = await machineWithAlpha();
  const setup = ["provider", "setup", "--for", "generic"];
  for (
    const argv of [
      [...setup, "--platform-base-url", "//evil"],
      [...setup, "--webhook-token", "a b"],
      ["connector", "start", "alpha", "--openclaw-base-url", "//evil"],
      ["connector", "start", "alpha", "--runtime-base-url", "//evil"],
    ]
  ) {
    const { exit, message } = await machine.failure(...argv);
    assertEquals([exit, message.split(" ")[0]], [2, argv.at(-2)]);
  }
});
