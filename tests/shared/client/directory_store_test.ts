/** The folder of an agent, as the client library reads it: never through a link, and only a folder of this user. */
import { setImmediate } from "node:timers";
import { assertEquals, assertRejects } from "@std/assert";
import { AgentDirectory, agentNames } from "../../../shared/client/directory_store.ts";
import { SvcError } from "../../../shared/client/svc_error.ts";
import { tempFolder } from "../../support/temp_folder.ts";
import { CONNECTOR, didOf, systemOf } from "./library_bench.ts";

/** A configuration directory with the agent alpha. */
async function bench() {
  const folder = await tempFolder();
  const path = `${folder.path}/agents/alpha`;
  await Deno.mkdir(path, { recursive: true, mode: 0o700 });
  const write = (file: string, text: string) => Deno.writeTextFile(`${path}/${file}`, text);
  await write("connector.json", JSON.stringify(CONNECTOR));
  await write("peers.json", JSON.stringify({ beta: { did: didOf("B") }, old: { did: didOf("C"), gone: true } }));
  const open = () => AgentDirectory.open(systemOf(), path);
  return { root: folder.path, path, write, open, [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose]() };
}

const codeOf = async (work: () => Promise<unknown>) => (await assertRejects(work, SvcError)).code;
const codeOfAliases = (b: Awaited<ReturnType<typeof bench>>) => codeOf(async () => await (await b.open()).aliases());

Deno.test("an agent's folder gives the address of its connector and its peers by alias", async () => {
  await using b = await bench();
  const directory = await b.open();
  assertEquals([directory.name, await directory.connectorFile()], ["alpha", CONNECTOR]);
  assertEquals([...await directory.aliases()], [["beta", didOf("B")]]);
  for (const file of ["connector.json", "peers.json"]) await Deno.remove(`${b.path}/${file}`);
  assertEquals([await directory.connectorFile(), (await directory.aliases()).size], [null, 0]);
  assertEquals(await agentNames(b.root), ["alpha"]);
  assertEquals(await agentNames(`${b.root}/none`), []);
});

Deno.test("a damaged, too large or binary file is named with a code", async (t) => {
  const files: [what: string, content: string | Uint8Array<ArrayBuffer>][] = [
    ["no JSON", "{"],
    ["another shape", '{"beta":1}'],
    ["too large", " ".repeat(16 * 1024 * 1024 + 1)],
    ["no UTF-8", Uint8Array.of(0xff)],
  ];
  for (const [what, content] of files) {
    await t.step(what, async () => {
      await using b = await bench();
      if (typeof content === "string") await b.write("peers.json", content);
      else await Deno.writeFile(`${b.path}/peers.json`, content);
      assertEquals(await codeOfAliases(b), "CLI_FILE_INVALID");
    });
  }
  await t.step("an agent that does not exist", async () => {
    await using b = await bench();
    assertEquals(await codeOf(() => AgentDirectory.open(systemOf(), `${b.root}/agents/none`)), "CLI_AGENT_UNKNOWN");
  });
  await t.step("a damaged discovery file is ignored", async () => {
    await using b = await bench();
    await b.write("connector.json", '{"url":"http://192.0.2.1:1"}');
    assertEquals(await (await b.open()).connectorFile(), null);
  });
});

Deno.test("links, pipes, folders of others and folders that others may write into are refused", async (t) => {
  await t.step("a file that is a link", async () => {
    await using b = await bench();
    await Deno.rename(`${b.path}/peers.json`, `${b.root}/elsewhere`);
    await Deno.symlink(`${b.root}/elsewhere`, `${b.path}/peers.json`);
    assertEquals(await codeOfAliases(b), "CLI_FILE_UNSAFE");
  });
  await t.step("a file that becomes a link while it is read", async () => {
    await using b = await bench();
    const opened = await b.open();
    const plain = await Deno.readTextFile(`${b.path}/peers.json`);
    await Deno.writeTextFile(`${b.root}/elsewhere`, plain.replace(/"(\w+)":\{/, '"evil":{'));
    for (let n = 0; n < 200; n++) {
      await Deno.remove(`${b.path}/peers.json`);
      await Deno.writeTextFile(`${b.path}/peers.json`, plain);
      await Deno.symlink(`${b.root}/elsewhere`, `${b.path}/link`);
      const reading = opened.aliases().then((aliases) => [...aliases.keys()], (): string[] => []);
      // The file is checked, then opened: the link takes its place between both in some of the rounds.
      for (let turns = n % 20; turns > 0; turns--) await new Promise((resolve) => setImmediate(resolve));
      Deno.renameSync(`${b.path}/link`, `${b.path}/peers.json`);
      assertEquals((await reading).includes("evil"), false);
    }
  });
  await t.step("a folder that is a link", async () => {
    await using b = await bench();
    await Deno.symlink(b.path, `${b.root}/agents/other`);
    assertEquals(await codeOf(() => AgentDirectory.open(systemOf(), `${b.root}/agents/other`)), "CLI_FILE_UNSAFE");
  });
  await t.step("a pipe", async () => {
    await using b = await bench();
    await Deno.remove(`${b.path}/peers.json`);
    await new Deno.Command("mkfifo", { args: [`${b.path}/peers.json`] }).output();
    assertEquals(await codeOfAliases(b), "CLI_FILE_UNSAFE");
  });
  await t.step("the mode of the folder", async () => {
    await using b = await bench();
    await Deno.chmod(b.path, 0o770);
    assertEquals(await codeOf(b.open), "CLI_FILE_UNSAFE");
  });
  await t.step("the owner of the folder", async () => {
    await using b = await bench();
    const uid = (Deno.uid() ?? 0) + 1;
    const isRoot = Deno.uid() === 0;
    // A folder of the superuser is trusted, so as root the folder first gets another owner.
    if (isRoot) await Deno.chown(b.path, uid + 1, null);
    const opened = await AgentDirectory.open(systemOf({ uid }), b.path).then(() => null, ({ code }) => code);
    assertEquals(opened, "CLI_FILE_UNSAFE");
  });
});
