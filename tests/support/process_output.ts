/** What processes print. */

/** The output of a process on one of its streams. */
export class ProcessOutput {
  text = "";
  readonly ended: Promise<void>;
  #isOver = false;
  #waiting: (() => void)[] = [];

  constructor(stream: ReadableStream<Uint8Array>) {
    this.ended = this.#read(stream);
  }

  /** The lines so far that are complete: a line may arrive in two pieces. */
  get lines(): string[] {
    const lines = this.text.split("\n");
    if (!this.#isOver) lines.pop();
    return lines.filter((line) => line !== "");
  }

  /** Waits until the text matches. */
  async match(pattern: RegExp): Promise<RegExpMatchArray> {
    let ended = false;
    const end = this.ended.then(() => ended = true);
    while (true) {
      const found = this.text.match(pattern);
      if (found) return found;
      if (ended) throw new Error(`The process ended without printing ${pattern}`);
      await Promise.race([new Promise<void>((resolve) => this.#waiting.push(resolve)), end]);
    }
  }

  async #read(stream: ReadableStream<Uint8Array>): Promise<void> {
    const decoder = new TextDecoder();
    for await (const chunk of stream) {
      this.text += decoder.decode(chunk, { stream: true });
      for (const wake of this.#waiting.splice(0)) wake();
    }
    this.#isOver = true;
  }
}

/** Options of a command whose process gets its input, and ends, in `outputFor()`. */
export const PIPED = { stdin: "piped", stdout: "piped", stderr: "piped" } as const;

/** Gives a process its whole input. Returns its exit code and what it printed. */
export async function outputFor(
  input: string,
  child: Deno.ChildProcess,
): Promise<{ code: number; stdout: string; stderr: string }> {
  const output = child.output();
  await new Blob([input]).stream().pipeTo(child.stdin).catch(() => {});
  const { code, stdout, stderr } = await output;
  return { code, stdout: new TextDecoder().decode(stdout), stderr: new TextDecoder().decode(stderr) };
}
