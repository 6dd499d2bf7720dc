/**
 * A child process of the bench: Deno with a file of this project, on loopback. Reads its lines, CPU time and memory,
 * and ends it by its PID. Keeps only the last part of its stderr.
 */
import { childCommand, within } from "../support/child_command.ts";

const TICKS_PER_SECOND = 100;
const PAGE_BYTES = 4_096;
const TAIL = 4_000;
const END_MS = 8_000;

/** Resolves after `ms` milliseconds. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

export class Child {
  readonly #child: Deno.ChildProcess;
  readonly #stdin: WritableStreamDefaultWriter<Uint8Array>;
  readonly #lines: string[] = [];
  readonly #read: Promise<unknown>;
  #wake = () => {};
  #tail = "";
  #over = false;

  constructor(args: readonly string[], env: Record<string, string> = {}, program = Deno.execPath()) {
    this.#child = childCommand(args, env, { command: program, stdin: "piped" }).spawn();
    this.#stdin = this.#child.stdin.getWriter();
    this.#stdin.closed.catch(() => {});
    const heard = (line: string) => {
      this.#lines.push(line);
      this.#wake();
    };
    const complained = (line: string) => this.#tail = `${this.#tail}${line}\n`.slice(-TAIL);
    this.#read = Promise.all([eachLine(this.#child.stdout, heard), eachLine(this.#child.stderr, complained)]);
    void this.#read.finally(() => {
      this.#over = true;
      this.#wake();
    });
  }

  get pid(): number {
    return this.#child.pid;
  }

  /** Returns the next line of its stdout. */
  async line(): Promise<string> {
    while (true) {
      const line = this.#lines.shift();
      if (line !== undefined) return line;
      if (this.#over) throw new Error(`A child process ended too early: ${this.#tail}`);
      await new Promise<void>((resolve) => this.#wake = resolve);
    }
  }

  /** Writes a line to its stdin. */
  async tell(line: string): Promise<void> {
    await this.#stdin.write(new TextEncoder().encode(`${line}\n`));
  }

  /** Returns the CPU time of all its threads, seconds; `null` where there is no /proc. */
  cpuSeconds(): number | null {
    const fields = readProc(this.pid, "stat")?.replace(/^.*\) /s, "").split(" ");
    return fields ? (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND : null;
  }

  /** Returns its memory with its share of what other processes use too (PSS), bytes; `null` where there is no /proc. */
  proportionalBytes(): number | null {
    const kibibytes = /^Pss:\s+(\d+) kB$/m.exec(readProc(this.pid, "smaps_rollup") ?? "")?.[1];
    return kibibytes === undefined ? null : Number(kibibytes) * 1024;
  }

  /** Returns its resident memory, bytes; `null` where there is no /proc. */
  residentBytes(): number | null {
    const statm = readProc(this.pid, "statm");
    return statm === null ? null : Number(statm.split(" ")[1]) * PAGE_BYTES;
  }

  /** Waits until it ends. */
  async ended(withinMs: number): Promise<Deno.CommandStatus> {
    return await within(withinMs, `the end of process ${this.pid}`, this.#child.status);
  }

  /** Sends SIGTERM, and SIGKILL when it does not end in time. */
  async end(): Promise<void> {
    if (!this.#over) this.#signal("SIGTERM");
    await this.ended(END_MS).catch(() => this.kill());
    await this.#child.status;
    await this.#stdin.close().catch(() => {});
    await this.#read.catch(() => {});
  }

  /** Sends SIGKILL. */
  kill(): void {
    this.#signal("SIGKILL");
  }

  #signal(name: Deno.Signal): void {
    try {
      this.#child.kill(name);
    } catch (error) {
      // It has ended already.
      if (!(error instanceof TypeError || error instanceof Deno.errors.NotFound)) throw error;
    }
  }
}

function readProc(pid: number, name: string): string | null {
  try {
    return Deno.readTextFileSync(`/proc/${pid}/${name}`);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}

/** Calls `take` with each line of a stream. */
export async function eachLine(stream: ReadableStream<Uint8Array>, take: (line: string) => void): Promise<void> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of stream) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    lines.forEach(take);
  }
  if (rest !== "") take(rest);
}
