/** Numbers of the command line: decimal digits within bounds, nothing else. */
import { CliError } from "../errors.ts";

const UNIT_MS = { min: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/**
 * Returns a duration such as `30min`, `12h` or `7d` in milliseconds.
 *
 * @param what the option in messages: `--offline-for`
 * @throws {CliError} `CLI_USAGE`
 */
export function parseDuration(text: string, what: string): number {
  const [, count, unit] = /^([1-9]\d{0,3})(min|h|d)$/.exec(text) ?? [];
  if (unit === undefined) throw new CliError("CLI_USAGE", `${what} must be a time such as 30min, 12h or 7d`);
  return Number(count) * UNIT_MS[unit as keyof typeof UNIT_MS];
}

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
