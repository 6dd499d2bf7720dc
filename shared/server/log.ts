/** The log: one JSON object per line, secrets redacted. Successful requests are logged only with `ACCESS_LOG=on`. */
import type { Clock } from "../clock.ts";
import { toIso } from "../protocol/time.ts";
import { withoutSecrets } from "../redaction.ts";

export type Level = "info" | "warn" | "error";

export type Log = (level: Level, event: string, fields?: Record<string, unknown>) => void;

const SECRET_NAME = /secret|token|ticket|password|authorization|proof|privatekey|seed|signature|ait$|code$|access$/i;
/** Members whose names look like those of secrets, but whose values are public. */
const PLAIN_NAMES = new Set(["code", "errorCode", "statusCode"]);

export function jsonLog(clock: Clock, service: string, write: (line: string) => void): Log {
  return (level, event, fields = {}) => {
    const line = JSON.stringify({ ts: toIso(clock.now()), level, service, event, ...fields }, redact);
    write(line.replace(UNPRINTABLE, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`));
  };
}

/**
 * Lines of one event and code in a second. With more, one client fills a disk with equal refusals; with less, the first
 * lines of an error are missing.
 */
const LINES_PER_SECOND = 20;
const SECOND_MS = 1_000;
/** The only event without a limit, because the operator has asked for each of its lines (`ACCESS_LOG`). */
const UNLIMITED = "request_done";

/** Lines of one event and code within a second. */
interface Alike {
  level: Level;
  event: string;
  code: unknown;
  lines: number;
}

/** A log that writes at most 20 lines a second for one event and code, then a line with the number left out. */
export class LimitedLog {
  /** By event and code. Both must come from tables, because a caller could otherwise fill the map. */
  readonly #alike = new Map<string, Alike>();

  constructor(private readonly all: Log, private readonly clock: Pick<Clock, "after">) {}

  readonly log: Log = (level, event, fields) => {
    if (event === UNLIMITED) return this.all(level, event, fields);
    const code = fields?.code;
    const name = `${event} ${code}`;
    if (this.#alike.size === 0) this.clock.after(SECOND_MS, () => this.endSecond());
    const alike = this.#alike.getOrInsert(name, { level, event, code, lines: 0 });
    if (++alike.lines <= LINES_PER_SECOND) this.all(level, event, fields);
  };

  /** Logs how many lines were left out in the second that ends, and begins another one. */
  endSecond(): void {
    for (const { level, event, code, lines } of this.#alike.values()) {
      const leftOut = lines - LINES_PER_SECOND;
      if (leftOut > 0) this.all(level, "log_lines_left_out", { of: event, code, lines: leftOut });
    }
    this.#alike.clear();
  }
}

/** Characters that JSON does not escape but that a terminal or a reader of lines interprets. */
const UNPRINTABLE = /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/**
 * Logs what no code handles. A rejection ends nothing, because it would otherwise end the requests of other callers. An
 * exception ends the process with exit code 1 once its line is written, because its work stopped halfway; without the
 * listener, Deno writes it to standard error with any secret in it.
 */
export function logDefects(log: Log, written: () => Promise<void>): void {
  globalThis.addEventListener("unhandledrejection", (event) => {
    event.preventDefault();
    log("error", "unhandled_rejection", { cause: event.reason });
  });
  globalThis.addEventListener("error", async (event) => {
    event.preventDefault();
    const { error } = event;
    try {
      log("error", "uncaught_exception", { cause: error, stack: error instanceof Error ? error.stack : undefined });
      await written();
    } finally {
      Deno.exit(1);
    }
  });
}

export const silentLog: Log = () => {};

function redact(name: string, value: unknown): unknown {
  if (value instanceof Error) return { name: value.name, message: value.message, cause: value.cause };
  if (typeof value === "bigint") return String(value);
  if (typeof value !== "string" || value === "") return value;
  const clean = withoutSecrets(value);
  return clean === value && SECRET_NAME.test(name) && !PLAIN_NAMES.has(name) ? "[redacted]" : clean;
}
