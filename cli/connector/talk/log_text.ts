/** The lines of a log of messages: column 1 belongs to svc, a peer's text stands behind a gutter. Pure. */
import { clockText } from "../../terminal/times.ts";
import { type Line, printable, type Style } from "../../terminal/escapes.ts";
import { cutToColumns, textColumns, wordWrap } from "../../terminal/text_width.ts";

/** Lines that are wider are hard to read; also the place of the numbers. */
const WIDEST = 77;
/** Below this width the gutter is narrow. */
const NARROW_BELOW = 60;
const LINES_MAX = 12;
const CHARACTERS_MAX = 1_000;

/** The usable columns; the last one stays free, because some terminals wrap when it is filled. */
export function edgeOf(columns: number | null): number {
  return Math.max(10, Math.min((columns ?? 80) - 1, WIDEST));
}

/** A sentence of svc, with a hanging indent behind the time. */
export function sentenceLines(ms: number, text: string, columns: number | null, style: Style = ""): Line[] {
  const [first = "", ...rest] = wordWrap(printable(text), edgeOf(columns) - 7);
  return [[["dim", clockText(ms)], [style, `  ${first}`]], ...rest.map((line): Line => [[style, `       ${line}`]])];
}

/** The header of a message, with its number at the edge. */
export function headerLine(ms: number, what: string, number: number | null, columns: number | null): Line {
  const shown = number === null ? "" : String(number);
  const room = edgeOf(columns) - 7 - (shown === "" ? 0 : shown.length + 1);
  const text = cutToColumns(printable(what), room);
  const gap = shown === "" ? "" : " ".repeat(room + 1 - textColumns(text));
  return [["dim", clockText(ms)], ["", "  "], ["bold", text], ["dim", gap + shown]];
}

/** A text behind the gutter; at most 12 lines and 1,000 characters of it, unless `isWhole`. */
export function gutterLines(
  text: string,
  { columns, number, isWhole = false, isOwn = false }: {
    columns: number | null;
    number: number | null;
    isWhole?: boolean;
    isOwn?: boolean;
  },
): Line[] {
  const gutter = (columns ?? 80) < NARROW_BELOW ? " │ " : "     │ ";
  const width = edgeOf(columns) - gutter.length;
  // Counting the lines of a long text costs as much as wrapping it, so a rest is counted by its line feeds.
  const head = isWhole ? text : text.slice(0, CHARACTERS_MAX).toWellFormed();
  const rest = text.slice(head.length);
  const all = head.split("\n").flatMap((line) => wordWrap(printable(line.replaceAll("\t", "    ")), width));
  const shown = isWhole ? all : all.slice(0, LINES_MAX);
  const more = all.length - shown.length + rest.split("\n").length - 1 +
    (rest === "" ? 0 : Math.ceil(rest.length / width));
  const style = isOwn ? "dim" as const : "" as const;
  const lines: Line[] = shown.map((line) => [["dim", gutter], [style, line]]);
  const hint = `… ${more} more ${more === 1 ? "line" : "lines"}: ${number}u`;
  return more > 0 ? [...lines, [["dim", cutToColumns(gutter + hint, edgeOf(columns))]]] : lines;
}
