/**
 * `deno task compile`: builds `svc`, command and server, as one executable file. Bundles first to remove unused code,
 * then compiles for this system (dist/svc), or with --all for six systems. Checks header and machine of every file, and
 * runs the file of this system. Prints every failed target; then the exit code is 1.
 *
 *   deno run -A tests/tools/compile.ts [--all] [--dist <folder>]
 *
 * The runtime stub is downloaded by `deno compile`; DENORT_BIN names an existing one.
 */
import project from "../../deno.json" with { type: "json" };
import { tempFolder } from "../support/temp_folder.ts";
import { bundleConfig, permissionFlags, serverV8Flags } from "./permission_flags.ts";

const ROOT = decodeURIComponent(new URL("../../", import.meta.url).pathname).replace(/^\/(?=[A-Za-z]:)/, "");

/** A compile target. */
interface Target {
  triple: string;
  file: string;
  machine: Machine;
}

type Machine = `${"elf" | "mach-o" | "pe"} ${"x64" | "arm64"}`;

export const TARGETS: readonly Target[] = [
  { triple: "x86_64-unknown-linux-gnu", file: "svc-linux-x64", machine: "elf x64" },
  { triple: "aarch64-unknown-linux-gnu", file: "svc-linux-arm64", machine: "elf arm64" },
  { triple: "x86_64-apple-darwin", file: "svc-macos-x64", machine: "mach-o x64" },
  { triple: "aarch64-apple-darwin", file: "svc-macos-arm64", machine: "mach-o arm64" },
  { triple: "x86_64-pc-windows-msvc", file: "svc-windows-x64.exe", machine: "pe x64" },
  { triple: "aarch64-pc-windows-msvc", file: "svc-windows-arm64.exe", machine: "pe arm64" },
];

/** Returns the target of an executable file, from its first bytes; `null` for another one. */
export function machineOf(head: Uint8Array): Machine | null {
  const view = new DataView(head.buffer, head.byteOffset, head.byteLength);
  const has = (offset: number, size: number) => offset >= 0 && offset + size <= head.byteLength;
  if (!has(0, 64)) return null;
  if (view.getUint32(0) === 0x7f454c46 && view.getUint8(4) === 2) {
    return ({ 0x3e: "elf x64", 0xb7: "elf arm64" } as const)[view.getUint16(18, true)] ?? null;
  }
  if (view.getUint32(0, true) === 0xfeedfacf) {
    return ({ 0x01000007: "mach-o x64", 0x0100000c: "mach-o arm64" } as const)[view.getUint32(4, true)] ?? null;
  }
  const pe = view.getUint16(0) === 0x4d5a ? view.getUint32(0x3c, true) : -1;
  if (!has(pe, 6) || view.getUint32(pe) !== 0x50450000) return null;
  return ({ 0x8664: "pe x64", 0xaa64: "pe arm64" } as const)[view.getUint16(pe + 4, true)] ?? null;
}

/** Returns true when a runtime stub contains the version; a stub of another version does not. */
export function namesVersion(stub: Uint8Array, version: string): boolean {
  const text = new TextDecoder("latin1").decode(stub);
  for (let at = text.indexOf(version); at !== -1; at = text.indexOf(version, at + 1)) {
    if (!/[\d.]/.test(text.charAt(at - 1) + text.charAt(at + version.length))) return true;
  }
  return false;
}

/** A target that could not be built, with the reason. */
class NotBuilt extends Error {}

/** Bundles a program into one JavaScript file. The first use downloads the bundler, esbuild, from npm. */
export async function bundle(output: string, program: string): Promise<void> {
  await runBundler("-o", output, program);
  await withoutSlowModules(output);
}

/** The first file of the bundle in parts. */
export const FIRST_PART = "svc.js";

/**
 * Bundles `svc` into a folder: the code of every command in one file, the rest, with the server, in files that are
 * loaded on demand, and a deno.json with the permissions. V8 parses the whole text of a program at its start; one file
 * would take half as much time again.
 */
export async function bundleInParts(folder: string): Promise<void> {
  await refuseRepackaging("svc.ts");
  await runBundler("--code-splitting", "--outdir", folder, "svc.ts");
  for await (const { name } of Deno.readDir(folder)) await withoutSlowModules(`${folder}/${name}`);
  await Deno.writeTextFile(`${folder}/deno.json`, `${JSON.stringify(bundleConfig(), null, 2)}\n`);
}

/**
 * Fails when a program would contain code of `deno-std`, a repackaging of `@std` by one person, which serves the tests only:
 * else its author could run code at every user of `svc`.
 */
export async function refuseRepackaging(program: string, cwd: string = ROOT): Promise<void> {
  const { success, text } = await deno(["info", "--quiet", "--json", program], cwd);
  if (!success) throw new NotBuilt(text);
  const importer = (JSON.parse(text) as ModuleGraph).modules.find(({ dependencies = [] }) =>
    dependencies.some(({ specifier }) => specifier.includes("deno-std"))
  );
  if (importer) {
    throw new NotBuilt(`${importer.specifier} imports deno-std, which only tests may use (docs/security.md)`);
  }
}

/** The part of `deno info --json` in use. */
interface ModuleGraph {
  modules: { specifier: string; dependencies?: { specifier: string }[] }[];
}

async function runBundler(...args: string[]): Promise<void> {
  // An older Deno, of which a machine has the runtime stub, imports texts only with this flag.
  const flags = ["--quiet", "--minify", "--platform=deno", "--unstable-raw-imports"];
  const { success, text } = await deno(["bundle", ...flags, ...args]);
  if (!success) {
    throw new NotBuilt(`The program could not be bundled (deno bundle fetches esbuild from npm once):\n${text}`);
  }
}

/**
 * The WebSocket library loads its modules with `require`, which a bundle does not have. They are loaded on demand, because
 * most commands do not need them.
 */
const REQUIRE =
  'const require=(id)=>{const found=id.startsWith("node:")&&process.getBuiltinModule(id);if(found)return found;' +
  "throw new Error(`${id} is not in the bundle`)};\n";

async function withoutSlowModules(file: string): Promise<void> {
  const original = await Deno.readTextFile(file);
  // A newer bundler adds its own `require`, from a module that is slow to load.
  const text = original.replace(/import *\{ *createRequire as (\w+) *\} *from *"node:module";/, "var $1=()=>require;")
    // The ULID library would ask it where WebCrypto is missing; loading it takes a sixth of the time of a command.
    .replace(/import (\w+) from *"node:crypto";/, "var $1=globalThis.crypto;");
  if (/\brequire\b/.test(text)) await Deno.writeTextFile(file, REQUIRE + text);
  else if (text !== original) await Deno.writeTextFile(file, text);
}

/**
 * Compiles the bundle. Without Deno's code cache: it would be a file with a predictable name in the folder for
 * temporary files, so another user could create it first and run code.
 */
async function compile(bundled: string, output: string, target?: string): Promise<void> {
  const to = target === undefined ? [] : ["--target", target];
  const how = ["--quiet", "--no-check", "--no-config", "--no-code-cache", "--cached-only"];
  const args = [
    "compile",
    ...how,
    "--unstable-kv",
    "--unstable-no-legacy-abort",
    ...serverV8Flags(),
    ...permissionFlags("svc"),
    ...to,
  ];
  const { success, text } = await deno([...args, "-o", output, bundled]);
  if (success) return;
  if (/invalid value .* for '--target/.test(text)) throw new NotBuilt(`Deno ${Deno.version.deno} knows no such target`);
  if (!/denort|error sending request|download/i.test(text)) throw new NotBuilt(text);
  throw new NotBuilt(
    `The runtime stub of Deno ${Deno.version.deno} could not be downloaded. Where its host cannot be reached, give one ` +
      "of the very same version: DENORT_BIN=<path of denort> deno task compile (for this system only)",
  );
}

async function deno(args: string[], cwd = ROOT): Promise<{ success: boolean; text: string }> {
  const command = new Deno.Command(Deno.execPath(), { args, cwd, env: { NO_COLOR: "1" }, stdin: "null" });
  const { success, stdout, stderr } = await command.output();
  return { success, text: new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr) };
}

/** Checks header and machine; `machine` is absent for this system. */
async function checkHeader(path: string, machine?: Machine): Promise<Machine> {
  using file = await Deno.open(path);
  const head = new Uint8Array(4096);
  await file.read(head);
  const found = machineOf(head);
  if (found === null || (machine !== undefined && found !== machine)) {
    throw new NotBuilt(`${path} is ${found ?? "no executable file"}, not ${machine ?? "one"}`);
  }
  return found;
}

/** Runs the built file: it must print the version of the project and the configuration of an empty folder. */
async function smokeTest(path: string): Promise<void> {
  await using folder = await tempFolder();
  const run = async (...args: string[]) => {
    // Only PATH of the environment: Deno before 2.9 resolves the names of --allow-run at its start and ends without it.
    // Deno 2.9 starts without PATH.
    const env = { PATH: Deno.env.get("PATH") ?? "" };
    const command = new Deno.Command(path, { args, env, clearEnv: true, stdin: "null" });
    const { code, stdout, stderr } = await command.output();
    return { code, stdout: new TextDecoder().decode(stdout), stderr: new TextDecoder().decode(stderr) };
  };
  const version = await run("--version");
  if (version.code !== 0 || version.stdout !== `${project.version}\n`) {
    throw new NotBuilt(
      `${path} --version says "${version.stdout.trim()}": is DENORT_BIN a stub at all?\n${version.stderr}`,
    );
  }
  const config = await run("config", "show", "--config-dir", folder.path);
  if (config.code !== 0 || JSON.parse(config.stdout).apiKey !== null) {
    throw new NotBuilt(`${path} config show ended with ${config.code}\n${config.stderr}`);
  }
}

/** Builds `svc` for this system into a folder. Returns the path of the file. */
export async function buildHere(dist: string, bundled: string): Promise<string> {
  await judgeStub();
  const path = `${dist}/svc${Deno.build.os === "windows" ? ".exe" : ""}`;
  await compile(bundled, path);
  await checkHeader(path);
  await smokeTest(path);
  return path;
}

/** Checks the version of the stub: `deno compile` accepts another version, whose file fails at run time. */
async function judgeStub(): Promise<void> {
  const stub = Deno.env.get("DENORT_BIN");
  if (!stub) return;
  if (namesVersion(await Deno.readFile(stub), Deno.version.deno)) return;
  throw new NotBuilt(`DENORT_BIN is not of Deno ${Deno.version.deno}; it must be of the very version that compiles`);
}

async function main(args: readonly string[]): Promise<number> {
  const isAll = args.includes("--all");
  const at = args.indexOf("--dist");
  const dist = at === -1 ? `${ROOT}dist` : args[at + 1] ?? "dist";
  if (isAll && Deno.env.get("DENORT_BIN")) {
    console.error("With DENORT_BIN, Deno ignores --target: every file would be for this system. Unset it for --all.");
    return 2;
  }
  await Deno.mkdir(dist, { recursive: true });
  await using folder = await tempFolder();
  const built: string[] = [];
  const missing: string[] = [];
  let last = "";
  const attempt = async (file: string, build: () => Promise<unknown>) => {
    try {
      await build();
      built.push(file);
      console.log(`built      ${dist}/${file}`);
    } catch (error) {
      if (!(error instanceof NotBuilt)) throw error;
      missing.push(file);
      await Deno.remove(`${dist}/${file}`).catch(() => {});
      const why = error.message.trim().replaceAll("\n", "\n           ");
      console.error(`NOT BUILT  ${dist}/${file}\n           ${why === last ? "for the same reason" : why}`);
      last = why;
    }
  };
  let bundled: Promise<string> | undefined;
  const program = () => bundled ??= bundleInParts(folder.path).then(() => `${folder.path}/${FIRST_PART}`);
  if (!isAll) {
    await attempt(`svc${Deno.build.os === "windows" ? ".exe" : ""}`, async () => {
      await buildHere(dist, await program());
    });
  }
  for (const { triple, file, machine } of isAll ? TARGETS : []) {
    await attempt(file, async () => {
      await compile(await program(), `${dist}/${file}`, triple);
      await checkHeader(`${dist}/${file}`, machine);
      if (triple === Deno.build.target) await smokeTest(`${dist}/${file}`);
    });
  }
  await writeChecksums(dist, built);
  return missing.length === 0 ? 0 : 1;
}

async function writeChecksums(dist: string, files: readonly string[]): Promise<void> {
  const lines: string[] = [];
  for (const file of files) {
    const digest = await crypto.subtle.digest("SHA-256", await Deno.readFile(`${dist}/${file}`));
    lines.push(`${new Uint8Array(digest).toHex()}  ${file}\n`);
  }
  if (lines.length > 0) await Deno.writeTextFile(`${dist}/SHA256SUMS`, lines.join(""));
}

if (import.meta.main) Deno.exit(await main(Deno.args));
