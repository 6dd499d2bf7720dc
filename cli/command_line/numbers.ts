/** Numbers of the command line: decimal digits within bounds, nothing else. */
import { CliError } from "../errors.ts";

/**
 * Returns an integer from 1 to `max`.
 *
 * @param what the option or argument in messages: `--limit`
 * @throws {CliError} `CLI_USAGE`
 */
export function parseCount(text: string, what: string, max: number): number {
  const count = /^[1-9]\d{0,15}$/.test(text) ? Number(text) : NaN;
  if (count <= max) return count;
  throw new CliError("CLI_USAGE", `${what} must be an integer from 1 to ${max}, not "${text}"`);
}
