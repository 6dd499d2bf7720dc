/** A terminal in which one command runs, from `tmux`. Its server ends with it. */
import { output } from "../cli/program.ts";
import { eventually } from "./process.ts";

/** False when this machine has no `tmux`. */
export const HAS_TMUX = await output("tmux", ["-V"]).then(({ code }) => code === 0, () => false);
if (!HAS_TMUX) console.log("Terminals are NOT checked here: tmux is not installed");

/** Only a test that hangs reaches this time. */
const SHOWN_MS = 60_000;
/** Each look at a screen starts a process: at the pace of other waits they would take as much CPU as the programs shown. */
const PAUSE_MS = 100;

export class TmuxTerminal implements AsyncDisposable {
  readonly #socket = `svc-${crypto.randomUUID()}`;

  /** @param command a line for the shell */
  static async run(columns: number, command: string, rows = 40): Promise<TmuxTerminal> {
    const terminal = new TmuxTerminal();
    const size = ["-x", String(columns), "-y", String(rows)];
    await terminal.#tmux("-f", "/dev/null", "-u", "new-session", "-d", ...size, command);
    return terminal;
  }

  /** The lines of the screen that are not empty. */
  async lines(): Promise<string[]> {
    return (await this.#tmux("capture-pane", "-p")).split("\n").filter((line) => line.trim() !== "");
  }

  /**
   * Waits until `find` finds something on the screen, and fails with the screen: without it a failure cannot be understood.
   */
  async seen<T>(what: string, find: (lines: string[]) => T | undefined): Promise<T> {
    let lines: string[] = [];
    const found = eventually(SHOWN_MS, what, async () => find(lines = await this.lines()), PAUSE_MS);
    return await found.catch((error) => {
      throw new Error(`${error.message}\n${lines.join("\n")}`);
    });
  }

  /** Waits for a line of the screen. */
  shown(pattern: RegExp): Promise<string> {
    return this.seen(`the terminal shows ${pattern}`, (lines) => lines.find((line) => pattern.test(line)));
  }

  /** Everything that was printed, with what has left the screen; a line that the terminal itself has wrapped is one. */
  async printed(): Promise<string[]> {
    return (await this.#tmux("capture-pane", "-p", "-J", "-S", "-")).split("\n").map((line) => line.trimEnd());
  }

  /** Changes the width of the window. */
  async resize(columns: number): Promise<void> {
    await this.#tmux("resize-window", "-x", String(columns));
  }

  /** The title that the program has given the window. */
  async title(): Promise<string> {
    return (await this.#tmux("display-message", "-p", "#{pane_title}")).trim();
  }

  /** Presses keys, by the names that tmux has for them: `q`, `C-c`, `Enter`. */
  async press(...keys: string[]): Promise<void> {
    await this.#tmux("send-keys", ...keys);
  }

  /**
   * Presses the keys of a text, each when the one before is shown behind the prompt: keys that the program reads at once are a
   * paste to it, and Enter does not send one.
   */
  async write(prompt: string, text: string): Promise<void> {
    for (let length = 1; length <= text.length; length++) {
      await this.press(text.charAt(length - 1));
      const line = `${prompt} ${text.slice(0, length)}`;
      await this.seen(`the terminal shows ${line}`, (lines) => lines.some((one) => one.startsWith(line)) || undefined);
    }
  }

  /** Pastes a text, with the marks of a bracketed paste if the program has asked for them. */
  async paste(text: string): Promise<void> {
    await this.#tmux("set-buffer", text);
    await this.#tmux("paste-buffer", "-p");
  }

  async #tmux(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await output("tmux", ["-L", this.#socket, ...args]);
    if (code !== 0) throw new Error(`tmux ${args[0]} failed: ${stderr}`);
    return stdout;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // The server has ended by itself when the command has.
    await output("tmux", ["-L", this.#socket, "kill-server"]);
  }
}
