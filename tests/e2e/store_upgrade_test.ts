/**
 * The upgrade of a store of the previous release, with real processes (D-261): the start converts it, used nonces,
 * delivered messages and queued ones stay, an earlier version refuses it afterwards, and no start converts a store
 * that an instance of an earlier version uses.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { AgentClient } from "../support/agent_client.ts";
import { accessToken, Denokv, findDenokv } from "../support/denokv.ts";
import { type PreviousRelease, previousRelease } from "../support/previous_release.ts";
import {
  bootstrap,
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
} from "../support/process.ts";

const previous = await previousRelease();
const denokv = await findDenokv();

function upgradeTest(name: string, isThere: boolean, run: (previous: PreviousRelease) => Promise<void>): void {
  Deno.test({ name, ignore: previous === null || !isThere, fn: () => run(previous as PreviousRelease) });
}

upgradeTest("a store of the previous release keeps what was used, delivered and queued", true, async ({ entry }) => {
  await using service = await Service.open({}, false, entry);
  const [a, b, c] = await Promise.all(["a", "b", "c"].map((name) => service.agent(name)));
  assert(a && b && c);
  await pair(a, b);
  await pair(a, c);
  const before = await service.connect(b);
  const requests: Request[] = [];
  const capturing = ((input: string | URL | Request, init?: RequestInit) => {
    const request = new Request(input, init);
    requests.push(request.clone());
    return fetch(request);
  }) as typeof fetch;
  const sender = new AgentClient({ ...deps, fetch: capturing }, service.url, a.identity);
  const delivered = await sender.sendMessage(messageTo(b));
  assertEquals(delivered.delivered, true);
  const queued = await a.client.sendMessage({ ...messageTo(c, "queued"), prefer: "respond-async" });
  assert(queued.queued);
  await before.close();
  assertEquals((await service.server.end()).code, 0);

  service.entry = undefined;
  await service.restart(0);
  const [request] = requests;
  assert(request);
  const replay = await fetch(request);
  assertEquals([replay.status, (await replay.json()).error.code], [401, "PROXY_AUTH_REPLAY"]);
  const after = await service.connect(b);
  const again = await a.client.sendMessage({ ...messageTo(b), requestId: delivered.requestId });
  assertEquals([again.delivered, after.frames.length], [true, 0]);
  const other = a.client.sendMessage({ ...messageTo(b, "another"), requestId: delivered.requestId });
  await refusedWith("PROXY_HOOK_REQUEST_ID_REUSED", other);
  const receipt = {
    requestId: delivered.requestId,
    recipientAgentDid: b.agent.did,
    status: "processed_by_svc",
  } as const;
  await b.client.submitReceipt({ ...receipt, timestamp: new Date().toISOString() });
  assertEquals((await a.client.receipts(delivered.requestId, b.agent.did)).receipts.length, 1);
  const atC = await service.connect(c);
  const { requestId, payload } = await atC.frame(1);
  assertEquals([requestId, payload.includes("queued")], [queued.requestId, true]);
  assertEquals((await a.client.sendMessage(messageTo(b))).delivered, true);
  await after.close();
  await atC.close();
  assertEquals((await service.server.end()).code, 0);

  service.entry = entry;
  const { code, stderr } = await refusedStart(service.optionsOf(0));
  assertEquals(code, 2);
  assertStringIncludes(stderr, "of format 2, and this version of svc reads format 1.");
});

upgradeTest("a start is refused while the previous release uses the store", denokv !== null, async ({ entry }) => {
  await using folder = await tempFolder();
  await using store = await Denokv.start(denokv ?? "", `${folder.path}/denokv.sqlite`);
  const port = freePort();
  const url = `http://127.0.0.1:${port}`;
  const options = {
    folder: folder.path,
    env: {
      PORT: String(port),
      KV_URL: store.address,
      DENO_KV_ACCESS_TOKEN: accessToken(),
      REGISTRY_URL: url,
      PROXY_URL: url,
    },
  };
  const place = { registryUrl: url, proxyUrl: url };
  const old = await startServer({ ...options, entry });
  const apiKey = await bootstrap(place);
  const [a, b] = [await newAgent(place, apiKey, "a"), await newAgent(place, apiKey, "b")];
  await pair(a, b);
  const { code, stderr } = await refusedStart({ ...options, env: { ...options.env, PORT: String(freePort()) } });
  assertEquals(code, 2);
  assertStringIncludes(stderr, "The store has format 1 and must be converted, but instance");
  assertStringIncludes(stderr, "Stop every instance, and wait 12 s if one was killed.");
  const before = await Connector.open(place, b);
  assertEquals((await a.client.sendMessage(messageTo(b))).delivered, true);
  await before.close();
  assertEquals((await old.end()).code, 0);

  await using now = await startServer(options);
  const after = await Connector.open(place, b);
  assertEquals((await a.client.sendMessage(messageTo(b))).delivered, true);
  await after.close();
  assertEquals(now.stderr.lines.filter((line) => line.includes('"level":"error"')), []);
});
