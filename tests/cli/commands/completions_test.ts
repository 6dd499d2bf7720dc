/** Completion scripts: the words that a shell offers at each position. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { completionScript } from "../../../cli/commands/completions.ts";
import { allCommands, GROUPS } from "../../../cli/commands/table.ts";
import { tempFolder } from "../../support/temp_folder.ts";

const COMMANDS = await allCommands();

/** The words that bash offers for the last word. */
async function offered(script: string, words: string[], env: Record<string, string> = {}): Promise<string[]> {
  const line =
    `${script}\nCOMP_WORDS=(${words.map((word) => `'${word}'`).join(" ")})\nCOMP_CWORD=${words.length - 1}\n` +
    '_svc\nprintf "%s\\n" "${COMPREPLY[@]}"';
  const { stdout, stderr } = await new Deno.Command("bash", { args: ["--norc", "-c", line], env }).output();
  assertEquals(new TextDecoder().decode(stderr), "");
  return new TextDecoder().decode(stdout).split("\n").filter((word) => word !== "").sort();
}

async function hasShell(name: string): Promise<boolean> {
  try {
    return (await new Deno.Command(name, { args: ["--version"], stdout: "null", stderr: "null" }).output()).success;
  } catch {
    console.log(`${name} is not on this machine: its completion script is not run`);
    return false;
  }
}

Deno.test("bash offers commands, options, fixed values, the agents of this machine and their peers", async (t) => {
  if (!await hasShell("bash")) return;
  await using folder = await tempFolder();
  const dir = folder.path;
  for (const name of ["alpha", "beta", ".alpha.lock"]) await Deno.mkdir(`${dir}/agents/${name}`, { recursive: true });
  const peer = (humanName: string, gone?: true) => ({ did: "d", agentName: "x", humanName, ...(gone ? { gone } : {}) });
  const peersOf = {
    alpha: { gamma: peer('"gone": true'), "delta-2": peer("D"), old: peer("O", true) },
    beta: { eta: peer("E") },
  };
  for (const [name, peers] of Object.entries(peersOf)) {
    const text = JSON.stringify({ ...peers, "$(id)": peer("F") }, null, 2);
    await Deno.writeTextFile(`${dir}/agents/${name}/peers.json`, text);
  }
  for (const path of ["profiles/work/agents/worker", "a b"]) await Deno.mkdir(`${dir}/${path}`, { recursive: true });
  const script = completionScript("bash", COMMANDS, GROUPS);
  const cases: [string[], string[]][] = [
    [["svc", "ag"], ["agent"]],
    [["svc", "agent", ""], ["auth", "create", "delete", "inspect", "list", "reissue"]],
    [["svc", "agent", "auth", ""], ["refresh", "revoke"]],
    [["svc", "agent", "--json", "auth", "re"], ["refresh", "revoke"]],
    [["svc", "agent", "inspect", ""], ["alpha", "beta"]],
    [["svc", "agent", "inspect", "--registry-url", "x", "a"], ["alpha"]],
    [["svc", "agent", "inspect", "alpha", ""], []],
    [["svc", "agent", "create", "--f"], ["--framework"]],
    [["svc", "agent", "list", "--status", ""], ["active", "revoked"]],
    [["svc", "config", "get", "reg"], ["registryUrl"]],
    [["svc", "completions", ""], ["bash", "fish", "zsh"]],
    [["svc", "explain", "PROXY_AUTH_REPL"], ["PROXY_AUTH_REPLAY"]],
    [["svc", "admin", "service", "create", "x", "--scope", "crl"], ["crl.read"]],
    [["svc", "mcp", "install", "--scope", ""], ["project", "user"]],
    [["svc", "mcp", "install", "alpha", "--for", "c"], ["claude-code", "codex", "cursor"]],
    [["svc", "install", "--for", "n"], ["nanobot"]],
    [["svc", "hook", "claude-code", ""], ["alpha", "beta"]],
    [["svc", "--config-dir", "x", "inv"], ["invite"]],
    // A group that is a command too has its subcommands, its options and its argument.
    [["svc", "mcp", ""], ["alpha", "beta", "install"]],
    [["svc", "mcp", "alpha", ""], []],
    [["svc", "mcp", "alpha", "--pe"], ["--peers"]],
    [["svc", "dead-letters", "--li"], ["--limit"]],
    [["svc", "connector", "s"], ["service", "start", "status"]],
    [["svc", "provider", "doctor", "--peer", ""], ["delta-2", "eta", "gamma"]],
    [["svc", "peers", "--agent", ""], ["alpha", "beta"]],
    // bash gives an option with an equals sign as three words, and the sign alone where nothing follows it.
    [["svc", "peers", "--agent", "="], ["alpha", "beta"]],
    [["svc", "peers", "--agent", "=", "be"], ["beta"]],
    [["svc", "inbox", "--agent", "=", "beta", "--from", "="], ["eta"]],
    [["svc", "--profile", "=", "work", "agent", "inspect", ""], ["worker"]],
    // zsh gives it as one word, which the offered one replaces.
    [["svc", "peers", "--agent=be"], ["--agent=beta"]],
    [["svc", "inbox", "--agent=beta", "--from="], ["--from=eta"]],
    [["svc", "send", "--wait", "ga"], ["gamma"]],
    [["svc", "send", "gamma", ""], []],
    [["svc", "inbox", "--from", "e"], ["eta"]],
    [["svc", "inbox", "--agent", "beta", "--from", ""], ["eta"]],
    [["svc", "--profile", "work", "agent", "inspect", ""], ["worker"]],
    [["svc", "agent", "inspect", "--config-dir", `${dir}/profiles/work`, ""], ["worker"]],
    [["svc", "verify", "--request", `${dir}/a`], [`${dir}/a b`, `${dir}/agents`]],
  ];
  for (const [words, expected] of cases) {
    await t.step(
      words.join(" "),
      async () => assertEquals(await offered(script, words, { SVC_CONFIG_DIR: dir }), expected),
    );
  }
  await t.step("the agents of SVC_PROFILE, unless the command names another folder", async () => {
    const env = { SVC_CONFIG_DIR: dir, SVC_PROFILE: "work" };
    assertEquals(await offered(script, ["svc", "agent", "inspect", ""], env), ["worker"]);
    for (const here of [["--profile", "default"], ["--config-dir", dir], ["--config-dir", "~/"]]) {
      const words = ["svc", "agent", "inspect", ...here, ""];
      assertEquals(await offered(script, words, { ...env, HOME: dir }), ["alpha", "beta"]);
    }
  });
  await t.step("the peers of SVC_AGENT", async () => {
    const env = { SVC_CONFIG_DIR: dir, SVC_AGENT: "beta" };
    assertEquals(await offered(script, ["svc", "provider", "doctor", "--peer", ""], env), ["eta"]);
  });
});

Deno.test("every command and option is in every script", () => {
  for (const shell of ["bash", "zsh", "fish"] as const) {
    const script = completionScript(shell, COMMANDS, GROUPS);
    for (const { path, options } of COMMANDS) {
      assertStringIncludes(script, path.join(" "));
      for (const option of Object.keys(options)) {
        assertStringIncludes(script, shell === "fish" ? `-l ${option}` : `--${option}`);
      }
    }
  }
});

Deno.test("the scripts are valid for their shells", async (t) => {
  for (const shell of ["bash", "zsh", "fish"] as const) {
    if (!await hasShell(shell)) continue;
    await t.step(shell, async () => {
      const path = await Deno.makeTempFile({ prefix: "svc_cli_" });
      await Deno.writeTextFile(path, completionScript(shell, COMMANDS, GROUPS));
      const { success, stderr } = await new Deno.Command(shell, { args: ["-n", path], stderr: "piped" }).output();
      await Deno.remove(path);
      assert(success, new TextDecoder().decode(stderr));
    });
  }
});
