/**
 * A real `denokv`, the server of Deno KV over the network, as a child process of a test: finds the program, starts it
 * on a free port of loopback, and ends it. Every server of one process has the same random access token, because
 * `Deno.openKv` reads it from the environment.
 */
import { ROOT, within } from "./child_command.ts";
import { ChildProcess } from "./child_process.ts";
import { succeeds } from "./installed.ts";

/** The one line of a test file whose tests are skipped. */
export const NO_DENOKV = "skipped: no denokv; cargo install denokv --locked";

/** Variable that names the program. */
const PROGRAM = "DENOKV_BIN";
/** Variable of Deno and of denokv. */
const TOKEN = "DENO_KV_ACCESS_TOKEN";
const START_MS = 30_000;

/** Folder outside of the checkout into which `.ci/run` installs denokv, so that a clean checkout finds it again. */
function cachedProgram(): string {
  const cache = Deno.env.get("XDG_CACHE_HOME") || `${Deno.env.get("HOME") ?? ""}/.cache`;
  return `${cache}/svc/denokv/bin/denokv`;
}

/** Returns `denokvProgram()`. Prints one line when there is none. */
export async function findDenokv(): Promise<string | null> {
  const program = await denokvProgram();
  if (program === null) console.log(NO_DENOKV);
  return program;
}

/**
 * Returns the program that `DENOKV_BIN` names, else the one on the path, else the one in the cache, else `null`.
 *
 * @throws {Error} when `DENOKV_BIN` names something else
 */
export async function denokvProgram(): Promise<string | null> {
  const given = Deno.env.get(PROGRAM);
  if (given) {
    if (await succeeds(given, ["--help"])) return given;
    throw new Error(`${PROGRAM} does not name a denokv that runs: ${given}`);
  }
  for (const candidate of ["denokv", cachedProgram()]) if (await succeeds(candidate, ["--help"])) return candidate;
  return null;
}

/** The access token of the servers that this process starts, or that it was given. */
export function accessToken(): string {
  const token = Deno.env.get(TOKEN) || crypto.randomUUID();
  Deno.env.set(TOKEN, token);
  return token;
}

/** Options of `serve` in docs/examples/denokv.service, after the address. */
export async function unitOptions(): Promise<string[]> {
  const unit = await Deno.readTextFile(`${ROOT}/docs/examples/denokv.service`);
  const [, options = ""] = unit.replaceAll("\\\n", " ").match(/^ExecStart=.* --addr \S+(.*)$/m) ?? [];
  return options.trim().split(/\s+/);
}

/** A running denokv. */
export class Denokv implements AsyncDisposable {
  #child: ChildProcess;

  private constructor(
    readonly program: string,
    readonly file: string,
    readonly options: readonly string[],
    child: ChildProcess,
    readonly address: string,
  ) {
    this.#child = child;
  }

  /**
   * Starts a server. `file` is its SQLite file (default: a database in memory). `port` 0 takes a free one. `options` are
   * further ones of `serve`.
   */
  static async start(program: string, file = ":memory:", port = 0, options: readonly string[] = []): Promise<Denokv> {
    const { child, address } = await Denokv.#spawn(program, file, port, options);
    return new Denokv(program, file, options, child, address);
  }

  static async #spawn(program: string, file: string, port: number, options: readonly string[]) {
    const args = ["--sqlite-path", file, "serve", "--addr", `127.0.0.1:${port}`, ...options];
    const child = new ChildProcess(args, { [TOKEN]: accessToken() }, program);
    try {
      const listening = child.stderr.match(/Listening on (http:\/\/127\.0\.0\.1:\d+)/);
      const [, address = ""] = await within(START_MS, "denokv listens", listening);
      return { child, address };
    } catch (cause) {
      await child[Symbol.asyncDispose]();
      throw new Error(`denokv did not start\n${child.printed}`, { cause });
    }
  }

  get pid(): number {
    return this.#child.pid;
  }

  /** Kills the server, as a crash does. */
  async kill(): Promise<void> {
    await this.#child.end("SIGKILL");
  }

  /** Starts the server again with the same file and address, after `kill`. */
  async restart(): Promise<void> {
    const { child } = await Denokv.#spawn(this.program, this.file, Number(new URL(this.address).port), this.options);
    this.#child = child;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#child[Symbol.asyncDispose]();
  }
}
