/**
 * The command record: everything that parsing, help, completions, did-you-mean and docs/cli.md need to know about a
 * command, and the function that carries it out. Knows no command; commands/table.ts lists them.
 */
import type { Context, EnvironmentName } from "../context.ts";

/** An argument by its place. */
export interface ArgSpec {
  summary: string;
  optional?: true;
  /** A secret may come from this variable, or be `-`: standard input. */
  secret?: { env?: EnvironmentName };
  /** What a shell offers here. `agents` also means that the word must be the name of an agent. */
  complete?: Completion;
  /** With `complete: "agents"`: the word may also be an agent's ID or DID. */
  orId?: true;
}

/** An option by its name. Without `value` it is a switch. */
export interface OptionSpec {
  summary: string;
  /** Placeholder of the value: `url`, `timestamp`. */
  value?: string;
  required?: true;
  /** May be given more than once. */
  repeat?: true;
  /** The variable that stands in for it; where it is resolved is the command's business. */
  env?: EnvironmentName;
  /** A secret: `env` is read for it, and `-` means standard input. */
  secret?: true;
  /** As in `ArgSpec`. */
  complete?: Completion;
}

/** Words that a shell can offer: fixed ones, or the agents of this machine. */
export type Completion = readonly string[] | "agents" | "files";

/** A worked example, as it is typed, and what it does. */
export interface Example {
  run: string;
  purpose: string;
}

type Args = Readonly<Record<string, ArgSpec>>;
type Options = Readonly<Record<string, OptionSpec>>;

/** What a command is called with. Options that were not given are `undefined`; switches are always there. */
export interface Input<A extends Args = Args, O extends Options = Options> {
  args: { [K in keyof A]: A[K] extends { optional: true } ? string | undefined : string };
  options: {
    [K in keyof O]: O[K] extends { value: string }
      ? O[K] extends { repeat: true } ? string[] : O[K] extends { required: true } ? string : string | undefined
      : boolean;
  };
}

/** A command as it is written down. */
export interface CommandSpec<A extends Args, O extends Options> {
  /** `["agent", "create"]` */
  path: readonly string[];
  /** One line, without a full stop. */
  summary: string;
  /** More lines of help. */
  details?: readonly string[];
  args: A;
  options: O;
  examples: readonly Example[];
  /** Carries it out; the exit code, where it is not 0 without an error. */
  run(ctx: Context, input: Input<A, O>): Promise<number | void>;
}

/** A command as the table lists it: its input is what its own specs say, which only `command` can know. */
export interface Command extends Omit<CommandSpec<Args, Options>, "run"> {
  run(ctx: Context, input: RawInput): Promise<number | void>;
}

/** One sentence on each group of commands, by the words that they share. */
export type Groups = Readonly<Record<string, string>>;

/** Input as the parser makes it. */
export interface RawInput {
  args: Record<string, string | undefined>;
  options: Record<string, string | string[] | boolean | undefined>;
}

/** Writes a command down; the types of `run`'s input follow from its specs. */
export function command<const A extends Args, const O extends Options>(spec: CommandSpec<A, O>): Command {
  return { ...spec, run: (ctx, input) => spec.run(ctx, input as Input<A, O>) };
}

/** Options that every command has. */
export const GLOBAL_OPTIONS = {
  json: { summary: "Print the result, or the error, as JSON" },
  "config-dir": { value: "dir", summary: "Keep files there", env: "SVC_CONFIG_DIR", complete: "files" },
  ca: {
    value: "file",
    summary: "Trust the authorities in this file (PEM) as well",
    env: "SVC_CA",
    complete: "files",
  },
  help: { summary: "Show how it is used" },
} as const satisfies Options;

/** Options of every command that asks the registry. */
export const REGISTRY_OPTIONS = {
  "registry-url": { value: "url", summary: "The registry to ask", env: "SVC_REGISTRY_URL" },
  "allow-insecure": { summary: "Allow plain http to another machine" },
} as const satisfies Options;

/** Options of every command that asks the registry in a person's name. */
export const PERSON_OPTIONS = {
  ...REGISTRY_OPTIONS,
  "api-key": { value: "key", summary: "The API key to use", env: "SVC_API_KEY", secret: true },
} as const satisfies Options;

/** How a command is typed, with the options that must be given. A secret may also come from elsewhere. */
export function usageOf({ path, args, options }: Pick<Command, "path" | "args" | "options">): string {
  const shown = Object.entries(args).map(([name, { optional }]) => optional ? `[${name}]` : `<${name}>`);
  const needed = Object.entries(options).filter(([, { required, secret }]) => required && !secret);
  return ["svc", ...path, ...shown, ...needed.map(([name, { value }]) => `--${name} <${value}>`)].join(" ");
}
