/**
 * The package of the client library as a user gets it: its files and size, its types for TypeScript, and the TypeScript
 * program of docs/agents.md, from source in Deno and compiled in Node.
 */
import { assert, assertEquals } from "@std/assert";
import { PairedAgents } from "../cli/connector/paired_agents.ts";
import { bundledProgram } from "../cli/program.ts";
import { installedClient, npmInstall } from "../support/client_package.ts";
import { ChildProcess, eventually, ROOT } from "../support/process.ts";

const MAX_BYTES = 200 * 1024;
const TYPESCRIPT = "typescript@5.9";
const PROGRAM = /^```ts agent\.ts\n(.*?)^```$/ms.exec(Deno.readTextFileSync(`${ROOT}/docs/agents.md`))?.[1] ?? "";

const client = await installedClient();
globalThis.addEventListener("unload", () => client && Deno.removeSync(client.path, { recursive: true }));
const hasTypescript = client !== null && await npmInstall(client.path, TYPESCRIPT);
if (!hasTypescript) console.log("The types of the client library are NOT checked here: npm cannot get TypeScript");

Deno.test({
  name: "the package is one ES module of at most 200 KB with its types, and has no dependency",
  ignore: client === null,
  async fn() {
    assert(client);
    const { stdout } = await new Deno.Command("tar", { args: ["tf", client.tarball] }).output();
    const files = new TextDecoder().decode(stdout).trim().split("\n").map((file) => file.replace("package/", ""));
    const types = ["agent_api", "local_agent", "mod", "svc_error"].map((name) => `types/${name}.d.ts`);
    assertEquals(files.sort(), ["LICENSE", "README.md", "client.js", "package.json", ...types].sort());
    const installed = `${client.path}/node_modules/@svc/client`;
    const manifest = JSON.parse(await Deno.readTextFile(`${installed}/package.json`));
    assertEquals([manifest.type, manifest.engines, manifest.dependencies], ["module", { node: ">=20" }, undefined]);
    const { size } = await Deno.stat(`${installed}/client.js`);
    assert(size <= MAX_BYTES, `${size} bytes`);
    for (const file of ["client.js", ...types]) {
      const text = await Deno.readTextFile(`${installed}/${file}`);
      assert(!text.includes(ROOT) && !text.includes("/tmp/"), `${file} names a folder of this machine`);
      if (file !== "client.js") assert(!/zod|node:/.test(text), `${file} names a type of another package`);
    }
  },
});

/** Runs the program of the page as alpha while beta asks and answers. */
async function talk(agents: PairedAgents, start: () => ChildProcess): Promise<void> {
  await using _alpha = await agents.connector("alpha");
  await using beta = await agents.connector("beta");
  await using child = start();
  const question = await eventually(30_000, `alpha asks\n${child.printed}`, async () => {
    const { messages } = await beta.json("GET", "/v1/inbox");
    return messages.find(({ isReply }: { isReply: boolean }) => !isReply);
  });
  const said = await beta.json("POST", "/v1/outbound?wait=30", { to: "alpha", text: "hi" });
  assertEquals(said.reply.text, "Hello beta, you said: hi");
  await beta.json("POST", "/v1/outbound", { replyTo: question.id, text: "8443" });
  assertEquals([(await child.status).code, child.stdout.text], [0, "8443\n"], child.stderr.text);
}

Deno.test("the TypeScript program of the page has at most 15 lines, and asks and answers in Deno", async () => {
  assert(PROGRAM !== "" && PROGRAM.trim().split("\n").length <= 15);
  await using agents = await PairedAgents.open(await bundledProgram());
  await Deno.writeTextFile(`${agents.dir}/agent.ts`, PROGRAM);
  const args = ["run", "-A", "--no-prompt", "--config", `${ROOT}/deno.json`, `${agents.dir}/agent.ts`];
  await talk(agents, () => new ChildProcess(args, { SVC_CONFIG_DIR: agents.dir }));
});

Deno.test({
  name: "the TypeScript program of the page compiles with strict types, and asks and answers in Node",
  ignore: !hasTypescript,
  async fn() {
    assert(client);
    const { path } = client;
    await Deno.writeTextFile(`${path}/agent.ts`, PROGRAM);
    const options = ["--strict", "--module", "nodenext", "--target", "es2022", "--outDir", path, `${path}/agent.ts`];
    await using compiler = new ChildProcess([`${path}/node_modules/typescript/bin/tsc`, ...options], {}, "node");
    assertEquals([(await compiler.status).code, compiler.stdout.text], [0, ""]);
    await using agents = await PairedAgents.open(await bundledProgram());
    await talk(agents, () => new ChildProcess([`${path}/agent.js`], { SVC_CONFIG_DIR: agents.dir }, "node"));
  },
});
