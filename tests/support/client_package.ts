/**
 * The package of the client library, installed as a user installs it, and the programs of the tests that run on it in Node
 * and on its source in Deno.
 */
import { assert } from "@std/assert";
import { packClient } from "../tools/pack.ts";
import { ChildProcess, ROOT, tempFolder } from "./process.ts";

/** An installed package. */
export interface InstalledClient extends AsyncDisposable {
  /** Folder with `node_modules`. */
  path: string;
  tarball: string;
  /** Version of Node, for example `20.20.2`. */
  node: string;
}

/**
 * Packs the library and installs it into an empty folder. Returns `null`, with a line printed, on a machine without Node or npm;
 * its tests count as skipped.
 */
export async function installedClient(): Promise<InstalledClient | null> {
  const node = await outputOf("node", ["--version"]);
  const npm = await outputOf("npm", ["--version"]);
  if (node === null || npm === null) return notChecked("Node or npm is not on this machine");
  const folder = await tempFolder();
  const { path } = folder;
  await Deno.mkdir(`${path}/dist`);
  const tarball = await packClient(`${path}/dist`);
  await Deno.writeTextFile(`${path}/package.json`, JSON.stringify({ private: true, type: "module" }));
  assert(await npmInstall(path, tarball), "npm installs a package without dependencies from its file");
  if (!/^v20\./.test(node)) console.log(`The client library runs on Node ${node} here; its least version is 20`);
  return { path, tarball, node: node.slice(1), [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose]() };
}

function notChecked(why: string): null {
  console.log(`The package of the client library is NOT checked in Node: ${why}`);
  return null;
}

/** Installs a package into a folder. Returns false when npm has no way to get it. */
export async function npmInstall(path: string, ...packages: string[]): Promise<boolean> {
  const args = ["install", "--no-audit", "--no-fund", "--prefer-offline", ...packages];
  const { success, stderr } = await new Deno.Command("npm", { args, cwd: path, stdin: "null", stdout: "null" })
    .output();
  const text = new TextDecoder().decode(stderr);
  if (!success && !/ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|ENOTCACHED|network/i.test(text)) throw new Error(text);
  return success;
}

/** A program of tests/e2e/client_programs/ in Deno, on the source of the library. */
export function inDeno(program: string, args: readonly string[], env: Record<string, string> = {}): ChildProcess {
  return new ChildProcess(["run", "-A", "--no-prompt", `tests/e2e/client_programs/${program}`, ...args], env);
}

/** The same program in Node, on the installed package. */
export async function inNode(
  client: InstalledClient,
  program: string,
  args: readonly string[],
  env: Record<string, string> = {},
): Promise<ChildProcess> {
  await Deno.copyFile(`${ROOT}/tests/e2e/client_programs/${program}`, `${client.path}/${program}`);
  return new ChildProcess([`${client.path}/${program}`, ...args], env, "node");
}

async function outputOf(command: string, args: readonly string[]): Promise<string | null> {
  try {
    await using child = new ChildProcess(args, {}, command);
    return (await child.status).success ? child.stdout.text.trim() : null;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}
