/** Compares values of configuration files. */
import { CONNECTOR_LIMITS } from "../connector/limits.ts";

/**
 * Returns true when two values of JSON or TOML are equal; the order of members does not matter. Values that are nested
 * deeper than `hostFileDepth` are not equal, so that no file exhausts the stack.
 */
export function isSame(a: unknown, b: unknown, depth: number = CONNECTOR_LIMITS.hostFileDepth): boolean {
  if (Object.is(a, b)) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null || depth === 0) return false;
  if (a instanceof Date || b instanceof Date) {
    // A date of TOML writes itself as its file does: date only, time only, or with its offset.
    return a instanceof Date && b instanceof Date && a.toISOString() === b.toISOString();
  }
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length &&
    keys.every((key) => Object.hasOwn(b, key) && isSame(memberOf(a, key), memberOf(b, key), depth - 1));
}

function memberOf(value: object, key: string): unknown {
  return (value as Record<string, unknown>)[key];
}
