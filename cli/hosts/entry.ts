/** What svc writes into files of hosts: the entry that starts `svc mcp`, and the hook that wakes the model. */
import { isSame, type Place } from "./place.ts";
import type { Wake } from "./table.ts";
import { CliError } from "../errors.ts";
import { memberOf } from "../platforms/settings.ts";
import { shellWord } from "../terminal/output.ts";

/**
 * Hosts put the name of the entry in front of each tool's name. With a longer name they would refuse the tools, because
 * they limit the length of both together.
 */
const ENTRY_NAME_LENGTH_MAX = 32;
/** Longer than the hook waits. With less, Claude Code would end the hook, and no message would wake the model. */
const HOOK_TIMEOUT_MS = 3_600_000;

export interface OwnCommand {
  /** The program and its first words. */
  own: readonly string[];
  agent: string;
  /** Options that find the agent's files: `--config-dir` and `--ca`. */
  here: readonly string[];
}

export interface ToolSwitches {
  readOnly: boolean;
  /** Aliases or DIDs, separated by commas. */
  peers: string | undefined;
  /** How the model is woken; `undefined`: not at all. */
  wake: Wake | undefined;
}

const NAME = /^[A-Za-z0-9_-]+$/;

/** Returns the name of an entry. @throws {CliError} `CLI_USAGE` for a `--name` that no host accepts */
export function entryName(agent: string, given: string | undefined): string {
  const max = ENTRY_NAME_LENGTH_MAX;
  if (given === undefined) return `svc-${agent.replaceAll(".", "_")}`.slice(0, max);
  if (given.length <= max && NAME.test(given)) return given;
  throw new CliError("CLI_USAGE", `--name must be 1 to ${max} of A-Z, a-z, 0-9, "-" and "_", not "${given}"`);
}

export function toolCommand({ own: [command = "", ...first], agent, here }: OwnCommand, wanted: ToolSwitches) {
  const { readOnly, peers, wake } = wanted;
  const switches = [
    ...readOnly ? ["--read-only"] : [],
    ...peers === undefined ? [] : ["--peers", peers],
    ...hasInbox(wake) ? ["--wake-model"] : [],
  ];
  return { command, args: [...first, "mcp", agent, ...here, ...switches] };
}

/** Whether `svc mcp`, which the entry starts, wakes the model itself through the inbox of its host. */
export function hasInbox(wake: Wake | undefined): boolean {
  return wake === "auto" || wake === "inbox";
}

/** The hook that wakes Claude Code. With `auto` it does nothing where there is an inbox, which `svc mcp` uses. */
export function wakeHook(
  { own, agent, here }: OwnCommand,
  { wake, peers }: Pick<ToolSwitches, "wake" | "peers">,
): Record<string, unknown> {
  const switches = [...peers === undefined ? [] : ["--peers", peers], ...wake === "auto" ? ["--unless-inbox"] : []];
  const command = [...own, "hook", "claude-code", agent, ...here, ...switches].map(shellWord).join(" ");
  const timeout = HOOK_TIMEOUT_MS / 1000;
  return { hooks: [{ type: "command", command, asyncRewake: true, timeout }] };
}

/** Names of the objects around the group of hooks. */
export const WAKE_PATH: Place["path"] = ["hooks", "Stop"];

/**
 * Returns true when an entry runs `svc mcp` for this agent in this configuration directory. The program and other
 * options do not count, because an update that changes them would otherwise add a second entry.
 */
export function isOwnTool({ agent, here }: OwnCommand, entry: unknown): boolean {
  const args = memberOf(entry, "args");
  if (!Array.isArray(args)) return false;
  const at = args.findIndex((word, i) => word === "mcp" && args[i + 1] === agent);
  return at !== -1 && isSame(configDirOf(args.slice(at)), configDirOf(here));
}

/** Returns true when a group of hooks runs `svc hook` for this agent, by the rule of `isOwnTool`. */
export function isOwnHook({ agent, here }: OwnCommand, group: unknown): boolean {
  const hooks = memberOf(group, "hooks");
  const command = Array.isArray(hooks) && hooks.length === 1 ? memberOf(hooks[0], "command") : null;
  if (typeof command !== "string") return false;
  // The space at the end gives every word a space behind it, so that a longer word does not match.
  const [, rest] = `${command} `.split(` hook claude-code ${shellWord(agent)} `), folder = configDirOf(here);
  if (rest === undefined) return false;
  const named = ` ${rest}`;
  if (typeof folder !== "string") return !named.includes(" --config-dir ");
  return named.includes(` --config-dir ${shellWord(folder)} `);
}

/** The value of `--config-dir` in a list of words; `null` without one. */
function configDirOf(words: readonly unknown[]): unknown {
  const at = words.indexOf("--config-dir");
  return at === -1 ? null : words[at + 1] ?? null;
}
