/**
 * Checks agent names from user input before a path is built from them, because a name such as `../x` would leave the
 * folder of agents.
 */
import { isAgentDid } from "../../shared/protocol/did.ts";
import { isUlid } from "../../shared/protocol/ids.ts";
import { isAgentName } from "../../shared/protocol/names.ts";
import type { Command, RawInput } from "../command_line/command.ts";
import { CliError } from "../errors.ts";

const RULE = "1 to 64 of A-Z, a-z, 0-9, ., _ and -, first and last a letter or digit";

/** Returns the name if it is valid. @throws {CliError} `CLI_USAGE` */
export function requireAgentName(text: string): string {
  if (isAgentName(text)) return text;
  throw new CliError("CLI_USAGE", `"${text}" is not an agent name: ${RULE}`);
}

/** Returns a name, an agent ID or an agent DID. @throws {CliError} `CLI_USAGE` */
export function requireAgentReference(text: string): string {
  return isUlid(text) || isAgentDid(text) ? text : requireAgentName(text);
}

/** Checks all words of a command line that name an agent. @throws {CliError} `CLI_USAGE` */
export function checkAgentWords({ args, options }: Command, input: RawInput): void {
  for (const [name, { complete, orId }] of Object.entries(args)) {
    if (complete !== "agents") continue;
    for (const word of [input.args[name] ?? []].flat()) {
      if (orId) requireAgentReference(word);
      else requireAgentName(word);
    }
  }
  for (const [name, { complete }] of Object.entries(options)) {
    const word = input.options[name];
    if (complete === "agents" && typeof word === "string") requireAgentName(word);
  }
}
