/** `svc mcp install --wake` (D-131, D-132): the hook of Claude Code, next to other hooks, and its removal. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { World } from "../../support/world.ts";
import { hostMachine } from "./host_world.ts";

const HOOKS = "home/.claude/settings.json";
const WAKE = ["mcp", "install", "alpha", "--for", "claude-code", "--wake"];
const OTHERS = `{
  // Mine
  "model": "opus",
  "hooks": {
    "PreToolUse": [{ "matcher": "Bash", "hooks": [{ "type": "command", "command": "check" }] }],
    "Stop": [
      { "hooks": [{ "type": "command", "command": "say done", "timeout": 5 }] }, // last
    ]
  }
}
`;

interface Hooks {
  hooks: { Stop: { hooks: { type: string; command: string; asyncRewake?: boolean; timeout: number }[] }[] };
}

const stopHooks = (text: string) =>
  (JSON.parse(text.replace(/\/\/.*$/gm, "").replace(/,(\s*[\]}])/g, "$1")) as Hooks).hooks.Stop;

Deno.test("the hook is added next to other hooks once, and undo restores the file", async () => {
  await using world = await World.open();
  await using machine = await hostMachine(world);
  machine.write(HOOKS, OTHERS);
  const result = await machine.json(...WAKE);
  assertEquals(result.hook, { path: machine.path(HOOKS), changed: true });
  const [first, second, ...rest] = stopHooks(machine.read(HOOKS));
  assertEquals([first?.hooks[0]?.command, rest], ["say done", []]);
  const [hook] = second?.hooks ?? [];
  assertEquals([hook?.type, hook?.asyncRewake, hook?.timeout], ["command", true, 3600]);
  assertMatch(hook?.command ?? "", / hook claude-code alpha$/);
  assertStringIncludes(hook?.command ?? "", Deno.execPath());
  assertEquals((await machine.json(...WAKE)).hook.changed, false);
  await machine.json("mcp", "install", "alpha", "--for", "claude-code", "--undo");
  assertEquals(machine.read(HOOKS), OTHERS);
  assertEquals(
    Deno.readDirSync(machine.path("home/.config/svc/agents/alpha/backups"))[Symbol.iterator]().next().done,
    true,
  );
});

Deno.test("two agents have a hook each, and undo of one leaves the other", async () => {
  await using world = await World.open();
  await using machine = await hostMachine(world, "alpha-2");
  await machine.json(...WAKE);
  await machine.json("mcp", "install", "alpha-2", "--for", "claude-code", "--wake");
  const commands = () => stopHooks(machine.read(HOOKS)).map(({ hooks }) => hooks[0]?.command.split(" ").at(-1));
  assertEquals(commands(), ["alpha", "alpha-2"]);
  await machine.json("mcp", "install", "alpha", "--for", "claude-code", "--undo");
  assertEquals(commands(), ["alpha-2"]);
});

Deno.test("the command of the hook is quoted for a shell, and runs svc with its own folder", async () => {
  await using world = await World.open();
  await using machine = await hostMachine(world);
  const folder = machine.path("it's a $HOME; folder");
  await Deno.rename(machine.path("home/.config/svc"), folder);
  machine.env.SVC_CONFIG_DIR = folder;
  await machine.json(...WAKE);
  const command = stopHooks(machine.read(HOOKS))[0]?.hooks[0]?.command ?? "";
  // The words as a shell reads them, without the program.
  const script = `set -- ${command}; shift; printf '%s\\n' "$@"`;
  const { stdout } = await new Deno.Command("sh", { args: ["-c", script] }).output();
  const words = new TextDecoder().decode(stdout).trimEnd().split("\n");
  assertEquals(words.slice(-5), ["hook", "claude-code", "alpha", "--config-dir", folder]);
});

Deno.test("the hook of an older program is replaced", async () => {
  await using world = await World.open();
  await using machine = await hostMachine(world);
  const old = {
    hooks: [{ type: "command", command: "/old/svc hook claude-code alpha", asyncRewake: true, timeout: 60 }],
  };
  machine.write(HOOKS, JSON.stringify({ hooks: { Stop: [old] } }));
  await machine.json(...WAKE);
  const found = stopHooks(machine.read(HOOKS));
  assertEquals([found.length, found[0]?.hooks[0]?.timeout], [1, 3600]);
});

Deno.test("neither file is changed when one of them cannot be", async () => {
  await using world = await World.open();
  await using machine = await hostMachine(world);
  machine.write(HOOKS, '{"hooks": {"Stop": {}}}');
  const { code } = await machine.failure(...WAKE);
  assertEquals([code, machine.read(HOOKS)], ["CLI_FILE_INVALID", '{"hooks": {"Stop": {}}}']);
  assertEquals(await Deno.stat(machine.path("home/.claude.json")).catch(() => null), null);
});

Deno.test("the hooks of a project are in its own file, and start svc from PATH", async () => {
  await using world = await World.open();
  await using machine = await hostMachine(world);
  await machine.json(...WAKE, "--scope", "project");
  const [group] = stopHooks(machine.read("project/.claude/settings.json"));
  assertEquals(group?.hooks[0]?.command, "svc hook claude-code alpha");
  assert(JSON.parse(machine.read("project/.mcp.json")).mcpServers["svc-alpha"]);
  await machine.json("mcp", "install", "--for", "claude-code", "--scope", "project", "--undo");
  assertEquals([...Deno.readDirSync(machine.path("project/.claude"))], []);
});
