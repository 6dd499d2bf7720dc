/**
 * Real processes that start and end over one store (D-99, D-209): a stop and a start lose no record, a store of a newer
 * version is unchanged, and an agent whose instance was killed is online as soon as it connects anywhere.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { RegistryClient } from "../support/agent_client.ts";
import { accessToken, Denokv, findDenokv } from "../support/denokv.ts";
import { openStore } from "../../shared/server/store/open_store.ts";
import {
  bootstrap,
  ChildProcess,
  Connector,
  deps,
  freePort,
  messageTo,
  newAgent,
  pair,
  refusedStart,
  refusedWith,
  Service,
  startServer,
  tempFolder,
  within,
} from "../support/process.ts";

Deno.test("sessions, pairs, queued messages and revocations survive a stop and a start", async () => {
  await using service = await Service.open();
  const { a, b } = await service.agents();
  const [late, gone] = [await service.agent("late"), await service.agent("gone")];
  await pair(a, late);
  await pair(gone, b);
  const queued = await a.client.sendMessage({ ...messageTo(late), prefer: "respond-async" });
  assertEquals(queued.queued, true);
  const registry = new RegistryClient(deps, service.place.registryUrl);
  await registry.deleteAgent(service.apiKey, gone.agent.id);
  assertEquals((await service.server.end()).code, 0);
  await service.restart(0);

  const connector = await service.connect(late);
  assertEquals((await connector.frame(1)).requestId, queued.requestId);
  const atB = await service.connect(b);
  assertEquals((await a.client.sendMessage(messageTo(b))).delivered, true);
  await refusedWith("PROXY_AUTH_REVOKED", gone.client.sendMessage(messageTo(b)));
  assert((await registry.refresh(a.identity, a.agentAuth.refreshToken)).accessToken);
  await connector.close();
  await atB.close();
});

Deno.test("server and store tool refuse a store of a newer version in plain words and change nothing", async () => {
  await using folder = await tempFolder();
  const path = `${folder.path}/svc.kv`;
  const before = await openStore(path);
  await before.kv.set(["store", "format"], 3);
  before.close();
  for (const SVC_SERVICE of ["all", "proxy"]) {
    const env = { SVC_SERVICE, REGISTRY_URL: "http://127.0.0.1:1" };
    const { code, stderr } = await refusedStart({ folder: folder.path, env });
    assertEquals(code, 2);
    assertStringIncludes(stderr, "The store has format 3, and this version of svc reads format 2.");
  }
  await using tool = new ChildProcess(["run", "--no-prompt", "-A", "deploy_store.ts", "export"], { KV_URL: path });
  assertEquals((await tool.status).code, 2);
  assertStringIncludes(tool.stderr.text, "The store has format 3");
  assertEquals(tool.stdout.text, "");
  const after = await openStore(path);
  assertEquals((await Array.fromAsync(after.kv.list({ prefix: [] }))).map(({ key }) => key), [["store", "format"]]);
  after.close();
});

const denokv = await findDenokv();

Deno.test({
  name: "an agent whose instance is killed is back where it connects, and its senders get an answer",
  ignore: denokv === null,
  async fn() {
    await using folder = await tempFolder();
    await using store = await Denokv.start(denokv ?? "", `${folder.path}/denokv.sqlite`);
    const ports = [freePort(), freePort()];
    const [p1, p2] = ports.map((port) => `http://127.0.0.1:${port}`) as [string, string];
    const place = { registryUrl: p1, proxyUrl: p1 };
    const start = (port: number) =>
      startServer({
        folder: folder.path,
        env: {
          PORT: String(port),
          KV_URL: store.address,
          DENO_KV_ACCESS_TOKEN: accessToken(),
          REGISTRY_URL: p1,
          PROXY_URL: p1,
          AGENT_RATE_LIMIT_REQUESTS_PER_MINUTE: "1000",
        },
      });
    await using first = await start(ports[0] ?? 0);
    await using second = await start(ports[1] ?? 0);
    const apiKey = await bootstrap(place);
    const [a, b] = [await newAgent(place, apiKey, "a"), await newAgent(place, apiKey, "b")];
    await pair(a, b);
    const there = await Connector.open({ ...place, proxyUrl: p2 }, b);
    const message = { ...messageTo(b), inReplyTo: "request-0000", auto: true } as const;
    const send = () => within(20_000, "an answer", a.client.sendMessage(message));
    assertEquals([(await send()).delivered, there.frames.length], [true, 1]);
    assertEquals([there.frames[0]?.inReplyTo, there.frames[0]?.auto], ["request-0000", true]);

    await second.end("SIGKILL");
    await there.closed;
    const here = await Connector.open(place, b);
    for (let n = 1; n <= 3; n++) assertEquals([(await send()).delivered, here.frames.length], [true, n]);
    await here.close();
    assertEquals(first.stderr.lines.filter((line) => line.includes('"level":"error"')), []);
  },
});
