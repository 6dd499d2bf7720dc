/**
 * `svc mcp install` for each host and scope: the entry, what else stays, a second run, `--undo`, `--print`, and what is
 * refused.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { CONNECTOR_LIMITS } from "../../../cli/connector/limits.ts";
import { whileTimePasses } from "../alpha.ts";
import type { Machine } from "../cli_world.ts";
import { caseOf, CASES, entryOf, give, type HostCase, hostMachine, pathOf, textOf, valueOf } from "./host_world.ts";

const CURSOR = caseOf("cursor"), CODEX = caseOf("codex");
const wordsOf = ({ host, scope }: HostCase) => ["mcp", "install", "alpha", "--for", host, "--scope", scope];
const read = (path: string) => Deno.readTextFileSync(path);
const modeOf = (path: string) => (Deno.statSync(path).mode ?? 0) & 0o777;
const copiesOf = (machine: Machine) =>
  [...Deno.readDirSync(machine.path("home/.config/svc/agents/alpha/backups"))].map(({ name }) => name).sort();

/** The value without the entry. */
function without(one: HostCase, text: string, name: string): unknown {
  const value = structuredClone(valueOf(one, text));
  let inner: Record<string, unknown> = value;
  for (const key of one.around) inner = inner[key] as Record<string, unknown>;
  delete inner[name];
  return value;
}

/** On one machine, because each case has a file of its own. */
async function forEachCase(t: Deno.TestContext, run: (one: HostCase, machine: Machine) => Promise<void>) {
  await using machine = await hostMachine();
  for (const one of CASES) await t.step(`${one.host} ${one.scope}`, () => run(one, machine));
}

Deno.test("only the entry changes in a file with comments, other servers and unknown members", async (t) => {
  await forEachCase(t, async (one, machine) => {
    const before = textOf(one);
    const path = await give(machine, one, before);
    const result = await machine.json(...wordsOf(one));
    const after = read(path);
    const { command, args } = result as { command: string; args: string[] };
    assertEquals(entryOf(one, after, "svc-alpha"), { ...one.members, command, args });
    assertEquals(args.slice(-2), ["mcp", "alpha"]);
    assertEquals(command, one.scope === "project" ? "svc" : Deno.execPath());
    assertEquals(without(one, after, "svc-alpha"), valueOf(one, before));
    for (const line of before.split("\n")) assertStringIncludes(after, line.replace(/,?$/, ""));
    assertEquals([modeOf(path), result.changed, result.path], [0o640, true, path]);
  });
});

Deno.test("a second run changes nothing, and undo restores the text to the byte", async (t) => {
  await forEachCase(t, async (one, machine) => {
    const path = await give(machine, one, textOf(one));
    await machine.json(...wordsOf(one));
    const [text, { ino }] = [read(path), Deno.statSync(path)];
    assertEquals((await machine.json(...wordsOf(one))).changed, false);
    assertEquals([read(path), Deno.statSync(path).ino], [text, ino]);
    assertEquals(copiesOf(machine).length, 1);
    assertEquals((await machine.json(...wordsOf(one), "--undo")).changed, true);
    assertEquals([read(path), modeOf(path), copiesOf(machine)], [textOf(one), 0o640, []]);
    assertEquals((await machine.json(...wordsOf(one), "--undo")).changed, false);
    assertEquals("home/.config/svc/agents/alpha/runtime.json" in machine.tree(), false);
  });
});

Deno.test("undo restores every byte of an unusual text", async (t) => {
  const json: [string, string][] = [
    ["no line end at the end", '{\n  "model": "o9"\n}'],
    ["mixed line ends", '{\r\n  "model": "o9",\n  "mcpServers": {\n    "docs": { "command": "docs" }\r\n  }\n}\r\n'],
    ["empty", ""],
    ["blank", " \n\n"],
    ["byte order mark", '\ufeff{\n  "model": "o9"\n}'],
    ["an empty object over lines", "{\n\n}"],
  ];
  const toml: [string, string][] = [
    ["no line end at the end", 'model = "o9"'],
    ["mixed line ends", 'model = "o9"\r\n\n[other]\na = 1\n'],
    ["empty lines at the end", 'model = "o9"\n\n\n'],
    ["empty", ""],
    ["blank", "\n"],
    ["byte order mark", '\ufeffmodel = "o9"'],
  ];
  const cases = [...json.map(([name, text]) => ({ one: CURSOR, name, text }))]
    .concat(toml.map(([name, text]) => ({ one: CODEX, name, text })));
  await using machine = await hostMachine();
  for (const { one, name, text } of cases) {
    await t.step(`${one.format}: ${name}`, async () => {
      const path = await give(machine, one, text);
      for (const more of [[], ["--read-only"], ["--peers", "beta"]]) await machine.json(...wordsOf(one), ...more);
      await machine.json(...wordsOf(one), "--undo");
      assertEquals(read(path), text);
    });
  }
});

Deno.test("undo keeps what another program has changed since", async () => {
  await using machine = await hostMachine();
  const path = await give(machine, CURSOR, '{\n  "model": "o9"\n}');
  await machine.json(...wordsOf(CURSOR));
  await Deno.writeTextFile(path, read(path).replace("o9", "o10"));
  await machine.json(...wordsOf(CURSOR), "--undo");
  assertEquals(valueOf(CURSOR, read(path)), { model: "o10" });
});

Deno.test("a read-only file stays as it is, and the command says so", async () => {
  await using machine = await hostMachine();
  const path = await give(machine, CURSOR, textOf(CURSOR), 0o440);
  for (const one of ["--read-only", "--print"]) {
    const before = [read(path), Deno.statSync(path).ino, modeOf(path)];
    if (one === "--print") await machine.json(...wordsOf(CURSOR), one);
    else {
      await machine.refuses([...wordsOf(CURSOR), one], 1, "CLI_FILE_UNSAFE", "is read-only, so it stays as it is");
    }
    assertEquals([read(path), Deno.statSync(path).ino, modeOf(path)], before);
  }
  await Deno.chmod(path, 0o640);
  await machine.json(...wordsOf(CURSOR));
  await Deno.chmod(path, 0o440);
  // What is there already needs no write.
  assertEquals((await machine.json(...wordsOf(CURSOR))).changed, false);
  assertEquals((await machine.failure(...wordsOf(CURSOR), "--undo")).code, "CLI_FILE_UNSAFE");
  assert(entryOf(CURSOR, read(path), "svc-alpha"));
});

Deno.test("a project's links into the user's files are not followed", async (t) => {
  const claude = caseOf("claude-code", "project"), cursor = caseOf("cursor", "project");
  const attacks: [name: string, one: HostCase, more: string[], prepare: (machine: Machine) => Promise<void>][] = [
    ["a file", claude, [], (machine) => Deno.symlink("../home/own.json", machine.path("project/.mcp.json"))],
    ["a file beside it in the project", claude, [], async (machine) => {
      await Deno.writeTextFile(machine.path("project/own.json"), "{}");
      await Deno.symlink("own.json", machine.path("project/.mcp.json"));
    }],
    ["a folder", cursor, [], (machine) => Deno.symlink("../home", machine.path("project/.cursor"))],
    ["the folder above", cursor, [], (machine) => Deno.symlink("..", machine.path("project/.cursor"))],
    ["a folder beside the project, whose name begins alike", cursor, [], async (machine) => {
      await Deno.mkdir(machine.path("project-2"));
      await Deno.symlink("../project-2", machine.path("project/.cursor"));
    }],
    [
      "the folder of the hook",
      claude,
      ["--wake", "hook"],
      (machine) => Deno.symlink("../home", machine.path("project/.claude")),
    ],
  ];
  for (const [name, one, more, prepare] of attacks) {
    await t.step(name, async () => {
      await using machine = await hostMachine();
      for (const file of ["own.json", "mcp.json", "settings.json"]) {
        await Deno.writeTextFile(machine.path(`home/${file}`), "{}");
      }
      await prepare(machine);
      const before = machine.tree();
      for (const words of [more, ["--undo"]]) {
        await machine.refuses([...wordsOf(one), ...words], 1, "CLI_FILE_UNSAFE");
      }
      const { [`home/.config/svc/hosts.lock`]: _lock, ...after } = machine.tree();
      assertEquals(after, before);
    });
  }
  await t.step("a link to the project itself is followed", async () => {
    await using machine = await hostMachine();
    await Deno.symlink(machine.path("project"), machine.path("link"));
    machine.cwd = machine.path("link");
    assertEquals((await machine.json(...wordsOf(cursor))).changed, true);
  });
});

Deno.test("a file that does not exist is created with its mode, and undo removes it", async (t) => {
  await forEachCase(t, async (one, machine) => {
    const path = pathOf(machine, one);
    await machine.json(...wordsOf(one));
    assertEquals(modeOf(path), one.scope === "project" ? 0o644 : 0o600);
    assertEquals(Object.keys(valueOf(one, read(path))), one.around.slice(0, 1));
    await machine.json(...wordsOf(one), "--undo");
    assertEquals(await Deno.stat(path).catch(() => null), null);
  });
});

Deno.test("print shows file and entry, and writes nothing", async (t) => {
  await forEachCase(t, async (one, machine) => {
    const path = pathOf(machine, one);
    const before = machine.tree();
    const { files, command, args } = await machine.json(...wordsOf(one), "--print");
    assertEquals(files.map((file: { path: string }) => file.path), [path]);
    assertEquals(entryOf(one, files[0].text, "svc-alpha"), { ...one.members, command, args });
    assertEquals((await machine.svc(...wordsOf(one), "--print")).stdout, `${path}:\n${files[0].text}\n`);
    assertEquals(machine.tree(), before);
  });
});

Deno.test("options of the tools, the name and the configuration directory become part of the entry", async () => {
  const longName = "a.very.long.name.of.an.agent.on.this.machine";
  await using machine = await hostMachine(longName);
  const line = [...wordsOf(CURSOR), "--name", "mine", "--read-only", "--peers", "beta,gamma"];
  assertEquals((await machine.json(...line)).warnings, ["alpha has no peer with the alias beta, gamma"]);
  const args = entryOf(CURSOR, read(pathOf(machine, CURSOR)), "mine")?.args as string[];
  assertEquals(args.slice(args.indexOf("mcp")), ["mcp", "alpha", "--read-only", "--peers", "beta,gamma"]);
  const long = await machine.json("mcp", "install", longName, "--for", "cursor");
  assertEquals(long.name, "svc-a_very_long_name_of_an_agent");
  const elsewhere = machine.path("elsewhere");
  await Deno.rename(machine.path("home/.config/svc"), elsewhere);
  // A host does not have this variable.
  machine.env.SVC_CONFIG_DIR = elsewhere;
  const moved = await machine.json(...wordsOf(CURSOR), "--name", "other");
  assertEquals(moved.args.slice(-4), ["mcp", "alpha", "--config-dir", elsewhere]);
  for (const name of ["", "a b", "x".repeat(33), "../x"]) {
    assertEquals((await machine.failure(...wordsOf(CURSOR), "--name", name)).code, "CLI_USAGE");
  }
});

Deno.test("a second entry under another name, and an undo that leaves one, name the command that removes it", async (t) => {
  await forEachCase(t, async (one, machine) => {
    await give(machine, one, textOf(one));
    const told = async (...more: string[]) => {
      const { warnings = [] }: { warnings?: string[] } = await machine.json(...wordsOf(one), ...more);
      return warnings.filter((text) => text.includes("also has")).length;
    };
    assertEquals(await told("--name", "first"), 0);
    const { stderr } = await machine.svc(...wordsOf(one), "--name", "second");
    assertStringIncludes(stderr, "also has the tools of alpha as first");
    const [, command = ""] = /^Next, to remove first: svc (.*)$/m.exec(stderr) ?? [];
    assertEquals(await told("--undo"), 2);
    assertEquals((await machine.json(...command.split(" "))).changed, true);
    assertEquals(await told("--name", "second"), 0);
  });
});

Deno.test("other switches replace the entry, and two copies of the text before are kept", async () => {
  await using machine = await hostMachine();
  const path = await give(machine, CODEX, textOf(CODEX));
  for (const peers of ["a", "b", "c", "d"]) await machine.json(...wordsOf(CODEX), "--peers", peers);
  assertEquals((entryOf(CODEX, read(path), "svc-alpha")?.args as string[]).at(-1), "d");
  const copies = copiesOf(machine);
  assertEquals(copies.length, 2);
  const folder = machine.path("home/.config/svc/agents/alpha/backups");
  assertEquals(copies.map((name) => modeOf(`${folder}/${name}`)), [0o600, 0o600]);
  await machine.json(...wordsOf(CODEX), "--undo");
  assertEquals([read(path), copiesOf(machine)], [textOf(CODEX), []]);
});

Deno.test("a member that a person added to the entry stays when it is replaced, and goes with the entry", async (t) => {
  for (const one of [CURSOR, CODEX]) {
    await t.step(one.host, async () => {
      await using machine = await hostMachine();
      const path = await give(machine, one, textOf(one));
      await machine.json(...wordsOf(one));
      const own = one.format === "json"
        ? read(path).replace('"svc-alpha": {', '$& "extra": 90,')
        : `${read(path)}extra = 90
`;
      await Deno.writeTextFile(path, own);
      assertEquals((await machine.json(...wordsOf(one))).changed, false);
      await machine.json(...wordsOf(one), "--read-only");
      const entry = entryOf(one, read(path), "svc-alpha");
      assertEquals([entry?.extra, (entry?.args as string[]).at(-1)], [90, "--read-only"]);
      await machine.json(...wordsOf(one), "--undo");
      assertEquals(entryOf(one, read(path), "svc-alpha"), undefined);
    });
  }
});

Deno.test("an entry that svc did not write is neither replaced nor removed", async (t) => {
  for (const one of [CURSOR, CODEX]) {
    await t.step(one.host, async () => {
      await using machine = await hostMachine();
      const line = [...wordsOf(one), "--name", "docs"];
      const path = await give(machine, one, textOf(one));
      for (const more of [[], ["--undo"]]) {
        await machine.refuses([...line, ...more], 1, "CLI_FILE_INVALID", "that is not of this agent");
        assertEquals(read(path), textOf(one));
      }
    });
  }
});

Deno.test("an entry of another agent or profile whose name is the same stays, and --name gives another", async () => {
  await using machine = await hostMachine();
  await machine.json("agent", "create", "x.y");
  await machine.json("agent", "create", "x_y");
  await machine.json("mcp", "install", "x.y", "--for", "cursor");
  const before = machine.tree();
  const line = ["mcp", "install", "x_y", "--for", "cursor"];
  await machine.refuses(
    line,
    1,
    "CLI_FILE_INVALID",
    "mcpServers.svc-x_y that is not of this agent. Choose another name",
  );
  await machine.refuses([...line, "--undo"], 1, "CLI_FILE_INVALID", "that is not of this agent");
  assertEquals(machine.tree(), before);
  assertEquals((await machine.json(...line, "--name", "other")).changed, true);
});

Deno.test("an entry that was changed by hand is not removed", async () => {
  await using machine = await hostMachine();
  const path = await give(machine, CURSOR, textOf(CURSOR));
  await machine.json(...wordsOf(CURSOR));
  const changed = read(path).replace('"alpha"', '"alpha", "--read-only"');
  await Deno.writeTextFile(path, changed);
  assertEquals((await machine.failure(...wordsOf(CURSOR), "--undo")).code, "CLI_FILE_INVALID");
  assertEquals(read(path), changed);
  // A new run may: it is an entry for the same agent.
  assertEquals((await machine.json(...wordsOf(CURSOR))).changed, true);
});

Deno.test("a text that cannot be changed safely is refused with what to paste", async (t) => {
  const texts: [HostCase, string][] = [
    [CURSOR, "{ mcpServers: {} }"],
    [CURSOR, '{"mcpServers": []}'],
    [CURSOR, '{"mcpServers": null}'],
    [CURSOR, "[]"],
    [CURSOR, '{"a": 1'],
    [CURSOR, "// only a comment"],
    [CURSOR, `{"a": ${"[".repeat(101)}${"]".repeat(101)}}`],
    [CODEX, "mcp_servers = {}\n"],
    [CODEX, "[[mcp_servers]]\n"],
    [CODEX, "a = \n"],
    [CODEX, "a = 1\na = 2\n"],
    [CODEX, `a = ${"[".repeat(101)}${"]".repeat(101)}\n`],
  ];
  await using machine = await hostMachine();
  for (const [one, text] of texts) {
    await t.step(text.slice(0, 30).trim(), async () => {
      const path = await give(machine, one, text);
      await machine.refuses(wordsOf(one), 1, "CLI_FILE_INVALID", "cannot be changed", "svc-alpha");
      assertEquals(read(path), text);
    });
  }
});

Deno.test("a file of another kind, size, place or owner is refused", async (t) => {
  const [file, folder] = ["home/.cursor/mcp.json", "home/.cursor"];
  const cases: [name: string, code: string, prepare: (machine: Machine) => Promise<void>][] = [
    ["over 10 MiB", "CLI_FILE_INVALID", (machine) => {
      const text = `{"a": "${"x".repeat(CONNECTOR_LIMITS.hostFileBytes)}"}`;
      return Deno.writeTextFile(machine.path(file), text);
    }],
    ["not UTF-8", "CLI_FILE_INVALID", (machine) => Deno.writeFile(machine.path(file), new Uint8Array([0x7b, 0xff]))],
    ["a folder", "CLI_FILE_UNSAFE", (machine) => Deno.mkdir(machine.path(file))],
    ["a missing folder", "CLI_FILE_INVALID", (machine) => Deno.remove(machine.path(folder))],
    ["a folder for all", "CLI_FILE_UNSAFE", (machine) => Deno.chmod(machine.path(folder), 0o757)],
    ["a folder for all with the sticky bit", "CLI_FILE_UNSAFE", (machine) => Deno.chmod(machine.path(folder), 0o1777)],
    ["a link to nothing", "CLI_FILE_UNSAFE", (machine) => Deno.symlink("nothing", machine.path(file))],
    ["a link into a folder for all", "CLI_FILE_UNSAFE", async (machine) => {
      await Deno.mkdir(machine.path("open"));
      await Deno.chmod(machine.path("open"), 0o777);
      await Deno.writeTextFile(machine.path("open/mcp.json"), "{}");
      await Deno.symlink(machine.path("open/mcp.json"), machine.path(file));
    }],
  ];
  for (const [name, code, prepare] of cases) {
    await t.step(name, async () => {
      await using machine = await hostMachine();
      await prepare(machine);
      await machine.refuses(wordsOf(CURSOR), 1, code);
    });
  }
});

Deno.test("the command in the advice works when it is pasted, for a file and for its folder", async (t) => {
  const closed: [name: string, path: string, mode: number][] = [
    ["a read-only file", "home/.cursor/mcp.json", 0o440],
    ["a folder for all", "home/.cursor", 0o757],
  ];
  for (const [name, path, mode] of closed) {
    await t.step(name, async () => {
      await using machine = await hostMachine();
      await give(machine, CURSOR, "{}");
      await Deno.chmod(machine.path(path), mode);
      const { stderr } = await machine.svc(...wordsOf(CURSOR));
      const line = /chmod \S+ [^ ,]+/.exec(stderr)?.[0] ?? "false";
      assertEquals((await new Deno.Command("sh", { args: ["-c", line] }).output()).code, 0, stderr);
      assertEquals((await machine.json(...wordsOf(CURSOR))).changed, true);
    });
  }
});

Deno.test("a link is followed to the file of the user, and stays a link", async () => {
  await using machine = await hostMachine();
  const link = pathOf(machine, CURSOR);
  await Deno.mkdir(machine.path("home/dotfiles"));
  await Deno.writeTextFile(machine.path("home/dotfiles/cursor.json"), textOf(CURSOR));
  await Deno.symlink("../dotfiles/cursor.json", link);
  await machine.json(...wordsOf(CURSOR));
  assert(Deno.lstatSync(link).isSymlink);
  assert(entryOf(CURSOR, machine.read("home/dotfiles/cursor.json"), "svc-alpha"));
  await machine.json(...wordsOf(CURSOR), "--undo");
  assertEquals(machine.read("home/dotfiles/cursor.json"), textOf(CURSOR));
});

Deno.test("ten agents that install into one file at the same time all have their entry", async () => {
  const names = Array.from({ length: 9 }, (_, i) => `agent-${i}`);
  await using machine = await hostMachine(...names);
  const path = await give(machine, CURSOR, textOf(CURSOR));
  const all = ["alpha", ...names];
  const work = all.map((name) => machine.json("mcp", "install", name, "--for", "cursor"));
  // The lock is tried again when this clock moves.
  await whileTimePasses(machine.world, Promise.all(work));
  const servers = valueOf(CURSOR, read(path)).mcpServers as Record<string, unknown>;
  assertEquals(Object.keys(servers).sort(), ["docs", ...all.map((name) => `svc-${name}`)].sort());
});

Deno.test("agents of several profiles that install into one file at the same time all have their entry", async () => {
  await using machine = await hostMachine();
  const profiles = ["default", "a", "b", "c", "d"];
  for (const profile of profiles.slice(1)) await machine.json("agent", "create", profile, "--profile", profile);
  for (let round = 1; round <= 5; round++) {
    const path = await give(machine, CURSOR, "{}");
    const work = profiles.map((profile) => {
      const agent = profile === "default" ? "alpha" : profile;
      return machine.json("mcp", "install", agent, "--for", "cursor", "--profile", profile);
    });
    await whileTimePasses(machine.world, Promise.all(work));
    const entries = Object.keys((valueOf(CURSOR, read(path)) as { mcpServers: object }).mcpServers).sort();
    assertEquals(entries, ["svc-a", "svc-alpha", "svc-b", "svc-c", "svc-d"]);
  }
});

Deno.test("the last of several agents leaves no empty object and no empty file behind", async (t) => {
  await using machine = await hostMachine("gamma");
  await machine.json("agent", "create", "delta", "--profile", "b");
  const agents = [["alpha"], ["gamma"], ["delta", "--profile", "b"]];
  for (const one of CASES.filter(({ host }) => host === "cursor" || host === "claude-code")) {
    for (const order of [[0, 1, 2], [2, 1, 0], [1, 0, 2]]) {
      await t.step(`${one.host} ${one.scope}, undone as ${order}`, async () => {
        const wake = one.host === "claude-code" ? ["--wake", "hook"] : [];
        const words = (
          [name = "", ...rest]: readonly string[] = [],
        ) => ["mcp", "install", name, "--for", one.host, "--scope", one.scope, ...rest];
        const files = () => Object.keys(machine.tree()).filter((path) => !/^home\/.config\/|\/$/.test(path));
        const before = files(), path = await give(machine, one, '{\n  "model": "o9"\n}\n');
        for (const agent of agents) await machine.json(...words(agent), ...wake);
        await Deno.writeTextFile(path, read(path).replace("o9", "o10"));
        for (const at of order) await machine.json(...words(agents[at]), "--undo");
        assertEquals(valueOf(one, read(path)), { model: "o10" });
        await Deno.remove(path);
        assertEquals(files().sort(), before.sort());
      });
    }
  }
});

Deno.test("undo takes the choice of the inbox back, unless another entry or a person relies on it", async () => {
  await using machine = await hostMachine();
  const runtime = "home/.config/svc/agents/alpha/runtime.json";
  const isThere = () => runtime in machine.tree();
  for (const host of ["cursor", "codex"]) await machine.json("mcp", "install", "--for", host);
  await machine.json("mcp", "install", "--for", "cursor", "--undo");
  assertEquals(isThere(), true, "Codex has an entry");
  await machine.json("mcp", "install", "--for", "codex", "--undo");
  assertEquals(isThere(), false);
  await machine.json("mcp", "install", "--for", "cursor");
  await machine.json("install", "--for", "inbox", "--agent-name", "alpha");
  await machine.json("mcp", "install", "--for", "cursor", "--undo");
  assertEquals(isThere(), true, "a person has chosen it");
});

Deno.test("a runtime of the agent stays, and the command warns that the tools cannot read its messages", async () => {
  await using machine = await hostMachine();
  const runtime = "home/.config/svc/agents/alpha/runtime.json";
  await Deno.writeTextFile(machine.path(runtime), '{"platform":"nanobot"}', { mode: 0o600 });
  const { warnings, platform } = await machine.json(...wordsOf(CURSOR));
  assertEquals([platform, machine.read(runtime)], ["nanobot", '{"platform":"nanobot"}']);
  assertStringIncludes(warnings.join(), "svc install --for inbox --agent-name alpha");
});

Deno.test("the entry of a project warns when no folder of PATH has svc", async () => {
  await using machine = await hostMachine();
  const line = ["mcp", "install", "--for", "claude-code", "--scope", "project"];
  machine.env.PATH = machine.path("bin");
  assertStringIncludes((await machine.json(...line)).warnings.join(), "PATH has no command svc");
  await Deno.mkdir(machine.path("bin"));
  await Deno.writeTextFile(machine.path("bin/svc"), "");
  assertEquals((await machine.json(...line)).warnings, undefined);
});

Deno.test("a host, a scope or a switch that does not exist is a usage error", async () => {
  await using machine = await hostMachine();
  const bad = [
    ["--for", "emacs"],
    ["--for", "cursor", "--scope", "all"],
    ["--for", "openclaw", "--scope", "project"],
    ["--for", "cursor", "--wake", "auto"],
    ["--for", "codex", "--wake", "hook"],
    ["--for", "claude-code", "--wake", "now"],
    ["--for", "cursor", "--print", "--undo"],
    ["--for", "cursor", "--peers", "beta,,gamma"],
  ];
  for (const words of bad) assertEquals((await machine.failure("mcp", "install", ...words)).exit, 2, words.join(" "));
});
