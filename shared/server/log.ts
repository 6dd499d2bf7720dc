/**
 * The log: one JSON object per line, with secrets redacted. Accepted messages are not logged.
 */
import type { Clock } from "../clock.ts";
import { toIso } from "../protocol/time.ts";

/** Severity of a line. */
export type Level = "info" | "warn" | "error";

/** Writes a line about an event with its fields. */
export type Log = (level: Level, event: string, fields?: Record<string, unknown>) => void;

const SECRET_NAME = /secret|token|ticket|password|authorization|proof|privatekey|seed|signature|ait$|code$|access$/i;
/** Prefixes of secrets, searched in every member: a client may have put one into a path. A JWS needs a dot. */
const SECRET_STARTS = /svc_(?:pat|agt|rft|srv|inv)_|svcpair1_|eyJ/;
const SECRETS = /(?:svc_(?:pat|agt|rft|srv|inv)_|svcpair1_)[\w.~%-]*|eyJ[\w-]+(\.[\w.~%-]*)?/g;
const SECRETS_IN_WORD = /(?:svc_(?:pat|agt|rft|srv|inv)_|svcpair1_)[\w-]*/g;
/** Members with secret-like names and public values. */
const PLAIN_NAMES = new Set(["code", "errorCode", "statusCode"]);

/** Returns a log that passes its lines to `write`. */
export function jsonLog(clock: Clock, service: string, write: (line: string) => void): Log {
  return (level, event, fields = {}) => {
    const line = JSON.stringify({ ts: toIso(clock.now()), level, service, event, ...fields }, redact);
    write(line.replace(UNPRINTABLE, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`));
  };
}

/** Characters that JSON does not escape and that a terminal or a line reader interprets. */
const UNPRINTABLE = /[\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** Discards every line. */
export const silentLog: Log = () => {};

function redact(name: string, value: unknown): unknown {
  if (value instanceof Error) return { name: value.name, message: value.message, cause: value.cause };
  if (typeof value === "bigint") return String(value);
  if (typeof value !== "string" || value === "") return value;
  const clean = withoutSecrets(value);
  return clean === value && SECRET_NAME.test(name) && !PLAIN_NAMES.has(name) ? "[redacted]" : clean;
}

/** Returns the text unchanged, or decoded and redacted when it contains a secret, also percent-encoded. Linear (D-241). */
export function withoutSecrets(text: string): string {
  const decoded = text.includes("%") ? percentDecoded(text) : text;
  if (!SECRET_STARTS.test(decoded)) return text;
  const redacted = decoded.replace(SECRETS, (match: string, rest: string | undefined) => {
    const isToken = !match.startsWith("eyJ") || rest !== undefined;
    return isToken ? "[redacted]" : match.replace(SECRETS_IN_WORD, "[redacted]");
  });
  return redacted === decoded ? text : redacted;
}

/** Decodes printable ASCII that was encoded any number of times, in one pass. */
function percentDecoded(text: string): string {
  const out: string[] = [];
  for (let i = 0; i < text.length; i++) {
    out.push(text.charAt(i));
    while (out.length >= 3 && out[out.length - 3] === "%") {
      const digits = `${out[out.length - 2]}${out[out.length - 1]}`;
      if (!PRINTABLE_ASCII.test(digits)) break;
      out.length -= 3;
      out.push(String.fromCharCode(parseInt(digits, 16)));
    }
  }
  return out.join("");
}

/** Matches the two hexadecimal digits of a printable ASCII character. */
const PRINTABLE_ASCII = /^(?:[2-6][0-9a-f]|7[0-9a-e])$/i;
