/** The name of a person or of an API key, as a person gives it. */
import { CliError } from "../errors.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { parseDisplayName } from "../../shared/protocol/names.ts";

/** Returns the trimmed name. @param what names the option or key in the error @throws {CliError} `CLI_USAGE` */
export function requireDisplayName(text: string, what: string): string {
  const name = parseDisplayName(text);
  if (name !== null) return name;
  throw new CliError("CLI_USAGE", `${what} must be 1 to ${LIMITS.displayName} characters of text`);
}
