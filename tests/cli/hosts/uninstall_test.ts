/** `svc uninstall` removes what svc wrote outside of its folder, nothing else, and can be repeated. */
import { basename, dirname } from "node:path";
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { type Host, Service, unitText } from "../../../cli/autostart/control.ts";
import type { Machine } from "../cli_world.ts";
import { caseOf, CASES, give, hostMachine, pathOf, textOf } from "./host_world.ts";

/** Writes the unit of a service that uses a folder. Returns its path. */
async function giveUnit(machine: Machine, agentName: string, folder = "", profile: string | null = null) {
  const host = { home: machine.path("home"), configHome: machine.path("home/.config") } as Host;
  const { path } = new Service(host, "systemd", agentName, profile);
  const command = ["svc", "connector", "start", agentName, "--config-dir", folder];
  await Deno.mkdir(dirname(path), { recursive: true });
  await Deno.writeTextFile(path, unitText(agentName, command));
  return path;
}

Deno.test({
  name: "svc uninstall lists, asks once, restores each file and keeps the keys",
  ignore: Deno.build.os !== "linux",
  async fn() {
    await using machine = await hostMachine("beta");
    const home = machine.path("home");
    const before = new Map<string, string>();
    for (const one of CASES.filter(({ host }) => ["claude-code", "codex"].includes(host))) {
      const path = await give(machine, one, textOf(one));
      before.set(path, textOf(one));
      await machine.json("mcp", "install", "alpha", "--for", one.host, "--scope", one.scope);
    }
    await machine.json("mcp", "install", "beta", "--for", "cursor");
    const completion = `${home}/.local/share/bash-completion/completions/svc`;
    await Deno.mkdir(completion.replace(/\/[^/]*$/, ""), { recursive: true });
    await Deno.writeTextFile(completion, (await machine.svc("completions", "bash")).stdout);
    await Deno.writeTextFile(`${home}/.zshrc`, `alias ll=ls\n${(await machine.svc("completions", "zsh")).stdout}`);
    const own = await giveUnit(machine, "alpha", machine.env.SVC_CONFIG_DIR);
    const far = await giveUnit(machine, "beta", "/another/folder");

    delete machine.env.HOME;
    await machine.refuses(["uninstall"], 2, "CLI_NO_CONFIG_DIR", "services cannot be found. Set HOME.");
    machine.env.HOME = home;
    const list = await machine.json("uninstall", "--print");
    const kinds = list.installed.map(({ kind }: { kind: string }) => kind);
    assertEquals(kinds, ["service", "entry", "entry", "entry", "entry", "entry", "completion"]);
    assertEquals([list.agents, list.folder], [["alpha", "beta"], machine.env.SVC_CONFIG_DIR]);
    await machine.refuses(["uninstall"], 2, "CLI_USAGE");
    Object.assign(machine, { answers: false, isTerminal: true, columns: 80 });
    const asked = await machine.svc("uninstall");
    assertEquals(asked.code, 1);
    for (const { path } of list.installed) assertStringIncludes(asked.stderr, path, "the list before the question");
    Object.assign(machine, { isTerminal: false, columns: null });
    for (const [path, text] of before) assert(await Deno.readTextFile(path) !== text, path);

    machine.answers = true;
    const done = await machine.svc("uninstall");
    assertEquals(done.code, 0, done.stderr);
    assertStringIncludes(done.stdout, "Removed: 7 of 7.");
    assertStringIncludes(done.stdout, "with the keys of alpha, beta. They cannot be made again.");
    assertStringIncludes(done.stdout, `The completion in ${home}/.zshrc stays: delete it there.`);
    for (const [path, text] of before) assertEquals(await Deno.readTextFile(path), text, path);
    const isThere = (path: string) => Deno.stat(path).then(() => true, () => false);
    for (const path of [completion, pathOf(machine, caseOf("cursor")), own]) {
      assertEquals(await isThere(path), false, path);
    }
    assert(await isThere(far), "the service of another folder stays");
    assert(await isThere(`${machine.env.SVC_CONFIG_DIR}/agents/alpha`));
    const again = await machine.svc("uninstall");
    assertEquals(again.code, 0);
    assertStringIncludes(again.stdout, "There is nothing to remove.");
  },
});

Deno.test("svc uninstall restores the settings of a runtime, and keeps the backup of one that was changed since", async () => {
  await using machine = await hostMachine();
  const paths: [own: string, shared: string] = [
    machine.path("state/openclaw.json"),
    machine.path("home/.openclaw/openclaw.json"),
  ];
  for (const path of paths) {
    await Deno.mkdir(path.replace(/\/[^/]*$/, ""), { recursive: true });
    await Deno.writeTextFile(path, "{}");
  }
  const setUp = ["provider", "setup", "--for", "openclaw"];
  await machine.json(...setUp);
  await machine.json("mcp", "install", "alpha", "--for", "openclaw");
  await machine.json(...setUp, "--agent-name", "alpha", "--platform-state-dir", machine.path("state"));
  const { installed } = await machine.json("uninstall", "--print");
  assertEquals(installed.map(({ kind, path, what }: Record<string, string>) => [kind, path, what]), [
    ["settings", paths[1], "all agents"],
    ["settings", paths[0], "alpha"],
    ["entry", paths[1], "mcp.servers.svc-alpha"],
  ]);
  await Deno.writeTextFile(paths[0], "{ }");
  const { code, stdout, stderr } = await machine.svc("uninstall", "--yes");
  assertEquals([code, await Deno.readTextFile(paths[1])], [1, "{}"]);
  assertStringIncludes(stdout, "Removed: 2 of 3.");
  assertStringIncludes(stderr, "setup-backup.json");
});

Deno.test("the settings of one runtime are restored when the file of another is gone with its program", async () => {
  await using machine = await hostMachine();
  const openclaw = machine.path("home/.openclaw/openclaw.json"), hermes = machine.path("home/.hermes/.env");
  for (const [path, text] of [[openclaw, "{}"], [hermes, "A=1\n"]] as const) {
    await Deno.mkdir(dirname(path), { recursive: true });
    await Deno.writeTextFile(path, text);
  }
  for (const name of ["openclaw", "hermes"]) await machine.json("provider", "setup", "--for", name);
  await Deno.remove(dirname(openclaw), { recursive: true });
  assertEquals((await machine.svc("uninstall", "--yes")).code, 0);
  assertEquals(await Deno.readTextFile(hermes), "A=1\n");
  assertEquals((await machine.json("uninstall", "--print")).installed, []);
});

Deno.test("svc uninstall leaves an entry that was changed since, names it, and removes the others", async () => {
  await using machine = await hostMachine();
  for (const host of ["claude-code", "cursor"]) await machine.json("mcp", "install", "alpha", "--for", host);
  const path = pathOf(machine, caseOf("claude-code"));
  const text = (await Deno.readTextFile(path)).replace('"stdio"', '"other"');
  await Deno.writeTextFile(path, text);
  const { code, stdout, stderr } = await machine.svc("uninstall", "--yes");
  assertEquals(code, 1);
  assertStringIncludes(stdout, "Removed: 1 of 2.");
  assertStringIncludes(stderr, path);
  assertEquals(await Deno.readTextFile(path), text);
});

Deno.test("a file that is no longer valid is named with what to remove by hand, not with what to add", async () => {
  const install = ["mcp", "install", "alpha", "--for", "claude-code", "--wake", "hook"];
  for (const [file, entry] of [[".claude/settings.json", "hooks.Stop"], [".claude.json", "mcpServers.svc-alpha"]]) {
    await using machine = await hostMachine();
    await machine.json(...install);
    const path = machine.path(`home/${file}`), broken = `${await Deno.readTextFile(path)}}`;
    await Deno.writeTextFile(path, broken);
    const advice = `Remove the entry of svc at ${entry} by hand`;
    const { stderr } = await machine.svc(...install.slice(0, 5), "--undo");
    assertStringIncludes(stderr, advice);
    assert(!stderr.includes("it needs") && !stderr.includes('"command"'), stderr);
    assertStringIncludes((await machine.svc("uninstall", "--yes")).stderr, advice);
    assertEquals(await Deno.readTextFile(path), broken);
  }
});

Deno.test("svc uninstall covers every profile, and --purge deletes them after the names were typed", async () => {
  await using machine = await hostMachine();
  const folder = machine.env.SVC_CONFIG_DIR ?? "";
  await machine.json("agent", "create", "beta", "--profile", "work");
  await machine.json("mcp", "install", "beta", "--for", "cursor", "--profile", "work");
  await machine.json("mcp", "install", "alpha", "--for", "claude-code");
  const list = await machine.json("uninstall", "--print");
  assertEquals([list.installed.length, list.agents, list.folder], [2, ["alpha", "work/beta"], folder]);
  assertEquals((await machine.failure("uninstall", "--purge", "--yes")).code, "CLI_USAGE");

  // Revocation agreed, then a wrong text: what hosts hold is gone, the folder stays.
  machine.answers = true;
  machine.types = ["delete alpha"];
  assertEquals((await machine.svc("uninstall", "--purge")).code, 1);
  assertEquals((await machine.json("uninstall", "--print")).installed, []);
  assertEquals((await machine.json("profile", "list")).profiles.length, 2);
  assert(machine.asked.at(-1)?.includes("type delete alpha work/beta: "));
  const { agents } = await machine.json("agent", "list", "--status", "revoked");
  assertEquals(agents.length, 2, "each was revoked before its key could be lost");

  await Deno.writeTextFile(`${folder}/notes.txt`, "of the person");
  machine.types = ["delete everything"];
  const kept = await machine.svc("uninstall", "--purge");
  assertEquals(kept.code, 1);
  assertStringIncludes(kept.stdout, `${folder}/notes.txt`);
  assertEquals(await Array.fromAsync(Deno.readDir(folder), ({ name }) => name), ["notes.txt"]);
  await Deno.remove(`${folder}/notes.txt`);
  machine.types = ["delete everything"];
  const done = await machine.svc("uninstall", "--purge");
  assertEquals([done.code, await Deno.stat(folder).then(() => true, () => false)], [0, false], done.stderr);
});

Deno.test({
  name: "svc uninstall finds the service of an agent whose files are gone, in its own profile",
  ignore: Deno.build.os !== "linux",
  async fn() {
    await using machine = await hostMachine();
    const folder = machine.env.SVC_CONFIG_DIR;
    await machine.json("agent", "create", "beta", "--profile", "work");
    const own = await giveUnit(machine, "gone", folder);
    const ofWork = await giveUnit(machine, "gone", `${folder}/profiles/work`, "work");
    const far = await giveUnit(machine, "far", "/another/folder");
    const { installed } = await machine.json("uninstall", "--print");
    assertEquals(installed.map(({ path }: { path: string }) => path), [own, ofWork]);
    assertEquals((await machine.svc("uninstall", "--yes")).code, 0);
    assertEquals(await Array.fromAsync(Deno.readDir(dirname(far)), ({ name }) => name), [basename(far)]);
  },
});

Deno.test({
  name: "svc uninstall names a completion that it cannot remove",
  ignore: Deno.build.os !== "linux",
  async fn() {
    await using machine = await hostMachine();
    const path = `${machine.path("home")}/.config/fish/completions/svc.fish`;
    await Deno.mkdir(path.replace(/\/[^/]*$/, ""), { recursive: true });
    await Deno.writeTextFile(path, (await machine.svc("completions", "fish")).stdout);
    const remove = Deno.remove;
    Deno.remove = (given, options) =>
      given === path ? Promise.reject(new Deno.errors.PermissionDenied("denied")) : remove(given, options);
    try {
      const { code, stdout, stderr } = await machine.svc("uninstall", "--yes");
      assertEquals(code, 1);
      assertStringIncludes(stdout, "Removed: 0 of 1.");
      assertStringIncludes(stderr, path);
    } finally {
      Deno.remove = remove;
    }
  },
});

Deno.test({
  name:
    "svc agent delete also removes what svc wrote for that agent into files of others, and nothing of another agent",
  ignore: Deno.build.os !== "linux",
  async fn() {
    await using machine = await hostMachine("beta");
    const claude = caseOf("claude-code");
    const path = await give(machine, claude, textOf(claude));
    for (const agent of ["alpha", "beta"]) await machine.json("mcp", "install", agent, "--for", "claude-code");
    const unit = await giveUnit(machine, "alpha", machine.env.SVC_CONFIG_DIR);
    const { code, stdout, stderr } = await machine.svc("agent", "delete", "alpha", "--yes");
    assertEquals(code, 0, stderr);
    for (const changed of [unit, path]) {
      assertStringIncludes(stdout, `What svc wrote for it is removed from ${changed}.`);
    }
    const text = await Deno.readTextFile(path);
    assert(!text.includes("svc-alpha") && text.includes("svc-beta"), text);
    assertEquals((await machine.json("uninstall", "--print")).installed.length, 1);
  },
});
