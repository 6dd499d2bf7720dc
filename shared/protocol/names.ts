/**
 * The names that people choose: agents (D-05), display names (D-06), frameworks (D-07).
 * One function each for registry, proxy and CLI. An agent's name is also a directory on its owner's machine.
 */
import { LIMITS } from "./limits.ts";

const AGENT_NAME = /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?$/;
const WINDOWS_DEVICE = /^(?:con|prn|aux|nul|com[0-9]|lpt[0-9]|conin\$|conout\$)(?:\.|$)/i;
// deno-lint-ignore no-control-regex
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/;
const BIDI = /[\u202a-\u202e\u2066-\u2069]/;

/** The framework label of an agent that names none (D-07). */
export const DEFAULT_FRAMEWORK = "generic";

/** True for a name an agent may carry. */
export function isAgentName(value: unknown): value is string {
  return typeof value === "string" && AGENT_NAME.test(value) && !value.includes("..") &&
    !WINDOWS_DEVICE.test(value);
}

/** Trims a display name (1 to 64 code points, no control or bidi characters), or gives `null`. */
export function parseDisplayName(value: unknown): string | null {
  return parseText(value, LIMITS.displayName, BIDI);
}

/** Trims a framework label (1 to 32 code points, no control characters), or gives `null`. */
export function parseFramework(value: unknown): string | null {
  return parseText(value, LIMITS.framework);
}

function parseText(value: unknown, maxCodePoints: number, banned?: RegExp): string | null {
  // Four UTF-16 units a code point is more than there are: bounds the work on hostile input.
  if (typeof value !== "string" || value.length > maxCodePoints * 4) return null;
  if (CONTROL.test(value) || banned?.test(value) || !value.isWellFormed()) return null;
  const trimmed = value.trim();
  const length = [...trimmed].length;
  return length >= 1 && length <= maxCodePoints ? trimmed : null;
}
