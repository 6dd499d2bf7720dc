/**
 * Counts the columns of a text on a terminal, wraps it, and cuts it, because a live line that wraps cannot be redrawn.
 */

/**
 * Assigned code points that terminals show in one column. All others count as two, because a text that is wider than
 * counted would go on in the first column of the next line, where it can look like another message.
 */
const NARROW: readonly (readonly [first: number, last: number])[] = [
  [0x0000, 0x10ff],
  [0x1160, 0x2328],
  [0x232b, 0x262f],
  [0x2638, 0x2689],
  [0x2690, 0x2e7f],
  [0x303f, 0x303f],
  [0xa4d0, 0xa95f],
  [0xa980, 0xabff],
  [0xd7b0, 0xd7ff],
  [0xfb00, 0xfe0f],
  [0xfe20, 0xfe2f],
  [0xfe70, 0xfeff],
  [0xff61, 0xffdf],
  [0xffe8, 0xfffd],
  [0x10000, 0x16fdf],
  [0x1d000, 0x1d2ff],
  [0x1d380, 0x1efff],
];

/** Returns the columns of one code point that `printable` does not escape: 0, 1 or 2. */
export function columnsOf(character: string): number {
  // The sign that makes an emoji of a character may make that one wider.
  if (character !== "\ufe0f" && /^[\p{Mn}\p{Me}]/u.test(character)) return 0;
  if (/^[\p{Cn}\p{Co}\p{Cs}\p{Emoji_Presentation}]/u.test(character)) return 2;
  const code = character.codePointAt(0) ?? 0;
  return NARROW.some(([first, last]) => code >= first && code <= last) ? 1 : 2;
}

/** Returns the text, truncated with an ellipsis if it is wider than `columns`. */
export function cutToColumns(text: string, columns: number): string {
  let kept = "", fits = "", used = 0;
  for (const character of unitsOf(text)) {
    used += widthOf(character);
    if (used > columns) return columns < 1 ? "" : `${fits}…`;
    kept += character;
    if (used <= columns - 1) fits = kept;
  }
  return kept;
}

/** Columns of a tab, at most. */
const TAB_COLUMNS = 8;

/**
 * Returns the text as lines that fit into `columns`, broken at spaces. A word is broken only when it is wider than a
 * line, because a word in two parts is hard to read and copies wrong. With `keepsWide` such a word is a line of its
 * own.
 */
export function wordWrap(text: string, columns: number, { keepsWide = false } = {}): string[] {
  const lines: string[] = [];
  let line = "", used = 0;
  for (const word of text.match(/ *[^ ]+| +$/g) ?? []) {
    const width = textColumns(word);
    if (line !== "" && used + width > columns) {
      lines.push(line);
      [line, used] = ["", 0];
    }
    const isBare = line === "" && (lines.length > 0 || width > columns);
    const bare = isBare ? word.replace(/^ +/, "") : word;
    const parts = keepsWide ? [bare] : wrapToColumns(bare, columns);
    lines.push(...parts.slice(0, -1).map((part) => line + part));
    if (parts.length > 1) line = "";
    line += parts.at(-1) ?? "";
    used = textColumns(line);
  }
  return [...lines, line];
}

/** Returns the columns of a text that `printable` or `peerText` has returned. */
export function textColumns(text: string): number {
  let used = 0;
  for (const unit of unitsOf(text)) used += widthOf(unit);
  return used;
}

/**
 * The code points of a text, each emoji and each colour as one unit, because a part of an emoji would be a hidden code
 * point. Only svc writes colours, because those of others are escaped.
 */
export function unitsOf(text: string): Iterable<string> {
  // deno-lint-ignore no-control-regex
  const isPlain = !/[\x1b\ufe0f\u200d\u{e007f}]/u.test(text);
  // deno-lint-ignore no-control-regex
  return isPlain ? text : text.match(/\x1b\[\d+(?:;\d+)*m|\p{RGI_Emoji}|./gsv) ?? [];
}

function widthOf(unit: string): number {
  if (unit.startsWith("\x1b[")) return 0;
  if (unit === "\t") return TAB_COLUMNS;
  let width = 0;
  for (const character of unit) width += character < "\x7f" ? 1 : columnsOf(character);
  return width;
}

/** Returns the text as lines that fit into `columns`, one character at least on each. */
export function wrapToColumns(text: string, columns: number): string[] {
  const lines: string[] = [];
  let line = "", used = 0;
  for (const character of unitsOf(text)) {
    const width = widthOf(character);
    if (line !== "" && used + width > columns) {
      lines.push(line);
      [line, used] = ["", 0];
    }
    line += character;
    used += width;
  }
  return [...lines, line];
}

/** Largest share of a line for a label. After a longer label, text begins below it, because too little room is left. */
const LABEL_MAX = 0.5;
const STEP = 4;
/**
 * A secret or an address, which a person copies. It is printed as one line, because a line feed in it would be copied
 * too. Where the terminal itself wraps the line, nothing is added to the copy.
 */
const COPIED = /svc_[a-z]+_|svcpair1_|https?:/;

/** A word in quotation marks, which may have spaces and punctuation marks. */
const QUOTED = `"[^"]*"|'[^']*'(?:\\\\''[^']*')*`;
/**
 * svc, and the other programs whose commands a text names. Those stand behind a colon, because an agent may have the name
 * of one, and a sentence about the agent would not be broken.
 */
const PROGRAM = "\\bsvc|(?<=: )(?:rm|chmod|chown|sqlite3|loginctl|npm|hermes|openclaw|nanobot)";
/** A command in a sentence, up to the next punctuation mark outside of quotation marks. */
const COMMAND = new RegExp(`(${PROGRAM}) (?:(?:${QUOTED}|(?!["'])[^ ]*[^ ,;:.]) )*(?:${QUOTED}|[^ ]+)`, "g");
const WORD = new RegExp(` ?(?:${QUOTED}|[^ ]+)`, "g");
/** Stands for a space where no line may break. No text has this character, because `printable` escapes it. */
const GLUE = "\0";

/** The words of a command that name its files. */
const HERE = new RegExp(`^svc(?: --(?:config-dir|profile|ca) (?:${QUOTED}|[^ ]+))*`);
/** Columns for the words behind those. With less, a long folder would leave no room for the command itself. */
const COMMAND_COLUMNS = 40;

/**
 * Glues the words of each command. Of a command of svc only as many as fit into a line, because the sentence may go on
 * behind it without a punctuation mark.
 */
function withGlue(text: string, columns: number): string {
  return text.replace(COMMAND, (command, program) => {
    const here = textColumns(HERE.exec(command)?.[0] ?? "");
    const most = program !== "svc" ? Infinity : here > columns * LABEL_MAX ? here + COMMAND_COLUMNS : columns;
    let used = 0;
    return command.replace(WORD, (word) => {
      const isGlued = (used += textColumns(word)) <= most || !word.startsWith(" ");
      return word.replaceAll(" ", GLUE).replace(GLUE, isGlued ? GLUE : " ");
    });
  });
}

/** Like `wordWrap` for a sentence of svc: the words of a command stay together where a line has room for them. */
export function wrapSentence(text: string, columns: number): string[] {
  return wordWrap(withGlue(text, columns), columns).map((line) => line.replaceAll(GLUE, " "));
}

/**
 * Returns a line as lines of at most `columns`, broken at words. Text after a label or an indent keeps its column. A
 * secret, an address and a command stay whole, because in two parts they could not be copied.
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
  const text = withGlue(line.slice(start.length), columns);
  const lines = wordWrap(text, room, { keepsWide: true }).flatMap((glued) => {
    const part = glued.replaceAll(GLUE, " ");
    const width = textColumns(part);
    if (width <= room) return [" ".repeat(indent) + part];
    if (width <= columns) return [" ".repeat(columns - width) + part];
    return COPIED.test(part) || glued.includes(GLUE)
      ? [part]
      : wrapToColumns(part, room).map((piece) => " ".repeat(indent) + piece);
  });
  const [first = "", ...rest] = lines;
  if (first.startsWith(" ".repeat(indent))) return [start + first.slice(indent), ...rest];
  const label = start.trimEnd();
  return label === "" ? lines : [label, ...lines];
}

/**
 * Returns a command line as lines that a shell reads as one: each but the last ends in a backslash. A word that is
 * wider than the terminal stays whole.
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
