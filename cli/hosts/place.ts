/** Where an entry of svc stands in a configuration file, why a file is not changed, and when two values are equal. */
import { CONNECTOR_LIMITS } from "../connector/limits.ts";

export const BYTE_ORDER_MARK = "\ufeff";

/** A member of nested objects, or an element of an array in them. */
export interface Place {
  /** Names of the objects from the outermost one. The last name is that of the entry, or of the array that holds it. */
  path: readonly string[];
  /** Returns true for the entry in the array that `path` names. Absent: the entry is a member. */
  isEntry?: (element: unknown) => boolean;
}

export interface Found {
  /** The entry; `undefined` when there is none. */
  entry: unknown;
  /** How many of the objects and arrays around the entry do not exist yet. */
  missing: number;
}

/** Reads and changes the entry in one kind of file. Everything else in the text stays as it is. */
export interface TextEditor {
  /** Looks for the entry. @throws {NotEditableError} when the text is not valid, or nested too deep */
  find(text: string, place: Place): Found;
  /** Returns the text with the entry, which replaces the present one. @throws {NotEditableError} */
  withEntry(text: string, place: Place, value: object): string;
  /**
   * @param made how many of the innermost objects around the entry are removed too if nothing else is in them
   * @throws {NotEditableError}
   */
  withoutEntry(text: string, place: Place, made: number): string;
  /** The entry as the part of a file that a person can paste. */
  fragment(place: Place, value: object): string;
}

/** Thrown when a file is not changed. The message completes "the file cannot be changed: ". */
export class NotEditableError extends Error {
  override name = "NotEditableError";
}

/**
 * Returns true when two values of JSON or TOML are equal; the order of members does not matter. Values that are nested
 * deeper than `hostFileDepth` count as different, because comparing them could exhaust the stack.
 */
export function isSame(a: unknown, b: unknown, depth: number = CONNECTOR_LIMITS.hostFileDepth): boolean {
  if (Object.is(a, b)) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null || depth === 0) return false;
  if (a instanceof Date || b instanceof Date) {
    // For a date of TOML, `toISOString` keeps the form of the file: date only, time only, or with its offset.
    return a instanceof Date && b instanceof Date && a.toISOString() === b.toISOString();
  }
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const [one, other] = [a, b] as [Record<string, unknown>, Record<string, unknown>];
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length &&
    keys.every((key) => Object.hasOwn(b, key) && isSame(one[key], other[key], depth - 1));
}
