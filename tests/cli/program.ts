/**
 * `svc` as its users run it: a process of its own, from source or as the compiled binary, at a machine with a folder for
 * its files.
 */
import { assertEquals } from "@std/assert";
import { tempFolder } from "../support/process.ts";
import { PERMISSIONS } from "../tools/compile.ts";

const ROOT = decodeURIComponent(new URL("../../", import.meta.url).pathname);

/** Trials of what happens at random: 20, or `--trials n` after `--`. */
export const TRIALS = Number(Deno.args[Deno.args.indexOf("--trials") + 1] ?? NaN) || 20;

/** How `svc` is started. */
export interface Program {
  name: string;
  command: string;
  args: readonly string[];
}

export const SOURCE: Program = {
  name: "from source",
  command: Deno.execPath(),
  args: ["run", "--quiet", ...PERMISSIONS, `${ROOT}cli/main.ts`],
};

/** The binary that `deno task compile` builds, or `null`, said aloud, where there is no runtime stub for it. */
async function compiledProgram(): Promise<Program | null> {
  const dist = `${ROOT}.data/cli-binary-${Deno.pid}`;
  globalThis.addEventListener("unload", () => {
    try {
      Deno.removeSync(dist, { recursive: true });
    } catch { /* it was not built */ }
  });
  const tool = `${ROOT}../shared/tools/denort`;
  const missing = (why: string) => {
    console.log(`The compiled binary is NOT checked here: ${why}`);
    return null;
  };
  let paths: string[];
  try {
    paths = (await output(tool, [])).stdout.trim().split("\n");
  } catch {
    return missing("../shared/tools/denort is not there");
  }
  const [deno = "", stub = ""] = paths;
  if (stub === "") return missing("../shared/tools/denort found no runtime stub");
  const env = { DENORT_BIN: stub, DENO_TLS_CA_STORE: "system" };
  const built = await output(deno, ["run", "-A", `${ROOT}tests/tools/compile.ts`, "--dist", dist], env);
  return built.code === 0 ? { name: "compiled", command: `${dist}/svc`, args: [] } : missing(built.stderr);
}

/** `svc` from source, and compiled where that can be done. */
export async function programs(): Promise<Program[]> {
  return [SOURCE, await compiledProgram()].filter((program) => program !== null);
}

/** What a process did. */
export interface Outcome {
  code: number;
  stdout: string;
  stderr: string;
}

/** Runs a program to its end. */
export async function output(
  command: string,
  args: readonly string[],
  env: Record<string, string> = {},
): Promise<Outcome> {
  const { code, stdout, stderr } = await new Deno.Command(command, { args: [...args], env, stdin: "null" }).output();
  return { code, stdout: new TextDecoder().decode(stdout), stderr: new TextDecoder().decode(stderr) };
}

/** A machine on which `svc` runs. */
export class Machine implements AsyncDisposable {
  private constructor(
    readonly program: Program,
    readonly folder: AsyncDisposable & { path: string },
    readonly env: Record<string, string>,
  ) {}

  /** A machine of the first admin. */
  static async open(program: Program, { url, apiKey }: { url: string; apiKey: string }): Promise<Machine> {
    const folder = await tempFolder();
    const env = { SVC_CONFIG_DIR: `${folder.path}/svc`, SVC_REGISTRY_URL: url, SVC_API_KEY: apiKey, NO_COLOR: "1" };
    return new Machine(program, folder, env);
  }

  get dir(): string {
    return this.env.SVC_CONFIG_DIR ?? "";
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.folder[Symbol.asyncDispose]();
  }

  /** Starts a command line; `before` are words in front of it, for instance `strace`. */
  spawn(argv: readonly string[], { before = [], stdin = "null" }: SpawnOptions = {}): Deno.ChildProcess {
    const [command = "", ...args] = [...before, this.program.command, ...this.program.args, ...argv];
    return new Deno.Command(command, { args, env: this.env, stdin, stdout: "piped", stderr: "piped" }).spawn();
  }

  /** Runs a command line to its end. */
  async svc(...argv: string[]): Promise<Outcome> {
    return await ended(this.spawn(argv));
  }

  /** Runs a command line that must succeed, and gives its result. */
  // deno-lint-ignore no-explicit-any
  async json(...argv: string[]): Promise<any> {
    const { code, stdout, stderr } = await this.svc("--json", ...argv);
    assertEquals([code, stderr], [0, ""], `${argv.join(" ")}\n${stderr}`);
    return JSON.parse(stdout);
  }

  /** Runs a command line that must fail; its exit code, error code and message. */
  async failure(...argv: string[]): Promise<{ exit: number; code: string; message: string; stdout: string }> {
    const { code: exit, stdout, stderr } = await this.svc("--json", ...argv);
    const { error } = JSON.parse(stderr) as { error: { code: string; message: string } };
    return { exit, ...error, stdout };
  }

  path(file: string): string {
    return `${this.dir}/${file}`;
  }

  read(file: string): string {
    return Deno.readTextFileSync(this.path(file));
  }

  exists(file: string): boolean {
    try {
      Deno.lstatSync(this.path(file));
      return true;
    } catch {
      return false;
    }
  }

  /** Modes of everything below the folder, by path. */
  modes(folder = ""): Record<string, string> {
    const modes: Record<string, string> = {};
    for (const { name, isDirectory } of Deno.readDirSync(this.path(folder))) {
      const path = folder + name;
      modes[isDirectory ? `${path}/` : path] = ((Deno.lstatSync(this.path(path)).mode ?? 0) & 0o7777).toString(8);
      if (isDirectory) Object.assign(modes, this.modes(`${path}/`));
    }
    return modes;
  }
}

interface SpawnOptions {
  before?: readonly string[];
  stdin?: "null" | "piped";
}

/** Waits for a process's end. */
export async function ended(child: Deno.ChildProcess): Promise<Outcome> {
  const { code, stdout, stderr } = await child.output();
  return { code, stdout: new TextDecoder().decode(stdout), stderr: new TextDecoder().decode(stderr) };
}
