/** Terminal width of a text in columns, truncation to a width (D-230), and wrapping. Pure. */

/** Code points that take two columns: East Asian wide and full-width. Emoji are detected by their Unicode property. */
const WIDE: readonly (readonly [first: number, last: number])[] = [
  [0x1100, 0x115f],
  [0x2329, 0x232a],
  [0x2e80, 0x303e],
  [0x3041, 0x4dbf],
  [0x4e00, 0xa4cf],
  [0xa960, 0xa97f],
  [0xac00, 0xd7a3],
  [0xf900, 0xfaff],
  [0xfe10, 0xfe19],
  [0xfe30, 0xfe6f],
  [0xff00, 0xff60],
  [0xffe0, 0xffe6],
  [0x16fe0, 0x18aff],
  [0x1b000, 0x1b2ff],
  [0x1f200, 0x1f2ff],
  [0x20000, 0x3fffd],
];

/** Returns the columns of one code point: 0, 1 or 2. */
export function columnsOf(character: string): number {
  if (/^[\p{Mn}\p{Me}\p{Default_Ignorable_Code_Point}]/u.test(character)) return 0;
  const code = character.codePointAt(0) ?? 0;
  const isWide = WIDE.some(([first, last]) => code >= first && code <= last) ||
    /^\p{Emoji_Presentation}/u.test(character);
  return isWide ? 2 : 1;
}

/** Returns the text, truncated with an ellipsis if it is wider than `columns`. */
export function cutToColumns(text: string, columns: number): string {
  let kept = "", fits = "", used = 0;
  for (const character of text) {
    used += columnsOf(character);
    if (used > columns) return columns < 1 ? "" : `${fits}…`;
    kept += character;
    if (used <= columns - 1) fits = kept;
  }
  return kept;
}

/** Columns of a tab, at most. */
const TAB_COLUMNS = 8;

/** Returns the text as lines that fit into `columns`, one character at least on each. */
export function wrapToColumns(text: string, columns: number): string[] {
  const lines: string[] = [];
  let line = "", used = 0;
  for (const character of text) {
    const width = character === "\t" ? TAB_COLUMNS : character < "\x7f" ? 1 : columnsOf(character);
    if (line !== "" && used + width > columns) {
      lines.push(line);
      [line, used] = ["", 0];
    }
    line += character;
    used += width;
  }
  return [...lines, line];
}
