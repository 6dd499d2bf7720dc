/** The commands that svc suggests: a shell can run each line unchanged. */
import { assert, assertEquals } from "@std/assert";
import { allCommands } from "../../cli/commands/table.ts";
import { parse } from "../../cli/command_line/parse.ts";
import { BOOTSTRAP_SECRET } from "../support/world.ts";
import { bootstrapped, Machine } from "./cli_world.ts";
import { connectorOfAlpha, deadLettersFrom, machineWithAlpha, pairAlpha } from "./connector/local_machine.ts";

const COMMANDS = await allCommands();

/** The words of each suggested line, as a shell splits them. */
async function suggested(text: string): Promise<string[][]> {
  const lines = [...text.matchAll(/^Next[^:]*: (.*)$/gm)].map(([, line = ""]) => line);
  return await Promise.all(lines.map(async (line) => {
    const script = `set -eu; svc() { printf '%s\\0' "$@"; }; ${line}`;
    const { code, stdout } = await new Deno.Command("sh", { args: ["-c", script] }).output();
    assertEquals(code, 0, line);
    return new TextDecoder().decode(stdout).split("\0").slice(0, -1);
  }));
}

/** Runs a command and returns the command lines that it suggests; each must parse. */
async function next(machine: Machine, ...argv: string[]): Promise<string[][]> {
  const { code, stdout, stderr } = await machine.svc(...argv);
  assertEquals(code, 0, `${argv.join(" ")}\n${stdout}${stderr}`);
  const lines = await suggested(stderr);
  assert(lines.length > 0, `${argv.join(" ")}\n${stderr}`);
  for (const line of lines) assertEquals(parse(line, COMMANDS).kind, "run", line.join(" "));
  return lines;
}

Deno.test("every suggested line can be pasted unchanged, from the first admin to the connector", async () => {
  await using ada = await Machine.open();
  await using bob = await Machine.open(ada.world);
  const strange = ada.path("it's a $(folder)");
  ada.env.HOME = ada.path("home");
  await Deno.mkdir(ada.path("home/.openclaw"), { recursive: true });
  ada.stdin = BOOTSTRAP_SECRET;

  const [bootstrap = []] = await next(ada, "config", "init", "--config-dir", strange);
  const [create = [], invite = [], rotate = []] = await next(ada, ...bootstrap);
  assertEquals((await ada.json(...rotate)).internalService.name, "proxy");
  const [join = []] = await next(ada, ...invite);
  assertEquals(join[0], "join");
  const [createToo = []] = await next(bob, ...join);
  await next(bob, ...createToo);
  const [start = [], install = [], inspect = []] = await next(ada, ...create);
  assertEquals(start.slice(0, 3), ["connector", "start", "my-agent"]);
  assertEquals((await ada.json(...install)).host, "claude-code");
  assertEquals((await ada.json(...inspect)).verified, true);
  const here = ["--config-dir", strange];
  await ada.json("agent", "create", "second", ...here);
  const [more = []] = await next(ada, "agent", "list", "--limit", "1", "--status", "active", ...here);
  assertEquals((await ada.json(...more)).agents.length, 1);
  const [reissue = []] = await next(ada, "agent", "auth", "revoke", "my-agent", ...here);
  ada.world.clock.step(2_000);
  assertEquals((await ada.json(...reissue)).newSession, true);
  const [setup = []] = await next(ada, "install", "--for", "openclaw", ...here);
  const starts = await next(ada, ...setup);
  assertEquals(starts.map(([, , name]) => name), ["my-agent", "second"]);
});

Deno.test("a person who joins with an agent reads how a coding agent gets it", async () => {
  await using ada = await bootstrapped();
  await using bob = await Machine.open(ada.world);
  bob.env.HOME = bob.path("home");
  await Deno.mkdir(bob.path("home"));
  const { joinLink } = await ada.json("invite", "create");
  const [start = [], install = []] = await next(bob, "join", joinLink, "--agent", "beta");
  assertEquals(start.slice(0, 3), ["connector", "start", "beta"]);
  assertEquals(install.slice(0, 5), ["mcp", "install", "beta", "--for", "claude-code"]);
  assertEquals((await bob.json(...install)).agent, "beta");
});

Deno.test("the next steps of svc status lead from nothing to an agent that pairs", async () => {
  await using ada = await bootstrapped();
  await using bob = await Machine.open(ada.world);
  // The test's proxy is not ready, so the exit code is 1.
  const step = async () => (await suggested((await bob.svc("status")).stderr))[0] ?? [];
  const join = await step();
  bob.stdin = (await ada.json("invite", "create")).joinLink;
  await bob.json(...join);
  await bob.json(...await step());
  const start = await step();
  assertEquals(start.slice(0, 3), ["connector", "start", "my-agent"]);
  assertEquals(parse(start, COMMANDS).kind, "run");
});

Deno.test("what an admin reads next ends a suspension, turns the page and explains a refusal", async () => {
  await using ada = await Machine.ofAdmin();
  await ada.world.person("Bob");
  const [restore = []] = await next(ada, "admin", "people", "suspend", "Bob", "--yes");
  assertEquals((await ada.json(...restore)).person.status, "active");
  await ada.world.person("Carol");
  const [page = []] = await next(ada, "admin", "people", "list", "--limit", "1");
  assertEquals((await ada.json(...page)).people.length, 1);
  const stranger = await ada.world.agent(undefined, "stranger");
  await (await ada.world.message(stranger, stranger)).body?.cancel();
  const [explain = []] = await next(ada, "admin", "relay", "refusals");
  assertEquals((await ada.json(...explain)).code, explain[1]);
});

Deno.test("what a person reads next of a peer sends to it, and ends a block", async () => {
  await using machine = await machineWithAlpha();
  const peer = await pairAlpha(machine.world, machine, "beta");
  machine.world.connect(peer);
  const [send = [], start = []] = await next(machine, "peers");
  assertEquals(start.slice(0, 3), ["connector", "start", "alpha"]);
  assertEquals((await machine.json(...send)).state, "delivered");
  const [unblock = []] = await next(machine, "peers", "block", send[1] ?? "");
  await machine.json(...unblock);
  assertEquals((await machine.json(...send)).state, "delivered");
});

Deno.test("a dead letter, a creation that was cut off and an A2A address say what to do next, and it works", async () => {
  await using machine = await machineWithAlpha();
  const beta = await pairAlpha(machine.world, machine, "beta");
  {
    await using connector = await connectorOfAlpha(machine.world, machine);
    deadLettersFrom(connector.connector.store.received, beta, 1, machine.world.clock.now());
    const [replay = []] = await next(machine, "dead-letters");
    assertEquals((await machine.json(...replay)).replayed, 1);
  }
  const [start = []] = await next(machine, "a2a", "add", "beta");
  assertEquals(start, ["connector", "start", "alpha"]);
  const restore = machine.answer(/\/v1\/agents$/, () => Promise.reject(new TypeError("refused")));
  assertEquals((await machine.failure("agent", "create", "gamma")).exit, 5);
  restore();
  const [resume = []] = await next(machine, "agent", "list");
  assertEquals((await machine.json(...resume)).resumed, true);
});

Deno.test("an error of one agent names it in its commands, because a person with several could not type them otherwise", async () => {
  await using machine = await machineWithAlpha();
  await machine.json("agent", "create", "second");
  await using _connector = await connectorOfAlpha(machine.world, machine);
  for (
    const line of [["inbox", "99"], ["reply", "99", "hi"], ["sent", "…AAAAAA"], ["sent", "x-unknown-1", "--cancel"]]
  ) {
    const { message } = await machine.failure(...line, "--agent", "alpha");
    const commands = [...message.matchAll(/svc ((?:inbox|sent) .*?)(?= (?:to|and|list)\b)/g)].map(([, words = ""]) =>
      words
    );
    assert(commands.length > 0, message);
    for (const command of commands) await machine.json(...command.split(" "));
  }
});

Deno.test("every suggestion passes through the function that quotes it", async () => {
  const folder = new URL("../../cli/commands/", import.meta.url);
  const check = async (folder: URL) => {
    for await (const { name, isDirectory } of Deno.readDir(folder)) {
      if (isDirectory) await check(new URL(`${name}/`, folder));
      else assert(!/["'`]Next\b(?!.*commandLines?\()/.test(await Deno.readTextFile(new URL(name, folder))), name);
    }
  };
  await check(folder);
});
