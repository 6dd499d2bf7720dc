/**
 * The npm package and the build of the binary as a user gets them: packed, installed into an empty folder, run. Prints
 * what it cannot check when npm or the runtime stub is unreachable.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import project from "../../deno.json" with { type: "json" };
import { Place } from "../cli/place.ts";
import { ended, output } from "../cli/program.ts";
import { tempFolder } from "../support/process.ts";

const ROOT = decodeURIComponent(new URL("../../", import.meta.url).pathname);
const tool = (name: string, ...args: string[]) => ["run", "-A", `${ROOT}tests/tools/${name}.ts`, ...args];
const hasNpm = (await output("npm", ["--version"]).catch(() => null))?.code === 0;

Deno.test("the packed CLI installs with npm and runs on the Deno that it brings", async () => {
  if (!hasNpm) return console.log("npm is not on this machine: the package is NOT checked");
  await using folder = await tempFolder();
  const packed = await output(Deno.execPath(), tool("pack", "--dist", folder.path));
  assertEquals(packed.code, 0, packed.stderr);
  const tarball = /built\s+(\S+\.tgz)/.exec(packed.stdout)?.[1] ?? "";
  const { stdout: listed } = await output("tar", ["tf", tarball]);
  const files = ["LICENSE", "cli.js", "package.json", "svc.cjs"].map((file) => `package/${file}`);
  assertEquals(listed.trim().split("\n").sort(), files);
  const code = await Deno.readTextFile(`${folder.path}/npm/cli.js`);
  assert(!code.includes(ROOT) && !code.includes(Deno.env.get("HOME") ?? "/root"), "no path of this machine");

  const home = `${folder.path}/installed`;
  await Deno.mkdir(home);
  await Deno.writeTextFile(`${home}/package.json`, "{}");
  const install = new Deno.Command("npm", {
    args: ["install", "--no-audit", "--no-fund", tarball],
    cwd: home,
    stdin: "null",
  });
  const { success, stderr } = await install.output();
  if (!success && /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|network/i.test(new TextDecoder().decode(stderr))) {
    return console.log("The npm registry cannot be reached: the installed package is NOT checked");
  }
  assert(success, new TextDecoder().decode(stderr));

  const svc = `${home}/node_modules/.bin/svc`;
  assertEquals(await output(svc, ["--version"]), { code: 0, stdout: `${project.version}\n`, stderr: "" });
  const wrong = await output(svc, ["nonsense", "--json"]);
  assertEquals([wrong.code, JSON.parse(wrong.stderr).error.code], [2, "CLI_USAGE"]);
  await using place = await Place.open();
  const env = { SVC_CONFIG_DIR: `${folder.path}/svc`, SVC_REGISTRY_URL: place.url, SVC_API_KEY: place.apiKey };
  for (
    const argv of [["agent", "create", "alpha"], ["agent", "inspect", "alpha"], ["agent", "auth", "refresh", "alpha"]]
  ) {
    const { code, stderr } = await output(svc, argv, env);
    assertEquals(code, 0, stderr);
  }
  let asked = () => {};
  const isAsked = new Promise<void>((resolve) => asked = resolve);
  place.tamper = (_, forward) => {
    asked();
    return new Promise((resolve) => setTimeout(() => resolve(forward()), 1_000));
  };
  const child = new Deno.Command(svc, { args: ["api-key", "list"], env, stdout: "piped", stderr: "piped" }).spawn();
  await isAsked;
  child.kill("SIGINT");
  const interrupted = await ended(child);
  assertEquals([interrupted.code, interrupted.stderr], [130, "Interrupted.\n"], "signals are passed on");
});

Deno.test("the build reports what it did not build and how to provide a stub", async (t) => {
  await using folder = await tempFolder();
  const compile = (args: string[], env: Record<string, string>) =>
    output(Deno.execPath(), tool("compile", "--dist", folder.path, ...args), env);
  await t.step("--all with DENORT_BIN", async () => {
    const { code, stderr } = await compile(["--all"], { DENORT_BIN: Deno.execPath() });
    assertEquals(code, 2);
    assertStringIncludes(stderr, "ignores --target");
  });
  await t.step("a stub of another version", async () => {
    const stub = `${folder.path}/stub`;
    await Deno.writeTextFile(stub, "Deno/1.0.0");
    const { code, stderr } = await compile([], { DENORT_BIN: stub });
    assertEquals(code, 1);
    assertStringIncludes(stderr, "NOT BUILT");
    assertStringIncludes(stderr, `DENORT_BIN is not of Deno ${Deno.version.deno}`);
  });
  await t.step("Deno itself instead of a stub", async () => {
    const { code, stderr } = await compile([], { DENORT_BIN: Deno.execPath() });
    assertEquals(code, 1);
    assertStringIncludes(stderr, "is DENORT_BIN a stub at all?");
  });
  await t.step("no stub available", async () => {
    // An unused proxy address stands for an unreachable host; the bundler comes from the cache.
    const env = { HTTPS_PROXY: "http://127.0.0.1:9", DENORT_BIN: "" };
    const { code, stderr } = await compile([], env);
    if (!stderr.includes("could not be downloaded")) {
      return console.log("The stub is in Deno's cache: this is NOT checked");
    }
    assertEquals(code, 1);
    assertStringIncludes(stderr, "DENORT_BIN=");
  });
});
