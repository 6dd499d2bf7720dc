/**
 * `svc` as a user installs it: each command of "Installing" in docs/operations.md as it stands, the npm package in an
 * empty folder, the compiled file, and what the build reports when it cannot build. Prints what it cannot check when
 * npm or the runtime stub is unreachable.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import project from "../../deno.json" with { type: "json" };
import { Place } from "../cli/place.ts";
import { compiledProgram, ended, output, runtimeStub } from "../cli/program.ts";
import { isInstalled } from "../support/installed.ts";
import { ROOT, tempFolder } from "../support/process.ts";

const tool = (name: string, ...args: string[]) => ["run", "-A", `${ROOT}/tests/tools/${name}.ts`, ...args];
const ignore = !await isInstalled("npm");
const OPERATIONS = await Deno.readTextFile(`${ROOT}/docs/operations.md`);
/** What npm prints without its registry. */
const UNREACHABLE = /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|network/i;
const TARBALL = `${ROOT}/dist/svc-svc-${project.version}.tgz`;

/** Text of one section of docs/operations.md, with its subsections. */
function section(title: string): string {
  const [, text = ""] = OPERATIONS.split(`\n## ${title}\n`);
  return text.split(/\n## /)[0] ?? "";
}

/** Blocks of commands in the section "Installing" without those that "Never tried" names. */
function blocks(): string[] {
  assertStringIncludes(section("Never tried"), '"After a release" and the container');
  const [ways = ""] = section("Installing").split("\n### As a container\n");
  const parts = ways.split(/^```(?:sh)?\n/m);
  const tried = parts.filter((_, i) => i % 2 === 1 && !parts[i - 1]?.includes("After a release"));
  assert(tried.length > 1, "the section has its blocks");
  return tried;
}

/** A user with an empty home, for whom `npx -y deno@…` is this Deno, or the one that fits the runtime stub. */
async function person(folder: string, env: Record<string, string> = {}) {
  const home = `${folder}/home`, programs = `${folder}/programs`;
  for (const path of [home, programs]) await Deno.mkdir(path, { recursive: true });
  const npx = (await output("sh", ["-c", "command -v npx"])).stdout.trim();
  const text =
    `#!/bin/sh\nif [ "$2" = --prefer-offline ]; then shift 2; set -- -y "$@"; fi\n[ "$1 $2" = "-y deno@2.9.6" ] || exec ${npx} "$@"\nshift 2\nexec "$TEST_DENO" "$@"\n`;
  await Deno.writeTextFile(`${programs}/npx`, text, { mode: 0o755 });
  const cache = (await output("npm", ["config", "get", "cache"])).stdout.trim();
  const variables = {
    HOME: home,
    PATH: `${programs}:${home}/.local/bin:${Deno.env.get("PATH")}`,
    TEST_DENO: Deno.execPath(),
    DENO_DIR: Deno.env.get("DENO_DIR") ?? `${Deno.env.get("HOME")}/.cache/deno`,
    npm_config_cache: cache,
    npm_config_prefix: `${home}/.local`,
    npm_config_prefer_offline: "true",
    npm_config_audit: "false",
    npm_config_fund: "false",
    NO_COLOR: "1",
    ...env,
  };
  const command = (command: string, args: string[], cwd: string) =>
    new Deno.Command(command, {
      args,
      cwd,
      env: variables,
      clearEnv: true,
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    });
  return { home, command, run: (line: string, cwd: string) => ended(command("sh", ["-euc", line], cwd).spawn()) };
}

type Person = Awaited<ReturnType<typeof person>>;

/** Names of all files below a folder. */
function filesBelow(folder: string): string[] {
  return [...Deno.readDirSync(folder)].flatMap(({ name, isDirectory }) =>
    isDirectory ? filesBelow(`${folder}/${name}`) : [`${folder}/${name}`]
  ).sort();
}

/** Checks that a program runs the demo without a file, and answers as a server until it is stopped. */
async function demoAndServe({ command, home }: Person, words: string[], cwd: string): Promise<void> {
  const before = [filesBelow(home), filesBelow(cwd)];
  const [program = "", ...first] = words;
  const demo = await ended(command(program, [...first, "demo"], cwd).spawn());
  assertEquals(demo.code, 0, demo.stdout + demo.stderr);
  assertStringIncludes(demo.stdout.trim().split("\n").at(-1) ?? "", "PROXY_AUTH_REVOKED");
  assertEquals([filesBelow(home), filesBelow(cwd)], before, "the demo leaves no file");

  const options = ["--port", "0", "--store", ":memory:", "--public-url", "http://127.0.0.1:9", "--json"];
  const server = command(program, [...first, "serve", ...options], cwd).spawn();
  const reader = server.stdout.pipeThrough(new TextDecoderStream()).getReader();
  let printed = "";
  while (!printed.includes("\n")) {
    const { value, done } = await reader.read();
    if (done) {
      throw new Error(
        `it ended: ${printed}${new TextDecoder().decode((await server.stderr.getReader().read()).value)}`,
      );
    }
    printed += value;
  }
  const { listening, pid } = JSON.parse(printed.split("\n")[0] ?? "") as { listening: string; pid: number };
  try {
    assertEquals((await (await fetch(`${listening}/health`)).json()).status, "ok");
    const flags = await Deno.readTextFile(`/proc/${pid}/cmdline`).catch(() => null);
    if (flags !== null && !flags.includes("/svc\0")) assert(flags.includes("-P=serve"), flags);
  } finally {
    // npx does not pass signals on.
    Deno.kill(pid, "SIGTERM");
    while (!(await reader.read()).done);
    await server.stderr.cancel();
    assertEquals((await server.status).code, 0);
  }
}

Deno.test(
  "each command of the section on installing runs as it stands, or is listed as never tried",
  { ignore },
  async (t) => {
    const stub = await runtimeStub();
    await using folder = await tempFolder();
    for (const block of blocks()) {
      const [title = ""] = block.split("\n");
      await t.step(title, async () => {
        const isCompiling = block.includes("task compile");
        if (isCompiling && stub === null) {
          return console.log("The commands that compile are NOT checked: there is no runtime stub");
        }
        const env = isCompiling
          ? { TEST_DENO: stub?.deno ?? "", DENORT_BIN: stub?.stub ?? "", DENO_TLS_CA_STORE: "system" }
          : {};
        const place = `${folder.path}/${isCompiling ? "compiled" : "packed"}`;
        const { code, stdout, stderr } = await (await person(place, env)).run(block, ROOT);
        if (code !== 0 && UNREACHABLE.test(stderr)) {
          return console.log("The npm registry cannot be reached: NOT checked");
        }
        assertEquals(code, 0, stdout + stderr);
      });
    }
  },
);

Deno.test(
  "the package installs without scripts in an empty folder, and runs as command, demo and server",
  { ignore },
  async (t) => {
    if (await Deno.stat(TARBALL).catch(() => null) === null) await output(Deno.execPath(), tool("pack"));
    await using folder = await tempFolder();
    const user = await person(folder.path);
    await t.step("its files", async () => {
      await output("tar", ["xzf", TARBALL, "-C", folder.path]);
      const content = `${folder.path}/package`;
      const names = filesBelow(content).map((path) => path.slice(content.length + 1));
      const outside = names.filter((name) => !/^lib\/[\w-]+\.js$/.test(name));
      assertEquals(outside, ["LICENSE", "README.md", "lib/deno.json", "package.json", "svc.cjs"]);
      assert(names.includes("lib/svc.js") && names.length > 8, "the bundle is in parts");
      for (const name of names) {
        const text = await Deno.readTextFile(`${content}/${name}`);
        for (const path of [ROOT, `${Deno.env.get("HOME") ?? "/root"}/`, "sourceMappingURL", "/tmp/"]) {
          assert(!text.includes(path), `${name} names ${path}`);
        }
      }
    });

    const empty = `${folder.path}/empty`;
    await Deno.mkdir(empty);
    const install = await user.run(`npm install --ignore-scripts ${TARBALL}`, empty);
    if (install.code !== 0 && UNREACHABLE.test(install.stderr)) {
      return console.log("The npm registry cannot be reached: the installed package is NOT checked");
    }
    assertEquals(install.code, 0, install.stderr);
    const svc = `${empty}/node_modules/.bin/svc`;
    await t.step("commands", async () => {
      assertEquals(await output(svc, ["--version"]), { code: 0, stdout: `${project.version}\n`, stderr: "" });
      const wrong = await output(svc, ["nonsense", "--json"]);
      assertEquals([wrong.code, JSON.parse(wrong.stderr).error.code], [2, "CLI_USAGE"]);
      await using place = await Place.open();
      const env = { SVC_CONFIG_DIR: `${folder.path}/svc`, SVC_REGISTRY_URL: place.url, SVC_API_KEY: place.apiKey };
      for (
        const argv of [["agent", "create", "alpha"], ["agent", "inspect", "alpha"], [
          "agent",
          "auth",
          "refresh",
          "alpha",
        ]]
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
    await t.step("demo and server", async () => {
      await demoAndServe(user, ["npx", "svc"], empty);
    });
  },
);

Deno.test("the compiled file runs the demo and the server", async () => {
  const program = await compiledProgram();
  if (program === null) return;
  await using folder = await tempFolder();
  const empty = `${folder.path}/empty`;
  await Deno.mkdir(empty);
  await demoAndServe(await person(folder.path), [program.command], empty);
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
