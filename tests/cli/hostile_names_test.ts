/** Agent names that are paths or otherwise invalid, given to every command that takes one. */
import { assert, assertEquals } from "@std/assert";
import type { Command } from "../../cli/command_line/command.ts";
import { allCommands } from "../../cli/commands/table.ts";
import { isAgentDid } from "../../shared/protocol/did.ts";
import { isAgentName } from "../../shared/protocol/names.ts";
import { isUlid } from "../../shared/protocol/ids.ts";
import { Machine } from "./cli_world.ts";

const COMMANDS = await allCommands();

const TARGETS = ["victim", "victim.lock", "alpha", "config.json", ".ssh/id", "agents/alpha/secret.key", "x/agent.lock"];
const PREFIXES = [
  ...["/", "/../", "/../../", "/../../../", "../", "../../", "../../../../", "./", "./../", "..\\", "\\", "~/"],
  ...["alpha/../../", "alpha/", "%2e%2e%2f", "..%2f", "file:///", "C:\\", "\\\\server\\", "\u0000", "a\u0000/"],
  ...["\n", "\u001b[2J", "\u202e", ".", "-", "--", " ", "$(id)/", "`id`/", ";", "|", "*", "?"],
];
const SINGLE = [
  ...["", " ", ".", "..", "...", "/", "//", "\\", "a..b", "a.", ".a", "a-", "-a", "_a", "CON", "nul.txt", "com1"],
  ...["x".repeat(65), "x".repeat(5_000), "ä", "аlpha", "alpha ", "alpha\n", "alpha\u0000", "alpha/", "alpha\\"],
  ...["did:svc:x:human:01KHYQ5H00AAAAAAAAAAAAAAAA", "01khyq5h00aaaaaaaaaaaaaaaa", "did:svc:../x:agent:01KHYQ5H00AAAA"],
];
const NAMES = [...new Set([...PREFIXES.flatMap((prefix) => TARGETS.map((target) => prefix + target)), ...SINGLE])]
  .filter((name) => !isAgentName(name) && !isUlid(name) && !isAgentDid(name));

/** The command lines of a command with a name at each place that takes one. */
function linesOf({ path, args, options }: Command, name: string): string[][] {
  const required = Object.entries(options).flatMap(([option, { required, complete }]) =>
    required ? [`--${option}=${Array.isArray(complete) ? complete[0] : "x"}`] : []
  );
  const others = Object.values(args).flatMap(({ complete, optional }) =>
    optional || complete === "agents" ? [] : ["1"]
  );
  const all = Object.hasOwn(options, "all") ? ["--all"] : [];
  const lines = Object.entries(options).filter(([, { complete }]) => complete === "agents")
    .map(([option]) => [...path, ...required, `--${option}=${name}`, ...others, ...all]);
  const first = Object.keys(args)[0];
  // Agents of an administrator are looked up at the server, and a service has no folder.
  const isElsewhere = path[0] === "admin" && /^(?:service|agents)$/.test(path[1] ?? "");
  const takesName = !isElsewhere && /^(?:name|agent|agentName)$/.test(first ?? "");
  return takesName ? [...lines, [...path, ...required, "--", name]] : lines;
}

async function machineIn(): Promise<Machine> {
  const machine = await Machine.ofPerson();
  machine.env.HOME = machine.path("home");
  machine.env.SVC_CONFIG_DIR = machine.path("a/b/c/svc");
  await machine.json("agent", "create", "alpha");
  for (const folder of ["", "a/", "a/b/", "a/b/c/", "a/b/c/svc/", "a/b/c/svc/agents/"]) {
    for (const file of ["victim", "victim.lock", ".victim.lock"]) machine.write(folder + file, "precious");
  }
  return machine;
}

Deno.test("every command that takes an agent name refuses hostile names and leaves every file unchanged", async (t) => {
  assert(NAMES.length >= 200, String(NAMES.length));
  await using machine = await machineIn();
  const before = machine.tree();
  const sent = machine.requests.length;
  const commands = COMMANDS.filter((command) => linesOf(command, "x").length > 0);
  assert(commands.length >= 14, String(commands.length));
  for (const [i, command] of commands.entries()) {
    await t.step(command.path.join(" "), async () => {
      // Claude Code wakes its model when a hook ends with 2.
      const exit = command.path.includes("claude-code") ? 1 : 2;
      // One check serves every command, so the first one gets all names and each other one a few.
      for (const name of i === 0 ? NAMES : NAMES.filter((_, n) => n % 16 === i % 16)) {
        for (const line of linesOf(command, name)) {
          await machine.refuses(line, exit, "CLI_USAGE");
        }
      }
      assertEquals(machine.tree(), before);
    });
  }
  assertEquals(machine.requests.length, sent);
});

Deno.test("every command that takes an agent name leaves no file for an agent that does not exist", async (t) => {
  await using machine = await machineIn();
  const before = machine.tree();
  for (const command of COMMANDS.filter(({ path }) => !["create", "uninstall"].includes(path.at(-1) ?? ""))) {
    for (const line of linesOf(command, "ghost")) {
      // Without an agent the command shows what it finds.
      if (line[0] === "install") line.push("--for=generic");
      await t.step(line.join(" "), async () => {
        // Errors of a hook would reach a model.
        if (line[0] === "hook") assertEquals(await machine.svc(...line), { code: 0, stdout: "", stderr: "" });
        else assertEquals((await machine.failure(...line)).code, "CLI_AGENT_UNKNOWN");
        assertEquals(machine.tree(), before);
      });
    }
  }
});

Deno.test("an agent's lock file is refused and kept when it is not a lock that svc made", async (t) => {
  const occupants: [string, (machine: Machine, lock: string) => Promise<void>][] = [
    ["a file with a text", (_machine, lock) => Deno.writeTextFile(lock, "precious")],
    ["a large file", (_machine, lock) => Deno.writeTextFile(lock, "1".repeat(5_000))],
    ["another name of a file elsewhere", (machine, lock) => Deno.link(machine.path("a/victim"), lock)],
    ["another name of an empty file", async (machine, lock) => {
      machine.write("a/empty", "");
      await Deno.link(machine.path("a/empty"), lock);
    }],
    ["a link to a file", (machine, lock) => Deno.symlink(machine.path("a/victim"), lock)],
    ["a folder", (_machine, lock) => Deno.mkdir(lock)],
  ];
  for (const [what, occupy] of occupants) {
    await t.step(what, async () => {
      await using machine = await machineIn();
      const lock = machine.path("a/b/c/svc/agents/alpha/agent.lock");
      await Deno.remove(lock);
      await occupy(machine, lock);
      const before = machine.tree();
      for (const command of [["reissue"], ["auth", "refresh"], ["delete", "--yes"]]) {
        await machine.refuses(["agent", ...command, "alpha"], 1, "CLI_FILE_UNSAFE", "agent.lock");
        assertEquals(machine.tree(), before);
      }
    });
  }
});
