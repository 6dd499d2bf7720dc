/** What the next keys are for, when they are not commands: a line that is being written, or an open question. */
import type { Cancel, Clock } from "../../../shared/clock.ts";
import { LineEditor } from "../../terminal/line_editor.ts";
import { type Line, printable } from "../../terminal/escapes.ts";
import { cutToColumns, textColumns } from "../../terminal/text_width.ts";
import type { LiveLines } from "./view.ts";

/** How long a question stays open. With more, a key that is meant for something else may answer it. */
const QUESTION_MS = 60_000;

const ANSWERS = " [y/N] ";
const AGAIN = "  Press Enter again.";

/** A line that is being written. `isHeld`: Enter was dropped, and no key came since. */
type Edit = {
  kind: "edit";
  editor: LineEditor;
  names: readonly string[];
  done(text: string): void;
  isMessage?: true;
  isHeld?: boolean;
};
/** A question. `line` comes back when it ends, because the person would otherwise write it again. */
type Question = { kind: "question"; text: string; yes(): unknown; no: string; line: Edit | null };

export interface PromptDeps {
  clock: Clock;
  run(action: () => unknown): void;
  ended(say: string | null): void;
}

export class Prompt {
  readonly #past: string[] = [];
  #mode: Edit | Question | null = null;
  #cancel: Cancel = () => {};

  constructor(private readonly deps: PromptDeps) {}

  run(action: () => unknown): void {
    this.deps.run(action);
  }

  get isOpen(): boolean {
    return this.#mode !== null;
  }

  get editor(): LineEditor | null {
    return this.#mode?.kind === "edit" ? this.#mode.editor : null;
  }

  /** The message that is being written, also behind a question; an empty text without one. */
  get unsent(): string {
    const edit = this.#mode?.kind === "question" ? this.#mode.line : this.#mode;
    return edit?.isMessage === true ? edit.editor.text : "";
  }

  /** Lets a person write a message; `up` brings back earlier ones. */
  write(alias: string, done: (text: string) => void): void {
    const editor = new LineEditor(`to ${alias}› `, this.#past);
    this.#mode = { kind: "edit", editor, names: [], done, isMessage: true };
  }

  /** Asks for one of these names; Tab completes it. */
  pick(prompt: string, names: readonly string[], done: (text: string) => void, text = ""): void {
    this.#mode = { kind: "edit", editor: new LineEditor(prompt, [], text), names, done };
  }

  /** Asks a question; a line that is being written waits for its end. */
  ask(text: string, yes: () => unknown, no: string): void {
    const line = this.#mode?.kind === "edit" ? this.#mode : null;
    this.#mode = { kind: "question", text, yes, no, line };
    this.#cancel = this.deps.clock.after(QUESTION_MS, () => this.end(no));
  }

  /** Ends the line or the question, and shows `say`. */
  end(say: string | null): void {
    this.#mode = this.#mode?.kind === "question" ? this.#mode.line : null;
    this.#cancel();
    this.deps.ended(say);
  }

  /** Ends the line or the question; a question counts as declined. */
  discard(): void {
    this.end(this.#mode?.kind === "question" ? this.#mode.no : null);
  }

  close(): void {
    this.#cancel();
  }

  /**
   * Handles a key. Returns false when there is no prompt.
   *
   * @param isDeaf keys that arrive now may belong to a paste, so none sends or answers
   */
  press(key: string, isDeaf: boolean): boolean {
    const mode = this.#mode;
    if (mode === null) return false;
    if (mode.kind === "edit") {
      mode.isHeld = isDeaf && key === "Enter";
      if (!mode.isHeld) this.#edit(mode, key);
    } else if (!isDeaf) {
      const isYes = /^y$/i.test(key);
      this.end(isYes ? null : mode.no);
      if (isYes) this.deps.run(mode.yes);
    }
    return true;
  }

  #edit({ editor, names, done }: Edit, key: string): void {
    if (key === "Escape") return this.end(null);
    if (key === "Tab") {
      const fits = names.filter((name) => name.startsWith(editor.text));
      if (fits[0] !== undefined) editor.set(fits.length === 1 ? fits[0] : commonStart(fits));
      return;
    }
    const text = editor.press(key);
    if (text === null) return;
    this.end(null);
    if (text.trim() !== "") done(text);
  }

  live(columns: number): { line: Line; cursor: LiveLines["cursor"] } | null {
    const mode = this.#mode;
    if (mode === null) return null;
    if (mode.kind === "question") {
      // A question that is cut still says which keys answer it.
      const question = cutToColumns(printable(mode.text), columns - ANSWERS.length);
      return { line: question + ANSWERS, cursor: null };
    }
    // Without the hint, a person believes that the text was sent.
    const hint = mode.isHeld ? AGAIN : "", { text, cursor } = mode.editor.draw(columns - hint.length);
    return { line: [["", text], ["yellow", cutToColumns(hint, columns - textColumns(text))]], cursor };
  }
}

function commonStart(names: readonly string[]): string {
  const [first = ""] = names;
  let length = first.length;
  while (!names.every((name) => name.startsWith(first.slice(0, length)))) length--;
  return first.slice(0, length);
}
