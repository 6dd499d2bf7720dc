/** The folder of an agent, as the client library reads it: never through a link, and only a folder of this user. */
import { setImmediate } from "node:timers";
import { assertEquals, assertNotEquals, assertRejects } from "@std/assert";
import { AgentDirectory, agentNames } from "../../../shared/client/directory_store.ts";
import { SvcError } from "../../../shared/client/svc_error.ts";
import { tempFolder } from "../../support/temp_folder.ts";
import { CONNECTOR, systemOf } from "./library_bench.ts";

/** A configuration directory with the agent alpha. */
async function bench() {
  const folder = await tempFolder();
  const path = `${folder.path}/agents/alpha`;
  await Deno.mkdir(path, { recursive: true, mode: 0o700 });
  const write = (file: string, text: string) => Deno.writeTextFile(`${path}/${file}`, text);
  await write("connector.json", JSON.stringify(CONNECTOR));
  const open = () => AgentDirectory.open(systemOf(), path);
  return { root: folder.path, path, write, open, [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose]() };
}

const codeOf = async (work: () => Promise<unknown>) => (await assertRejects(work, SvcError)).code;
const codeOfFile = (b: Awaited<ReturnType<typeof bench>>) => codeOf(async () => await (await b.open()).connectorFile());

Deno.test("an agent's folder gives the address of its connector", async () => {
  await using b = await bench();
  const directory = await b.open();
  assertEquals([directory.name, await directory.connectorFile()], ["alpha", CONNECTOR]);
  await Deno.remove(`${b.path}/connector.json`);
  assertEquals(await directory.connectorFile(), null);
  assertEquals(await agentNames(b.root), ["alpha"]);
  assertEquals(await agentNames(`${b.root}/none`), []);
});

Deno.test("a too large or binary file is named with a code", async (t) => {
  const files: [what: string, content: string | Uint8Array<ArrayBuffer>][] = [
    ["too large", " ".repeat(64 * 1024 + 1)],
    ["no UTF-8", Uint8Array.of(0xff)],
  ];
  for (const [what, content] of files) {
    await t.step(what, async () => {
      await using b = await bench();
      if (typeof content === "string") await b.write("connector.json", content);
      else await Deno.writeFile(`${b.path}/connector.json`, content);
      assertEquals(await codeOfFile(b), "CLI_FILE_INVALID");
    });
  }
  await t.step("an agent that does not exist", async () => {
    await using b = await bench();
    assertEquals(await codeOf(() => AgentDirectory.open(systemOf(), `${b.root}/agents/none`)), "CLI_AGENT_UNKNOWN");
  });
  for (const text of ["{", '{"url":"http://192.0.2.1:1"}']) {
    await t.step(`a damaged file is ignored: ${text}`, async () => {
      await using b = await bench();
      await b.write("connector.json", text);
      assertEquals(await (await b.open()).connectorFile(), null);
    });
  }
});

Deno.test("links, pipes, folders of others and folders that others may write into are refused", async (t) => {
  await t.step("a file that is a link", async () => {
    await using b = await bench();
    await Deno.rename(`${b.path}/connector.json`, `${b.root}/elsewhere`);
    await Deno.symlink(`${b.root}/elsewhere`, `${b.path}/connector.json`);
    assertEquals(await codeOfFile(b), "CLI_FILE_UNSAFE");
  });
  await t.step("a file that becomes a link while it is read", async () => {
    await using b = await bench();
    const opened = await b.open();
    const plain = await Deno.readTextFile(`${b.path}/connector.json`);
    await Deno.writeTextFile(`${b.root}/elsewhere`, plain.replace(CONNECTOR.token, "evil"));
    for (let n = 0; n < 200; n++) {
      await Deno.remove(`${b.path}/connector.json`);
      await Deno.writeTextFile(`${b.path}/connector.json`, plain);
      await Deno.symlink(`${b.root}/elsewhere`, `${b.path}/link`);
      const reading = opened.connectorFile().then((file) => file?.token, () => null);
      // The file is checked, then opened: the link takes its place between both in some of the rounds.
      for (let turns = n % 20; turns > 0; turns--) await new Promise((resolve) => setImmediate(resolve));
      Deno.renameSync(`${b.path}/link`, `${b.path}/connector.json`);
      assertNotEquals(await reading, "evil");
    }
  });
  await t.step("a folder that is a link", async () => {
    await using b = await bench();
    await Deno.symlink(b.path, `${b.root}/agents/other`);
    assertEquals(await codeOf(() => AgentDirectory.open(systemOf(), `${b.root}/agents/other`)), "CLI_FILE_UNSAFE");
  });
  await t.step("a pipe", async () => {
    await using b = await bench();
    await Deno.remove(`${b.path}/connector.json`);
    await new Deno.Command("mkfifo", { args: [`${b.path}/connector.json`] }).output();
    assertEquals(await codeOfFile(b), "CLI_FILE_UNSAFE");
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
