/** Builds of the project that tests start as processes. */
import { ROOT } from "./child_command.ts";
import { bundle } from "../tools/compile.ts";

/** Results of builds, made once and shared by every test file of a run, also by concurrent ones. */
export async function built(name: string, make: (path: string) => Promise<void>, tools = ""): Promise<string> {
  const folder = `${ROOT}/.data/built`;
  await Deno.mkdir(folder, { recursive: true });
  const path = `${folder}/${await digestOf(tools)}-${name}`;
  using lock = await Deno.open(`${folder}/${name}.lock`, { create: true, write: true });
  await lock.lock(true);
  if (await Deno.stat(path).catch(() => null) === null) {
    await removeOthers(folder, name);
    await make(`${path}.part`);
    await Deno.rename(`${path}.part`, path);
  }
  await Deno.utime(path, new Date(), new Date());
  return path;
}

/** The digest of each set of tools, made once, because it reads every source. */
const digests = new Map<string, Promise<string>>();

function digestOf(tools: string): Promise<string> {
  const known = digests.get(tools) ?? digestOfSources(tools);
  digests.set(tools, known);
  return known;
}

/** Hash of all sources of a build: the same sources are not built twice. */
async function digestOfSources(tools: string): Promise<string> {
  const files = ["deno.json", "deno.lock", "svc.ts", "deploy.ts", "deploy_store.ts"];
  files.push("tests/tools/compile.ts", "tests/tools/permission_flags.ts", "tests/cli/kill_at.ts");
  const folders = ["cli", "shared", "registry", "proxy"];
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    for (const { name, isDirectory } of Deno.readDirSync(`${ROOT}/${folder}`)) {
      (isDirectory ? folders : files).push(`${folder}/${name}`);
    }
  }
  const texts = files.sort().map((file) => `${file}\n${Deno.readTextFileSync(`${ROOT}/${file}`)}`);
  const all = new TextEncoder().encode([Deno.version.deno, tools, ...texts].join("\n"));
  return new Uint8Array(await crypto.subtle.digest("SHA-256", all)).toHex().slice(0, 16);
}

/** Builds of other sources and leftovers of killed runs, except those that another run has just begun to use. */
async function removeOthers(folder: string, name: string): Promise<void> {
  for await (const { name: found } of Deno.readDir(folder)) {
    if (!found.includes(`-${name}`)) continue;
    const { mtime } = await Deno.stat(`${folder}/${found}`);
    const isOld = Date.now() - (mtime?.getTime() ?? 0) > 600_000;
    if (isOld) await Deno.remove(`${folder}/${found}`, { recursive: true });
  }
}

let server: Promise<string> | null = null;

/** The server bundled into one file, with the options of Deno that it needs. */
export async function bundledDeploy(): Promise<readonly string[]> {
  const path = await (server ??= built("deploy.js", (path) => bundle(path, "deploy.ts")));
  return ["--no-config", "--no-lock", "--unstable-kv", "--unstable-no-legacy-abort", path];
}
