/**
 * Checks the types of all files with the compiler of TypeScript 7, a native program. `deno check` finds the same errors, but
 * its compiler runs in JavaScript and takes three times as much CPU. When it is native too, this file goes.
 *
 * The compiler knows neither `npm:` nor the imports of deno.json nor the types of Deno. So this program asks Deno for them,
 * and writes what it answers into `.cache/types`, in the places where the compiler looks.
 *
 *   deno run -A tests/tools/types.ts
 */
import { basename, dirname, resolve } from "node:path";
import process from "node:process";
import project from "../../deno.json" with { type: "json" };
import protocol from "../../shared/protocol/deno.json" with { type: "json" };
import page from "../../shared/page/deno_browser.json" with { type: "json" };

const ROOT_URL = new URL("../../", import.meta.url).href;
const ROOT = decodeURIComponent(new URL(ROOT_URL).pathname).replace(/^\/(?=[A-Za-z]:)/, "");
const OUT = `${ROOT}.cache/types`;
const COMPILER = "npm:typescript@7.0.2";
/** A lock of its own, because Deno downloads all that is in deno.lock, also for people who only start the program. */
const LOCKED = ["--no-config", `--lock=${ROOT}tests/tools/types.lock`, "--frozen"];

/** The part of `deno info --json` in use. */
type Target = { specifier?: string; error?: string; span: { start: { line: number } } };
type Import = { specifier: string; code?: Target; type?: Target; assertionType?: string };
type Graph = {
  modules: { specifier: string; error?: string; dependencies?: Import[] }[];
  npmPackages: Record<string, { name: string; localPath: string }>;
};

/** The options of `deno check`, below those of deno.json: with others, an editor would show other errors. */
const OPTIONS = {
  strict: true,
  noImplicitOverride: true,
  isolatedModules: true,
  moduleDetection: "force",
  module: "nodenext",
  target: "esnext",
  lib: ["esnext"],
  types: [] as string[],
  customConditions: ["deno"],
  allowImportingTsExtensions: true,
  noEmit: true,
  // Without it, an error in a package would be an error of this project.
  skipLibCheck: true,
  // Without it, a file would be at its own place, and no package is above that.
  preserveSymlinks: true,
};

/** Writes a file below `.cache/types`. */
async function write(path: string, text: string): Promise<void> {
  await Deno.mkdir(dirname(`${OUT}/${path}`), { recursive: true });
  await Deno.writeTextFile(`${OUT}/${path}`, text);
}

async function deno(...args: string[]): Promise<string> {
  const { success, stdout } = await new Deno.Command(Deno.execPath(), { args, cwd: ROOT, stderr: "inherit" }).output();
  if (!success) throw new Error(`deno ${args[0]} failed`);
  return new TextDecoder().decode(stdout);
}

/** The files that `deno check` would take. */
async function* sources(folder = ""): AsyncGenerator<string> {
  for await (const { name, isDirectory } of Deno.readDir(ROOT + folder)) {
    const path = folder + name;
    if (name.startsWith(".") || name === "node_modules" || project.exclude.includes(path)) continue;
    if (isDirectory) yield* sources(`${path}/`);
    else if (name.endsWith(".ts")) yield path;
  }
}

/** Gets Deno's types of Node from its language server: no command prints them, and a package has others. */
async function writeTypesOfNode(): Promise<void> {
  const server = new Deno.Command(Deno.execPath(), { args: ["lsp", "-q"], stdin: "piped", stdout: "piped" }).spawn();
  const requests = server.stdin.getWriter(), answers = server.stdout.pipeThrough(new TextDecoderStream()).getReader();
  const send = async (method: string, params: unknown, id?: string) => {
    const text = JSON.stringify({ jsonrpc: "2.0", id, method, params });
    await requests.write(new TextEncoder().encode(`Content-Length: ${text.length}\r\n\r\n${text}`));
  };
  const call = async (method: string, params: unknown): Promise<string> => {
    await send(method, params, method);
    const end = `,"id":"${method}"}`;
    let text = "";
    // No text inside of an answer looks like its start or its end, because a quotation mark in a text has a backslash.
    while (!text.includes(end)) {
      const { value, done } = await answers.read();
      if (done) throw new Error(`deno lsp does not answer ${method}`);
      text += value;
    }
    const answer = text.slice(0, text.indexOf(end) + end.length);
    return JSON.parse(answer.slice(answer.lastIndexOf('{"jsonrpc"'))).result;
  };
  await call("initialize", { processId: null, rootUri: null, capabilities: {} });
  await send("initialized", {});
  const files = ["index.d.cts"];
  for (const file of files) {
    const text = await call("deno/virtualTextDocument", { textDocument: { uri: `deno:/asset/node/${file}` } });
    await write(`node_modules/@types/node/${file}`, text);
    if (file === files[0]) files.push(...text.matchAll(/(?<=<reference path="\.\/).+(?=")/g).map(([path]) => path));
  }
  await write("node_modules/@types/node/package.json", '{ "types": "index.d.cts" }');
  server.kill();
  await server.status;
}

await Deno.remove(OUT, { recursive: true }).catch(() => {});
const files = await Array.fromAsync(sources());
await write("all.ts", files.map((file) => `import "../../${file}";`).join("\n"));
const graph: Graph = JSON.parse(await deno("info", "--json", `${OUT}/all.ts`));

// Files that are imported by a name, and modules that have no types of their own: a name with `npm:`, a text.
const paths: Record<string, string[]> = {};
const modules = new Set<string>();
const errors: string[] = [];
const broken = new Map(graph.modules.map(({ specifier, error }) => [specifier, error]));
const local = (url: string) => decodeURIComponent(url.slice(ROOT_URL.length));
for (const { specifier: importer, dependencies = [] } of graph.modules) {
  for (const { specifier, code, type = code, assertionType } of dependencies) {
    const target = type?.specifier ?? "", error = type?.error ?? code?.error ?? broken.get(target);
    if (error) errors.push(`${local(importer)}:${(type?.span.start.line ?? 0) + 1}: ${error}`);
    if (assertionType === "text") {
      modules.add(`declare module "*/${basename(specifier)}" { const text: string; export default text; }`);
    } else if (target.startsWith("file:")) {
      if (!specifier.startsWith(".")) paths[specifier] = [`./tree/${local(target)}`];
    } else if (specifier.startsWith("npm:")) {
      const name = specifier.replace(/^npm:(@[^/]+\/)?([^/@]+)(@[^/]+)?/, "$1$2");
      modules.add(`declare module "${specifier}" { export * from "${name}"; }`);
    }
  }
}
await write("node_modules/@types/imports/index.d.ts", [...modules].join("\n"));
await write("node_modules/@types/deno/index.d.ts", await deno("types"));
await writeTypesOfNode();
// One folder for each name, so this fails when the project comes to need two versions of a package.
for (const { name, localPath } of Object.values(graph.npmPackages)) {
  await Deno.mkdir(dirname(`${OUT}/node_modules/${name}`), { recursive: true });
  await Deno.symlink(localPath, `${OUT}/node_modules/${name}`, { type: "junction" });
}
// The compiler looks for packages in the folders above a file, so it reads the project through a link beside them.
await Deno.symlink(resolve(ROOT), `${OUT}/tree`, { type: "junction" });
await write("package.json", '{ "type": "module" }');

const PROGRAMS: [name: string, options: Partial<typeof OPTIONS>, files: string[]][] = [
  ["project", { ...project.compilerOptions, types: ["deno", "node", "imports"] }, files],
  // Without the types of Deno, because a third party can use the protocol in any runtime.
  [
    "protocol",
    { ...project.compilerOptions, ...protocol.compilerOptions, types: ["imports"] },
    files.filter((file) => file.startsWith("shared/protocol/")),
  ],
  // The program "project" skips them, together with those of the packages.
  ["declarations", { ...project.compilerOptions, skipLibCheck: false }, files.filter((file) => file.endsWith(".d.ts"))],
  ["page", page.compilerOptions, ["shared/page/page.js"]],
];
const { npmPackages }: Graph = JSON.parse(await deno("info", "--json", ...LOCKED, COMPILER));
const ofSystem = `@typescript/typescript-${process.platform}-${process.arch}`;
const folder = Object.values(npmPackages).find(({ name }) => name === ofSystem)?.localPath;
if (folder === undefined) throw new Error(`${COMPILER} has no compiler for ${process.platform} ${process.arch}`);
const compiler = `${folder}/lib/${Deno.build.os === "windows" ? "tsc.exe" : "tsc"}`;
await Promise.all(PROGRAMS.map(async ([name, options, files]) => {
  // With it, the next run checks only what changed. It is beside the folder, because each run removes that.
  const kept = { incremental: true, tsBuildInfoFile: `../types_${name}.tsbuildinfo` };
  const compilerOptions = { ...OPTIONS, ...options, ...kept, paths };
  await write(`${name}.json`, JSON.stringify({ compilerOptions, files: files.map((file) => `tree/${file}`) }));
  // More than two checkers take more time on two processors, because each repeats a part of the work.
  const args = ["--project", `${name}.json`, "--pretty", "false", "--checkers", "2"];
  const { success, stdout } = await new Deno.Command(compiler, { args, cwd: OUT, stderr: "inherit" }).output();
  const text = new TextDecoder().decode(stdout).trim();
  if (!success) errors.push(text.replaceAll(/^tree\/(.+?)\((\d+),(\d+)\)/gm, "$1:$2:$3"));
}));
console.log(errors.length > 0 ? errors.join("\n") : `${files.length} files, no type error`);
if (errors.length > 0) Deno.exit(1);
