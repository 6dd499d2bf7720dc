/** Tables in the width of a terminal. They show the columns that matter most, and wrap their cells at words. */
import { parseIso } from "../../shared/protocol/time.ts";
import { printable } from "./escapes.ts";
import { cutToColumns, textColumns, wordWrap } from "./text_width.ts";
import { whenText } from "./times.ts";

/** A cell; `null` is shown as a dash. `short` is for a terminal, `whole` for a pipe and for `--wide`. */
export type Cell = string | null | { short: string; whole: string };

export interface Column<T> {
  head: string;
  /** Without room the column with the highest rank is left out first; 0, the default, stays as long as it can. */
  rank?: number;
  /** Cells are cut at this width instead of being wrapped. A terminal with room gives them more. */
  cut?: number;
  /** Shown only in a pipe and with `--wide`. */
  isWide?: true;
  of(row: T): Cell;
}

const GAP = 2;
/** A cell up to this width, such as an age or a state, stays on one line, because in two it reads like two cells. */
const SHORT = 20;
/** Columns of this rank or higher are left out first, so that short cells need not be wrapped. */
const MINOR = 2;
/** Counts as the width of a word that is wider than the terminal, because other columns would otherwise get no room. */
const CUT_WORD = 12;

/** A cell with a wider word stands alone on its line where columns would have to be left out for it. */
const ALONE = 32;

/** @param width columns of the terminal; `null`: a pipe, or a person who wants everything */
export function tableLines<T>(columns: readonly Column<T>[], rows: readonly T[], width: number | null): string[] {
  if (width === null) {
    const whole = (cell: Cell) => cell === null || typeof cell === "string" ? cell : cell.whole;
    return table(columns.map(({ head }) => head), rows.map((row) => columns.map(({ of }) => whole(of(row)))));
  }
  const short = (cell: Cell) => printable(cell === null ? "–" : typeof cell === "string" ? cell : cell.short);
  const all = columns.filter(({ isWide }) => !isWide).map(({ head, rank = 0, cut, of }) => {
    const cells = [head, ...rows.map((row) => short(of(row)))];
    return { cells, rank, cut, words: cells.map((cell) => most(cell.split(" ").map(textColumns))) };
  });
  let alone = Infinity;
  const measured = () =>
    all.map(({ cells, rank, cut, words }) => {
      const counted = cells.filter((_, i) => cut !== undefined || (words[i] ?? 0) <= alone);
      const natural = most(counted.map(textColumns));
      const least = cut === undefined
        ? most(words.filter((word) => word <= alone).map((word) => word > width ? CUT_WORD : word))
        : Math.min(cut, natural);
      const brief = counted.slice(1).map(textColumns).filter((columns) => columns <= SHORT);
      const unbroken = cut === undefined ? Math.max(least, most(brief)) : least;
      return { cells, words, rank, least, unbroken, natural, isCut: cut !== undefined };
    });
  let shown = measured();
  const needed = (by: "least" | "unbroken") => shown.reduce((sum, column) => sum + column[by] + GAP, -GAP);
  const leaveOut = (by: "least" | "unbroken", minRank: number) => {
    while (shown.length > 1 && needed(by) > width) {
      const last = Math.max(...shown.map(({ rank }) => rank));
      if (last < minRank) return;
      const out = shown.findLastIndex(({ rank }) => rank === last);
      shown = shown.filter((_, i) => i !== out);
    }
  };
  // One long name would otherwise hide columns of every row.
  if (needed("unbroken") > width) {
    alone = ALONE;
    shown = measured();
  }
  leaveOut("unbroken", MINOR);
  leaveOut("least", 0);
  const by = needed("unbroken") <= width ? "unbroken" : "least";
  const widths = grown(shown.map((column) => ({ ...column, least: column[by] })), width - needed(by));
  return [...rows.keys(), rows.length].flatMap((n) => {
    const cells = shown.map(({ cells: { [n]: cell = "" }, words: { [n]: word = 0 }, isCut }, i) => {
      if (isCut) return [cutToColumns(cell, widths[i] ?? 1)];
      return wordWrap(cell, word > alone ? width : widths[i] ?? 1);
    });
    return rowLines(cells, widths, width);
  });
}

/** The lines of a row. What follows a cell that is wider than its column begins on the next line. */
function rowLines(cells: readonly (readonly string[])[], widths: readonly number[], width: number): string[] {
  const lines: string[] = [];
  let first = 0;
  const add = (end: number) => {
    const here = cells.slice(first, end), indent = " ".repeat(indentOf(widths.slice(0, first)));
    for (let line = 0; line < most(here.map(({ length }) => length)); line++) {
      const parts = here.map((cell, i) => padded(cell[line] ?? "", widths[first + i] ?? 0));
      lines.push((indent + parts.join(" ".repeat(GAP))).trimEnd());
    }
    first = end;
  };
  for (const [i, cell] of cells.entries()) {
    const wide = most(cell.map(textColumns)), hasRoom = indentOf(widths.slice(0, i)) + wide <= width;
    if (wide <= (widths[i] ?? 0)) continue;
    add(hasRoom ? i + 1 : i);
    if (hasRoom) continue;
    lines.push(...cell);
    first = i + 1;
  }
  add(cells.length);
  return lines;
}

/** Where the column after these begins. */
function indentOf(widths: readonly number[]): number {
  return widths.reduce((sum, columns) => sum + columns + GAP, 0);
}

/** The widths of columns: each gets what it needs; the rest goes to the most important ones that can use it. */
function grown(columns: readonly { rank: number; least: number; natural: number }[], rest: number): number[] {
  const widths = columns.map(({ least }) => least);
  const order = [...columns.keys()].sort((a, b) => (columns[a]?.rank ?? 0) - (columns[b]?.rank ?? 0));
  for (const i of order) {
    const { least = 0, natural = 0 } = columns[i] ?? {};
    const more = Math.max(0, Math.min(rest, natural - least));
    widths[i] = least + more;
    rest -= more;
  }
  return widths;
}

/** The largest of many numbers, which are too many arguments for `Math.max` when a registry has 200,000 agents. */
function most(numbers: readonly number[]): number {
  return numbers.reduce((largest, number) => Math.max(largest, number), 0);
}

function padded(text: string, columns: number): string {
  return text + " ".repeat(Math.max(0, columns - textColumns(text)));
}

/** The cell of a time: in words on a terminal, and as ISO 8601 in a pipe and with `--wide`. */
export function timeCell(iso: string | null, now: number): Cell {
  const at = iso === null ? null : parseIso(iso);
  return iso === null || at === null ? iso : { short: whenText(at, now), whole: iso };
}

const ID_END = 6;

/** The cell of an ID or a DID: its last characters, which commands accept (`wholeId`). Words are no ID and stay. */
export function idCell(id: string | null): Cell {
  return id === null || id.includes(" ") ? id : { short: `…${id.slice(-ID_END)}`, whole: id };
}

/** The end of an ID as a person copies or types it; `null` when the text cannot be one. */
export function idEnd(text: string): string | null {
  const end = text.replace(/^…/, "");
  return end.length === ID_END && /^[\w.:-]+$/.test(end) ? end : null;
}

export function table(head: readonly string[], rows: readonly (readonly (string | null)[])[]): string[] {
  const cells = [head, ...rows.map((row) => row.map((cell) => cell === null ? "–" : printable(cell)))];
  const widths = head.map((_, i) => most(cells.map((row) => textColumns(row[i] ?? ""))));
  return cells.map((row) => row.map((cell, i) => padded(cell, widths[i] ?? 0)).join(" ".repeat(GAP)).trimEnd());
}
