/**
 * Commands of README.md and docs/operations.md as they stand, typed in a copy of the project with other ports and values
 * for the placeholders. tests/tools/doc_blocks_test.ts names each of the blocks.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { bundledProgram } from "../cli/program.ts";
import { isInstalled } from "../support/installed.ts";
import { IS_LONG } from "../support/trials.ts";
import { BOOTSTRAP_SECRET, ChildProcess, eventually, freePort, ROOT, tempFolder, within } from "../support/process.ts";

const START_MS = 60_000;
const SOURCES = [
  "cli",
  "proxy",
  "registry",
  "shared",
  "svc.ts",
  "deploy.ts",
  "deploy_store.ts",
  "deno.json",
  "deno.lock",
];
const TEXT = ["README.md", "docs/operations.md"].map((path) => Deno.readTextFileSync(`${ROOT}/${path}`)).join("\n");
const BLOCKS = [...TEXT.matchAll(/^```sh\n([^]*?)^```$/gm)].map(([, block = ""]) => block);
const PORTS: Readonly<Record<string, string>> = { 8787: `${freePort()}`, 8788: `${freePort()}` };

/** The block that has these words, with values for its placeholders. */
function blockOf(words: string, values: Readonly<Record<string, string>> = {}): string {
  const found = BLOCKS.find((block) => block.includes(words));
  assert(found, `No block has ${words}`);
  return found.replace(/\b878[78]\b/g, (port) => PORTS[port] ?? port).replace(
    /<(id|secret)>/g,
    (_, name) => values[name] ?? "",
  );
}

/** A copy of the project in which `npx -y deno@…` is this Deno and `svc` is the program. */
async function copy(folder: string) {
  const cp = new Deno.Command("cp", { args: ["-r", ...SOURCES.map((name) => `${ROOT}/${name}`), folder] });
  assert((await cp.output()).success);
  const programs = `${folder}/programs`, deno = Deno.execPath();
  await Deno.mkdir(programs);
  const program = (name: string, text: string) =>
    Deno.writeTextFile(`${programs}/${name}`, `#!/bin/sh\n${text}\n`, { mode: 0o755 });
  // The option of the README, which spares a wait without a network, changes nothing else.
  const npx =
    'if [ "$2" = --prefer-offline ]; then shift 2; set -- -y "$@"; fi\n[ "$1 $2" = "-y deno@2.9.6" ] || exit 9';
  await program("npx", `${npx}\nshift 2\nexec ${deno} "$@"`);
  const svc = await bundledProgram();
  await program("svc", `exec ${[svc.command, ...svc.args].join(" ")} "$@"`);
  const env = {
    HOME: folder,
    DENO_DIR: Deno.env.get("DENO_DIR") ?? `${Deno.env.get("HOME")}/.cache/deno`,
    PATH: `${programs}:${Deno.env.get("PATH")}`,
    SVC_REGISTRY_URL: `http://127.0.0.1:${PORTS[8787]}`,
    PORT: PORTS[8787] ?? "",
    BOOTSTRAP_SECRET,
    CONSOLE: "on",
  };
  const start = (block: string, more: Record<string, string> = {}) =>
    new ChildProcess(["-euc", `cd ${folder}\n${block}`], { ...env, ...more }, "sh");
  /** Waits for the end of a block, and returns what it printed. */
  const run = async (block: string, more: Record<string, string> = {}) => {
    await using child = start(block, more);
    const { code } = await within(START_MS, block, child.status);
    assertEquals(code, 0, block + child.printed);
    return child.stdout.text;
  };
  /** Starts a server with a block, and ends it by its lock after `use`. */
  const serve = async (block: string, use: () => Promise<void>, { store = "svc", more = {} } = {}) => {
    const child = start(block, more);
    try {
      await within(START_MS, "it listens", child.stdout.match(/^listening on /m)).catch((cause) => {
        throw new Error(child.printed, { cause });
      });
      await use();
    } finally {
      await run(blockOf("kill -TERM").replaceAll("svc.kv", `${store}.kv`));
      assertEquals((await within(START_MS, "the server ends", child.status)).code, 0, child.printed);
    }
  };
  const idsOf = async (list: string, more = {}) =>
    [...(await run(`${list} --json`, more)).matchAll(/"id": ?"([^"]+)"/g)].map(([, id = ""]) => id);
  return { folder, run, serve, idsOf };
}

Deno.test({
  name: "the commands of README and operations.md start, keep and restore a server as they stand",
  ignore: !await isInstalled("sqlite3") || !await isInstalled("openssl") || !await isInstalled("flock"),
  async fn(t) {
    await using folder = await tempFolder();
    const { run, serve, idsOf } = await copy(folder.path);
    const nothing = () => Promise.resolve();

    await t.step("the command in this folder, and a server to try", async () => {
      assert((await run(`${blockOf("task --quiet cli")}svc --version`)).trim() !== "");
      await serve(blockOf("KV_URL=.data/story.kv"), nothing, { store: "story" });
      await serve(blockOf("task dev\n"), nothing);
      await serve(blockOf("task start"), nothing);
    });

    await t.step("bootstrap, console, keys", async () => {
      await Deno.writeTextFile(`${folder.path}/secret.txt`, BOOTSTRAP_SECRET);
      await serve(blockOf("--allow-write=.data deploy.ts"), async () => {
        await run(blockOf("<secret.txt"));
        assertStringIncludes(await run(blockOf("svc admin open")), "/console/");
        await run(blockOf("svc admin keys rotate"));
      });
      const made = JSON.parse(await run(blockOf("deno@2.9.6 eval")));
      assertEquals(Object.keys(made.keys[0]), ["kty", "crv", "x", "d"]);
    });

    if (!IS_LONG) return;
    await t.step("a store that is looked at, copied, moved and recovered", async () => {
      await run(blockOf("task store inspect"));
      await run(blockOf('sqlite3 .data/svc.kv ".backup'));
      await run(blockOf("KV_URL=.data/new.kv"));
      const [key = ""] = /svc_pat_[A-Za-z0-9_-]{43}/.exec(await run(blockOf("task store recover"))) ?? [];
      const more = { SVC_API_KEY: key };
      await serve(blockOf("task start"), async () => {
        const [id = ""] = await idsOf("svc api-key list");
        await run(blockOf("svc api-key list", { id }), more);
      });
    });

    await t.step("two processes, and the secret between them", async () => {
      const more = { SVC_CONFIG_DIR: `${folder.path}/two`, PORT: "" };
      await serve(blockOf("SVC_SERVICE=registry"), async () => {
        const shown = await run(blockOf("--show-service"), more);
        const [secret = ""] = /svc_srv_[A-Za-z0-9_-]+/.exec(shown) ?? [];
        const [id = ""] = await idsOf("svc admin service list", more);
        await serve(blockOf("SVC_SERVICE=proxy", { id, secret }), async () => {
          const ready = await eventually(START_MS, "the proxy is ready", async () => {
            const answer = await fetch(`http://127.0.0.1:${PORTS[8788]}/health`);
            return (await answer.json()).ready === true || undefined;
          });
          assert(ready);
          await run(blockOf("svc admin service rotate", { id }), more);
          const [create = ""] = blockOf("svc admin service create").split("\n");
          await run(create, more);
          const other = (await idsOf("svc admin service list", more)).find((one) => one !== id) ?? "";
          await run(blockOf("svc admin service create", { id: other }).slice(create.length), more);
        }, { store: "proxy" });
      }, { store: "registry" });
    });
  },
});
