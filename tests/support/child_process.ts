/** A process that a test starts, with its output. It ends only the processes that it started, by process ID. */
import { childCommand, within } from "./child_command.ts";
import { ProcessOutput } from "./process_output.ts";

/** Ten times as long as a server has for its end would be 50 s; a process that hangs is reported after this. */
const STOP_MS = 30_000;

/** Running processes. They are also ended when an uncaught error ends a test file. */
const running = new Set<Deno.ChildProcess>();
globalThis.addEventListener("unload", () => running.forEach((child) => child.kill("SIGKILL")));

/** A process that a test started. */
export class ChildProcess implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly stdout: ProcessOutput;
  readonly stderr: ProcessOutput;
  /** The exit status. */
  readonly status: Promise<Deno.CommandStatus>;
  #ended = false;

  /**
   * Runs Deno, or another program, in the project's folder. The child gets `env` and the variables of PASSED_ON only.
   */
  constructor(args: readonly string[], env: Record<string, string> = {}, command = Deno.execPath()) {
    this.#child = childCommand(args, env, { command, stdin: "null" }).spawn();
    running.add(this.#child);
    this.stdout = new ProcessOutput(this.#child.stdout);
    this.stderr = new ProcessOutput(this.#child.stderr);
    this.status = this.#child.status.then(async (status) => {
      this.#ended = true;
      running.delete(this.#child);
      await Promise.all([this.stdout.ended, this.stderr.ended]);
      return status;
    });
  }

  get pid(): number {
    return this.#child.pid;
  }

  /** The complete output so far, for the message of a failure. */
  get printed(): string {
    return `--- stdout\n${this.stdout.text}\n--- stderr\n${this.stderr.text}`;
  }

  /** Sends a signal; without effect once the process has ended. */
  signal(name: Deno.Signal): void {
    try {
      if (!this.#ended) this.#child.kill(name);
    } catch (error) {
      // It has ended, and its status has not been read yet.
      if (!(error instanceof TypeError)) throw error;
    }
  }

  /** Sends a signal and waits for the end of the process. */
  async end(name: Deno.Signal = "SIGTERM", withinMs = STOP_MS): Promise<Deno.CommandStatus> {
    this.signal(name);
    return await within(withinMs, `the end of process ${this.pid} after ${name}`, this.status);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.signal("SIGKILL");
    await this.status;
  }
}
