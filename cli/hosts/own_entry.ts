/** The entry of an agent in the files of hosts (D-131, D-132): its name, its command, and how it is recognised. Pure. */
import { CONNECTOR_LIMITS } from "../connector/limits.ts";
import { CliError } from "../errors.ts";
import { shellWord } from "../terminal/output.ts";
import type { Place } from "./place.ts";
import { isSame } from "./same_value.ts";

/** What the entry's command is made of. */
export interface OwnCommand {
  /** The program and its first words. */
  own: readonly string[];
  agent: string;
  /** Options that find the agent's files: `--config-dir` and `--ca`. */
  here: readonly string[];
}

/** Options of `svc mcp` in the entry. */
export interface ToolSwitches {
  readOnly: boolean;
  /** Aliases or DIDs, separated by commas. */
  peers: string | undefined;
}

const NAME = /^[A-Za-z0-9_-]+$/;

/** Returns the name of an entry. @throws {CliError} `CLI_USAGE` for a `--name` that no host accepts */
export function entryName(agent: string, given: string | undefined): string {
  const max = CONNECTOR_LIMITS.hostEntryName;
  if (given === undefined) return `svc-${agent.replaceAll(".", "_")}`.slice(0, max);
  if (given.length <= max && NAME.test(given)) return given;
  throw new CliError("CLI_USAGE", `--name must be 1 to ${max} of A-Z, a-z, 0-9, "-" and "_", not "${given}"`);
}

/** Program and arguments of the entry. */
export function toolCommand({ own: [command = "", ...first], agent, here }: OwnCommand, wanted: ToolSwitches) {
  const peers = wanted.peers === undefined ? [] : ["--peers", wanted.peers];
  return { command, args: [...first, "mcp", agent, ...here, ...wanted.readOnly ? ["--read-only"] : [], ...peers] };
}

/** The group of hooks that wakes Claude Code. */
export function wakeHook({ own, agent, here }: OwnCommand): Record<string, unknown> {
  const command = [...own, "hook", "claude-code", agent, ...here].map(shellWord).join(" ");
  const timeout = CONNECTOR_LIMITS.hookTimeoutMs / 1000;
  return { hooks: [{ type: "command", command, asyncRewake: true, timeout }] };
}

/** Names of the objects around the group of hooks. */
export const WAKE_PATH: Place["path"] = ["hooks", "Stop"];

/**
 * Returns true for an entry that an svc made for the same agent in the same configuration directory, also one with another
 * program or other switches.
 */
export function isOwnTool({ agent, here }: OwnCommand, entry: unknown): boolean {
  const args = memberOf(entry, "args");
  if (!Array.isArray(args)) return false;
  const at = args.findIndex((word, i) => word === "mcp" && args[i + 1] === agent);
  return at !== -1 && isSame(configDirOf(args.slice(at)), configDirOf(here));
}

/** The same for a group of hooks. */
export function isOwnHook({ agent, here }: OwnCommand, group: unknown): boolean {
  const hooks = memberOf(group, "hooks");
  const command = Array.isArray(hooks) && hooks.length === 1 ? memberOf(hooks[0], "command") : null;
  if (typeof command !== "string") return false;
  const start = command.indexOf(` hook claude-code ${shellWord(agent)}`);
  const rest = start === -1 ? [] : command.slice(start).trimStart().split(" ").slice(2);
  return rest[0] === shellWord(agent) && isSame(configDirOf(rest), configDirOf(here.map(shellWord)));
}

/** The value of `--config-dir` in a list of words; `null` without one. */
function configDirOf(words: readonly unknown[]): unknown {
  const at = words.indexOf("--config-dir");
  return at === -1 ? null : words[at + 1] ?? null;
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null && Object.hasOwn(value, name)
    ? (value as Record<string, unknown>)[name]
    : undefined;
}
