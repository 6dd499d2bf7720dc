/**
 * Reads the secrets that are not on the command line: from standard input for `-`, else from the environment. A command
 * line is no place for them, because other processes can read it.
 */
import { type Command, inputPlaces, type RawInput } from "./command.ts";
import type { System } from "../context.ts";
import { CliError } from "../errors.ts";
import type { Output } from "../terminal/output.ts";

/** Far longer than any secret. Without a bound, a wrong file on standard input would fill the memory. */
const MAX_SECRET_BYTES = 64 * 1024;

/**
 * Puts the secrets into the input of a command.
 *
 * @throws {CliError} `CLI_USAGE` when a required secret is missing, or two would come from standard input
 */
export async function resolveSecrets(
  world: Pick<System, "stdin" | "stdinIsTerminal" | "env">,
  out: Output,
  command: Command,
  input: RawInput,
) {
  let stdinIsFor: string | null = null;
  for (const { what, name, spec: { secret, env }, values, isRequired } of inputPlaces(command, input)) {
    if (!secret) continue;
    if (values[name] === "-") {
      if (stdinIsFor !== null) {
        throw new CliError("CLI_USAGE", `Standard input can be ${stdinIsFor} or ${what}, not both`);
      }
      stdinIsFor = what;
      if (world.stdinIsTerminal) out.note(`Paste ${what} here, then press Enter and Ctrl-D.`);
      values[name] = new TextDecoder().decode(await world.stdin(MAX_SECRET_BYTES)).trim();
      if (values[name] === "") throw new CliError("CLI_USAGE", `Standard input is empty; expected ${what}`);
    } else if (values[name] === undefined) {
      values[name] = env === undefined ? undefined : world.env(env);
      if (values[name] !== undefined || !isRequired) continue;
      const how = env === undefined ? "" : `, set ${env},`;
      throw new CliError("CLI_USAGE", `${what} is missing: give it${how} or give - and pipe it to standard input`);
    }
  }
}
