/** The folder of an agent, as the client library reads and writes it (D-125): private, atomic, never through a link. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { AgentDirectory, agentNames } from "../../../../shared/client/library/directory_store.ts";
import { SvcError } from "../../../../shared/client/library/svc_error.ts";
import { toBase64Url } from "../../../../shared/protocol/base64url.ts";
import { didOf, OWNER, systemOf, tempFolder } from "./library_bench.ts";

const AUTH = {
  tokenType: "Bearer",
  accessToken: "svc_agt_a",
  accessExpiresAt: "2026-02-21T01:00:00.000Z",
  refreshToken: "svc_ref_a",
  refreshExpiresAt: "2026-03-21T01:00:00.000Z",
} as const;
const IDENTITY = {
  did: didOf("A"),
  name: "alpha",
  framework: "generic",
  ownerDid: OWNER,
  expiresAt: "2026-03-21T01:00:00.000Z",
  registryUrl: "https://registry.example.test",
};

/** A configuration directory with the agent alpha. */
async function bench() {
  const folder = await tempFolder();
  const path = `${folder.path}/agents/alpha`;
  await Deno.mkdir(path, { recursive: true, mode: 0o700 });
  const write = (file: string, text: string) => Deno.writeTextFile(`${path}/${file}`, text);
  await write("identity.json", JSON.stringify(IDENTITY));
  await write("registry-auth.json", JSON.stringify(AUTH));
  await write("ait.jwt", "a.b.c\n");
  await write("secret.key", `${toBase64Url(new Uint8Array(32).fill(7))}\n`);
  const open = () => AgentDirectory.open(systemOf(), path);
  return { root: folder.path, path, write, open, [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose]() };
}

const codeOf = async (work: () => Promise<unknown>) => (await assertRejects(work, SvcError)).code;

Deno.test("an agent's folder gives its identity, key, tokens, aliases and addresses", async () => {
  await using b = await bench();
  const directory = await b.open();
  const { identity, auth, aitExpiresAt } = await directory.session();
  const { privateKey, ...rest } = identity;
  assertEquals(rest, { did: didOf("A"), ait: "a.b.c", accessToken: "svc_agt_a" });
  assertEquals([privateKey.type, auth, aitExpiresAt], ["private", AUTH, Date.UTC(2026, 2, 21, 1)]);
  assertEquals([await directory.config(), await directory.connectorFile(), (await directory.aliases()).size], [
    {},
    null,
    0,
  ]);
  await Deno.writeTextFile(`${b.root}/config.json`, '{"proxyUrl":"https://proxy.example","apiKey":"svc_pat_x"}');
  assertEquals(await directory.config(), { proxyUrl: "https://proxy.example" });
  await b.write("peers.json", JSON.stringify({ beta: { did: didOf("B") }, old: { did: didOf("C"), gone: true } }));
  assertEquals([...await directory.aliases()], [["beta", didOf("B")]]);
  assertEquals(await agentNames(b.root), ["alpha"]);
  assertEquals(await agentNames(`${b.root}/none`), []);
});

Deno.test("a missing, damaged, too large or binary file is named with a code", async (t) => {
  const files: [file: string, text: string | null, code: string][] = [
    ["identity.json", null, "CLI_FILE_INVALID"],
    ["identity.json", "{}", "CLI_FILE_INVALID"],
    ["registry-auth.json", "{", "CLI_FILE_INVALID"],
    ["registry-auth.json", " ".repeat(64 * 1024 + 1), "CLI_FILE_INVALID"],
    ["secret.key", "AAAA", "CLI_FILE_INVALID"],
    ["ait.jwt", "\ud800", "CLI_FILE_INVALID"],
  ];
  for (const [file, text, code] of files) {
    await t.step(`${file}: ${text?.slice(0, 10)}`, async () => {
      await using b = await bench();
      if (text === null) await Deno.remove(`${b.path}/${file}`);
      else if (text === "\ud800") await Deno.writeFile(`${b.path}/${file}`, Uint8Array.of(0xff));
      else await b.write(file, text);
      assertEquals(await codeOf(async () => await (await b.open()).session()), code);
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
    await Deno.rename(`${b.path}/secret.key`, `${b.root}/elsewhere`);
    await Deno.symlink(`${b.root}/elsewhere`, `${b.path}/secret.key`);
    assertEquals(await codeOf(async () => await (await b.open()).session()), "CLI_FILE_UNSAFE");
  });
  await t.step("a file to write that is a link", async () => {
    await using b = await bench();
    await Deno.rename(`${b.path}/registry-auth.json`, `${b.root}/elsewhere`);
    await Deno.symlink(`${b.root}/elsewhere`, `${b.path}/registry-auth.json`);
    assertEquals(await codeOf(async () => await (await b.open()).refreshFiles().save(AUTH)), "CLI_FILE_UNSAFE");
  });
  await t.step("a folder that is a link", async () => {
    await using b = await bench();
    await Deno.symlink(b.path, `${b.root}/agents/other`);
    assertEquals(await codeOf(() => AgentDirectory.open(systemOf(), `${b.root}/agents/other`)), "CLI_FILE_UNSAFE");
  });
  await t.step("a pipe", async () => {
    await using b = await bench();
    await Deno.remove(`${b.path}/ait.jwt`);
    await new Deno.Command("mkfifo", { args: [`${b.path}/ait.jwt`] }).output();
    assertEquals(await codeOf(async () => await (await b.open()).session()), "CLI_FILE_UNSAFE");
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
    // A folder of the superuser is trusted.
    const opened = await AgentDirectory.open(systemOf({ uid }), b.path).then(() => null, ({ code }) => code);
    assertEquals(opened, isRoot ? null : "CLI_FILE_UNSAFE");
  });
});

Deno.test("tokens and marker are written completely, for the owner only, and nothing else is left", async () => {
  await using b = await bench();
  const files = (await b.open()).refreshFiles();
  assertEquals(await files.readMarker(), null);
  await files.writeMarker("digest");
  assertEquals(await files.readMarker(), "digest");
  await files.removeMarker();
  await files.removeMarker();
  await files.save({ ...AUTH, accessToken: "svc_agt_b" });
  assertEquals((await files.auth()).accessToken, "svc_agt_b");
  assertEquals(((await Deno.stat(`${b.path}/registry-auth.json`)).mode ?? 0) & 0o777, 0o600);
  const names = await Array.fromAsync(Deno.readDir(b.path), ({ name }) => name);
  assertEquals(names.sort(), ["ait.jwt", "identity.json", "registry-auth.json", "secret.key"]);
  await b.write("refresh.pending", "x".repeat(70_000));
  assertEquals(await files.readMarker(), "", "a damaged marker counts as one");
});

Deno.test("a file that cannot be written is reported, and its old content stays", async () => {
  await using b = await bench();
  const files = (await b.open()).refreshFiles();
  // The superuser may write into a folder without permission, so the folder is gone instead.
  await Deno.rename(b.path, `${b.path}.moved`);
  assertEquals(await codeOf(() => files.save({ ...AUTH, accessToken: "new" })), "CLI_SAVE_FAILED");
  assert((await Deno.readTextFile(`${b.path}.moved/registry-auth.json`)).includes("svc_agt_a"));
});
