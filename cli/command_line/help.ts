/**
 * Help texts and docs/cli.md, generated from the command table.
 */
import {
  AGENT_OPTION,
  type Command,
  GLOBAL_OPTIONS,
  type Groups,
  type OptionSpec,
  PERSON_OPTIONS,
  usageOf,
} from "./command.ts";

const EXIT_CODES =
  "0 success, 1 failure, 2 usage error, 3 not authorised, 4 not found, 5 service unreachable, 6 no reply, 130 interrupted";
const INTRODUCTION = "Command-line tool for svc: agent identities, and message relay between agents.";
/** Options that so many commands take that docs/cli.md explains them once. */
const SHARED_OPTIONS: Readonly<Record<string, OptionSpec>> = { ...PERSON_OPTIONS, ...AGENT_OPTION };
/** Commands whose examples appear under "First steps", in this order. */
const FIRST_STEPS = ["join", "agent create", "connector start", "send"];
const STANDARD_INPUT = "Pass - as a secret to read it from standard input.";

/** Returns the help of a command, of a group of commands, or of the whole program. */
export function help(path: readonly string[], commands: readonly Command[], groups: Groups): string {
  const found = find(commands, path.join(" "));
  if (found) return commandHelp(found);
  return path.length === 0 ? topHelp(commands, groups) : groupHelp(path, commands, groups);
}

function find(commands: readonly Command[], path: string): Command | undefined {
  return commands.find((command) => command.path.join(" ") === path);
}

function topHelp(commands: readonly Command[], groups: Groups): string {
  const firstSteps = FIRST_STEPS.flatMap((path) => Object.keys(find(commands, path)?.examples ?? {}).slice(0, 1));
  return [
    INTRODUCTION,
    "",
    "Usage: svc <command> [options]",
    "",
    "Commands:",
    ...columns(
      byGroup(commands).flatMap(([group, members]) => {
        const below = members.map(({ path }) => path.slice(1).join(" ")).filter((words) => words !== "");
        const about = [group, groups[group] ?? ""] as const;
        return below.length === 0 ? [about] : [about, ["", below.join(", ")] as const];
      }),
    ),
    "",
    "First steps:",
    ...firstSteps.map((run) => `  ${run}`),
    "",
    ...ending([], [["--version", "Print the version"]]),
  ].join("\n");
}

function groupHelp(path: readonly string[], commands: readonly Command[], groups: Groups): string {
  const members = commands.filter((command) => path.every((word, i) => command.path[i] === word));
  const rows = members.map((command): [string, string] => [usageOf(command).slice("svc ".length), command.summary]);
  return [
    groups[path.join(" ")] ?? "",
    "",
    `Usage: svc ${path.join(" ")} <command> [options]`,
    "",
    "Commands:",
    ...columns(rows),
    "",
    "Examples:",
    ...exampleLines(members.flatMap(({ examples }) => Object.entries(examples).slice(0, 1))),
    "",
    ...ending(path, []),
  ].join("\n");
}

function ending(path: readonly string[], more: readonly [string, string][]): string[] {
  return [
    "Options of every command:",
    ...columns([...optionRows(GLOBAL_OPTIONS), ...more]),
    "",
    `Exit codes: ${EXIT_CODES}`,
    `More about a command: ${["svc", ...path].join(" ")} <command> --help`,
    "",
  ];
}

function byGroup(commands: readonly Command[]): [string, Command[]][] {
  return [...Map.groupBy(commands, ({ path }) => path[0] ?? "")];
}

function exampleLines(examples: readonly (readonly [string, string])[]): string[] {
  return examples.flatMap(([run, purpose]) => [`  ${run}`, `      ${purpose}`]);
}

function commandHelp(command: Command): string {
  const { args, options, details = [], examples, summary } = command;
  const hasSecret = [...Object.values(args), ...Object.values(options)].some(({ secret }) => secret);
  const section = (title: string, lines: string[]) => lines.length > 0 ? ["", title, ...lines] : [];
  return [
    `${summary}.`,
    ...(details.length > 0 ? ["", details.join(" ")] : []),
    "",
    `Usage: ${usageOf(command)} [options]`,
    ...section("Arguments:", columns(Object.entries(args).map(([name, arg]) => [name, arg.summary]))),
    ...section("Options:", columns(optionRows({ ...options, ...GLOBAL_OPTIONS }))),
    ...(hasSecret ? ["", STANDARD_INPUT] : []),
    ...section("Examples:", exampleLines(Object.entries(examples))),
    "",
  ].join("\n");
}

function optionRows(options: Readonly<Record<string, OptionSpec>>): [string, string][] {
  return Object.entries(options).map(([name, option]) => [optionUsage(name, option), optionSummary(option)]);
}

function optionUsage(name: string, { value }: OptionSpec): string {
  return value === undefined ? `--${name}` : `--${name} <${value}>`;
}

function optionSummary({ summary, env, required, repeat }: OptionSpec): string {
  const notes = [required ? "required" : "", repeat ? "repeatable" : "", env ? `or ${env}` : ""].filter(Boolean);
  return notes.length > 0 ? `${summary} (${notes.join(", ")})` : summary;
}

function columns(rows: readonly (readonly [string, string])[]): string[] {
  const width = Math.max(...rows.map(([left]) => left.length));
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`);
}

/** Usage and summary of what docs/cli.md explains once. */
const SHARED_ROWS: ReadonlySet<string> = new Set(optionRows(SHARED_OPTIONS).map(String));

/** Returns docs/cli.md: every command with its arguments and options. What many commands take is explained once. */
export function renderCliDoc(commands: readonly Command[], groups: Groups): string {
  const lines = [
    "# The command `svc`",
    "",
    "Every command of `svc` with its arguments and options. `svc <command> --help` says more about one, with examples.",
    "",
    "Every command also has:",
    "",
    ...bullets(optionRows(GLOBAL_OPTIONS)),
    "",
    "What an earlier command of this page explains is named after *Also*. A command that calls a service also has those of",
    "these that it needs, and its `--help` lists them:",
    "",
    ...bullets(optionRows(SHARED_OPTIONS)),
    "",
    `Exit codes: ${EXIT_CODES}.`,
    `${STANDARD_INPUT} With \`--json\`, an error is \`{"error":{"code","message"}}\` on standard error.`,
    "",
  ];
  const explained = new Set<string>();
  for (const [group, members] of byGroup(commands)) {
    const isGroup = members.length > 1;
    if (isGroup) lines.push(`## ${group}`, "", ...groups[group] ? [groups[group], ""] : []);
    for (const command of members) lines.push(...commandDoc(command, explained, isGroup ? "###" : "##"));
  }
  return `${lines.join("\n").trimEnd()}\n`;
}

/** The section of a command; what it explains is added to `explained`, and a later command only names it. */
function commandDoc(command: Command, explained: Set<string>, mark: string): string[] {
  const { args, options, summary } = command;
  const all = [
    ...Object.entries(args).map(([name, arg]): [string, string] => [`<${name}>`, arg.summary]),
    ...optionRows(options),
  ].filter((row) => !SHARED_ROWS.has(String(row)));
  const rows = all.filter((row) => !explained.has(String(row)));
  const shared = all.filter((row) => explained.has(String(row))).map(([usage]) => `\`${usage.split(" ", 1)[0]}\``);
  for (const row of rows) explained.add(String(row));
  return [
    `${mark} \`${usageOf(command)}\``,
    "",
    `${summary}.`,
    "",
    ...(rows.length > 0 ? [...bullets(rows), ""] : []),
    ...(shared.length > 0 ? [`Also ${shared.join(", ")}.`, ""] : []),
  ];
}

function bullets(rows: readonly (readonly [string, string])[]): string[] {
  return rows.map(([left, right]) => `- \`${left}\`: ${right.replaceAll("<", "&lt;")}`);
}
