/**
 * Shows the rate limit of an agent (check 9, D-60): at most n requests in any window, through any instance and with any
 * duration. Receipts and connects have windows of their own.
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { readProxyConfig } from "../../../proxy/config.ts";
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import type { PairRecord } from "../../../proxy/schema/records.ts";
import { HEADERS } from "../../../shared/protocol/proof.ts";
import { ConfigReader } from "../../../shared/server/config_reader.ts";
import { FaultyKv } from "../../support/faulty_kv.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import { outcome, tally } from "../../support/registry_world.ts";
import { until } from "../../support/until.ts";
import { PROXY_URL, REGISTRY_URL, type TestAgent, type World } from "../../support/world.ts";
import { get, openProxy, post, PROFILE, restart } from "../proxy_world.ts";

const LIMITED = "429 PROXY_RATE_LIMIT_EXCEEDED";
const WINDOW_MS = 60_000;

const peers = (w: World, agent: TestAgent) => get(w, agent, "/pair/peers");
const connect = (w: World, agent: TestAgent) => get(w, agent, "/v1/relay/connect");
const receipts = (w: World, agent: TestAgent) =>
  get(w, agent, `/v1/relay/delivery-receipts?requestId=abcdefgh&recipientAgentDid=${agent.agent.did}`);

Deno.test("the two variables of the rate limit change its number and its window", async () => {
  const variables: Record<string, string> = {
    AGENT_RATE_LIMIT_REQUESTS_PER_MINUTE: "5",
    AGENT_RATE_LIMIT_WINDOW_MS: "3000",
  };
  const place = { environment: "dev", registryUrl: REGISTRY_URL, proxyUrl: PROXY_URL, version: "1.0.0" } as const;
  const { agentRequests, agentWindowMs } = readProxyConfig(new ConfigReader((name) => variables[name]), place);
  await using w = await openProxy({ proxy: { agentRequests, agentWindowMs } });
  const { a, b } = await w.story();
  w.connect(a);
  await w.clock.stepWhenIdle(WINDOW_MS);
  for (let i = 0; i < 5; i++) {
    const answer = await w.message(a, b);
    assertEquals([await outcome(answer), answer.headers.get("ratelimit")], ["202", `"agent";r=${4 - i};t=3`]);
    assertEquals([answer.headers.get("ratelimit-policy"), answer.headers.get("retry-after")], [
      '"agent";q=5;w=3',
      null,
    ]);
  }
  const refused = await w.message(a, b);
  assertEquals(refused.headers.get("ratelimit"), '"agent";r=0;t=3');
  assertEquals([refused.headers.get("retry-after"), await outcome(refused.clone())], ["3", LIMITED]);
  assertEquals((await refused.json()).error.message, 'The agent has reached its limit "agent": 5 requests in 3 s');
  assertEquals(await outcome(await w.message(b, a)), "202", "another agent has a limit of its own");
  await w.clock.stepWhenIdle(2_999);
  assertEquals(await outcome(await w.message(a, b)), LIMITED);
  await w.clock.stepWhenIdle(1);
  assertEquals(await outcome(await w.message(a, b)), "202");
});

Deno.test("the agents of one owner share a limit, and another owner's have their own", async () => {
  await using w = await openProxy({ proxy: { agentRequests: 40, ownerRequests: 20 } });
  const { a, b, socket } = await w.story();
  const sibling = await w.agent(a.owner);
  await w.pair(sibling, b);
  await w.clock.stepWhenIdle(WINDOW_MS);
  const counts = await tally(Array.from({ length: 24 }, (_, n) => w.message(n % 2 === 0 ? a : sibling, b)));
  assertEquals(counts, { "202": 20, [LIMITED]: 4 });
  const refused = await w.message(a, b);
  assertEquals(refused.headers.get("retry-after"), "60");
  assertEquals(refused.headers.get("ratelimit-policy"), '"owner";q=20;w=60');
  assertEquals(
    (await refused.json()).error.message,
    "The agents of your account together have sent 20 requests in a minute",
  );
  w.connect(a);
  assertEquals(await outcome(await w.message(b, a)), "202");
  assertEquals(await outcome(await receipts(w, a)), "200", "receipts have a limit of their own");
  assertEquals(socket.delivered.length, 20);
  await w.clock.stepWhenIdle(WINDOW_MS);
  assertEquals(await outcome(await w.message(sibling, b)), "202");
});

Deno.test("an agent that repeats beyond its own limit takes nothing from the other agents of its owner", async () => {
  await using w = await openProxy({ proxy: { agentRequests: 12, ownerRequests: 20 } });
  const { a, b } = await w.story();
  const sibling = await w.agent(a.owner);
  await w.pair(sibling, b);
  await w.clock.stepWhenIdle(WINDOW_MS);
  for (let n = 0; n < 30; n++) assertEquals(await outcome(await w.message(a, b)), n < 12 ? "202" : LIMITED);
  assertEquals(await tally(Array.from({ length: 8 }, () => w.message(sibling, b))), { "202": 8 });
  assertEquals(await outcome(await w.message(sibling, b)), LIMITED, "the owner's limit");
});

Deno.test("a list of many peers counts as several requests of its owner", async () => {
  await using w = await openProxy({ proxy: { ownerRequests: 20 } });
  const { a } = await w.story();
  const pair: PairRecord = { peerProfile: PROFILE, pairedAt: w.clock.now(), ticketId: "", peerOwnerDid: "" };
  for (let n = 0; n < 250; n++) {
    await w.kv.set(KEYS.pair(a.agent.did, `did:svc:b.example:agent:01J00000000000000000000${100 + n}`), pair);
  }
  await w.clock.stepWhenIdle(WINDOW_MS);
  const all = () => get(w, a, "/pair/peers?limit=500");
  for (let n = 0; n < 3; n++) assertEquals(await outcome(await all()), "200");
  assertEquals(await outcome(await all()), LIMITED, "each has counted as six requests");
  assertEquals(await outcome(await get(w, a, "/pair/peers?limit=10")), "200", "a short list is one request");
});

Deno.test("the agents of one owner send 2 MiB a second, all of it at once if they want", async () => {
  await using w = await openProxy({ proxy: { ownerRequests: 1_200 } });
  const { a, b } = await w.story();
  const sibling = await w.agent(a.owner);
  await w.pair(sibling, b);
  await w.clock.stepWhenIdle(WINDOW_MS);
  const body = JSON.stringify({ message: "x".repeat(250_000) });
  const answers: string[] = [];
  for (let n = 0; n < 20; n++) answers.push(await outcome(await w.message(n % 2 === 0 ? a : sibling, b, { body })));
  assertEquals(answers, [...Array(8).fill("202"), ...Array(12).fill(LIMITED)]);
  const refused = await w.message(a, b, { body });
  assertEquals(refused.headers.get("retry-after"), "1");
  assertEquals((await refused.json()).error.message, "The agents of your account together send too many bytes");
  assertEquals(await outcome(await w.message(a, b)), "202", "a small one still fits");
  await w.clock.stepWhenIdle(1_000);
  assertEquals(await outcome(await w.message(a, b, { body })), "202");
});

Deno.test("of 50 messages at once exactly the limit passes", async () => {
  await using w = await openProxy({ proxy: { agentRequests: 25 } });
  const { a, b, socket } = await w.story();
  await w.clock.stepWhenIdle(WINDOW_MS);
  const counts = await tally(Array.from({ length: 50 }, () => w.message(a, b)));
  assertEquals(counts, { "202": 25, [LIMITED]: 25 });
  assertEquals(socket.delivered.length, 25);
});

Deno.test("every kind of route except receipts and connects counts in the same window", async () => {
  await using w = await openProxy({ proxy: { agentRequests: 4 } });
  const { a, b } = await w.story();
  await w.clock.stepWhenIdle(WINDOW_MS);
  assertEquals(await outcome(await w.message(a, b)), "202");
  assertEquals(await outcome(await post(w, a, "/pair/start", { initiatorProfile: PROFILE })), "200");
  assertEquals(await outcome(await post(w, a, "/pair/status", { ticket: "junk" })), "404 PROXY_PAIR_TICKET_NOT_FOUND");
  assertEquals(await outcome(await w.message(a, b, { body: "{" })), "400 PROXY_HOOK_INVALID_JSON");
  for (const answer of [w.message(a, b), peers(w, a), post(w, a, "/pair/start", {})]) {
    assertEquals(await outcome(await answer), LIMITED);
  }
  assertEquals(await outcome(await receipts(w, a)), "200");
  assertEquals(await outcome(await connect(w, a)), "426 PROXY_RELAY_UPGRADE_REQUIRED");
});

Deno.test("connects have a window of their own of the same size", async () => {
  await using w = await openProxy({ proxy: { agentRequests: 3 } });
  const a = await w.agent();
  for (let i = 0; i < 3; i++) {
    const answer = await connect(w, a);
    assertEquals(answer.headers.get("ratelimit"), `"connect";r=${2 - i};t=60`);
    assertEquals(await outcome(answer), "426 PROXY_RELAY_UPGRADE_REQUIRED");
  }
  assertEquals(await outcome(await connect(w, a)), LIMITED);
  assertEquals(await outcome(await peers(w, a)), "200");
});

Deno.test("receipts have a window of their own that is ten times as large", async () => {
  await using w = await openProxy({ proxy: { agentRequests: 3 } });
  const a = await w.agent();
  for (let i = 0; i < 30; i++) {
    const answer = await receipts(w, a);
    assertEquals([await outcome(answer), answer.headers.get("ratelimit")], ["200", `"receipts";r=${29 - i};t=60`]);
    assertEquals(answer.headers.get("ratelimit-policy"), '"receipts";q=30;w=60');
  }
  assertEquals(await outcome(await receipts(w, a)), LIMITED);
  assertEquals(await outcome(await peers(w, a)), "200");
});

Deno.test("requests refused before check 9 are not counted; those refused after it are", async () => {
  await using w = await openProxy({ proxy: { agentRequests: 4 } });
  const { a, b } = await w.story();
  await w.clock.stepWhenIdle(WINDOW_MS);
  const broken = [{ timestamp: "1" }, { signed: { method: "PUT" } }, { headers: { "X-Svc-Agent-Access": "junk" } }];
  for (const parts of broken) {
    for (let i = 0; i < 5; i++) assertMatch(await outcome(await w.message(a, b, parts)), /^401/);
  }
  assertEquals(await outcome(await w.message(a, a)), "403 PROXY_AUTH_FORBIDDEN");
  assertEquals(
    await outcome(await w.message(a, b, { headers: { "Content-Type": "text/plain" } })),
    "415 PROXY_HOOK_UNSUPPORTED_MEDIA_TYPE",
  );
  assertEquals((await w.message(a, b)).headers.get("ratelimit"), '"agent";r=1;t=60');
});

Deno.test("requests refused by the limit do not lengthen it", async () => {
  await using w = await openProxy({ proxy: { agentRequests: 5, agentWindowMs: 2_000 } });
  const a = await w.agent();
  for (let window = 0; window < 3; window++) {
    assertEquals(await tally(Array.from({ length: 20 }, () => peers(w, a))), { "200": 5, [LIMITED]: 15 });
    for (let i = 0; i < 9; i++) {
      await w.clock.stepWhenIdle(200);
      assertEquals(await outcome(await peers(w, a)), LIMITED);
    }
    await w.clock.stepWhenIdle(200);
  }
});

Deno.test("the count survives a restart", async () => {
  await using w = await openProxy({ proxy: { agentRequests: 5 } });
  const a = await w.agent();
  for (let i = 0; i < 5; i++) assertEquals(await outcome(await peers(w, a)), "200");
  await restart(w);
  assertEquals(await outcome(await peers(w, a)), LIMITED);
});

Deno.test("a full window opens again within one window after a clock step of 10 minutes", async (t) => {
  for (const minutes of [-10, 10]) {
    await t.step(`${minutes} minutes`, async () => {
      await using w = await openProxy({ proxy: { agentRequests: 5 } });
      await w.clock.stepWhenIdle(900_000);
      const a = await w.agent();
      await w.clock.stepWhenIdle(900_000);
      for (let i = 0; i < 8; i++) await peers(w, a);
      await w.clock.stepWhenIdle(minutes * 60_000);
      const granted = await tally(Array.from({ length: 20 }, () => peers(w, a)));
      assert((granted["200"] ?? 0) <= 5, JSON.stringify(granted));
      await w.clock.stepWhenIdle(WINDOW_MS);
      assertEquals(await tally(Array.from({ length: 20 }, () => peers(w, a))), { "200": 5, [LIMITED]: 15 });
    });
  }
});

Deno.test("a slow request does not make later requests leave the window early", async () => {
  await using w = await openProxy({ proxy: { agentRequests: 3 } });
  const { a, b } = await w.story();
  await w.clock.stepWhenIdle(WINDOW_MS);
  const { promise, resolve } = Promise.withResolvers<void>();
  let slow = true;
  w.registryAnswer = (request) => {
    if (!slow || !request.url.endsWith("/auth/validate")) return null;
    slow = false;
    return promise.then(() => new Response(null, { status: 204 }));
  };
  const first = w.message(a, b);
  for (let i = 0; i < 3; i++) await flushTasks();
  await w.clock.stepWhenIdle(4_000);
  // Admitted 4 s after the slow one arrived, and counted first.
  assertEquals([await outcome(await peers(w, a)), await outcome(await peers(w, a))], ["200", "200"]);
  resolve();
  assertEquals(await outcome(await first), "202");
  assertEquals(await outcome(await peers(w, a)), LIMITED);
  await w.clock.stepWhenIdle(WINDOW_MS - 4_000);
  // Now 60 s after the slow one arrived and 56 s after the other two: only the slow one may have left.
  const { "200": accepted = 0 } = await tally(Array.from({ length: 5 }, () => peers(w, a)));
  assert(accepted <= 1, `${accepted + 2} accepted within 56 s; the limit is 3`);
});

Deno.test("a window that cannot be read or written is 503, and no message is accepted", async (t) => {
  for (const commits of [false, true]) {
    await t.step(commits ? "written" : "read", async () => {
      using store = await FaultyKv.open();
      await using w = await openProxy({ kv: store.kv });
      const a = await w.agent();
      store.faults.fails = ({ method, keys }) =>
        (method === "commit") === commits && keys.some((key) => key[1] === "sender");
      assertEquals(await outcome(await peers(w, a)), "503 PROXY_AUTH_DEPENDENCY_UNAVAILABLE");
      delete store.faults.fails;
      assertEquals(await outcome(await peers(w, a)), "200");
    });
  }
});

Deno.test("a repeat is refused when another request takes the last place of the window before its commit", async () => {
  using store = await FaultyKv.open();
  await using w = await openProxy({ kv: store.kv, proxy: { agentRequests: 3 } });
  const { a, b, socket } = await w.story();
  await w.clock.stepWhenIdle(WINDOW_MS);
  const first = { body: '{"message":"first"}', headers: { [HEADERS.requestId]: "request-0001" } };
  assertEquals(await tally([w.message(a, b, first), w.message(a, b)]), { "202": 2 });
  const read = Promise.withResolvers<void>(), held = Promise.withResolvers<void>();
  store.faults.before = async ({ method, keys }) => {
    if (method !== "getMany" || !keys.some((key) => key[1] === "delivery")) return;
    read.resolve();
    await held.promise;
  };
  const repeat = w.message(a, b, first);
  await read.promise;
  const { commits } = w.proxy.deps, claim = commits.claim.bind(commits);
  let claims = 0;
  commits.claim = (updates, options) => {
    claims++;
    return claim(updates, options);
  };
  const last = w.message(a, b);
  await until(() => claims === 1);
  held.resolve();
  assertEquals([await outcome(await last), await outcome(await repeat)], ["202", LIMITED]);
  assertEquals(socket.delivered.length, 3);
});
