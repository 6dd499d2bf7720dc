/** A machine with the folders of every host, an agent, and a project, for the tests of `svc mcp install`. */
import { parse as parseJson } from "jsonc-parser";
import { parse as parseToml } from "smol-toml";
import type { HostId, Scope } from "../../../cli/hosts/table.ts";
import { Machine } from "../cli_world.ts";

/** A host in one scope: its file, a text of another program in it, and the way to the entry. */
export interface HostCase {
  host: HostId;
  scope: Scope;
  /** Below the home directory, or below the project. */
  file: string;
  /** Names around the entry. */
  around: readonly string[];
  format: "json" | "toml";
  /** Members of the entry beside `command` and `args`. */
  members: Record<string, unknown>;
}

const row = (
  host: HostId,
  scope: Scope,
  file: string,
  around: readonly string[],
  members: Record<string, unknown>,
): HostCase => ({ host, scope, file, around, members, format: file.endsWith(".toml") ? "toml" : "json" });

const STDIO = { type: "stdio" };
const CODEX = { startup_timeout_sec: 20, tool_timeout_sec: 660 };

/** On Linux. */
export const CASES: readonly HostCase[] = [
  row("claude-code", "user", ".claude.json", ["mcpServers"], STDIO),
  row("claude-code", "project", ".mcp.json", ["mcpServers"], STDIO),
  row("cursor", "user", ".cursor/mcp.json", ["mcpServers"], {}),
  row("cursor", "project", ".cursor/mcp.json", ["mcpServers"], {}),
  row("gemini", "user", ".gemini/settings.json", ["mcpServers"], { timeout: 660_000 }),
  row("gemini", "project", ".gemini/settings.json", ["mcpServers"], { timeout: 660_000 }),
  row("vscode", "user", ".config/Code/User/mcp.json", ["servers"], STDIO),
  row("vscode", "project", ".vscode/mcp.json", ["servers"], STDIO),
  row("codex", "user", ".codex/config.toml", ["mcp_servers"], CODEX),
  row("codex", "project", ".codex/config.toml", ["mcp_servers"], CODEX),
  row("openclaw", "user", ".openclaw/openclaw.json", ["mcp", "servers"], { requestTimeoutMs: 660_000 }),
];

/** The case of a host. */
export function caseOf(host: HostId, scope: Scope = "user"): HostCase {
  const found = CASES.find((one) => one.host === host && one.scope === scope);
  if (found === undefined) throw new Error(`${host} ${scope} is no case`);
  return found;
}

/** A file of another program, with comments, another server and members that svc does not know. */
export function textOf({ format, around }: HostCase): string {
  if (format === "toml") {
    return '# My settings\nmodel = "o9" # the large one\nratio = 1.50\n\n[mcp_servers.docs]\ncommand = "docs"\n' +
      'args = ["--port", "1"] # of docs\n\n[mcp_servers.docs.env]\nKEY = """\n[mcp_servers.svc-alpha]\n"""\n\n' +
      "# The end\n[[unknown]]\nsince = 2026-01-01\n";
  }
  const [first = "", second] = around;
  const servers =
    '{\n    // Of the documents\n    "docs": { "command": "docs", "args": ["--port", "1"], "env": {"K": "v"} }, /* x */\n  }';
  const member = second === undefined ? servers : `{ "${second}": ${servers}, "other": [1, 2, ], }`;
  return `{\n  // My settings\n  "model": "o9", // the large one\n  "ratio": 1.50,\n  "${first}": ${member},\n` +
    '  "unknown": { "since": [2026, 1, 1,], "deep": { "a": null } }\n  /* The end */\n}\n';
}

/** The value of a file. */
export function valueOf({ format }: Pick<HostCase, "format">, text: string): Record<string, unknown> {
  return format === "toml" ? parseToml(text) : parseJson(text, [], { allowTrailingComma: true });
}

/** The entry with this name; `undefined` when there is none. */
export function entryOf(one: HostCase, text: string, name: string): Record<string, unknown> | undefined {
  let value: unknown = valueOf(one, text);
  for (const key of [...one.around, name]) value = (value as Record<string, unknown> | undefined)?.[key];
  return value as Record<string, unknown> | undefined;
}

/** A machine with the agent alpha and others; its configuration directory is the usual one. */
export async function hostMachine(...agents: string[]): Promise<Machine> {
  const machine = await Machine.ofPerson();
  const home = machine.path("home");
  machine.env.HOME = home;
  machine.env.SVC_CONFIG_DIR = `${home}/.config/svc`;
  for (const { scope, file } of CASES) {
    const folder = `${home}/${file}`.replace(/\/[^/]*$/, "");
    if (scope === "user") await Deno.mkdir(folder, { recursive: true, mode: 0o755 });
  }
  await Deno.mkdir(machine.path("home/.claude"), { recursive: true });
  await Deno.mkdir(machine.path("project"), { recursive: true });
  machine.cwd = machine.path("project");
  for (const name of ["alpha", ...agents]) await machine.json("agent", "create", name);
  return machine;
}

/** Path of the file of a case. */
export function pathOf(machine: Machine, { scope, file }: HostCase): string {
  return machine.path(scope === "user" ? `home/${file}` : `project/${file}`);
}

/** Writes the file of a case, with its folder. */
export async function give(machine: Machine, one: HostCase, text: string, mode = 0o640): Promise<string> {
  const path = pathOf(machine, one);
  await Deno.mkdir(path.replace(/\/[^/]*$/, ""), { recursive: true });
  await Deno.writeTextFile(path, text);
  await Deno.chmod(path, mode);
  return path;
}
