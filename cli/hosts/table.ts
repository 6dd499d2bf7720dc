/** The hosts of `svc mcp install`: programs that start `svc mcp` and give its tools to a model. One row each. */
import { join } from "node:path";
import type { System } from "../context.ts";
import { LONG_WAIT_SECONDS } from "../mcp/waits.ts";
import { userFolder } from "../../shared/client/user_folder.ts";
import { openClawConfigPath } from "../platforms/openclaw.ts";

export const HOST_IDS = ["claude-code", "codex", "cursor", "gemini", "vscode", "openclaw"] as const;
export type HostId = (typeof HOST_IDS)[number];

/** Printed with a suggested `svc mcp install`. It names all hosts, because the suggested command names only one. */
export const IN_A_CODING_AGENT = `to use it in a coding agent (${HOST_IDS.join(", ")})`;

/**
 * How a message wakes the model: `inbox` through the inbox or queue of the host, `hook` by a hook at the end of a turn,
 * `auto` by the inbox where a session has one, else by the hook, which only Claude Code has.
 */
export const WAKES = ["auto", "inbox", "hook"] as const;
export type Wake = (typeof WAKES)[number];

/** `user`: for every project of this user; `project`: for one folder, in a file that its other users may share. */
export const SCOPES = ["user", "project"] as const;
export type Scope = (typeof SCOPES)[number];

/**
 * Longer than the longest wait of a call with a progress token. With less, Codex and Gemini CLI end a call that still
 * waits, and the model does not know whether its message was sent: they send such tokens, but extend no time.
 */
const TOOL_MS = (LONG_WAIT_SECONDS + 60) * 1000;
/** With less, a host on a slow disk would give up the start. With more, a broken entry would hold up the host. */
const START_MS = 20_000;

export interface Whereabouts extends Pick<System, "os" | "env"> {
  home: string;
  project: string;
  /** The state directory of OpenClaw when `runtime.json` names one. */
  stateDir: string | null;
}

export interface HostRow {
  name: string;
  format: "json" | "toml";
  around: readonly string[];
  /** Path of the file; `null` when the host has none of this scope. */
  path(scope: Scope, where: Whereabouts): string | null;
  entry(command: string, args: readonly string[]): Record<string, unknown>;
  /** Ways to wake its model. `inboxEntry` holds members of an entry that wakes the model through the inbox. */
  wakes: readonly Wake[];
  inboxEntry?: Record<string, unknown>;
  /** What a person does when the entry is written. */
  then: string;
}

/** A file below the home directory, or below the project. */
const inHomeOr = (user: string, project: string) => (scope: Scope, where: Whereabouts): string =>
  scope === "user" ? join(where.home, user) : join(where.project, project);

export const HOSTS: Readonly<Record<HostId, HostRow>> = Object.freeze({
  "claude-code": {
    name: "Claude Code",
    format: "json",
    around: ["mcpServers"],
    path: inHomeOr(".claude.json", ".mcp.json"),
    entry: (command, args) => ({ type: "stdio", command, args }),
    wakes: ["auto", "inbox", "hook"],
    then:
      "Restart Claude Code. It rewrites ~/.claude.json while it runs: if the entry is lost, close it and run this again.",
  },
  codex: {
    name: "Codex",
    format: "toml",
    around: ["mcp_servers"],
    path(scope, where) {
      const own = where.env("CODEX_HOME");
      if (scope === "user" && own !== undefined) return join(own, "config.toml");
      return inHomeOr(".codex/config.toml", ".codex/config.toml")(scope, where);
    },
    entry: (command, args) => ({
      command,
      args,
      startup_timeout_sec: START_MS / 1000,
      tool_timeout_sec: TOOL_MS / 1000,
    }),
    wakes: ["auto", "inbox"],
    // Codex gives its servers only the variables that an entry names. This one names the folder of the queue of Codex.
    inboxEntry: { env_vars: ["CODEX_HOME"] },
    then: "Restart Codex; it reads the file of a project only when it trusts the project.",
  },
  cursor: {
    name: "Cursor",
    format: "json",
    around: ["mcpServers"],
    path: inHomeOr(".cursor/mcp.json", ".cursor/mcp.json"),
    entry: (command, args) => ({ command, args }),
    wakes: [],
    then: "Restart Cursor.",
  },
  gemini: {
    name: "Gemini CLI",
    format: "json",
    around: ["mcpServers"],
    path: inHomeOr(".gemini/settings.json", ".gemini/settings.json"),
    entry: (command, args) => ({ command, args, timeout: TOOL_MS }),
    wakes: [],
    then: "Restart Gemini CLI; it starts servers only in folders that it trusts.",
  },
  vscode: {
    name: "VS Code",
    format: "json",
    around: ["servers"],
    path(scope, where) {
      if (scope === "project") return join(where.project, ".vscode", "mcp.json");
      const env: System["env"] = (name) => name === "HOME" ? where.home : where.env(name);
      const settings = userFolder({ os: where.os, env }, "config");
      return settings === undefined ? null : join(settings, "Code", "User", "mcp.json");
    },
    entry: (command, args) => ({ type: "stdio", command, args }),
    wakes: [],
    then: "Start the server in VS Code with the command MCP: List Servers.",
  },
  openclaw: {
    name: "OpenClaw",
    format: "json",
    around: ["mcp", "servers"],
    path: (scope, where) => scope === "user" ? openClawConfigPath(where, where.stateDir) : null,
    // With a member `timeout`, OpenClaw 2026.9.6 refuses the whole file.
    entry: (command, args) => ({ command, args, requestTimeoutMs: TOOL_MS }),
    wakes: [],
    then: "Start a new session of OpenClaw.",
  },
});

export const claudeHooksPath = inHomeOr(".claude/settings.json", ".claude/settings.json");
