/** Turns the bytes of a terminal into keys and pasted texts. */

/** A key: the character that it prints, or its name (`Enter`); or a pasted text, `null` when it is too long. */
export type KeyInput = { kind: "key"; key: string } | { kind: "paste"; text: string | null };

const PASTE = { start: "\x1b[200~", end: "\x1b[201~" };
/** A complete escape sequence at the start of a text: CSI, SS3, or another character with the Alt key. */
// deno-lint-ignore no-control-regex
const SEQUENCE = /^\x1b(?:\[[\x30-\x3f]*[\x20-\x2f]*[\x40-\x7e]|O.|[^[O])/s;
/** Keys that print nothing, by what a terminal sends for them. Other such keys are ignored. */
const NAMES: Readonly<Record<string, string>> = {
  "\r": "Enter",
  "\n": "Enter",
  "\t": "Tab",
  "\x7f": "Backspace",
  "\b": "Backspace",
  "\x01": "Home",
  "\x05": "End",
  "\x0b": "Ctrl-K",
  "\x15": "Ctrl-U",
  "\x17": "Ctrl-W",
  "\x1b[A": "Up",
  "\x1b[B": "Down",
  "\x1b[C": "Right",
  "\x1b[D": "Left",
  "\x1b[H": "Home",
  "\x1b[F": "End",
  "\x1b[1~": "Home",
  "\x1b[3~": "Delete",
  "\x1b[4~": "End",
};
/** The characters of Backspace, and of Ctrl with A, E, K, U and W, which move the cursor or delete. */
// deno-lint-ignore no-control-regex
const EDITING = /([\b\x7f\x01\x05\x0b\x15\x17])/;
/** A key with the number before it, as in `12r`. */
const NUMBERED = /^\d{1,9}[a-z]?$/;
/** The longest start of a sequence that is kept until its rest arrives. A longer one is dropped. */
const MAX_HELD = 32;

export class KeyDecoder {
  readonly #decoder = new TextDecoder();
  /** The start of an escape sequence whose rest has not arrived. */
  #held = "";
  /** The present paste. Its text is bounded, and can end with a part of the end marker. */
  #paste: { text: string; isTooLong: boolean } | null = null;

  constructor(private readonly maxPasteCharacters: number) {}

  /** True while the end of a paste, or of an escape sequence, has not arrived. */
  get isIncomplete(): boolean {
    return this.#paste !== null || this.#held !== "";
  }

  /** True when only Esc has arrived, which is a key of its own or the start of a sequence. */
  get isEscape(): boolean {
    return this.#held === "\x1b";
  }

  /** Forgets an incomplete paste or sequence, whose end will not arrive. */
  reset(): void {
    this.#paste = null;
    this.#held = "";
  }

  push(bytes: Uint8Array): KeyInput[] {
    const found: KeyInput[] = [];
    let text = this.#held + this.#decoder.decode(bytes, { stream: true });
    this.#held = "";
    while (text !== "") text = this.#paste === null ? this.#keys(text, found) : this.#pasted(text, found);
    return found;
  }

  /** Reads up to the next sequence. Returns the rest of the text. */
  #keys(text: string, found: KeyInput[]): string {
    const escape = text.indexOf("\x1b");
    const plain = escape === -1 ? text : text.slice(0, escape);
    // The keys that edit are no part of a text, and would be sent with it when a slow line delivers both at once.
    for (const part of plain.split(EDITING)) this.#plain(part, found);
    if (escape === -1) return "";
    const rest = text.slice(escape);
    const [sequence] = SEQUENCE.exec(rest) ?? [];
    if (sequence === PASTE.start) this.#paste = { text: "", isTooLong: false };
    // Some terminals send SS3 in place of CSI.
    const name = NAMES[sequence?.replace("\x1bO", "\x1b[") ?? ""];
    if (name !== undefined) found.push({ kind: "key", key: name });
    if (sequence !== undefined) return rest.slice(sequence.length);
    if (rest.length <= MAX_HELD) this.#held = rest;
    return "";
  }

  #plain(text: string, found: KeyInput[]): void {
    const typed = [...text].filter((character) => character >= " " && character !== "\x7f");
    // A terminal without bracketed paste sends a pasted text like keys, but all at once, so several characters are a
    // paste. A number and its key stay keys, because a slow line may also send them at once.
    if (typed.length > 1 && !NUMBERED.test(text)) {
      found.push({ kind: "paste", text: text.length > this.maxPasteCharacters ? null : text });
    } else {
      for (const character of text) {
        const key = NAMES[character] ?? (typed.includes(character) ? character : null);
        if (key !== null) found.push({ kind: "key", key });
      }
    }
  }

  /** Reads up to the end of the paste. Returns the rest of the text. */
  #pasted(text: string, found: KeyInput[]): string {
    const paste = this.#paste ?? { text: "", isTooLong: false };
    const all = paste.text + text;
    const end = all.indexOf(PASTE.end);
    const content = end === -1 ? all : all.slice(0, end);
    paste.isTooLong ||= content.length > this.maxPasteCharacters + PASTE.end.length;
    if (end === -1) {
      // A text that is too long is dropped, but for its end, which may hold the beginning of the end marker.
      paste.text = paste.isTooLong ? all.slice(-PASTE.end.length) : all;
      return "";
    }
    this.#paste = null;
    found.push({ kind: "paste", text: paste.isTooLong || content.length > this.maxPasteCharacters ? null : content });
    return all.slice(end + PASTE.end.length);
  }
}
