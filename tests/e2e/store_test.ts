/**
 * `deno task store` (D-210): works on a real store file, and only when no server uses it. Also what a store keeps over
 * a stop and a start of its server.
 */
import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { accessToken, Denokv, findDenokv } from "../support/denokv.ts";
import { AgentClient, RegistryClient } from "../support/agent_client.ts";
import { CliError } from "../../cli/errors.ts";
import { runStore, StartRefused, WorkFailed } from "../../deploy_store.ts";
import { programs } from "../../svc.ts";
import { openStore, StoreRefused } from "../../shared/server/store/open_store.ts";
import { steps } from "../support/steps.ts";
import { TABLES } from "../support/store_story.ts";
import {
  bootstrap,
  BOOTSTRAP_SECRET,
  Connector,
  deps,
  freePort,
  messageTo,
  newAgent,
  pair,
  placeOf,
  refusedHere,
  refusedWith,
  Service,
  SOON_MS,
  startServer,
  startServerHere,
  tempFolder,
  within,
} from "../support/process.ts";
import { outputFor, PIPED } from "../support/process_output.ts";
import { IS_LONG } from "../support/trials.ts";

function store(kvUrl: string, command: string | string[], input = "") {
  const config = new URL("../../deno.json", import.meta.url).pathname;
  const args = ["task", "--quiet", "--config", config, "store"].concat(command);
  return outputFor(input, new Deno.Command(Deno.execPath(), { ...PIPED, args, env: { KV_URL: kvUrl } }).spawn());
}

Deno.test("a store whose folder is a file does not exist", async () => {
  const path = `${new URL(import.meta.url).pathname}/svc.kv`;
  await assertRejects(() => runStore(["inspect", "--store", path]), StartRefused, `There is no store at ${path}`);
});

Deno.test("store recover gives the admin a new key when all are lost, once the server is stopped", async () => {
  await using folder = await tempFolder();
  const kvUrl = `${folder.path}/svc.kv`;
  const recovering = () => runStore(["recover", "--store", `${folder.path}/other.kv`]);
  await assertRejects(recovering, StartRefused, "There is no store at");

  const options = { folder: folder.path, env: { PORT: String(freePort()) } };
  const first = await startServerHere(options);
  const admin = await new RegistryClient(deps, first.address).bootstrap(BOOTSTRAP_SECRET, "Ada");
  const busy = await store(kvUrl, "recover");
  assertEquals(busy.code, 2);
  assertStringIncludes(busy.stderr, `process ${Deno.pid} uses it`);
  await first[Symbol.asyncDispose]();

  const recovered = await store(kvUrl, "recover");
  assertEquals([recovered.code, recovered.stderr], [0, ""]);
  assertStringIncludes(recovered.stdout, "Ada");
  assertStringIncludes(recovered.stdout, "svc config set apiKey -");
  const token = /svc_pat_[A-Za-z0-9_-]{43}/.exec(recovered.stdout)?.[0];
  assert(token);

  await using second = await startServerHere(options);
  const { human } = await new RegistryClient(deps, second.address).me(token);
  assertEquals([human.did, human.role], [admin.human.did, "admin"]);
  const audit = await fetch(`${second.address}/v1/admin/audit`, { headers: { Authorization: `Bearer ${token}` } });
  assertMatch(await audit.text(), /"admin\.recovered"/);
  const { error } = console;
  console.error = () => {};
  try {
    for (const wrong of ["nonsense", "inspect --out x", "inspect more"]) {
      assertEquals(await runStore([...wrong.split(" "), "--store", kvUrl]), 2, wrong);
    }
  } finally {
    console.error = error;
  }
});

Deno.test("store export and import move a store: sessions, pairs and queued messages continue", async () => {
  await using folder = await tempFolder();
  const port = String(freePort());
  const env = { PORT: port };
  const first = await startServerHere({ folder: folder.path, env });
  const place = placeOf(first);
  const apiKey = await bootstrap(place);
  const [a, b] = [await newAgent(place, apiKey, "a"), await newAgent(place, apiKey, "b")];
  await pair(a, b);
  const invite = await new RegistryClient(deps, place.registryUrl).createInvite(apiKey);
  const queued = await a.client.sendMessage({
    recipientDid: b.agent.did,
    payload: JSON.stringify({ text: "€".repeat(60_000) }),
    prefer: "respond-async",
  });
  assertEquals(queued.queued, true);
  await first[Symbol.asyncDispose]();

  const exported = await store(`${folder.path}/svc.kv`, "export");
  assertEquals([exported.code, exported.stderr], [0, ""]);
  const other = `${folder.path}/moved/svc.kv`;
  const imported = await store(other, "import", exported.stdout);
  assertEquals(imported.code, 0, imported.stderr);
  const cut = await store(`${folder.path}/cut.kv`, "import", exported.stdout.slice(0, -30));
  assertEquals(cut.code, 1);
  const advice = `Remove the store at ${folder.path}/cut.kv, then import a whole export.\n`;
  assertMatch(cut.stderr.replace(advice, "ADVICE"), /^Cannot import: Line \d+: not a JSON object\. ADVICE$/);
  const started = await refusedHere({ folder: folder.path, env: { ...env, KV_URL: `${folder.path}/cut.kv` } });
  assertStringIncludes(started, `store at ${folder.path}/cut.kv was not completed. If none runs, remove the store`);
  await Deno.remove(`${folder.path}/cut.kv`);
  assertEquals((await store(`${folder.path}/cut.kv`, "import", exported.stdout)).code, 0);
  const noExport = await store(`${folder.path}/other.kv`, "import", "\0".repeat(2 ** 21));
  assertEquals([noExport.code, noExport.stderr.trim()], [
    1,
    "Cannot import: a line is too long for an export of a store",
  ]);
  const former = exported.stdout.replace('"svcStore":5', '"svcStore":4');
  const refused = await store(`${folder.path}/format_4.kv`, "import", former);
  assertEquals(refused.code, 1);
  assertStringIncludes(refused.stderr, "Cannot import: Line 1: the export has format 4; this svc reads only format 5.");
  const again = await store(other, "import", exported.stdout);
  assertEquals(again.code, 1);
  assertStringIncludes(again.stderr, "use an empty one");

  await using second = await startServerHere({ folder: folder.path, env: { ...env, KV_URL: other } });
  const moved = placeOf(second);
  const connector = await Connector.open(moved, b);
  const frame = await connector.frame(1);
  assertEquals(frame.requestId, queued.requestId);
  assertEquals(JSON.parse(frame.payload), { text: "€".repeat(60_000) });
  const client = new AgentClient(deps, moved.proxyUrl, a.identity);
  assertEquals((await client.sendMessage({ recipientDid: b.agent.did, payload: "{}" })).delivered, true);
  const registry = new RegistryClient(deps, moved.registryUrl);
  assertEquals((await registry.me(apiKey)).human.role, "admin");
  assert((await registry.refresh(a.identity, a.agentAuth.refreshToken)).accessToken);
  assert((await registry.redeemInvite(invite.invite.code)).apiKey.token);
  await connector.close();
});

const denokv = await findDenokv();

for (const kind of ["a file", "denokv"]) {
  Deno.test({
    name: `of two imports at once into one store, a store has the records of exactly one when it is ${kind}`,
    ignore: kind === "denokv" && denokv === null,
    async fn() {
      await using folder = await tempFolder();
      await using server = kind === "denokv" ? await Denokv.start(denokv ?? "") : null;
      const kvUrl = server?.address ?? `${folder.path}/svc.kv`;
      const outcomes = await Promise.all(["a", "b"].map(async (name) => {
        const records = Array.from(
          { length: 1_000 },
          (_, i) => ({ key: ["registry", "human", `${name}-${i}`], json: i }),
        );
        const lines = [{ svcStore: 5, exportedAt: "2026-02-21T00:01:00.000Z" }, ...records, {
          records: records.length,
        }];
        return { name, ...await store(kvUrl, "import", lines.map((line) => JSON.stringify(line)).join("\n")) };
      }));
      const [kept, ...more] = outcomes.filter(({ code }) => code === 0);
      assert(kept && more.length === 0, JSON.stringify(outcomes));
      accessToken();
      using opened = await Deno.openKv(kvUrl);
      const found = await Array.fromAsync(opened.list({ prefix: ["registry"] }), ({ key }) => String(key[2]));
      assertEquals([found.length, found.filter((id) => id.startsWith(kept.name)).length], [1_000, 1_000]);
    },
  });
}

Deno.test("store inspect counts every kind of record and the humans with most revocations", async () => {
  await using folder = await tempFolder();
  const kvUrl = `${folder.path}/svc.kv`;
  const first = await startServerHere({ folder: folder.path });
  const place = placeOf(first);
  const registry = new RegistryClient(deps, place.registryUrl);
  const { human, apiKey: { token } } = await registry.bootstrap(BOOTSTRAP_SECRET, "Ada");
  const agents = [];
  for (let i = 0; i < 3; i++) agents.push(await newAgent(place, token, `agent-${i}`));
  for (const { agent } of agents.slice(1)) await registry.deleteAgent(token, agent.id);
  await first[Symbol.asyncDispose]();

  const { code, stdout } = await store(kvUrl, ["inspect", "--json"]);
  assertEquals(code, 0);
  const { kinds, total, revocations } = JSON.parse(stdout) as {
    kinds: { kind: string; records: number; bytes: number }[];
    total: { records: number; bytes: number };
    revocations: unknown[];
  };
  const named = new Set(kinds.map(({ kind }) => kind));
  for (const [service, table] of Object.entries(TABLES)) {
    for (const kind of Object.keys(table)) assert(named.has(`${service} ${kind}`), `${service} ${kind}`);
  }
  assertEquals(kinds.find(({ kind }) => kind === "registry agent")?.records, 3);
  assertEquals(kinds.reduce((sum, { bytes }) => sum + bytes, 0), total.bytes);
  const kv = await Deno.openKv(kvUrl);
  const records = await Array.fromAsync(kv.list({ prefix: [] }));
  kv.close();
  assertEquals(total.records, records.length);
  assertEquals(revocations, [{ ownerDid: human.did, revocations: 2 }]);
  const text = (await store(kvUrl, "inspect")).stdout;
  assertMatch(text, /^registry agent +3 +\d+$/m);
  assertMatch(text, new RegExp(`^ +2  ${human.did}$`, "m"));
});

Deno.test("store export --out writes a new file with mode 0600 and never replaces one", async () => {
  await using folder = await tempFolder();
  const kvUrl = `${folder.path}/svc.kv`;
  await (await startServerHere({ folder: folder.path }))[Symbol.asyncDispose]();
  const file = `${folder.path}/export.jsonl`;
  const { stderr, ...rest } = await store(kvUrl, ["export", "--out", file]);
  assertEquals(rest, { code: 0, stdout: "" });
  assertEquals(((await Deno.stat(file)).mode ?? 0) & 0o777, 0o600);
  const text = await Deno.readTextFile(file);
  assertEquals(stderr, `${text.trim().split("\n").length - 2} records exported to ${file}\n`);
  assertMatch(text, /^\{"svcStore":5.*\n[^]*\{"records":\d+\}\n$/);
  const other = `${folder.path}/other.jsonl`, read = await store(kvUrl, ["export", "--json", "--out", other]);
  assertEquals([read.code, read.stderr], [0, ""]);
  assertEquals(JSON.parse(read.stdout), { records: text.trim().split("\n").length - 2, path: other });
  const again = await store(kvUrl, ["export", "--out", file]);
  assertEquals(again.code, 2);
  assertMatch(
    again.stderr,
    /^Cannot export: .* exists already\. Name a new file\. If an export was stopped .*: remove it\.\n$/,
  );
  const below = await store(kvUrl, ["export", "--out", `${file}/below`]);
  assertEquals([below.code, below.stderr.split(": ")[0]], [2, "Cannot export"], below.stderr);
  assertEquals(await Deno.readTextFile(file), text);
});

Deno.test("an export that a full disk ends says what to do with what was written", async () => {
  await using folder = await tempFolder();
  const kvUrl = `${folder.path}/svc.kv`;
  await (await startServerHere({ folder: folder.path, env: { PORT: String(freePort()) } }))[Symbol.asyncDispose]();
  const { write } = Deno.stdout;
  Deno.stdout.write = () => Promise.reject(new Error("No space left on device"));
  try {
    const message = "No space left on device. What was written is incomplete";
    await assertRejects(() => runStore(["export", "--store", kvUrl]), WorkFailed, message);
    // The command adds no advice, because the message has it.
    const failed = await assertRejects(() => programs.store(["export", "--store", kvUrl]), CliError, message);
    assertEquals([failed.code, failed.fix], ["CLI_STORE_FAILED", ""]);
  } finally {
    Deno.stdout.write = write;
  }
});

Deno.test("a store is refused when another process holds it under the same pid, as two containers may", async () => {
  await using folder = await tempFolder();
  const kvUrl = `${folder.path}/svc.kv`;
  await using server = await startServer({ folder: folder.path });
  await Deno.writeTextFile(`${kvUrl}.lock`, `${Deno.pid}\n`);
  const error = await assertRejects(() => openStore(kvUrl), StoreRefused);
  assertStringIncludes(error.message, `another process with PID ${Deno.pid} uses it`);
  assertEquals((await server.end()).code, 0);
  const store = await openStore(kvUrl);
  assertEquals(store.isExclusive, true);
  store.close();
});

Deno.test("sessions, pairs, queued messages and revocations survive a stop and a start", async () => {
  await using service = await Service.here();
  const { a, b } = await service.agents();
  const [late, gone] = [await service.agent("late"), await service.agent("gone")];
  await pair(a, late);
  await pair(gone, b);
  const queued = await a.client.sendMessage({ ...messageTo(late), prefer: "respond-async" });
  assertEquals(queued.queued, true);
  const registry = new RegistryClient(deps, service.place.registryUrl);
  await registry.deleteAgent(service.apiKey, gone.agent.id);
  await service.stopHere();
  await service.restartHere();

  const connector = await service.connect(late);
  assertEquals((await connector.frame(1)).requestId, queued.requestId);
  const atB = await service.connect(b);
  assertEquals((await a.client.sendMessage(messageTo(b))).delivered, true);
  await refusedWith("PROXY_AUTH_REVOKED", gone.client.sendMessage(messageTo(b)));
  assert((await registry.refresh(a.identity, a.agentAuth.refreshToken)).accessToken);
  await connector.close();
  await atB.close();
});

Deno.test("a store of format 4 or 6, or with records and no format, is refused and nothing in its file changes", async (t) => {
  const issuer: [Deno.KvKey, unknown] = [["registry", "issuer"], "https://registry.example.test"];
  const stores: [has: string, content: [Deno.KvKey, unknown][]][] = [
    ["format 4", [[["store", "format"], 4], issuer]],
    ["format 6", [[["store", "format"], 6], issuer]],
    ["no format", [issuer]],
  ];
  await steps(t, stores.slice(0, IS_LONG ? stores.length : 1), async ([has, content]) => {
    await using folder = await tempFolder();
    const path = `${folder.path}/svc.kv`;
    {
      const { kv, close } = await openStore(path);
      for (const [key, value] of content) await kv.set(key, value);
      close();
    }
    const entries = async () => {
      const { kv, close } = await openStore(path);
      const found = await Array.fromAsync(kv.list({ prefix: [] }));
      close();
      return found;
    };
    const before = await entries();
    const expected = `The store at ${path} has ${has}; this svc reads only format 5. ` +
      "Start the svc that wrote it, or begin with an empty store.";
    const isFirst = has === "format 4";
    for (const SVC_SERVICE of isFirst ? ["all", "registry", "proxy"] : ["all"]) {
      const env = { SVC_SERVICE, REGISTRY_URL: "http://127.0.0.1:1", PROXY_URL: "http://127.0.0.1:1", KV_URL: path };
      assertStringIncludes(await refusedHere({ folder: folder.path, env }), expected);
    }
    for (const command of isFirst ? ["inspect", "recover", "export"] : ["inspect"]) {
      const refused = await assertRejects(() => runStore([command, "--store", path]), StartRefused);
      assertEquals(refused.message, expected);
    }
    assertEquals(await entries(), before);
  });
});

Deno.test("a second server on the store of another one refuses to start, by any name and without the file of the pid", async (t) => {
  await using folder = await tempFolder();
  const kvUrl = `${folder.path}/svc.kv`;
  await using server = await startServer({ folder: folder.path });
  await Deno.mkdir(`${folder.path}/other`);
  const names = { link: `${folder.path}/other/linked.kv`, hardLink: `${folder.path}/other/same.kv` };
  await Deno.symlink(kvUrl, names.link);
  await Deno.link(kvUrl, names.hardLink);
  await Deno.symlink(folder.path, `${folder.path}/other/folder`);
  // In this process: config_test.ts shows that a process whose start is refused ends with 2.
  const refused = (kvUrl: string) => refusedHere({ folder: folder.path, env: { KV_URL: kvUrl } });
  await t.step("through a symbolic link", async () => {
    assertStringIncludes(await refused(names.link), `process ${server.pid} uses it`);
  });
  await t.step("through a link to its folder", async () => {
    assertStringIncludes(await refused(`${folder.path}/other/folder/svc.kv`), `process ${server.pid} uses it`);
  });
  // Elsewhere the file of the pid is what is locked.
  const ignore = Deno.build.os !== "linux";
  await t.step({
    name: "through another name",
    ignore,
    async fn() {
      // The other name has no pid beside it.
      assertStringIncludes(await refused(names.hardLink), "process unknown uses it");
    },
  });
  await t.step({
    name: "after the file of the pid was removed",
    ignore,
    async fn() {
      await Deno.remove(`${kvUrl}.lock`);
      assertStringIncludes(await refused(kvUrl), "process unknown uses it");
    },
  });
  assertEquals((await server.end()).code, 0);
  await using _again = await startServerHere({
    folder: folder.path,
    env: { KV_URL: names.link, REGISTRY_URL: server.address },
  });
});

Deno.test("a server whose store file is removed or replaced ends, and says why", async (t) => {
  const ways: [name: string, change: (kvUrl: string) => Promise<void>][] = [
    ["removed", (kvUrl) => Deno.remove(kvUrl)],
    ["replaced", async (kvUrl) => {
      await Deno.copyFile(kvUrl, `${kvUrl}.copy`);
      await Deno.rename(`${kvUrl}.copy`, kvUrl);
    }],
  ];
  await steps(t, ways, async ([, change]) => {
    await using folder = await tempFolder();
    await using server = await startServer({ folder: folder.path });
    await change(`${folder.path}/svc.kv`);
    assertEquals((await within(SOON_MS, "the server ends", server.status)).code, 1);
    const last = server.stderr.lines.at(-1) ?? "{}";
    assertEquals(JSON.parse(last).event, "store_replaced");
  });
});
