/**
 * The command record: the data that parser, help, completions, did-you-mean and docs/cli.md need, and the function that
 * runs the command. commands/table.ts lists the commands.
 */
import type { Context, EnvironmentName } from "../context.ts";

export interface ArgSpec {
  summary: string;
  optional?: true;
  secret?: true;
  /** The environment variable to read when the secret is not given. */
  env?: EnvironmentName;
  /** What shell completion offers. With `agents` the word must be a valid agent name. */
  complete?: Completion;
  /** With `complete: "agents"`: the word may also be an agent's ID or DID. */
  orId?: true;
  /** Only for the last argument: it may be given several times, and with `optional` also not at all. */
  repeat?: true;
}

/** A named option. Without `value` it is a switch. */
export interface OptionSpec {
  summary: string;
  /** Placeholder of the value in help texts, for example `url` or `timestamp`. */
  value?: string;
  required?: true;
  repeat?: true;
  /** The environment variable with the same meaning, which help shows. The command reads it, unless `secret` is set. */
  env?: EnvironmentName;
  /** Marks a secret. The caller of the parser reads it from `env`, or from standard input when the value is `-`. */
  secret?: true;
  complete?: Completion;
}

/** Words that shell completion offers: fixed ones, the agents here, aliases of their peers, or file names. */
export type Completion = readonly string[] | "agents" | "peers" | "files";

type Args = Readonly<Record<string, ArgSpec>>;
type Options = Readonly<Record<string, OptionSpec>>;

/** The parsed input of a command. An option that is not given is `undefined`; a switch is `false`. */
export interface Input<A extends Args = Args, O extends Options = Options> {
  args: {
    [K in keyof A]: A[K] extends { repeat: true } ? string[]
      : A[K] extends { optional: true } ? string | undefined
      : string;
  };
  options: {
    [K in keyof O]: O[K] extends { value: string }
      ? O[K] extends { repeat: true } ? string[] : O[K] extends { required: true } ? string : string | undefined
      : boolean;
  };
}

/** The definition of a command, with the types of its own arguments and options. */
export interface CommandSpec<A extends Args, O extends Options> {
  /** The words of the command, for example `["agent", "create"]`. */
  path: readonly string[];
  /** Imperative, without a full stop, at most 80 characters, because a list of commands shows it on one line. */
  summary: string;
  details?: readonly string[];
  args?: A;
  options?: O;
  /** Example command lines, each with its purpose. */
  examples: Readonly<Record<string, string>>;
  /** Runs the command. Returns the exit code when that is not 0 and nothing is thrown. */
  run(ctx: Context, input: Input<A, O>): Promise<number | void> | number | void;
}

/** A command in the table. The types of its input are erased here; `command()` ensures that they match. */
export interface Command extends Omit<CommandSpec<Args, Options>, "run" | "args" | "options"> {
  args: Args;
  options: Options;
  run(ctx: Context, input: RawInput): Promise<number | void> | number | void;
}

/** One sentence for each group of commands; the key is the common start of their paths. */
export type Groups = Readonly<Record<string, string>>;

export interface RawInput {
  args: Record<string, string | string[] | undefined>;
  options: Record<string, string | string[] | boolean | undefined>;
}

/** Defines a command. The input type of `run` follows from `args` and `options`. */
export function command<
  const A extends Args = Record<never, ArgSpec>,
  const O extends Options = Record<never, OptionSpec>,
>(spec: CommandSpec<A, O>): Command {
  return { args: {}, options: {}, ...spec, run: (ctx, input) => spec.run(ctx, input as Input<A, O>) };
}

export const GLOBAL_OPTIONS = {
  json: { summary: "Print the result, or the error, as JSON" },
  wide: { summary: "Print tables with all columns and whole values" },
  "config-dir": {
    value: "dir",
    summary: "Directory for configuration and agent files",
    env: "SVC_CONFIG_DIR",
    complete: "files",
  },
  profile: {
    value: "name",
    summary: "Profile: a configuration folder of its own below that directory",
    env: "SVC_PROFILE",
  },
  ca: {
    value: "file",
    summary: "File with additional certificate authorities to trust (PEM)",
    env: "SVC_CA",
    complete: "files",
  },
  help: { summary: "Show help" },
} as const satisfies Options;

/** Options of every command that sends requests to the registry. */
export const REGISTRY_OPTIONS = {
  "registry-url": { value: "url", summary: "Registry URL", env: "SVC_REGISTRY_URL" },
  "allow-insecure": { summary: "Allow plain http to another machine" },
} as const satisfies Options;

/** Options of every command that needs a person's API key. */
export const PERSON_OPTIONS = {
  ...REGISTRY_OPTIONS,
  "api-key": { value: "key", summary: "API key", env: "SVC_API_KEY", secret: true },
} as const satisfies Options;

export const AGENT_ARG = {
  summary: "Agent name on this machine; optional if there is only one agent",
  optional: true,
  complete: "agents",
} as const;

/** The agent of a command about messages; `chosenAgent` reads it. */
export const AGENT_OPTION = {
  agent: { value: "name", summary: AGENT_ARG.summary, env: "SVC_AGENT", complete: "agents" },
} as const satisfies Options;

/** An argument or option of a command, with the record that holds its value. */
export interface InputPlace {
  /** As texts show it: `<name>`, `--name`. */
  what: string;
  name: string;
  spec: ArgSpec | OptionSpec;
  values: RawInput["options"];
  isRequired: boolean;
}

export function inputPlaces({ args, options }: Command, input: RawInput): InputPlace[] {
  const places: InputPlace[] = [];
  for (const [name, spec] of Object.entries(args)) {
    places.push({ what: `<${name}>`, name, spec, values: input.args, isRequired: !spec.optional });
  }
  for (const [name, spec] of Object.entries(options)) {
    places.push({ what: `--${name}`, name, spec, values: input.options, isRequired: spec.required === true });
  }
  return places;
}

export function beginsWith(path: readonly string[], words: readonly string[]): boolean {
  return words.every((word, i) => path[i] === word);
}

/** Returns the usage line with required options. Secret options are left out, because the environment may give them. */
export function usageOf({ path, args, options }: Pick<Command, "path" | "args" | "options">): string {
  const shown = Object.entries(args).map(([name, { optional, repeat }]) =>
    (optional ? `[${name}]` : `<${name}>`) + (repeat ? "…" : "")
  );
  const needed = Object.entries(options).filter(([, { required, secret }]) => required && !secret);
  return ["svc", ...path, ...shown, ...needed.map(([name, { value }]) => `--${name} <${value}>`)].join(" ");
}
