/** One line that a person edits with the keys of a terminal. */
import { printable } from "./escapes.ts";
import { columnsOf, cutToColumns, unitsOf } from "./text_width.ts";

const PAST_LINES = 20;
/** Columns for the text, also after a long prompt. */
const TEXT_MIN = 12;
/** Most code points of an emoji. They arrive one by one, and are one unit with those before. */
const EMOJI_PARTS = 10;

export class LineEditor {
  #text: string[] = [];
  #cursor = 0;
  /** Earlier lines, oldest first. `#place` is the index of the one that is shown, or their number. */
  readonly #past: string[];
  #place: number;
  /** The unfinished line, kept while the person looks at earlier ones. */
  #unsent = "";
  readonly #keys: Readonly<Record<string, () => void>> = {
    Left: () => this.#cursor = Math.max(0, this.#cursor - 1),
    Right: () => this.#cursor = Math.min(this.#text.length, this.#cursor + 1),
    Home: () => this.#cursor = 0,
    End: () => this.#cursor = this.#text.length,
    Backspace: () => this.#delete(this.#cursor - 1, this.#cursor),
    Delete: () => this.#delete(this.#cursor, this.#cursor + 1),
    "Ctrl-U": () => this.#delete(0, this.#cursor),
    "Ctrl-K": () => this.#delete(this.#cursor, this.#text.length),
    "Ctrl-W": () => this.#delete(this.#wordStart(), this.#cursor),
    Up: () => this.#recall(-1),
    Down: () => this.#recall(1),
  };

  /** @param past the lines of earlier editors, oldest first; a sent line is added */
  constructor(readonly prompt: string, past: string[] = [], text = "") {
    this.#past = past;
    this.#place = past.length;
    this.insert(text);
  }

  get text(): string {
    return this.#text.join("");
  }

  /** Adds a text at the cursor, with each of its line breaks as `\n`. */
  insert(text: string): void {
    const start = Math.max(0, this.#cursor - EMOJI_PARTS), before = this.#text.slice(start, this.#cursor).join("");
    const units = [...unitsOf(before + text.replaceAll(/\r\n?/g, "\n"))];
    this.#text.splice(start, this.#cursor - start, ...units);
    this.#cursor = start + units.length;
  }

  set(text: string): void {
    [this.#text, this.#cursor] = [[], 0];
    this.insert(text);
  }

  /** Handles a key. Returns the text when Enter completes it. If it ends in a backslash, Enter adds a line instead. */
  press(key: string): string | null {
    if (key === "Enter") {
      if (this.#text.at(-1) !== "\\") return this.#remember();
      this.set(`${this.text.slice(0, -1)}\n`);
      return null;
    }
    const act = this.#keys[key];
    if (act !== undefined) act();
    else if ([...key].length === 1) this.insert(key);
    return null;
  }

  /**
   * Returns the prompt, the part of the line around the cursor that fits into `columns`, and the cursor's column. A
   * line break is shown as `⏎`.
   */
  draw(columns: number) {
    const cells = this.#text.map((character) => character === "\n" ? "⏎" : printable(character));
    const widthOf = (text: string) => [...text].reduce((sum, character) => sum + columnsOf(character), 0);
    // A long name in the prompt is cut, because the text that is being written would not be seen.
    const isLong = widthOf(this.prompt) > columns - TEXT_MIN;
    const prompt = isLong ? `${cutToColumns(this.prompt, Math.max(0, columns - TEXT_MIN - 2))}› ` : this.prompt;
    const room = Math.max(4, columns - widthOf(prompt) - 1);
    let first = this.#cursor, used = 0;
    while (first > 0 && used + widthOf(cells[first - 1] ?? "") < room) used += widthOf(cells[--first] ?? "");
    let shown = cells.slice(first, this.#cursor).join(""), width = used;
    for (const cell of cells.slice(this.#cursor)) {
      width += widthOf(cell);
      if (width > room) break;
      shown += cell;
    }
    return { text: prompt + shown, cursor: widthOf(prompt) + used };
  }

  #delete(from: number, to: number): void {
    if (from < 0) return;
    this.#text.splice(from, to - from);
    this.#cursor = from;
  }

  #wordStart(): number {
    let at = this.#cursor;
    while (at > 0 && this.#text[at - 1] === " ") at--;
    while (at > 0 && this.#text[at - 1] !== " ") at--;
    return at;
  }

  #recall(step: number): void {
    if (this.#place === this.#past.length) this.#unsent = this.text;
    this.#place = Math.min(this.#past.length, Math.max(0, this.#place + step));
    this.set(this.#past[this.#place] ?? this.#unsent);
  }

  #remember(): string {
    const { text } = this;
    if (text.trim() !== "") this.#past.push(text);
    if (this.#past.length > PAST_LINES) this.#past.shift();
    return text;
  }
}
