/** docs/cli.md, from the command table. */
import {
  AGENT_OPTION,
  type Command,
  GLOBAL_OPTIONS,
  type Groups,
  type OptionSpec,
  PERSON_OPTIONS,
  usageOf,
} from "../../cli/command_line/command.ts";
import { byGroup, EXIT_CODES, optionRows, STANDARD_INPUT } from "../../cli/command_line/help.ts";

/** Options that so many commands take that docs/cli.md explains them once. */
const SHARED_OPTIONS: Readonly<Record<string, OptionSpec>> = { ...PERSON_OPTIONS, ...AGENT_OPTION };

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
    "*Also* names what an earlier command of this page explains. A command that calls a service may also have these",
    "options, as its `--help` says:",
    "",
    ...bullets(optionRows(SHARED_OPTIONS)),
    "",
    `Exit codes: ${EXIT_CODES}.`,
    `${STANDARD_INPUT} With \`--json\`, an error is \`{"error":{"code","message"}}\` on standard error. The result of a check, or of a message, is on standard output also where the exit code is not 0: its \`healthy\`, \`ready\`, \`valid\`, \`state\`, \`problem\` or \`error\` says why.`,
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
