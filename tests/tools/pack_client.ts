/**
 * The package of the client library, `@svc/client`: one ES module, its declarations, README and LICENSE. pack.ts calls
 * it.
 */
import { relative } from "node:path";
import project from "../../deno.json" with { type: "json" };
import client from "../../shared/client/deno.json" with { type: "json" };
import { tempFolder } from "../support/temp_folder.ts";
import { refuseRepackaging } from "./compile.ts";

export const ROOT = decodeURIComponent(new URL("../../", import.meta.url).pathname).replace(/^\/(?=[A-Za-z]:)/, "");
const LIBRARY = "shared/client";

/** Files with the public types; their declarations import nothing else. */
export const PUBLIC_FILES = ["mod", "agent_api", "local_agent", "svc_error"] as const;

/** Folders that the package is made from. */
const ENCODING = "shared/jsr/encoding";
const SOURCES = [LIBRARY, "shared/protocol", ENCODING];

/** Content of package.json. */
export function clientPackageJson(): Record<string, unknown> {
  return {
    name: client.name,
    version: client.version,
    description: "Send and receive messages as an svc agent",
    license: client.license,
    type: "module",
    exports: { ".": { types: "./types/mod.d.ts", default: "./client.js" } },
    files: ["client.js", "types", "README.md", "LICENSE"],
    engines: { node: ">=20" },
  };
}

/** Writes the content of the package into a folder. */
export async function writeClientPackage(folder: string): Promise<void> {
  await Deno.mkdir(`${folder}/types`, { recursive: true });
  await using copy = await copyOfSources();
  const sources = copy.path;
  const code = await bundled(sources, `${LIBRARY}/mod.ts`);
  await Deno.writeTextFile(`${folder}/client.js`, await withLines(sources, code));
  const files = PUBLIC_FILES.map((name) => `${LIBRARY}/${name}.ts`);
  await deno(sources, "transpile", "--declaration", "--outdir", "types", ...files);
  for (const name of PUBLIC_FILES) {
    const text = await Deno.readTextFile(`${sources}/types/${LIBRARY}/${name}.d.ts`);
    await Deno.writeTextFile(`${folder}/types/${name}.d.ts`, declaration(text));
  }
  await Deno.writeTextFile(`${folder}/package.json`, packageText(clientPackageJson()));
  await Deno.copyFile(`${ROOT}shared/client/README.md`, `${folder}/README.md`);
  await Deno.copyFile(`${ROOT}LICENSE`, `${folder}/LICENSE`);
}

/**
 * Copies the sources without `exactOptionalPropertyTypes`, with which Deno 2.9.6 finds an error in its own types of Node when
 * it writes declarations. Returns the folder.
 */
export async function copyOfSources(): Promise<AsyncDisposable & { path: string }> {
  const folder = await tempFolder();
  const copy = folder.path;
  for (const path of SOURCES) await copyFolder(`${ROOT}${path}`, `${copy}/${path}`);
  for (const path of ["deno.lock", ...await importedFiles()]) await Deno.copyFile(`${ROOT}${path}`, `${copy}/${path}`);
  const { "@hono/hono": _, ...imports } = project.imports;
  const config = { imports, links: [`./${ENCODING}`], nodeModulesDir: "none", compilerOptions: { strict: true } };
  await Deno.writeTextFile(`${copy}/deno.json`, JSON.stringify(config));
  return folder;
}

/** The files outside the folders that the library imports, as paths from the root. */
async function importedFiles(): Promise<string[]> {
  const { modules } = JSON.parse(await deno(ROOT, "info", "--json", `${LIBRARY}/mod.ts`));
  return modules.map(({ local = "" }: { local?: string }) => relative(ROOT, local))
    .filter((path: string) => /^shared[/\\]\w+\.ts$/.test(path));
}

/** The code of a module and everything that it imports. */
async function bundled(folder: string, module: string): Promise<string> {
  const options = ["--quiet", "--minify", "--platform=deno"];
  await refuseRepackaging(module, folder);
  await deno(folder, "bundle", ...options, "-o", "out.js", module);
  return await Deno.readTextFile(`${folder}/out.js`);
}

/**
 * Breaks minified code into lines: Node prints the whole line of an error that is not caught. The result must be the same
 * when both are minified again, which shows that no break is inside a text.
 */
async function withLines(folder: string, code: string): Promise<string> {
  const lines = code.replaceAll(/;(?=[A-Za-z_$#])/g, ";\n");
  const [before, after] = [`${folder}/before.js`, `${folder}/after.js`];
  await Deno.writeTextFile(before, code);
  await Deno.writeTextFile(after, lines);
  if (await bundled(folder, before) !== await bundled(folder, after)) throw new Error("a line break changed the code");
  return lines;
}

/** The text of package.json. npm takes a package with provenance only if it names the repository that built it. */
export function packageText(content: Record<string, unknown>, url = Deno.env.get("REPOSITORY_URL")): string {
  return `${
    JSON.stringify({ ...content, ...(url && { repository: { type: "git", url: `git+${url}.git` } }) }, null, 2)
  }\n`;
}

/**
 * A declaration file for Node: without the paths of this machine, with the names of the packed files. TypeScript before 5.7
 * knows no parameter of `Uint8Array`, and would find an error in the package.
 */
export function declaration(text: string): string {
  const lines = text.split("\n").filter((line) => !line.startsWith("/// <amd-module"));
  return ['/// <reference lib="esnext.disposable" />', ...lines].join("\n")
    .replaceAll(/(from "\.[\w./]+)\.ts"/g, '$1.js"')
    .replaceAll("Uint8Array<ArrayBuffer>", "(Uint8Array & { buffer: ArrayBuffer })");
}

export async function copyFolder(from: string, to: string): Promise<void> {
  await Deno.mkdir(to, { recursive: true });
  for await (const { name, isDirectory } of Deno.readDir(from)) {
    // The packages' own settings would make the copy a workspace.
    const isSetting = name === "deno.json" && !from.includes("/jsr/");
    if (isDirectory) await copyFolder(`${from}/${name}`, `${to}/${name}`);
    else if (!isSetting) await Deno.copyFile(`${from}/${name}`, `${to}/${name}`);
  }
}

/** Runs Deno and returns what it printed. */
export async function deno(cwd: string, ...args: string[]): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), { args, cwd }).output();
  if (!success) throw new Error(`deno ${args[0]} failed\n${new TextDecoder().decode(stderr)}`);
  return new TextDecoder().decode(stdout);
}
