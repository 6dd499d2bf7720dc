/**
 * Resolves the secrets of a command line (D-85): from standard input for `-`, or from the environment. Other processes
 * can read command-line arguments, but not these sources.
 */
import type { Command, RawInput } from "./command.ts";
import type { EnvironmentName, System } from "../context.ts";
import { CliError } from "../errors.ts";

/** Far above every secret. */
const MAX_SECRET_BYTES = 64 * 1024;

interface Wanted {
  /** The name in messages: `--api-key`, `<code>`. */
  what: string;
  given: string | undefined;
  env: EnvironmentName | undefined;
  required: boolean;
  take(value: string): void;
}

/**
 * Fills in the secrets that are not on the command line.
 *
 * @throws {CliError} `CLI_USAGE` when a required secret is missing, or two would come from standard input
 */
export async function resolveSecrets(world: Pick<System, "stdin" | "env">, command: Command, input: RawInput) {
  let stdinIsFor: string | null = null;
  for (const { what, given, env, required, take } of wantedSecrets(command, input)) {
    if (given === "-") {
      if (stdinIsFor !== null) {
        throw new CliError("CLI_USAGE", `Standard input can be ${stdinIsFor} or ${what}, not both`);
      }
      stdinIsFor = what;
      const value = new TextDecoder().decode(await world.stdin(MAX_SECRET_BYTES)).trim();
      if (value === "") throw new CliError("CLI_USAGE", `Standard input is empty; expected ${what}`);
      take(value);
    } else if (given === undefined) {
      const value = env === undefined ? undefined : world.env(env);
      if (value !== undefined) take(value);
      else if (required) {
        const how = env === undefined ? "" : `, set ${env},`;
        throw new CliError("CLI_USAGE", `${what} is missing: give it${how} or give - and pipe it to standard input`);
      }
    }
  }
}

function wantedSecrets(command: Command, { args, options }: RawInput): Wanted[] {
  const wanted: Wanted[] = [];
  for (const [name, { secret, optional }] of Object.entries(command.args)) {
    if (!secret) continue;
    const take = (value: string) => void (args[name] = value);
    wanted.push({ what: `<${name}>`, given: single(args[name]), env: secret.env, required: !optional, take });
  }
  for (const [name, { secret, env, required }] of Object.entries(command.options)) {
    if (!secret) continue;
    const take = (value: string) => void (options[name] = value);
    wanted.push({
      what: `--${name}`,
      given: single(options[name]),
      env,
      required: required === true,
      take,
    });
  }
  return wanted;
}

/** A secret is never repeated. */
function single(given: RawInput["options"][string]): string | undefined {
  return typeof given === "string" ? given : undefined;
}
