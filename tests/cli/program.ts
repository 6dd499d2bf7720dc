/**
 * `svc` as its users run it: a process of its own (the bundle of the npm package, or the compiled binary) on a machine with
 * a folder for its files.
 */
import { assert } from "@std/assert";
import { tempFolder } from "../support/process.ts";
import { IS_LONG, trials } from "../support/trials.ts";
import { built } from "../support/built.ts";
import { bundle, bundleInParts, FIRST_PART } from "../tools/compile.ts";
import { BUNDLE_FLAGS, launcher } from "../tools/pack.ts";
import { type Outcome, SvcRunner } from "./svc_runner.ts";

const ROOT = decodeURIComponent(new URL("../../", import.meta.url).pathname);

/** Number of trials of random tests: 1, or `--trials n` after `--`. */
export const TRIALS = trials(1);

/** How `svc` is started. */
export interface Program {
  name: string;
  command: string;
  args: readonly string[];
}

/** The bundle in parts, looked for once, because that reads every source. */
let parts: Promise<string> | null = null;

/** The bundle of the npm package, started as its launcher starts it for a command that opens no store. */
export async function bundledProgram(): Promise<Program> {
  const path = await (parts ??= built("parts", bundleInParts));
  return {
    name: "bundled",
    command: Deno.execPath(),
    args: [...BUNDLE_FLAGS, `${path}/deno.json`, "-P=svc", `${path}/${FIRST_PART}`],
  };
}

/** The same for the commands that open a store. */
export async function bundledServer(): Promise<Program> {
  const { command, args, name } = await bundledProgram();
  return {
    name,
    command,
    args: args.flatMap((word) =>
      word === "-P=svc" ? ["-P=serve", "--unstable-kv", "--unstable-no-legacy-abort"] : [word]
    ),
  };
}

/** The npm package as npm installs it in a folder, with this Deno as the one that it depends on. */
export async function installedPackage(folder: string): Promise<Program> {
  const path = await (parts ??= built("parts", bundleInParts));
  await Deno.mkdir(`${folder}/node_modules/deno`, { recursive: true });
  await Deno.symlink(path, `${folder}/lib`);
  await Deno.writeTextFile(`${folder}/svc.cjs`, launcher());
  const install = `exports.runInstall = () => ${JSON.stringify(Deno.execPath())};\n`;
  await Deno.writeTextFile(`${folder}/node_modules/deno/install_api.cjs`, install);
  return { name: "installed", command: "node", args: [`${folder}/svc.cjs`] };
}

/** A runtime stub for `deno compile`, with the Deno that it is of; `null` where there is none. */
export async function runtimeStub(): Promise<{ deno: string; stub: string } | null> {
  try {
    const [deno = "", stub = ""] = (await output(`${ROOT}../shared/tools/denort`, [])).stdout.trim().split("\n");
    return stub === "" ? null : { deno, stub };
  } catch {
    return null;
  }
}

/** The binary that `deno task compile` builds; `null`, with a message, when there is no runtime stub for it. */
export async function compiledProgram(): Promise<Program | null> {
  const tools = await runtimeStub();
  if (tools === null) {
    console.log("The compiled binary is NOT checked here: there is no runtime stub");
    return null;
  }
  const { deno, stub } = tools;
  const dist = await built("compiled", async (dist) => {
    const args = ["run", "-A", `${ROOT}tests/tools/compile.ts`, "--dist", dist];
    const { code, stderr } = await output(deno, args, { DENORT_BIN: stub, DENO_TLS_CA_STORE: "system" });
    if (code !== 0) throw new Error(`The binary could not be built\n${stderr}`);
  }, [deno, stub].join());
  return { name: "compiled", command: `${dist}/svc`, args: [] };
}

/** `svc` bundled; in the long run also compiled, where that is possible. */
export async function programs(): Promise<Program[]> {
  return [await bundledProgram(), IS_LONG ? await compiledProgram() : null].filter((program) => program !== null);
}

/** `svc` bundled, killed just before the n-th file or network operation. */
export async function dyingProgram(): Promise<(n: number) => Program> {
  const path = await built("kill_at.js", (path) => bundle(path, "tests/cli/kill_at.ts"));
  const args = ["run", "--quiet", "--no-config", "--no-lock", "--no-remote", "--no-npm", "-A", path];
  return (n) => ({ name: `dying at ${n}`, command: Deno.execPath(), args: [...args, String(n)] });
}

/** Runs a program until it exits. */
export async function output(
  command: string,
  args: readonly string[],
  env: Record<string, string> = {},
): Promise<Outcome> {
  const { code, stdout, stderr } = await new Deno.Command(command, { args: [...args], env, stdin: "null" }).output();
  return { code, stdout: new TextDecoder().decode(stdout), stderr: new TextDecoder().decode(stderr) };
}

/** A machine on which `svc` runs. */
export class Machine extends SvcRunner implements AsyncDisposable {
  private constructor(
    readonly program: Program,
    readonly folder: AsyncDisposable & { path: string },
    readonly env: Record<string, string>,
  ) {
    super();
  }

  /** A machine of the first admin. */
  static async open(program: Program, { url, apiKey }: { url: string; apiKey: string }): Promise<Machine> {
    const folder = await tempFolder();
    const env = { SVC_CONFIG_DIR: `${folder.path}/svc`, SVC_REGISTRY_URL: url, SVC_API_KEY: apiKey, NO_COLOR: "1" };
    return new Machine(program, folder, env);
  }

  override get dir(): string {
    return this.env.SVC_CONFIG_DIR ?? "";
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.folder[Symbol.asyncDispose]();
  }

  /** Starts a command line; `before` are words in front of it, for example `strace`. */
  spawn(argv: readonly string[], { before = [], stdin = "null" }: SpawnOptions = {}): Deno.ChildProcess {
    const [command = "", ...args] = [...before, this.program.command, ...this.program.args, ...argv];
    return new Deno.Command(command, { args, env: this.env, stdin, stdout: "piped", stderr: "piped" }).spawn();
  }

  override async svc(...argv: string[]): Promise<Outcome> {
    return await ended(this.spawn(argv));
  }

  exists(file: string): boolean {
    try {
      Deno.lstatSync(this.path(file));
      return true;
    } catch {
      return false;
    }
  }

  /** Modes of everything in the folder, by path. */
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

export async function ended(child: Deno.ChildProcess): Promise<Outcome> {
  const { code, stdout, stderr } = await child.output();
  return { code, stdout: new TextDecoder().decode(stdout), stderr: new TextDecoder().decode(stderr) };
}

/** A process that keeps running, and its output until now. */
export class Watched implements AsyncDisposable {
  printed = "";
  readonly #reading: Promise<void>[];
  #isEnded = false;
  #wake = () => {};

  constructor(readonly child: Deno.ChildProcess) {
    this.#reading = [child.stdout, child.stderr].map((stream) => this.#read(stream));
    void Promise.all(this.#reading).then(() => {
      this.#isEnded = true;
      this.#wake();
    });
  }

  async #read(stream: ReadableStream<Uint8Array>): Promise<void> {
    const decoder = new TextDecoder();
    for await (const chunk of stream) {
      this.printed += decoder.decode(chunk, { stream: true });
      this.#wake();
    }
  }

  /** Waits until its output contains a text. */
  async prints(pattern: RegExp): Promise<void> {
    while (!pattern.test(this.printed)) {
      assert(!this.#isEnded, `It ended without printing ${pattern}\n${this.printed}`);
      await new Promise<void>((resolve) => this.#wake = resolve);
    }
  }

  /** Waits until it has ended and everything that it has printed is read, which may come later. */
  async over(): Promise<Deno.CommandStatus> {
    await Promise.all(this.#reading);
    return await this.child.status;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      this.child.kill("SIGKILL");
    } catch { /** It has exited. */ }
    await Promise.all(this.#reading);
    await this.child.status;
  }
}
