/**
 * `svc mcp install --wake`: the hook of Claude Code, next to other hooks, its removal, and the entries that use the
 * inbox of a host.
 */
import { isOwnHook, wakeHook } from "../../../cli/hosts/entry.ts";
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { hostMachine } from "./host_world.ts";

const HOOKS = "home/.claude/settings.json";
const WAKE = ["mcp", "install", "alpha", "--for", "claude-code", "--wake", "hook"];
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
  await using machine = await hostMachine();
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
  await using machine = await hostMachine("alpha-2");
  await machine.json(...WAKE);
  await machine.json("mcp", "install", "alpha-2", "--for", "claude-code", "--wake", "hook");
  const commands = () => stopHooks(machine.read(HOOKS)).map(({ hooks }) => hooks[0]?.command.split(" ").at(-1));
  assertEquals(commands(), ["alpha", "alpha-2"]);
  await machine.json("mcp", "install", "alpha", "--for", "claude-code", "--undo");
  assertEquals(commands(), ["alpha-2"]);
});

Deno.test("the command of the hook is quoted for a shell, and runs svc with its own folder", async () => {
  await using machine = await hostMachine();
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

Deno.test("the hook wakes for the peers of the entry only", async () => {
  await using machine = await hostMachine();
  for (const peers of ["beta,gamma", "beta"]) {
    await machine.json(...WAKE, "--peers", peers);
    const [group, ...rest] = stopHooks(machine.read(HOOKS));
    assertMatch(group?.hooks[0]?.command ?? "", new RegExp(` hook claude-code alpha --peers ${peers}$`));
    assertEquals(rest, []);
  }
  await machine.json("mcp", "install", "alpha", "--for", "claude-code", "--undo");
  assertEquals(await Deno.stat(machine.path(HOOKS)).catch(() => null), null);
});

Deno.test("the hook of an older program is replaced", async () => {
  await using machine = await hostMachine();
  const old = {
    hooks: [{ type: "command", command: "/old/svc hook claude-code alpha", asyncRewake: true, timeout: 60 }],
  };
  machine.write(HOOKS, JSON.stringify({ hooks: { Stop: [old] } }));
  await machine.json(...WAKE);
  const found = stopHooks(machine.read(HOOKS));
  assertEquals([found.length, found[0]?.hooks[0]?.timeout], [1, 3600]);
});

Deno.test("neither file is changed when one of them cannot be", async (t) => {
  const cases: [what: string, text: string, mode: number, code: string][] = [
    ["another shape", '{"hooks": {"Stop": {}}}', 0o600, "CLI_FILE_INVALID"],
    ["read-only", "{}", 0o400, "CLI_FILE_UNSAFE"],
  ];
  for (const [what, text, mode, expected] of cases) {
    await t.step(what, async () => {
      await using machine = await hostMachine();
      machine.write(HOOKS, text);
      await Deno.chmod(machine.path(HOOKS), mode);
      await machine.refuses(WAKE, 1, expected);
      assertEquals(machine.read(HOOKS), text);
      assertEquals(await Deno.stat(machine.path("home/.claude.json")).catch(() => null), null);
    });
  }
});

Deno.test("when only the hook cannot be written or removed, the error names the file that is changed", async () => {
  await using machine = await hostMachine();
  const { random } = machine.world, { bytes } = random;
  const entry = machine.path("home/.claude.json"), hooks = machine.path(HOOKS);
  const changesAllTheTime = async (text: string, ...line: string[]) => {
    random.bytes = (n) => {
      machine.write(HOOKS, text += "\n");
      return bytes(n);
    };
    const { code, message } = await machine.failure(...line);
    random.bytes = bytes;
    assertEquals(code, "CLI_BUSY");
    assert(message.startsWith(`${entry} is changed already. ${hooks} changes all the time`), message);
  };
  await changesAllTheTime("{}", ...WAKE);
  await machine.json(...WAKE);
  await changesAllTheTime(machine.read(HOOKS), "mcp", "install", "alpha", "--for", "claude-code", "--undo");
});

Deno.test("the hooks of a project are in its own file, and start svc from PATH", async () => {
  await using machine = await hostMachine();
  await machine.json(...WAKE, "--scope", "project");
  const [group] = stopHooks(machine.read("project/.claude/settings.json"));
  assertEquals(group?.hooks[0]?.command, "svc hook claude-code alpha");
  assert(JSON.parse(machine.read("project/.mcp.json")).mcpServers["svc-alpha"]);
  await machine.json("mcp", "install", "--for", "claude-code", "--scope", "project", "--undo");
  assertEquals([...Deno.readDirSync(machine.path("project/.claude"))], []);
});

Deno.test("each way to wake is the hook, the inbox of the entry, or both", async (t) => {
  const ways: [host: string, way: string, isInEntry: boolean, hook: RegExp | null][] = [
    ["claude-code", "auto", true, / hook claude-code alpha --unless-inbox$/],
    ["claude-code", "inbox", true, null],
    ["claude-code", "hook", false, / hook claude-code alpha$/],
    ["codex", "auto", true, null],
    ["codex", "inbox", true, null],
  ];
  for (const [host, way, isInEntry, hook] of ways) {
    await t.step(`${host} ${way}`, async () => {
      await using machine = await hostMachine();
      const line = ["mcp", "install", "alpha", "--for", host];
      const { args } = await machine.json(...line, "--wake", way);
      assertEquals([args.at(-1) === "--wake-model", args.includes("-P=svc")], [isInEntry, host === "codex"]);
      if (hook === null) assertEquals(await Deno.stat(machine.path(HOOKS)).catch(() => null), null);
      else assertMatch(stopHooks(machine.read(HOOKS))[0]?.hooks[0]?.command ?? "", hook);
      const text = machine.read(host === "codex" ? "home/.codex/config.toml" : "home/.claude.json");
      assertEquals(text.includes('env_vars = ["CODEX_HOME"]'), host === "codex");
      await machine.json(...line, "--undo");
      for (const file of ["home/.codex/config.toml", "home/.claude.json", HOOKS]) {
        assertEquals(await Deno.stat(machine.path(file)).catch(() => null), null);
      }
    });
  }
});

Deno.test("a hook is removed once the inbox wakes the model, which it would wake a second time", async () => {
  await using machine = await hostMachine();
  machine.write(HOOKS, OTHERS);
  await machine.json(...WAKE);
  const line = ["mcp", "install", "alpha", "--for", "claude-code", "--wake", "inbox"];
  const { stderr } = await machine.svc(...line);
  assertEquals(machine.read(HOOKS), OTHERS);
  assertStringIncludes(stderr, `The hook in ${machine.path(HOOKS)} is removed`);
  // What another program has written there stays, and without a hook nothing is said.
  machine.write(HOOKS, "not JSON");
  assertEquals((await machine.svc(...line)).stderr.includes("is removed"), false);
});

Deno.test("Codex is woken by its program, so a PATH without it is named when the entry is written", async () => {
  await using machine = await hostMachine();
  machine.env.PATH = machine.path("bin");
  const warned = async (...more: string[]) => {
    const { warnings = [] } = await machine.json("mcp", "install", "alpha", "--for", "codex", ...more);
    return warnings.some((one: string) => one.includes("PATH has no command codex"));
  };
  assertEquals([await warned("--wake", "auto"), await warned(), await warned("--undo")], [true, false, false]);
  await Deno.mkdir(machine.path("bin"));
  await Deno.writeTextFile(machine.path("bin/codex"), "");
  assertEquals(await warned("--wake", "auto"), false);
});

Deno.test("a host whose model cannot be woken says what to do instead", async () => {
  await using machine = await hostMachine();
  const { stderr } = await machine.svc("mcp", "install", "--for", "cursor", "--wake", "auto");
  assertStringIncludes(stderr, "Cursor documents no way to wake its model");
  assertStringIncludes(stderr, "wait_for_message");
  const codex = await machine.svc("mcp", "install", "--for", "codex", "--wake", "hook");
  assertStringIncludes(codex.stderr, "Use --wake auto.");
});

Deno.test("the hook of an earlier svc is recognised by agent and folder, also by a folder with a space", () => {
  const here = (...folder: string[]) => ({ own: ["/new/svc"], agent: "alpha", here: folder });
  const spaced = ["--config-dir", "/Library/Application Support/svc/profiles/work"];
  const hooks: [string[], string[], boolean][] = [
    [spaced, spaced, true],
    [[...spaced, "--ca", "/a b.pem"], spaced, true],
    [spaced, [], false],
    [[], spaced, false],
    [[], [], true],
    [["--config-dir", "/Library/Application Support/svc"], spaced, false],
    [["--config-dir", "/it's"], ["--config-dir", "/it's"], true],
    [["--config-dir", "/a"], ["--config-dir", "/ab"], false],
  ];
  for (const [written, folder, isOwn] of hooks) {
    const hook = wakeHook({ ...here(...written), own: ["/old/svc", "--quiet"] }, { wake: "auto", peers: undefined });
    assertEquals(isOwnHook(here(...folder), hook), isOwn, `${written} for ${folder}`);
    assertEquals(isOwnHook({ ...here(...folder), agent: "alph" }, hook), false);
  }
});
