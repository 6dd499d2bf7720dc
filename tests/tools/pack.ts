/**
 * `deno task pack`: builds three npm packages. `svc`, for `npx` and `npm install --global`, contains the bundle in parts
 * and a short launcher, and depends on the npm package `deno` of the same version as the packing Deno. pack_client.ts
 * and pack_protocol.ts have the content of the two libraries.
 *
 *   deno run -A tests/tools/pack.ts [--dist <folder>]
 */
import project from "../../deno.json" with { type: "json" };
import { GLOBAL_OPTIONS } from "../../cli/command_line/command.ts";
import { bundleInParts, FIRST_PART } from "./compile.ts";
import { packageText, writeClientPackage } from "./pack_client.ts";
import { writeProtocolPackage } from "./pack_protocol.ts";
import { serverV8Flags } from "./permission_flags.ts";

const ROOT = decodeURIComponent(new URL("../../", import.meta.url).pathname).replace(/^\/(?=[A-Za-z]:)/, "");

/** Content of package.json. */
export function packageJson(): Record<string, unknown> {
  const { name, version, license } = project;
  return {
    name,
    version,
    description: "svc: agent identities, and message relay between agents. Command and server",
    license,
    bin: { svc: "svc.cjs" },
    files: ["svc.cjs", "lib", "README.md", "LICENSE"],
    engines: { node: ">=20" },
    dependencies: { deno: Deno.version.deno },
  };
}

/** Options with which Deno runs the bundle and loads nothing else; the path of the deno.json beside it follows. */
export const BUNDLE_FLAGS: readonly string[] = ["run", "--quiet", "--no-prompt", "--no-remote", "--no-npm", "--config"];

/** The first words of the commands that open a store. */
const SERVER_COMMANDS = ["serve", "demo", "store"];

/** Options of every command that take a value, which may stand before the first word. */
const VALUED = Object.entries(GLOBAL_OPTIONS).filter(([, option]) => "value" in option).map(([name]) => `--${name}`);

/** The launcher: runs Deno with the bundle and forwards streams, signals and exit code. */
export function launcher(): string {
  return `#!/usr/bin/env node
// Starts svc on the Deno that came with this package. The commands of a server may start no program.
"use strict";
const { spawn } = require("node:child_process");
const { readFileSync } = require("node:fs");
const { join } = require("node:path");

const words = process.argv.slice(2);
const first = words.find((word, i) => !word.startsWith("-") && !${JSON.stringify(VALUED)}.includes(words[i - 1]));
const lib = join(__dirname, "lib");
const isServer = ${JSON.stringify(SERVER_COMMANDS)}.includes(first);
const set = isServer ? ${
    JSON.stringify(["-P=serve", "--unstable-kv", "--unstable-no-legacy-abort", ...serverV8Flags()])
  } : ["-P=svc"];
// The program of --exec, beside those of the permission set, which the option replaces.
const at = words.findIndex((word) => /^--exec(=|$)/.test(word));
const exec = at < 0 ? undefined : words[at].split("=").slice(1).join("=") || words[at + 1];
const programs = () => JSON.parse(readFileSync(join(lib, "deno.json"), "utf8")).permissions.svc.run;
if (exec && !isServer) set.push("--allow-run=" + [...programs(), exec].join(","));
const flags = [...${JSON.stringify(BUNDLE_FLAGS)}, join(lib, "deno.json"), ...set];
let deno;
try {
  deno = require("deno/install_api.cjs").runInstall();
} catch (error) {
  console.error("svc: the package deno is not complete: " + error.message);
  process.exit(1);
}
// Deno would look for its own updates over the network, which this package decides.
const env = { ...process.env, DENO_NO_UPDATE_CHECK: "1" };
const child = spawn(deno, [...flags, join(lib, "${FIRST_PART}"), ...words], { stdio: "inherit", env });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error("svc: Deno could not be started: " + error.message);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (signal === null) process.exit(code);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
`;
}

/** Builds the package of `svc`. Returns the path of the tarball. */
export async function pack(dist: string): Promise<string> {
  const folder = await emptyFolder(`${dist}/npm`);
  await bundleInParts(`${folder}/lib`);
  await Deno.writeTextFile(`${folder}/package.json`, packageText(packageJson()));
  await Deno.writeTextFile(`${folder}/svc.cjs`, launcher(), { mode: 0o755 });
  await Deno.copyFile(`${ROOT}cli/README.md`, `${folder}/README.md`);
  await Deno.copyFile(`${ROOT}LICENSE`, `${folder}/LICENSE`);
  return await npmPack(dist, folder);
}

/** Builds the package of the client library. Returns the path of the tarball. */
export async function packClient(dist: string): Promise<string> {
  const folder = await emptyFolder(`${dist}/npm-client`);
  await writeClientPackage(folder);
  return await npmPack(dist, folder);
}

/** Builds the package of the protocol. Returns the path of the tarball. */
export async function packProtocol(dist: string): Promise<string> {
  const folder = await emptyFolder(`${dist}/npm-protocol`);
  await writeProtocolPackage(folder);
  return await npmPack(dist, folder);
}

async function emptyFolder(folder: string): Promise<string> {
  await Deno.remove(folder, { recursive: true }).catch(() => {});
  await Deno.mkdir(folder, { recursive: true });
  return folder;
}

async function npmPack(dist: string, folder: string): Promise<string> {
  const npm = new Deno.Command(Deno.build.os === "windows" ? "npm.cmd" : "npm", {
    args: ["pack", "--silent", "--pack-destination", ".."],
    cwd: folder,
    stderr: "inherit",
  });
  const { success, stdout } = await npm.output();
  if (!success) throw new Error("npm pack failed");
  return `${dist}/${new TextDecoder().decode(stdout).trim().split("\n").at(-1)}`;
}

if (import.meta.main) {
  const at = Deno.args.indexOf("--dist");
  const dist = at === -1 ? `${ROOT}dist` : Deno.args[at + 1] ?? "dist";
  try {
    console.log(`built      ${await pack(dist)}`);
    console.log(`built      ${await packClient(dist)}`);
    console.log(`built      ${await packProtocol(dist)}`);
  } catch (error) {
    const isMissing = error instanceof Deno.errors.NotFound;
    console.error(`NOT BUILT  ${isMissing ? "npm is not on this machine" : (error as Error).message}`);
    Deno.exit(1);
  }
}
