/**
 * The output of a command: the result on standard output, all other texts on standard error. With `--json` a stream has
 * at most one JSON document, or one on each line when a command follows or exports. Every text passes through one
 * function that escapes control characters, because a text of a peer could otherwise forge what a terminal shows.
 */
import type { Cancel, Clock } from "../../shared/clock.ts";
import type { Bytes } from "../../shared/protocol/base64url.ts";
import type { Described } from "../errors.ts";
import { jsonText, oneLine, peerText, printable } from "./escapes.ts";
import { continued, cutToColumns, layOut, textColumns, wordWrap } from "./text_width.ts";
import { type Cell, type Column, tableLines, timeCell } from "./tables.ts";
import { dayAndTime } from "./times.ts";

export interface Terminal {
  /** Returns false when the reader of the output has ended. */
  stdout(text: string): boolean;
  /** Writes at least one byte to standard output, and lets the process go on meanwhile. Returns how many. */
  write?(bytes: Bytes): Promise<number>;
  stderr(text: string): void;
  stdoutIsTerminal: boolean;
  stderrIsTerminal: boolean;
  /** Width of the terminal of standard output, in columns; absent or `null` when unknown. */
  columns?(): number | null;
  rows?(): number | null;
}

export interface OutputOptions {
  json: boolean;
  /** False when `NO_COLOR` is set. */
  colour: boolean;
  /** Tables with all columns and whole values, also where they are wider than the terminal. */
  wide?: boolean;
}

/** A time in a text. */
const TIME = /\d{4}-\d\d-\d\dT[\d:.]+Z/g;

export type Field = readonly [label: string, value: string | number | null | undefined];

const PROGRESS_AFTER_MS = 500;
const PROGRESS_EVERY_MS = 1_000;

export class Output {
  readonly json: boolean;
  readonly #wide: boolean;
  readonly #colour: boolean;
  /** Warnings that no JSON document has shown yet. */
  #warnings: string[] = [];
  /** Called before a result is printed. Returns a warning to print with it, or `null`. */
  concern: () => string | null = () => null;
  /** Words that the next command needs to use the same files: `--config-dir` and `--ca`, if they were given. */
  hereWords: readonly string[] = [];
  /** The first words of all commands. */
  groups: readonly string[] = [];
  #cancel: Cancel = () => {};
  #shown = false;
  /** Number of steps that have ended. */
  #step = 0;
  /** Coloured texts that this object created. All other control characters are escaped. */
  readonly #painted = new Set<string>();
  /** Lines of commands, which stay as they are, because a break inside quotes would be part of the word. */
  readonly #whole = new Set<string>();

  constructor(
    private readonly terminal: Terminal,
    private readonly clock: Clock,
    { json, colour, wide }: OutputOptions,
  ) {
    this.json = json;
    this.#wide = wide === true;
    this.#colour = colour;
  }

  /**
   * Prints the result: `data` with `--json`, else `text`, one line per list entry. Called once per command, because with
   * `--json` a program reads the output as one document.
   */
  result(data: Record<string, unknown>, text: string | readonly string[]): void {
    this.#quiet();
    const concern = this.concern();
    if (concern !== null) this.warn(concern);
    if (this.json) {
      this.terminal.stdout(`${jsonText({ ...data, ...this.#takeWarnings() })}\n`);
      return;
    }
    const lines = this.#laidOut(typeof text === "string" ? [text] : text, this.columns).join("\n");
    this.terminal.stdout(lines.endsWith("\n") ? lines : `${lines}\n`);
  }

  /**
   * Prints a result that is shown again and again: on a terminal in place of the one before, with `--json` on one line.
   *
   * @returns false when the reader of the output has ended
   */
  again(data: object, lines: readonly string[]): boolean {
    if (this.json) return this.jsonLine(JSON.stringify(data));
    this.#quiet();
    const text = this.#laidOut(lines, this.columns).map((line) => `${line}\n`).join("");
    return this.terminal.stdout(this.terminal.stdoutIsTerminal ? `\x1b[H\x1b[2J${text}` : `${text}\n`);
  }

  /**
   * Prints lines with text of a peer to standard output. A tab stays; all other control characters are escaped.
   *
   * @returns false when the reader of the output has ended, so that the lines may be lost
   */
  peerLines(lines: readonly string[]): boolean {
    this.#quiet();
    const columns = this.#room(this.columns);
    const shown = lines.map(peerText).flatMap((line) => columns === null ? line : wordWrap(line, columns));
    return this.terminal.stdout(shown.map((line) => `${line}\n`).join(""));
  }

  /**
   * Prints a JSON object that another program wrote, on one line, with warnings as a member. It stays unchanged except
   * for its control characters.
   *
   * @returns false when the reader of the output has ended
   */
  jsonLine(json: string): boolean {
    this.#quiet();
    const concern = this.concern();
    if (concern !== null) this.warn(concern);
    const { warnings } = this.#takeWarnings();
    const end = warnings === undefined ? "}" : `,"warnings":${JSON.stringify(warnings)}}`;
    return this.terminal.stdout(`${oneLine(json.trimEnd().replace(/}$/, () => end))}\n`);
  }

  /** Width of standard output in columns; `null` when it is not a terminal, or the width is unknown. */
  get columns(): number | null {
    return this.terminal.stdoutIsTerminal ? this.terminal.columns?.() ?? null : null;
  }

  /** Whether IDs are shown whole: in a pipe and with `--wide`. On a terminal a person reads names. */
  get showsIds(): boolean {
    return this.#wide || !this.terminal.stdoutIsTerminal;
  }

  /** A text whose times are whole or short, as `showsIds` says. */
  withTimes(text: string): string {
    return text.replaceAll(TIME, (iso) => this.shown({ short: dayAndTime(iso), whole: iso }) ?? iso);
  }

  /** A value outside of a table: whole or short, as `showsIds` says. */
  shown(cell: Cell): string | null {
    if (cell === null || typeof cell === "string") return cell;
    return this.showsIds ? cell.whole : cell.short;
  }

  time(iso: string | null): Cell {
    return timeCell(iso, this.clock.now());
  }

  /** Prints a list: `data` with `--json`, else its rows as a table, or the text `none` when there are no rows. */
  list<T>(data: Record<string, unknown>, rows: readonly T[], none: string, columns: readonly Column<T>[]): void {
    this.result(data, rows.length === 0 ? none : this.table(columns, rows));
  }

  /** Returns the lines of a table that fits the terminal; in a pipe and with `--wide` it has everything. */
  table<T>(columns: readonly Column<T>[], rows: readonly T[]): string[] {
    return tableLines(columns, rows, this.#wide ? null : this.#room(this.columns));
  }

  get #errorColumns(): number | null {
    return this.terminal.stderrIsTerminal ? this.terminal.columns?.() ?? null : null;
  }

  /** The last column stays free, because some terminals wrap when it is filled. */
  #room(columns: number | null): number | null {
    return columns === null ? null : Math.max(2, columns - 1);
  }

  /** Returns the lines in the terminal's width, or in their own with `--wide`. Control characters are escaped. */
  #laidOut(lines: readonly string[], columns: number | null): string[] {
    const room = this.#wide ? null : this.#room(columns);
    return lines.map((line) => this.#clean(line))
      .flatMap((line) => room === null || this.#whole.has(line) ? line : layOut(line, room));
  }

  /** Prints a note to standard error; nothing with `--json`. */
  note(text: string): void {
    if (this.json) return;
    this.#say([this.withHere(text)]);
  }

  /** Says that a list has an end that is not that of its rows. @param otherwise how to see `what` without `--limit` */
  more(what: string, canGrow: boolean, otherwise: string): void {
    this.note(`There are ${what}; ${canGrow ? "--limit shows more of them" : otherwise}.`);
  }

  #say(lines: readonly string[]): void {
    this.#quiet();
    this.terminal.stderr(`${this.#laidOut(lines, this.#errorColumns).join("\n")}\n`);
  }

  /**
   * Prints the next command as one line that works when it is pasted; nothing with `--json`.
   *
   * @param when condition or place of the command, for example `on the other person's machine`
   */
  next(words: readonly string[], { when = "", isHere = true }: { when?: string; isHere?: boolean } = {}): void {
    if (this.json) return;
    const label = `Next${when === "" ? "" : `, ${when}`}:`;
    const command = this.#commandWords(words, isHere), line = `${label} ${command.join(" ")}`;
    const room = this.#room(this.#errorColumns);
    if (room === null || textColumns(printable(line)) <= room) return this.#say([line]);
    this.#say([label]);
    // Each line but the last ends in a backslash, because a shell would otherwise run the first one alone.
    this.terminal.stderr(`${continued(command.map(printable), room).join("\n")}\n`);
  }

  /** Returns a command of svc as one line for a shell, with the words that it needs to use the same files. */
  commandLine(words: readonly string[], { isHere = true } = {}): string {
    return this.#commandWords(words, isHere).join(" ");
  }

  /** Adds `hereWords` to the commands in a sentence, because without them a command would use other files. */
  withHere(text: string): string {
    if (this.hereWords.length === 0) return text;
    const words = this.hereWords.map(shellWord).join(" ");
    return text.replaceAll(new RegExp(`\\bsvc (?=(?:${this.groups.join("|")})\\b)`, "g"), () => `svc ${words} `);
  }

  /** Returns a command of svc as indented lines that work when they are pasted, also in a narrow terminal. */
  commandLines(words: readonly string[]): string[] {
    return this.shellLines(this.#commandWords(words, true));
  }

  /** Returns any command as indented lines that work when they are pasted. @param words quoted for a shell */
  shellLines(words: readonly string[]): string[] {
    const lines = continued(words.map(printable), this.#room(this.columns) ?? Infinity);
    for (const line of lines) this.#whole.add(line);
    return lines;
  }

  #commandWords(words: readonly string[], isHere: boolean): string[] {
    return ["svc", ...words, ...isHere ? this.hereWords : []].map(shellWord);
  }

  /** Prints a warning about a problem that did not stop the command. */
  warn(problem: string): void {
    const text = this.withHere(problem);
    this.#warnings.push(text);
    if (this.json) return;
    this.#say([`${this.#paint("33", "warning:", this.terminal.stderrIsTerminal)} ${printable(text)}`]);
  }

  error(described: Described): void {
    this.#quiet();
    if (this.json) {
      this.terminal.stderr(`${jsonText({ error: errorJson(described), ...this.#takeWarnings() })}\n`);
      return;
    }
    const { code, cause, details = [], fix, requestId } = described;
    const bold = this.#paint("31;1", "error:", this.terminal.stderrIsTerminal);
    const lines = [`${bold} ${code}: ${sentence(cause)}`, ...details.map((detail) => `  ${detail}`)];
    if (fix !== "") lines.push(`  ${fix}`);
    if (requestId !== null) lines.push(`  The service logged it as request ${requestId}.`);
    if (!code.startsWith("HTTP_") && code !== "UNKNOWN_ERROR") lines.push(`  More: svc explain ${code}`);
    this.#say(lines);
  }

  /**
   * Names the current step. A terminal shows it when the step takes longer than 500 ms.
   *
   * @returns a function that ends the step, unless another one or any output has ended it
   */
  doing(label: string): () => void {
    if (this.json || !this.terminal.stderrIsTerminal) return () => {};
    this.#quiet();
    const step = this.#step;
    const shown = printable(label), began = this.clock.now();
    const show = () => {
      const seconds = Math.floor((this.clock.now() - began) / 1000);
      const end = ` …${seconds > 0 ? ` ${seconds} s` : ""}`;
      const room = this.#room(this.#errorColumns) ?? Infinity;
      this.terminal.stderr(`\r\x1b[K${cutToColumns(shown, room - end.length)}${end}`);
      this.#shown = true;
      this.#cancel = this.clock.after(PROGRESS_EVERY_MS, show);
    };
    this.#cancel = this.clock.after(PROGRESS_AFTER_MS, show);
    return () => void (this.#step === step && this.#quiet());
  }

  /** Ends the progress line of `doing`. With `--json`, prints to standard error the warnings that no result showed. */
  finish(): void {
    this.#quiet();
    const late = this.#takeWarnings();
    if (this.json && late.warnings !== undefined) this.terminal.stderr(`${jsonText(late)}\n`);
  }

  readonly bold = (text: string) => this.#paint("1", text);
  readonly dim = (text: string) => this.#paint("2", text);
  readonly green = (text: string) => this.#paint("32", text);
  readonly red = (text: string) => this.#paint("31", text);

  #paint(style: string, text: string, isTerminal = this.terminal.stdoutIsTerminal): string {
    if (!this.#colour || !isTerminal || this.json) return text;
    const painted = `\x1b[${style}m${this.#clean(text)}\x1b[0m`;
    this.#painted.add(painted);
    return painted;
  }

  /** Escapes a line, except for the colours that this object added. */
  #clean(text: string): string {
    // The latest coloured text is searched first, because it may contain an earlier one.
    for (const painted of [...this.#painted].reverse()) {
      const parts = text.split(painted);
      if (parts.length > 1) return parts.map((part) => this.#clean(part)).join(painted);
    }
    return printable(text);
  }

  /** The warnings for the next JSON document, as a member; each is shown once. */
  #takeWarnings(): { warnings?: string[] } {
    const warnings = this.#warnings;
    this.#warnings = [];
    return warnings.length > 0 ? { warnings } : {};
  }

  #quiet(): void {
    this.#cancel();
    this.#cancel = () => {};
    if (this.#shown) this.terminal.stderr("\r\x1b[K");
    this.#shown = false;
    this.#step++;
  }
}

/** An error as programs read it, also inside a result. */
export function errorJson({ code, cause, details = [], fix }: Described): { code: string; message: string } {
  // The fix stays as it is, because a command at its end would be another one with a full stop.
  return { code, message: [...[cause, ...details].map(sentence), fix].filter((text) => text !== "").join(" ") };
}

export function fields(list: readonly Field[]): string[] {
  const shown = list.filter(([, value]) => value !== undefined);
  const width = Math.max(...shown.map(([label]) => label.length));
  return shown.map(([label, value]) => `  ${label.padEnd(width)}  ${value === null ? "–" : printable(String(value))}`);
}

/** Returns a word for a POSIX shell, quoted if needed. */
export function shellWord(word: string): string {
  return /^[A-Za-z0-9_\/:=@%+.,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** Returns a text as one sentence: a capital at its start and a full stop at its end. */
export function sentence(text: string): string {
  // Only these words get a capital, because a file, command or alias at the start would be another one with a capital.
  const isWord = /^(?:an?|another|no|not|several|the|there|this|too|unread) /.test(text);
  const first = isWord ? text.charAt(0).toUpperCase() + text.slice(1) : text;
  // A pattern for file names is the end of a command, which would be another one with a full stop.
  return /[.!?…*]$/.test(first) ? first : `${first}.`;
}
