/** `deno serve --parallel`: isolates of one process on one store act as one service, over real sockets. */
import { assert, assertEquals } from "@std/assert";
import { AgentClient } from "../support/agent_client.ts";
import {
  bootstrap,
  BOOTSTRAP_SECRET,
  ChildProcess,
  Connector,
  deps,
  eventually,
  freePort,
  type LiveAgent,
  newAgent,
  pair,
  tempFolder,
} from "../support/process.ts";

const ISOLATES = 3;

Deno.test("messages reach another isolate's socket over one store file, once each and in order", async () => {
  await using folder = await tempFolder();
  const port = freePort();
  const url = `http://127.0.0.1:${port}`;
  await using server = new ChildProcess(
    ["serve", "-A", "--no-prompt", "--parallel", "--host=127.0.0.1", `--port=${port}`, "tests/support/parallel.ts"],
    {
      DENO_JOBS: String(ISOLATES),
      PORT: String(port),
      REGISTRY_URL: url,
      PROXY_URL: url,
      KV_URL: `${folder.path}/svc.kv`,
      BOOTSTRAP_SECRET,
      AGENT_RATE_LIMIT_REQUESTS_PER_MINUTE: "100000",
    },
  );
  await eventually(20_000, "the isolates answer", () =>
    fetch(`${url}/v1/metadata`).then(async (answer) => {
      await answer.body?.cancel();
      return answer.ok || undefined;
    }, () => undefined));
  // A new connection for each request: the system spreads them over the isolates.
  using client = Deno.createHttpClient({ poolMaxIdlePerHost: 0 });
  const spread = { ...deps, fetch: ((input, init) => fetch(input, { ...init, client })) as typeof fetch };
  const place = { registryUrl: url, proxyUrl: url };
  const apiKey = await bootstrap(place);
  const [a, b] = await Promise.all([newAgent(place, apiKey, "a"), newAgent(place, apiKey, "b")]) as [
    LiveAgent,
    LiveAgent,
  ];
  await pair(a, b);
  const connector = await Connector.open(place, b);
  const sender = new AgentClient(spread, url, a.identity);
  const times: number[] = [];
  for (let n = 0; n < 100; n++) {
    const began = performance.now();
    const answer = await sender.sendMessage({ recipientDid: b.agent.did, payload: JSON.stringify({ n }) });
    times.push(performance.now() - began);
    assert(answer.delivered, `message ${n}`);
  }
  const came = connector.frames.map((frame) => (JSON.parse(frame.payload) as { n: number }).n);
  assertEquals(came, Array.from({ length: 100 }, (_, n) => n));
  times.sort((x, y) => x - y);
  console.log(`delivery over ${ISOLATES} isolates: p50 ${times[50]?.toFixed(1)} ms, p95 ${times[95]?.toFixed(1)} ms`);
  assertEquals(server.stderr.lines.filter((line) => line.includes('"level":"error"')), []);
  await connector.close();
});
