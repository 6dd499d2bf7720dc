/** The connector as a whole, next to both services in one process (D-88). Decisions: D-68. */
import { Connector } from "../../../cli/connector/connector.ts";
import { isConnectorHealthy, Status } from "../../../cli/connector/status.ts";
import { assert, assertEquals } from "@std/assert";
import { RECONNECT_FIRST_MAX_MS } from "../../../cli/link/reconnect.ts";
import { CLOSE } from "../../../shared/protocol/frames.ts";
import { sha256 } from "../../../shared/protocol/base64url.ts";
import { ApiError, UnreachableError } from "../../../shared/client/errors.ts";
import { RefusedError } from "../../../cli/link/link.ts";
import { World } from "../../support/world.ts";
import { accepts, Bench, hangs, isDown, MANY, passing, RUNTIME_URL, story } from "./bench.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import { PROXY_URL } from "../../support/world.ts";
import { until } from "../../support/until.ts";
import { HANDOVERS_AT_ONCE } from "../../../cli/connector/runtime/runtime_room.ts";
import { asker, post } from "./local_api/local_caller.ts";
import { held } from "./two_connectors.ts";

const body = (text: string) => JSON.stringify({ message: text });

Deno.test("a message is stored, acknowledged and handed over with its headers, and ends in a receipt", async () => {
  await using world = await World.open();
  const { a, b, bench } = await story(world, { target: { hookToken: "hook-token" } });
  const response = await world.message(a, b, {
    body: '{"message":"hi","url":"http://evil.example/","headers":{"x":"y"},"n":12345678901234567890}',
    headers: {
      "x-request-id": "request-1",
      "X-Svc-Conversation-Id": "talk",
      "X-Svc-In-Reply-To": "request-0",
      "X-Svc-Auto": "1",
    },
  });
  assertEquals((await response.json()).delivered, true);
  await until(() => bench.eventsOf("receipt_sent").length === 1);
  const [call] = bench.calls;
  assert(call);
  assertEquals([call.url, call.redirect], [`${RUNTIME_URL}/hooks/agent`, "manual"]);
  const expected = {
    "authorization": "Bearer hook-token",
    "content-type": "application/json",
    "x-request-id": "request-1",
    "x-svc-agent-did": a.agent.did,
    "x-svc-owner-did": a.agent.ownerDid,
    "x-svc-to-agent-did": b.agent.did,
    "x-svc-conversation-id": "talk",
    "x-svc-in-reply-to": "request-0",
    "x-svc-auto": "1",
    "x-svc-verified": "by-registry",
    "x-svc-signed-at": new Date(Math.floor(world.clock.now() / 1000) * 1000).toISOString(),
    "idempotency-key": await sha256(`${a.agent.did}\nrequest-1`),
  };
  assertEquals(Object.fromEntries(call.headers), expected);
  assert(call.body.startsWith('{"message":"[Svc Identity]\\n') && call.body.endsWith('"n":12345678901234567890}'));
  assertEquals(await bench.receiptsOf(a, "request-1"), ["processed_by_svc"]);
  assertEquals(JSON.stringify(bench.events).includes("hook-token"), false);
});

Deno.test("the frame is acknowledged before the runtime answers, and repeated 500 answers are retried", async () => {
  await using world = await World.open();
  const first = Promise.withResolvers<void>();
  const { a, b, bench } = await story(world, {
    async behaviour(_, n) {
      if (n === 1) await first.promise;
      return new Response(null, { status: n <= 3 ? 500 : 200 });
    },
  });
  const response = await world.message(a, b, { headers: { "x-request-id": "request-1" } });
  assertEquals((await response.json()).delivered, true);
  await until(() => bench.handedOver.length === 1);
  assertEquals([bench.eventsOf("handover_failed"), bench.connector.store.received.counts().waiting], [[], 1]);
  first.resolve();
  for (const [n, wait] of [300, 600, 1_200].entries()) {
    await until(() => bench.eventsOf("handover_failed").length === n + 1);
    await world.clock.advance(wait);
  }
  await until(() => bench.eventsOf("receipt_sent").length === 1);
  assertEquals(bench.handedOver.length, 4);
  assertEquals(new Set(bench.calls.map(({ headers }) => headers.get("idempotency-key"))).size, 1);
  assertEquals(bench.eventsOf("handed_over").map(({ attempts }) => attempts), [4]);
  assertEquals(await bench.receiptsOf(a, "request-1"), ["processed_by_svc"]);
});

Deno.test("messages wait in order while the runtime is down, which is unhealthy, and are handed over when it is back", async () => {
  await using world = await World.open();
  const { a, b, bench } = await story(world, { behaviour: isDown });
  for (let n = 1; n <= 5; n++) await world.message(a, b, { body: body(`m${n}`) });
  await world.clock.advance(60_000);
  const ill = bench.connector.status();
  assertEquals([ill.inbox.waiting, ill.runtime.reachable, ill.deadLetters], [5, false, 0]);
  assertEquals(isConnectorHealthy(ill), false);
  bench.behaviour = accepts;
  bench.calls.length = 0;
  await passing(world, 200, () => bench.eventsOf("receipt_sent").length === 5);
  assertEquals(bench.handedOver.map((text) => /m\d/.exec(text)?.[0]), ["m1", "m2", "m3", "m4", "m5"]);
  assertEquals(bench.eventsOf("receipt_sent").length, 5);
  const well = Status.parse(bench.connector.status());
  assertEquals([well.runtime.reachable, isConnectorHealthy(well)], [true, true]);
});

Deno.test("a redirect is not followed and counts as a refusal of the message", async () => {
  await using world = await World.open();
  const behaviour = () => new Response(null, { status: 302, headers: { Location: "http://169.254.169.254/" } });
  const { a, b, bench } = await story(world, { behaviour });
  await world.message(a, b, { headers: { "x-request-id": "request-1" } });
  await passing(world, 200, () => bench.eventsOf("receipt_sent").length === 1);
  assertEquals(bench.calls.map(({ url }) => url), Array(5).fill(`${RUNTIME_URL}/hooks/agent`));
  await until(() => bench.eventsOf("receipt_sent").length === 1);
  assertEquals(await bench.receiptsOf(a, "request-1"), ["dead_lettered"]);
});

Deno.test("a hand-over that hangs is given up after 10 s and delays no other conversation", async () => {
  await using world = await World.open();
  const { a, b, bench } = await story(world);
  bench.behaviour = (call) => call.body.includes("slow") ? hangs(call, 0) : accepts(call, 0);
  await world.message(a, b, { body: body("slow"), headers: { "X-Svc-Conversation-Id": "one" } });
  await world.message(a, b, { body: body("quick"), headers: { "X-Svc-Conversation-Id": "two" } });
  await until(() => bench.eventsOf("handed_over").length === 1 && bench.handedOver.length === 2);
  assertEquals(bench.eventsOf("handover_failed"), []);
  await world.clock.advance(10_000);
  await until(() => bench.eventsOf("handover_failed").length === 1);
  assertEquals(bench.eventsOf("handover_failed")[0]?.why, "no answer in time");
});

Deno.test("a poison message lets ten others pass within 30 s and becomes a dead letter", async () => {
  await using world = await World.open();
  const { a, b, bench } = await story(world);
  bench.behaviour = (call) => new Response(null, { status: call.body.includes("poison") ? 500 : 200 });
  await world.message(a, b, { body: body("poison"), headers: { "x-request-id": "request-p" } });
  for (let n = 0; n < 10; n++) await world.message(a, b, { body: body(`good${n}`) });
  const began = world.clock.now();
  for (let s = 0; s < 30 && bench.eventsOf("handed_over").length < 10; s++) await world.clock.advance(500);
  assertEquals(bench.eventsOf("handed_over").length, 10);
  assert(world.clock.now() - began <= 30_000);
  await passing(world, 400, () => bench.eventsOf("receipt_sent").length === 11);
  assertEquals(await bench.receiptsOf(a, "request-p"), ["dead_lettered"]);
  assertEquals(bench.eventsOf("dead_letter").map(({ attempts }) => attempts), [10]);
  const ask = asker(bench);
  const { body: { deadLetters: [dead, ...others] } } = await ask("/v1/dead-letter");
  assertEquals([dead.requestId, dead.problem, others], ["request-p", "status 500", []]);

  bench.behaviour = accepts;
  assertEquals((await ask("/v1/dead-letter/replay", post({ ids: [dead.id] }))).body, { replayed: 1 });
  await until(() => bench.eventsOf("receipt_sent").length === 12);
  assertEquals(await bench.receiptsOf(a, "request-p"), ["dead_lettered", "processed_by_svc"]);
});

Deno.test("messages and receipts that a kill left are handed over and sent after the next start", async () => {
  await using world = await World.open();
  const { a, b, bench } = await story(world, { behaviour: hangs });
  await world.message(a, b, { headers: { "x-request-id": "request-1" } });
  await until(() => bench.handedOver.length === 1);
  bench.kill();
  let proxyIsDown = true;
  const fetch = ((...request: Parameters<typeof world.fetch>) => {
    if (proxyIsDown && String(request[0]).includes("receipts")) throw new TypeError("no connection");
    return world.fetch(...request);
  }) as typeof world.fetch;
  const second = await Bench.open(world, b, { folder: bench.folder, fetch });
  await until(() => second.eventsOf("handed_over").length === 1);
  await until(() => second.eventsOf("receipt_failed").length >= 1);
  assertEquals(second.connector.status().receiptsWaiting, 1);
  await second.stop();
  proxyIsDown = false;
  await using third = await Bench.open(world, b, { folder: bench.folder, fetch });
  await until(() => third.eventsOf("receipt_sent").length === 1);
  assertEquals([third.handedOver.length, third.connector.status().receiptsWaiting], [0, 0]);
  assertEquals(await third.receiptsOf(a, "request-1"), ["processed_by_svc"]);
});

Deno.test("a peer with many messages does not hold up the message of another one", async () => {
  await using world = await World.open(MANY);
  const ended = Promise.withResolvers<void>();
  const { a, b, bench } = await story(world, {
    async behaviour() {
      await ended.promise;
      return Response.json({});
    },
  });
  const quiet = await world.agent();
  await world.pair(quiet, b);
  await bench.connector.updatePeers();
  const loud = Array.from({ length: 40 }, (_, n) => ({
    "x-request-id": `loud-message-${n}`,
    "X-Svc-Conversation-Id": `c${n}`,
  }));
  for (const headers of loud) await world.message(a, b, { headers });
  await until(() => bench.calls.length === HANDOVERS_AT_ONCE / 2);
  const said = await world.message(quiet, b, { headers: { "x-request-id": "quiet-message" } });
  assertEquals([said.status, (await said.json()).delivered], [202, true]);
  // The runtime has answered none of the others.
  await until(() => bench.calls.length === HANDOVERS_AT_ONCE / 2 + 1);
  assertEquals(bench.calls.at(-1)?.headers.get("x-request-id"), "quiet-message");
  ended.resolve();
  await until(() => bench.eventsOf("handed_over").length === 41);
});

Deno.test("a message is not acknowledged when the store cannot be written", async () => {
  await using world = await World.open();
  const { a, b, bench } = await story(world);
  bench.connector.store.received.take = () => {
    throw new Error("disk full");
  };
  const sent = await (await world.message(a, b)).json();
  assertEquals([sent.delivered, sent.reason], [false, "store_failed"]);
});

Deno.test("the connector reconnects after each end with growing waits, and 30 s later when replaced", async (t) => {
  for (
    const [code, least] of [[CLOSE.shuttingDown, 0], [1006, 0], [CLOSE.replaced, 30_000]] as const
  ) {
    await t.step(String(code), async () => {
      const most = least + 5_000;
      await using world = await World.open();
      const { bench } = await story(world);
      await world.clock.advance(31_000);
      bench.endLink(code);
      await until(() => bench.connector.status().connection.state === "waiting");
      const [wait] = bench.eventsOf("waiting");
      assert(wait && Number(wait.ms) >= least && Number(wait.ms) <= most, JSON.stringify(wait));
      await world.clock.advance(most + 1);
      await until(() => bench.connector.status().connection.state === "connected");
      assertEquals(bench.links, 2);
    });
  }
});

Deno.test("the connector tries at most 40 times in a ten-minute outage and is back 35 s after it", async () => {
  await using world = await World.open();
  const { bench } = await story(world);
  await world.clock.advance(60_000);
  bench.refuse = () => new UnreachableError("no listener");
  bench.links = 0;
  bench.endLink(1006);
  await until(() => bench.connector.status().connection.state === "waiting");
  await world.clock.advance(600_000);
  assert(bench.links >= 15 && bench.links <= 40, `${bench.links} attempts`);
  bench.refuse = null;
  const connected = () => bench.connector.status().connection.state === "connected";
  for (let s = 0; s < 35 && !connected(); s++) await world.clock.advance(1_000);
  await until(connected);
});

Deno.test("a refused upgrade is reported with its code and its fix", async (t) => {
  const refused = (status: number, code: string) => () => new RefusedError(status, code, "No", "request-1");
  const cases: [what: string, error: () => unknown, renewed: string[], state: "connected" | "stopped" | "waiting"][] = [
    ["an old access token is renewed at once", refused(401, "PROXY_AGENT_ACCESS_INVALID"), ["access"], "connected"],
    ["a revoked identity is read again", refused(401, "PROXY_AUTH_REVOKED"), ["identity"], "connected"],
    ["a revoked identity that has not changed stops", refused(401, "PROXY_AUTH_REVOKED"), ["identity"], "stopped"],
    ["an unknown token is waited for", refused(401, "PROXY_AUTH_INVALID_AIT"), ["identity"], "waiting"],
    ["an unavailable service is waited for", refused(503, "PROXY_RELAY_UNAVAILABLE"), [], "waiting"],
    ["a limit is waited for", refused(429, "PROXY_RATE_LIMIT_EXCEEDED"), [], "waiting"],
    ["another server at the address is waited for", () => new RefusedError(404, null, "No", null), [], "waiting"],
  ];
  for (const [what, error, renewed, state] of cases) {
    await t.step(what, async () => {
      await using world = await World.open();
      const { bench } = await story(world);
      await world.clock.advance(31_000);
      bench.links = 0;
      bench.refuse = error;
      const renews = state === "connected";
      bench.session.onRenew = () => {
        if (renews) bench.refuse = null;
        return renews;
      };
      bench.endLink(1001);
      await until(() => bench.connector.status().connection.state === "waiting");
      await world.clock.advance(Number(bench.eventsOf("waiting")[0]?.ms));
      await until(() => bench.connector.status().connection.state === state);
      assertEquals([bench.session.renewed, bench.links], [renewed, renews ? 2 : 1]);
      assertEquals(bench.eventsOf("refused").length, 1);
      if (state === "stopped") {
        await world.clock.advance(5_000);
        assert(await bench.ended instanceof ApiError);
      }
    });
  }
});

Deno.test("the waits between links begin with the first again after 10 s of a good one", async (t) => {
  for (const [goodMs, isFirst] of [[10_000, true], [9_999, false]] as const) {
    await t.step(`${goodMs} ms`, async () => {
      await using world = await World.open();
      const { bench } = await story(world);
      const lost = async () => {
        const count = bench.eventsOf("waiting").length;
        bench.endLink(1006);
        await until(() => bench.eventsOf("waiting").length > count);
        return Number(bench.eventsOf("waiting").at(-1)?.ms);
      };
      // Three links that end at once.
      for (let n = 0; n < 3; n++) {
        await world.clock.advance(await lost());
        await until(() => bench.connector.status().connection.state === "connected");
      }
      await world.clock.advance(goodMs);
      const wait = await lost();
      assertEquals(wait <= RECONNECT_FIRST_MAX_MS, isFirst, `${wait}`);
    });
  }
});

Deno.test("a wrong clock is corrected by the proxy's Date and reported", async () => {
  await using world = await World.open();
  const { bench } = await story(world);
  await world.clock.advance(31_000);
  bench.refuse = () => {
    bench.refuse = null;
    const error = new RefusedError(401, "PROXY_AUTH_TIMESTAMP_SKEW", "No", null);
    error.date = new Date(world.clock.now() + 600_000).toUTCString();
    return error;
  };
  bench.endLink(1001);
  await until(() => bench.connector.status().connection.state === "waiting");
  await world.clock.advance(Number(bench.eventsOf("waiting")[0]?.ms));
  await until(() => bench.connector.status().connection.state === "connected");
  const [{ offsetMs } = {}] = bench.eventsOf("clock_offset");
  assert(Math.abs(Number(offsetMs) - 600_000) <= 1_000);
  assertEquals(bench.connector.status().clockOffsetMs, offsetMs);
});

Deno.test("the connector finishes work in progress and accepts no more when it stops", async () => {
  await using world = await World.open();
  const released = Promise.withResolvers<Response>();
  const { a, b, bench } = await story(world, { behaviour: () => released.promise });
  await world.message(a, b, { headers: { "x-request-id": "request-1" } });
  await until(() => bench.handedOver.length === 1);
  const stopped = bench.connector.stop();
  await flushTasks();
  assertEquals((await world.message(a, b)).status, 502);
  released.resolve(Response.json({ ok: true }));
  await stopped;
  assertEquals(bench.eventsOf("receipt_sent").length, 1);
  assertEquals(await bench.ended, null);
});

Deno.test("the connector stops within 5 s when the runtime hangs, and the message stays", async () => {
  await using world = await World.open();
  const { a, b, bench } = await story(world, { behaviour: hangs });
  await world.message(a, b);
  await until(() => bench.handedOver.length === 1);
  const began = world.clock.now();
  let isOver = false;
  void bench.ended.then(() => isOver = true);
  void bench.connector.stop();
  while (!isOver && world.clock.now() - began < 10_000) await world.clock.advance(250);
  assert(world.clock.now() - began <= 5_000);
  assertEquals(bench.connector.store.received.counts().waiting, 1);
});

Deno.test("thirty messages are handed over once each, in the order of their conversation", async () => {
  await using world = await World.open(MANY);
  const { a, b, bench } = await story(world);
  const count = 30;
  for (let n = 0; n < count; n++) {
    await world.message(a, b, { body: body(`${n % 3}:${n}`), headers: { "X-Svc-Conversation-Id": `c${n % 3}` } });
  }
  await until(() => bench.eventsOf("receipt_sent").length === count);
  for (const lane of [0, 1, 2]) {
    const came = bench.handedOver.flatMap((text) => [...text.matchAll(/\n(\d):(\d+)"/g)]).filter(([, l]) =>
      l === String(lane)
    ).map(([, , n]) => Number(n));
    assertEquals(came, [...came].sort((x, y) => x - y));
  }
  assertEquals(bench.handedOver.length, count);
  assertEquals(bench.connector.status().proxy.url, PROXY_URL);
});

Deno.test("a connector ends also when its events cannot be written any longer", async () => {
  await using world = await World.open();
  const { bench } = await story(world);
  Object.assign(bench.connector.deps, {
    emit: () => {
      throw new Error("Input/output error");
    },
  });
  void bench.connector.stop();
  const why = await bench.ended;
  assertEquals([why instanceof Error && why.message, bench.connector.isOver], ["Input/output error", true]);
});

Deno.test("a request that ends after its connector changes no peers, because the folder is another connector's by then", async () => {
  await using world = await World.open();
  const removal = held(world, "/pair/remove");
  const { a, bench } = await story(world, { fetch: removal.fetch });
  const removed = asker(bench)("/v1/pair/remove", post({ to: a.agent.did }));
  await removal.asked;
  await bench.stop();
  const ofAnother = bench.peers = {};
  removal.release();
  await removed;
  assertEquals(bench.peers === ofAnother, true);
});

Deno.test("a connector that failed before it ran ends with the error, because it would otherwise keep the agent's lock", async () => {
  await using world = await World.open();
  const { bench } = await story(world);
  const damaged = new Error("connector.db is damaged");
  const second = new Connector(bench.connector.deps, bench.connector.options);
  void second.stop(damaged);
  await until(() => second.isOver);
  assertEquals(await Promise.race([second.run(), flushTasks().then(() => "it runs")]), damaged);
});

Deno.test("a message that a program sends before the connector runs is sent once", async () => {
  await using world = await World.open();
  const request = held(world, "/hooks/agent");
  const { a, bench } = await story(world, { fetch: request.fetch });
  await bench.connector.stop();
  const second = new Connector(bench.connector.deps, bench.connector.options);
  const message = {
    toDid: a.agent.did,
    requestId: "request-1",
    payload: '{"message":"?"}',
    origin: "program",
  } as const;
  const sending = second.sending.send({ ...message, mayWait: true, keep: true });
  await request.asked;
  void second.run();
  await flushTasks();
  assertEquals([second.store.sent.find("request-1")?.state, request.requests], ["sending", 1]);
  request.release();
  assertEquals((await sending).sent.state, "queued");
  await second.stop();
});
