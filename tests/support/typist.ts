/** A person at a terminal of 80 columns and 24 rows, whose shell has `svc` as the README defines it. */
import { shellWord } from "../../cli/terminal/output.ts";
import type { Program } from "../cli/program.ts";
import { TmuxTerminal } from "./tmux_terminal.ts";

/** Time after a paste in which keys are dropped. A longer wait does no harm. */
const AFTER_PASTE_MS = 600;

export interface TypistOptions {
  /** The configuration folder. */
  dir: string;
  /** Variables of the shell's `svc`. */
  env?: Record<string, string>;
  columns?: number;
}

export class Typist implements AsyncDisposable {
  /** Command lines that have ended. */
  #ended = 0;

  private constructor(readonly terminal: TmuxTerminal) {}

  static async open(program: Program, { dir, env = {}, columns = 80 }: TypistOptions): Promise<Typist> {
    const words = [program.command, ...program.args].map(shellWord).join(" ");
    const typist = new Typist(await TmuxTerminal.run(columns, "bash --norc --noprofile -i", 24));
    const variables = Object.entries({ NO_COLOR: "1", LANG: "C.UTF-8", SVC_CONFIG_DIR: dir, ...env })
      .map(([name, value]) => `${name}=${shellWord(value)}`).join(" ");
    await typist.type(`PS1='ready '; svc() { ${variables} ${words} "$@"; }; clear`);
    await typist.shown(/^ready/);
    return typist;
  }

  /** Types a command line. */
  async type(line: string): Promise<void> {
    await this.terminal.paste(line);
    await this.terminal.press("Enter");
  }

  /** Types a command line on an empty screen and waits for its end. Returns what is on the screen then. */
  async run(line: string): Promise<string[]> {
    const end = `ended ${++this.#ended}`;
    await this.type(`clear; ${line}; echo '${end}'`);
    await this.shown(new RegExp(`^${end}$`));
    const lines = await this.terminal.lines();
    return lines.slice(lines.findLastIndex((one) => one.startsWith("ready clear")) + 1, lines.indexOf(end));
  }

  async press(...keys: string[]): Promise<void> {
    await this.terminal.press(...keys);
  }

  /** Writes a text into the line of `svc` and sends it. */
  async send(text: string): Promise<void> {
    const before = (await this.terminal.lines()).at(-1);
    await this.terminal.paste(text);
    // A busy machine reads the paste late, and the time in which keys are dropped begins with that.
    await this.terminal.seen("the terminal has read the paste", (lines) => lines.at(-1) !== before || undefined);
    await new Promise((resolve) => setTimeout(resolve, AFTER_PASTE_MS));
    await this.press("Enter");
  }

  /** Waits for a line of the screen. */
  shown(pattern: RegExp): Promise<string> {
    return this.terminal.shown(pattern);
  }

  /** Waits until the shell reads what is typed: a connector that is stopping still reads it. */
  async ready(): Promise<void> {
    await this.terminal.seen("the shell is ready", (lines) => lines.at(-1)?.match(/^ready\s*$/) ?? undefined);
  }

  /** Ends the view with its key. */
  async quit(): Promise<void> {
    await this.press("q");
    await this.ready();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.terminal[Symbol.asyncDispose]();
  }
}
