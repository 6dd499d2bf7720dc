/**
 * Parses a command line into a command and its input. An unknown word is refused, and the nearest known one is
 * suggested. Environment and standard input are not read here but in secrets.ts.
 */
import { beginsWith, type Command, GLOBAL_OPTIONS, type OptionSpec, type RawInput, usageOf } from "./command.ts";
import { CliError } from "../errors.ts";
import { didYouMean } from "../../shared/did_you_mean.ts";

/** Options of every command that say where its files are and what it trusts. */
export interface HereOptions {
  configDir: string | undefined;
  profile: string | undefined;
  ca: string | undefined;
}

export type Parsed =
  | { kind: "run"; command: Command; input: RawInput; here: HereOptions }
  | { kind: "help"; path: readonly string[] }
  | { kind: "version" };

/**
 * Words in which an unknown command is looked for, more than any command has. With all of them, the many files of a
 * folder behind a mistyped command would take minutes.
 */
const TYPED_MAX = 10;

/** Finds the command of a command line, and reads its input. @throws {CliError} `CLI_USAGE` */
export function parse(argv: readonly string[], commands: readonly Command[]): Parsed {
  // An option takes a value in all commands or in none, because options are read before the command is known.
  const version: OptionSpec = { summary: "Print the version" };
  const options = Object.assign({ version }, ...commands.map((command) => command.options), GLOBAL_OPTIONS);
  const { flags, words: given, unknown } = readFlags(argv, options);
  // `svc help agent create` is `svc agent create --help`.
  const asksHelp = given[0] === "help";
  const words = asksHelp ? given.slice(1) : given;
  if (flags.version !== undefined && words.length === 0) return { kind: "version" };
  const [found] = commands.filter(({ path }) => beginsWith(words, path)).sort((a, b) => b.path.length - a.path.length);
  const wantsHelp = asksHelp || flags.help !== undefined;
  if (found === undefined) {
    const fix = elsewhere(words[0] ?? "");
    if (fix !== undefined) throw new CliError("CLI_USAGE", `There is no command svc ${words[0]}`, { fix });
    const typed = words.slice(0, TYPED_MAX), group = knownGroup(typed, commands);
    const isKnown = typed.length === group.length;
    if (wantsHelp && (isKnown || !asksHelp)) return { kind: "help", path: group };
    const known = ["version", ...Object.keys(GLOBAL_OPTIONS)];
    const wrong = [...unknown, ...Object.keys(flags)].find((name) => !known.includes(name));
    if (isKnown && wrong !== undefined) {
      throw new CliError("CLI_USAGE", `There is no option --${wrong} here.${didYouMean(wrong, known, "--")}`);
    }
    if (words.length === 0) return { kind: "help", path: [] };
    throw unknownCommand(typed, group, commands);
  }
  if (wantsHelp) return { kind: "help", path: found.path };
  const own: Record<string, OptionSpec> = { ...found.options, ...GLOBAL_OPTIONS };
  const wrong = [...unknown, ...Object.keys(flags)].find((name) => !Object.hasOwn(own, name));
  if (wrong !== undefined) {
    const hint = "text" in found.args ? " Put -- before a text that begins with a hyphen." : "";
    throw usage(found, `There is no option --${wrong}.${didYouMean(wrong, Object.keys(own), "--") || hint}`);
  }
  for (const [name, { length }] of Object.entries(flags)) {
    if (length <= 1 || own[name]?.value === undefined || own[name].repeat) continue;
    throw new CliError("CLI_USAGE", `--${name} is given more than once`);
  }
  const here = { configDir: flags["config-dir"]?.[0], profile: flags.profile?.[0], ca: flags.ca?.[0] };
  const args = namedArgs(found, words.slice(found.path.length), commands);
  return { kind: "run", command: found, here, input: { args, options: ownOptions(found, flags) } };
}

/** The fix for words that people try as commands, although svc does the thing in another way. */
const ELSEWHERE = {
  "pair, pairing, confirm, ticket":
    "A person pairs with the keys of svc connector start <agent>; svc connector <agent> prints the lines for a program.",
  "rename, block, unblock, unpair, part, contacts":
    "svc peers lists the peers, and its help how to rename, block and remove one: svc peers --help.",
  "leave, logout, quit":
    "svc agent delete <agent> ends an agent, svc uninstall --purge removes what svc keeps on this machine.",
  "connector stop":
    "q or Ctrl-C in its terminal stops a connector; svc connector service uninstall <agent> stops one that runs as a service.",
  "version": "svc --version prints the version.",
};

/** Returns how svc does what a person tried with a command that does not exist. */
export function elsewhere(typed: string): string | undefined {
  return Object.entries(ELSEWHERE).find(([tried]) => tried.split(", ").includes(typed))?.[1];
}

/** Returns true when a switch of every command is given, even if the command line is otherwise invalid. */
export function hasSwitch(argv: readonly string[], name: "json" | "wide"): boolean {
  const end = argv.indexOf("--");
  return argv.slice(0, end === -1 ? argv.length : end).includes(`--${name}`);
}

/** Separates words and options. The values of each option are listed by its name; a switch has the empty text. */
function readFlags(argv: readonly string[], options: Record<string, OptionSpec>) {
  const flags: Record<string, string[]> = {}, words: string[] = [], unknown: string[] = [];
  for (let i = 0; i < argv.length; i++) {
    const arg = argv[i] ?? "", next = argv[i + 1];
    if (arg === "--") return { flags, words: [...words, ...argv.slice(i + 1)], unknown };
    // A text such as "- one thing" is a word, because no option has a space in its name.
    const [, name, given] = arg === "-h" ? [arg, "help"] : /^--?([^=\s]+)(?:=(.*))?$/s.exec(arg) ?? [];
    const option = name !== undefined && Object.hasOwn(options, name) ? options[name] : undefined;
    if (name === undefined) words.push(arg);
    else if (option === undefined) {
      unknown.push(name);
      // Skips its value, because the error would otherwise be about that word and not about the option.
      if (given === undefined && next !== undefined && !next.startsWith("-")) i++;
    } else {
      const takesNext = given === undefined && option.value !== undefined && !(next?.startsWith("--") ?? true);
      const value = takesNext ? argv[++i] ?? "" : given ?? "";
      if (option.value === undefined && value !== "") throw new CliError("CLI_USAGE", `--${name} takes no value`);
      if (option.value !== undefined && value === "") {
        throw new CliError("CLI_USAGE", `--${name} needs a value: ${valueForm(name, option)}`);
      }
      (flags[name] ??= []).push(value);
    }
  }
  return { flags, words, unknown };
}

function valueForm(name: string, { secret }: OptionSpec): string {
  const usual = `--${name} <value>`;
  return secret ? `${usual}, --${name}=<value> for a value that begins with --, or - for standard input` : usual;
}

/** Returns the longest prefix of the words that is a group of commands. */
function knownGroup(words: readonly string[], commands: readonly Command[]): string[] {
  for (let length = words.length; length > 0; length--) {
    const group = words.slice(0, length);
    if (commands.some(({ path }) => beginsWith(path, group))) return group;
  }
  return [];
}

/** The words that can follow these words in a command. */
function wordsBelow(words: readonly string[], commands: readonly Command[]): string[] {
  const { length } = words;
  return commands.filter(({ path }) => beginsWith(path, words)).flatMap(({ path }) => path.slice(length, length + 1));
}

function unknownCommand(words: readonly string[], group: readonly string[], commands: readonly Command[]): CliError {
  const next = new Set(wordsBelow(group, commands));
  const prefix = ["svc", ...group, ""].join(" ");
  const wrong = words[group.length];
  if (wrong === undefined) {
    return new CliError("CLI_USAGE", `${prefix.trimEnd()} is a group of commands; use one of ${[...next].join(", ")}`);
  }
  const near = didYouMean(wrong, next, prefix) || deeper(words, group, commands);
  const fix = near === "" ? `For its commands: ${prefix}--help` : undefined;
  return new CliError("CLI_USAGE", `There is no command ${prefix}${wrong}.${near}`, { fix });
}

/** Suggests a command that has the words further behind: `svc provider doctor` for `svc doctor`. */
function deeper(words: readonly string[], group: readonly string[], commands: readonly Command[]): string {
  const typed = words.slice(group.length);
  for (let length = typed.length; length > 0; length--) {
    const wanted = typed.slice(0, length);
    const found = commands.filter(({ path }) => beginsWith(path, group)).flatMap(({ path }) => {
      const at = path.findIndex((_, i) => i > group.length && beginsWith(path.slice(i), wanted));
      return at === -1 ? [] : ["svc " + path.slice(0, at + length).join(" ")];
    });
    const [only, ...others] = new Set(found);
    if (only !== undefined) return others.length === 0 ? ` Did you mean ${only}?` : "";
  }
  return "";
}

function namedArgs(command: Command, words: readonly string[], commands: readonly Command[]): RawInput["args"] {
  const specs = Object.entries(command.args);
  const isOpen = specs.at(-1)?.[1].repeat === true;
  if (words.length > specs.length && !isOpen) {
    const below = wordsBelow(command.path, commands);
    const hint = didYouMean(words[0] ?? "", below, ["svc", ...command.path, ""].join(" "));
    // If an argument is a secret, any word may be that secret, so the error must not show it.
    const what = specs.some(([, { secret }]) => secret) ? "There" : `"${words[specs.length]}"`;
    const fix = elsewhere([...command.path, words[0]].join(" "));
    if (fix !== undefined) throw new CliError("CLI_USAGE", `${what} is an extra argument.`, { fix });
    const quoting = "text" in command.args ? " Put a text of several words in quotation marks." : "";
    throw usage(command, `${what} is an extra argument.${hint || quoting}`);
  }
  return Object.fromEntries(specs.map(([name, { optional, env, repeat }], i) => {
    const word = words[i];
    if (word === undefined && !optional && env === undefined) throw usage(command, `<${name}> is missing.`);
    return [name, repeat ? words.slice(i) : word];
  }));
}

function ownOptions(command: Command, flags: Record<string, string[]>): RawInput["options"] {
  return Object.fromEntries(
    Object.entries(command.options).map(([name, { value, repeat, required, secret }]) => {
      const given = flags[name];
      if (value === undefined) return [name, given !== undefined];
      if (given === undefined && required && !secret) throw usage(command, `--${name} <${value}> is missing.`);
      return [name, repeat ? given ?? [] : given?.[0]];
    }),
  );
}

function usage(command: Command, problem: string): CliError {
  return new CliError("CLI_USAGE", problem, { fix: `Usage: ${usageOf(command)} [options]; for details add --help` });
}
