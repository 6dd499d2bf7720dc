/**
 * What people and scripts see: the result on standard output, everything else on standard error. With `--json` each
 * stream carries at most one JSON document. Every text passes one function that escapes what could steer a terminal
 * (D-246). Knows terminals and colours, never what a command does.
 */
import type { Cancel, Clock } from "../../shared/clock.ts";
import type { Described } from "../errors.ts";

/** Where texts go. */
export interface Terminal {
  stdout(text: string): void;
  stderr(text: string): void;
  stdoutIsTerminal: boolean;
  stderrIsTerminal: boolean;
  /** Width of the terminal behind standard output; absent or `null` where it is not known. */
  columns?(): number | null;
}

export interface OutputOptions {
  json: boolean;
  /** Whether colours are wanted at all: no `NO_COLOR`. */
  colour: boolean;
}

/** A label and its value. */
export type Field = readonly [label: string, value: string | number | null | undefined];

const PROGRESS_AFTER_MS = 500;
const PROGRESS_EVERY_MS = 1_000;

export class Output {
  readonly #terminal: Terminal;
  readonly #clock: Clock;
  readonly json: boolean;
  readonly #colour: boolean;
  readonly #warnings: string[] = [];
  /** Asked before a result is shown: something the person should know with it. */
  concern: () => string | null = () => null;
  /** What a further command on the same files needs: `--config-dir`, when it was given. */
  hereWords: readonly string[] = [];
  #label = "";
  #cancel: Cancel = () => {};
  #shown = false;
  /** The texts with a colour that this object made; no other control character is printed. */
  readonly #painted = new Set<string>();

  constructor(terminal: Terminal, clock: Clock, { json, colour }: OutputOptions) {
    this.#terminal = terminal;
    this.#clock = clock;
    this.json = json;
    this.#colour = colour;
  }

  /** The result: `data` with `--json`, else `text`, each entry of a list as one line. Once a command. */
  result(data: Record<string, unknown>, text: string | readonly string[]): void {
    this.#quiet();
    const concern = this.concern();
    if (concern !== null) this.warn(concern);
    if (this.json) {
      const warnings = this.#warnings.length > 0 ? { warnings: this.#warnings } : {};
      this.#terminal.stdout(`${jsonText({ ...data, ...warnings })}\n`);
      return;
    }
    const lines = (typeof text === "string" ? [text] : text).map((line) => this.#clean(line)).join("\n");
    this.#terminal.stdout(lines.endsWith("\n") ? lines : `${lines}\n`);
  }

  /** What to do next; for people only. */
  note(text: string): void {
    if (this.json) return;
    this.#quiet();
    this.#terminal.stderr(`${this.#clean(text)}\n`);
  }

  /**
   * A command to run next, as a line that can be pasted whole; for people only (D-238).
   *
   * @param when where or for what it is, for example `on the other person's machine`
   */
  next(words: readonly string[], { when = "", isHere = true }: { when?: string; isHere?: boolean } = {}): void {
    const line = ["svc", ...words, ...isHere ? this.hereWords : []].map(shellWord).join(" ");
    this.note(`Next${when === "" ? "" : `, ${when}`}: ${line}`);
  }

  /** Something that is not as it should be, but did not stop the command. */
  warn(text: string): void {
    this.#warnings.push(text);
    if (this.json) return;
    this.#quiet();
    this.#terminal.stderr(`${this.#paint("33", "warning:", this.#terminal.stderrIsTerminal)} ${printable(text)}\n`);
  }

  /** Why the command failed: code, cause, cure. */
  error({ code, cause, fix, requestId }: Described): void {
    this.#quiet();
    const message = [cause, fix].filter((text) => text !== "").map(sentence).join(" ");
    if (this.json) {
      const warnings = this.#warnings.length > 0 ? { warnings: this.#warnings } : {};
      this.#terminal.stderr(`${jsonText({ error: { code, message }, ...warnings })}\n`);
      return;
    }
    const bold = this.#paint("31;1", "error:", this.#terminal.stderrIsTerminal);
    const lines = [`${bold} ${code}: ${sentence(cause)}`];
    if (fix !== "") lines.push(`  ${fix}`);
    if (requestId !== null) lines.push(`  The service logged it as request ${requestId}.`);
    if (!code.startsWith("HTTP_") && code !== "UNKNOWN_ERROR") lines.push(`  More: svc explain ${code}`);
    this.#terminal.stderr(`${lines.map((line) => this.#clean(line)).join("\n")}\n`);
  }

  /** Names what is under way; shown on a terminal once it takes more than half a second. */
  doing(label: string): void {
    if (this.json || !this.#terminal.stderrIsTerminal) return;
    this.#quiet();
    this.#label = printable(label);
    const began = this.#clock.now();
    const show = () => {
      const seconds = Math.floor((this.#clock.now() - began) / 1000);
      this.#terminal.stderr(`\r\x1b[K${this.#label} …${seconds > 0 ? ` ${seconds} s` : ""}`);
      this.#shown = true;
      this.#cancel = this.#clock.after(PROGRESS_EVERY_MS, show);
    };
    this.#cancel = this.#clock.after(PROGRESS_AFTER_MS, show);
  }

  /** Ends what `doing` shows. */
  finish(): void {
    this.#quiet();
  }

  bold(text: string): string {
    return this.#paint("1", text);
  }

  dim(text: string): string {
    return this.#paint("2", text);
  }

  green(text: string): string {
    return this.#paint("32", text);
  }

  red(text: string): string {
    return this.#paint("31", text);
  }

  #paint(style: string, text: string, isTerminal = this.#terminal.stdoutIsTerminal): string {
    if (!this.#colour || !isTerminal || this.json) return text;
    const painted = `\x1b[${style}m${this.#clean(text)}\x1b[0m`;
    this.#painted.add(painted);
    return painted;
  }

  /** Escapes a line, but not what this object painted itself. */
  #clean(text: string): string {
    // The latest first: it may have an earlier one inside.
    for (const painted of [...this.#painted].reverse()) {
      const parts = text.split(painted);
      if (parts.length > 1) return parts.map((part) => this.#clean(part)).join(painted);
    }
    return printable(text);
  }

  #quiet(): void {
    this.#cancel();
    this.#cancel = () => {};
    if (this.#shown) this.#terminal.stderr("\r\x1b[K");
    this.#shown = false;
  }
}

/** Lines of labels and values in two columns. */
export function fields(list: readonly Field[]): string[] {
  const shown = list.filter(([, value]) => value !== undefined);
  const width = Math.max(...shown.map(([label]) => label.length));
  return shown.map(([label, value]) => `  ${label.padEnd(width)}  ${value === null ? "–" : printable(String(value))}`);
}

/** Lines of a table with a head. */
export function table(head: readonly string[], rows: readonly (readonly (string | null)[])[]): string[] {
  const cells = [head, ...rows.map((row) => row.map((cell) => cell === null ? "–" : printable(cell)))];
  const widths = head.map((_, i) => Math.max(...cells.map((row) => [...row[i] ?? ""].length)));
  return cells.map((row) =>
    row.map((cell, i) => cell + " ".repeat((widths[i] ?? 0) - [...cell].length)).join("  ").trimEnd()
  );
}

/** Control characters (C0, DEL, C1), what changes the direction of text, and the line separators of Unicode. */
const STEERING =
  // deno-lint-ignore no-control-regex
  /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** A text of unknown origin with everything that could steer a terminal escaped as `\u001b`. */
export function printable(text: string): string {
  return text.replace(STEERING, escaped);
}

/** A JSON document for people and programs: what `JSON.stringify` leaves of `printable`'s characters is escaped too. */
export function jsonText(value: unknown): string {
  // Line feeds are the layout: inside strings JSON.stringify has escaped them.
  return JSON.stringify(value, null, 2).replace(STEERING, (char) => char === "\n" ? char : escaped(char));
}

function escaped(char: string): string {
  return `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** A word as a shell reads it: quoted unless it is plain. */
function shellWord(word: string): string {
  return /^[A-Za-z0-9_\/:=@%+.,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

function sentence(text: string): string {
  // A name, an address or a path at the beginning stays as it is.
  const isWord = /^[a-z]+[ ,.:;]/.test(text) && !/^(?:svc|https?:)/.test(text);
  const first = isWord ? text.charAt(0).toUpperCase() + text.slice(1) : text;
  return /[.!?…]$/.test(first) ? first : `${first}.`;
}
