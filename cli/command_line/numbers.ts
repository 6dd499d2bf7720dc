/** Numbers, durations, ports, IDs and known words of the command line. */
import { didYouMean } from "../../shared/did_you_mean.ts";
import { isUlid } from "../../shared/protocol/ids.ts";
import { CliError } from "../errors.ts";
import { idEnd } from "../terminal/tables.ts";

const UNIT_MS = { min: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/**
 * Returns a duration such as `30min`, `12h` or `7d` in milliseconds.
 *
 * @param what the option as messages name it: `--offline-for`
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
 * @param what the option or argument as messages name it: `--limit`
 * @throws {CliError} `CLI_USAGE`
 */
export function parseCount(text: string, what: string, max: number): number {
  const count = integerIn(text);
  if (count <= max) return count;
  throw new CliError("CLI_USAGE", `${what} must be an integer from 1 to ${max}, not "${text}"`);
}

/** Returns the names of a list with commas; `null` when none is given. @throws {CliError} `CLI_USAGE` */
export function parseNames(list: string | undefined, what: string, max: number): string[] | null {
  if (list === undefined) return null;
  const names = list.split(",").map((name) => name.trim());
  if (names.length <= max && names.every((name) => name !== "")) return names;
  throw new CliError("CLI_USAGE", `${what} takes 1 to ${max} names, separated by commas`);
}

/** Returns the number of a message of the inbox. @throws {CliError} `CLI_USAGE` with the fix */
export function parseMessageNumber(text: string, fix: string): number {
  const number = integerIn(text);
  if (number <= Number.MAX_SAFE_INTEGER) return number;
  throw new CliError("CLI_USAGE", `"${text}" is not the number of a message`, { fix });
}

function integerIn(text: string): number {
  return /^[1-9]\d{0,15}$/.test(text) ? Number(text) : NaN;
}

/** Returns a port from 1 to 65535; `undefined` when none is given. @throws {CliError} `CLI_USAGE` */
export function parsePort(text: string | undefined, what: string): number | undefined {
  if (text === undefined) return undefined;
  const port = /^\d{1,5}$/.test(text) ? Number(text) : NaN;
  if (port >= 1 && port <= 65_535) return port;
  throw new CliError("CLI_USAGE", `${what} must be a number from 1 to 65535, not "${text}"`);
}

interface IdKind {
  /**
   * Words for messages: the ID with its article (`an invite ID`), the thing that has it (`invite`), and the command
   * that lists such IDs (`svc invite list`).
   */
  what: string;
  named: string;
  list: string;
  /** Tells whether the text is a whole ID (default: whether it is a ULID). */
  isWhole?(text: string): boolean;
}

/**
 * Returns the text if it is an ID, and otherwise the one known ID that ends in it. `known` is called only for the end of
 * an ID, because it costs a request.
 *
 * @throws {CliError} `CLI_USAGE` for another text, `CLI_AMBIGUOUS` when several IDs end in it
 */
export async function wholeId(
  text: string,
  known: () => Promise<readonly { id: string }[]>,
  { what, named, list, isWhole = isUlid }: IdKind,
): Promise<string> {
  if (isWhole(text)) return text;
  const end = idEnd(text);
  const fitting = end === null
    ? []
    : [...new Set((await known()).map(({ id }) => id))].filter((id) => id.endsWith(end));
  const [first, second] = fitting;
  if (first !== undefined && second === undefined) return first;
  if (first !== undefined) throw new CliError("CLI_AMBIGUOUS", `Several IDs end in ${end}: ${fitting.join(", ")}`);
  const problem = end === null ? `"${text}" is not ${what} or the end of one` : `No ${named} ends in ${end}`;
  throw new CliError("CLI_USAGE", problem, { fix: `Run ${list} to see them, or give a whole ID.` });
}

/** Returns the text if it is one of the known words. @throws {CliError} `CLI_USAGE` */
export function oneOf<T extends string>(known: readonly T[], text: string, what: string, all = "Known:"): T {
  const found = known.find((one) => one === text);
  if (found !== undefined) return found;
  const hint = didYouMean(text, known) || ` ${all} ${known.join(", ")}.`;
  throw new CliError("CLI_USAGE", `There is no ${what} "${text}".${hint}`);
}

/** Returns the value of an option or setting that takes one of some words. @throws {CliError} `CLI_USAGE` */
export function parseWord<T extends string>(known: readonly T[], text: string, name: string): T {
  const found = known.find((one) => one === text);
  if (found !== undefined) return found;
  throw new CliError("CLI_USAGE", `${name} is one of ${known.join(", ")}, not "${text}"`);
}
