/** Lines of svc in the width of a terminal. Pure. */
import { textColumns, wordWrap, wrapToColumns } from "./text_width.ts";

/** Under a label that takes more of the line, its text begins on a line of its own. */
const LABEL_MAX = 0.5;
const STEP = 4;
/** What a person copies into another place. The terminal wraps it, and copies it as one line; a line feed would break it. */
const COPIED = /svc_[a-z]+_|svcpair1_|https?:/;

/**
 * Returns a line as lines of at most `columns`, broken at words; what is behind a label or an indent stays behind it. A
 * secret and an address stay whole, because in two parts they could not be copied.
 */
export function layOut(line: string, columns: number): string[] {
  if (textColumns(line) <= columns) return [line];
  const [start = ""] = /^ *(?:[^ ]+ )*[^ ]+ {2,}(?=[^ ])|^ +/.exec(line) ?? [];
  const indent = textColumns(start);
  const most = Math.floor(columns * LABEL_MAX);
  if (indent > most && start.trim() === "") return layOut(line.trimStart(), columns);
  if (indent > most) {
    const step = Math.min(most, STEP + start.length - start.trimStart().length);
    return [...layOut(start.trimEnd(), columns), ...layOut(" ".repeat(step) + line.slice(start.length), columns)];
  }
  const room = columns - indent;
  const lines = wordWrap(line.slice(start.length), room, { keepsWide: true }).flatMap((part) => {
    const width = textColumns(part);
    if (width <= room) return [" ".repeat(indent) + part];
    if (width <= columns) return [" ".repeat(columns - width) + part];
    return COPIED.test(part) ? [part] : wrapToColumns(part, room).map((piece) => " ".repeat(indent) + piece);
  });
  const [first = "", ...rest] = lines;
  if (first.startsWith(" ".repeat(indent))) return [start + first.slice(indent), ...rest];
  const label = start.trimEnd();
  return label === "" ? lines : [label, ...lines];
}

/**
 * Returns a command line as lines that a shell reads as one: each but the last ends in a backslash. A word that is wider
 * than the terminal stays whole.
 *
 * @param words quoted for a shell
 */
export function continued(words: readonly string[], columns: number): string[] {
  const lines: string[] = [];
  let line = " ";
  for (const word of words) {
    if (line.trim() !== "" && textColumns(line) + 1 + textColumns(word) > columns - 2) {
      lines.push(`${line} \\`);
      line = " ".repeat(STEP - 1);
    }
    line += ` ${word}`;
  }
  return [...lines, line];
}
