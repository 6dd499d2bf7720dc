/**
 * The programs of svc as people start them, in each case with a cache of Deno that has never looked for an update: what looks
 * for one does it in the first seconds.
 */
import { installedPackage, type Program } from "../cli/program.ts";
import { ChildProcess, eventually } from "./process.ts";

/** Deno waits half a second before it looks. */
const LOOK_MS = 2_000;
/** Ten times the five seconds that a server has for its end. */
const STOP_MS = 50_000;

interface Case {
  name: string;
  program: Program;
  args: readonly string[];
  env: Record<string, string>;
  /** Printed by a program that runs until it is stopped; it gets the time to look after that. */
  ready: RegExp | null;
}

/** The folders of this machine's cache of Deno, without the file that notes when Deno looked last. */
async function cacheIn(folder: string): Promise<Record<string, string>> {
  const { stdout } = await new Deno.Command(Deno.execPath(), { args: ["info", "--json"] }).output();
  const { denoDir } = JSON.parse(new TextDecoder().decode(stdout)) as { denoDir: string };
  await Deno.mkdir(`${folder}/cache`);
  for (const { name, isDirectory } of Deno.readDirSync(denoDir)) {
    if (isDirectory) await Deno.symlink(`${denoDir}/${name}`, `${folder}/cache/${name}`);
  }
  return { DENO_DIR: `${folder}/cache`, HOME: folder };
}

/** `svc --version`, `svc demo` and `svc serve` of the npm package, and `deno task dev`. */
export async function cases(folder: string): Promise<Case[]> {
  const program = await installedPackage(folder);
  const env = await cacheIn(folder);
  const serve = ["serve", "--port", "0", "--store", ":memory:", "--public-url", "http://127.0.0.1:9"];
  const task = { name: "deno", command: Deno.execPath(), args: ["task", "--quiet"] };
  return [
    { name: "svc --version", program, args: ["--version"], env, ready: null },
    { name: "svc demo", program, args: ["demo"], env, ready: null },
    { name: "svc serve", program, args: serve, env, ready: /listening/ },
    {
      name: "task dev",
      program: task,
      args: ["dev"],
      env: { ...env, PORT: "0", KV_URL: ":memory:" },
      ready: /listening/,
    },
  ];
}

/**
 * Runs a program until it ends, or stops it 2 s after it is ready.
 *
 * @param before words in front of its command, for example `strace`
 * @throws {Error} when it fails, with its output
 */
export async function runCase(
  { program, args, env, ready }: Case,
  more: Record<string, string>,
  before: readonly string[] = [],
): Promise<void> {
  const [command = "", ...words] = [...before, program.command, ...program.args, ...args];
  await using child = new ChildProcess(words, { ...env, ...more }, command);
  if (ready !== null) {
    await eventually(100_000, `it prints ${ready}\n${child.printed}`, () => ready.test(child.printed) || undefined);
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    await child.end("SIGTERM", STOP_MS);
    return;
  }
  const { code } = await child.status;
  if (code !== 0) throw new Error(`It ended with ${code}\n${child.printed}`);
}
