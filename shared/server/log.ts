/**
 * One function that logs: one JSON object per line, values redacted by the name of their member.
 * Never called for an accepted message.
 */
import type { Clock } from "../clock.ts";
import { toIso } from "../protocol/time.ts";

/** How much it matters. */
export type Level = "info" | "warn" | "error";

/** Writes a line about an event; `fields` are its facts. */
export type Log = (level: Level, event: string, fields?: Record<string, unknown>) => void;

const SECRET_NAME = /secret|token|ticket|password|authorization|proof|privatekey|seed|signature|ait$|code$|access$/i;
/** What is secret wherever it stands: somebody may have put it into a path. */
const SECRET_VALUE = /svc_(?:pat|agt|rft|srv|inv)_|svcpair1_|eyJ[\w-]+\./;
const SECRET_VALUES = /(?:svc_(?:pat|agt|rft|srv|inv)_|svcpair1_|eyJ[\w-]+\.)[\w.~%-]*/g;
/** Members whose names look secret and whose values are not. */
const PLAIN_NAMES = new Set(["code", "errorCode", "statusCode"]);

/** A log that writes lines through `write`. */
export function jsonLog(clock: Clock, service: string, write: (line: string) => void): Log {
  return (level, event, fields = {}) => {
    const line = JSON.stringify({ ts: toIso(clock.now()), level, service, event, ...fields }, redact);
    write(line.replace(UNPRINTABLE, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`));
  };
}

/** What JSON leaves as it is and a terminal or a line reader acts on. */
const UNPRINTABLE = /[\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** Says nothing. */
export const silentLog: Log = () => {};

function redact(name: string, value: unknown): unknown {
  if (value instanceof Error) return { name: value.name, message: value.message, cause: value.cause };
  if (typeof value === "bigint") return String(value);
  if (typeof value !== "string" || value === "") return value;
  if (SECRET_VALUE.test(value)) return value.replaceAll(SECRET_VALUES, "[redacted]");
  return SECRET_NAME.test(name) && !PLAIN_NAMES.has(name) ? "[redacted]" : value;
}
