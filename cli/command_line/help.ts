/** Help texts, generated from the command table. */
import { fields } from "../terminal/output.ts";
import { beginsWith, type Command, GLOBAL_OPTIONS, type Groups, type OptionSpec, usageOf } from "./command.ts";

export const EXIT_CODES =
  "0 success, 1 failure, 2 usage error, 3 not authorised, 4 not found, 5 service unreachable, 6 no reply, 130 interrupted";
const INTRODUCTION = "Command-line tool for svc: agent identities, and message relay between agents.";
/** Commands whose examples appear under "First steps", in this order. */
const FIRST_STEPS = ["join", "connector start", "send"];
export const STANDARD_INPUT =
  "Pass - as a secret to read it from standard input, because other users can see arguments.";

export function help(path: readonly string[], commands: readonly Command[], groups: Groups): string {
  const found = find(commands, path.join(" "));
  const members = commands.filter((command) => command !== found && beginsWith(command.path, path));
  if (found) return commandHelp(found, members);
  return path.length === 0 ? topHelp(commands, groups) : groupHelp(path, members, groups);
}

function find(commands: readonly Command[], path: string): Command | undefined {
  return commands.find((command) => command.path.join(" ") === path);
}

function memberRows(members: readonly Command[]): string[] {
  return fields(members.map((command) => [usageOf(command).slice("svc ".length), command.summary]));
}

function topHelp(commands: readonly Command[], groups: Groups): string {
  const firstSteps = FIRST_STEPS.flatMap((path) => Object.keys(find(commands, path)?.examples ?? {}).slice(0, 1));
  return [
    INTRODUCTION,
    "",
    "Usage: svc <command> [options]",
    "",
    "Commands:",
    ...fields(
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

function groupHelp(path: readonly string[], members: readonly Command[], groups: Groups): string {
  return [
    groups[path.join(" ")] ?? "",
    "",
    `Usage: svc ${path.join(" ")} <command> [options]`,
    "",
    "Commands:",
    ...memberRows(members),
    "",
    "Examples:",
    ...exampleLines(members.flatMap(({ examples }) => Object.entries(examples).slice(0, 1))),
    "",
    ...ending(path),
  ].join("\n");
}

function ending(path: readonly string[], more: readonly [string, string][] = []): string[] {
  return [
    "Options of every command:",
    ...fields([...optionRows(GLOBAL_OPTIONS), ...more]),
    "",
    `Exit codes: ${EXIT_CODES}`,
    `More about a command: ${["svc", ...path].join(" ")} <command> --help`,
    "",
  ];
}

export function byGroup(commands: readonly Command[]): [string, Command[]][] {
  return [...Map.groupBy(commands, ({ path }) => path[0] ?? "")];
}

function exampleLines(examples: readonly (readonly [string, string])[]): string[] {
  return examples.flatMap(([run, purpose]) => [`  ${run}`, `      ${purpose}`]);
}

/** @param below the commands whose paths begin with the path of `command` */
function commandHelp(command: Command, below: readonly Command[]): string {
  const { args, options, details = [], examples, summary } = command;
  const hasSecret = [...Object.values(args), ...Object.values(options)].some(({ secret }) => secret);
  const section = (title: string, lines: string[]) => lines.length > 0 ? ["", title, ...lines] : [];
  return [
    `${summary}.`,
    ...(details.length > 0 ? ["", details.join(" ")] : []),
    "",
    `Usage: ${usageOf(command)} [options]`,
    ...section("More commands:", memberRows(below)),
    ...section("Arguments:", fields(Object.entries(args).map(([name, arg]) => [name, arg.summary]))),
    ...section("Options:", fields(optionRows({ ...options, ...GLOBAL_OPTIONS }))),
    ...(hasSecret ? ["", STANDARD_INPUT] : []),
    ...section("Examples:", exampleLines(Object.entries(examples))),
    "",
  ].join("\n");
}

export function optionRows(options: Readonly<Record<string, OptionSpec>>): [string, string][] {
  return Object.entries(options).map(([name, { value, summary, env, required, repeat }]) => {
    const notes = [required ? "required" : "", repeat ? "repeatable" : "", env ? `or ${env}` : ""].filter(Boolean);
    return [
      value === undefined ? `--${name}` : `--${name} <${value}>`,
      notes.length > 0 ? `${summary} (${notes.join(", ")})` : summary,
    ];
  });
}
