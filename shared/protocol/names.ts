/**
 * Names that people choose: for agents, for people and for frameworks. Control and bidirectional characters are
 * refused, because with them one name can look like another. The name of an agent is also a directory on its owner's
 * machine.
 */
import { LIMITS } from "./limits.ts";

const AGENT_NAME = /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?$/;
const WINDOWS_DEVICE = /^(?:con|prn|aux|nul|com[0-9]|lpt[0-9]|conin\$|conout\$)(?:\.|$)/i;
// deno-lint-ignore no-control-regex
const CONTROL_OR_BIDI = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/;

/** What an agent name must be, as the end of a sentence for the person who has chosen another one. */
export const AGENT_NAME_RULE = "1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-', first and last a letter or digit, " +
  "without '..', and no name that Windows reserves, such as con or aux";

export const DEFAULT_FRAMEWORK = "generic";

export function isAgentName(value: unknown): value is string {
  return typeof value === "string" && AGENT_NAME.test(value) && !value.includes("..") &&
    !WINDOWS_DEVICE.test(value);
}

/** Returns a trimmed display name (1 to 64 code points, no control or bidi characters), or `null`. */
export function parseDisplayName(value: unknown): string | null {
  return parseText(value, LIMITS.displayName);
}

/** Returns a trimmed framework label (1 to 32 code points, no control or bidi characters), or `null`. */
export function parseFramework(value: unknown): string | null {
  return parseText(value, LIMITS.framework);
}

/** Returns a trimmed reason for the audit log (1 to 200 code points), or `null`. */
export function parseReason(value: unknown): string | null {
  return parseText(value, LIMITS.reason);
}

function parseText(value: unknown, maxCodePoints: number): string | null {
  // A code point has at most two UTF-16 units. Four per code point leave room for white space, and bound the work on
  // hostile input.
  if (typeof value !== "string" || value.length > maxCodePoints * 4) return null;
  if (CONTROL_OR_BIDI.test(value) || !value.isWellFormed()) return null;
  const trimmed = value.trim();
  const length = [...trimmed].length;
  return length >= 1 && length <= maxCodePoints ? trimmed : null;
}
