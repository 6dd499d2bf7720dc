/** The local API (D-87): which callers it accepts, what each route does, and the one form of its errors. */
import { assert, assertEquals } from "@std/assert";
import { isSameSecret, peerTokenHash } from "../../../../cli/connector/local_api/a2a_peers.ts";
import { CONNECTOR_CODES, LOCAL_ERRORS, type LocalCode } from "../../../../cli/local_errors.ts";
import { localApi } from "../../../../cli/connector/local_api/local_api.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { HEADERS } from "../../../../shared/protocol/proof.ts";
import { Machine } from "../../cli_world.ts";
import { World } from "../../../support/world.ts";
import { Bench, story } from "../bench.ts";
import { flushTasks } from "../../../support/manual_clock.ts";
import { until } from "../../../support/until.ts";
import { type Asked, asker, localRequest, ORIGIN, PORT, post, SENT, TOKEN } from "./local_caller.ts";

Deno.test("only a caller with the token, a loopback host name and no Origin is accepted", async (t) => {
  await using world = await World.open();
  const { bench } = await story(world);
  const ask = asker(bench);
  for (const host of [`127.0.0.1:${PORT}`, `localhost:${PORT}`, `LOCALHOST:${PORT}`, `[::1]:${PORT}`]) {
    await t.step(host, async () => assertEquals((await ask("/v1/status", { headers: { host } })).status, 200));
  }
  const refused: [Record<string, string>, string][] = [
    [{ host: `evil.example:${PORT}` }, "CONNECTOR_HOST_FORBIDDEN"],
    [{ host: "127.0.0.1" }, "CONNECTOR_HOST_FORBIDDEN"],
    [{ host: `127.0.0.1:${PORT + 1}` }, "CONNECTOR_HOST_FORBIDDEN"],
    [{ host: "" }, "CONNECTOR_HOST_FORBIDDEN"],
    [{ origin: "https://evil.example" }, "CONNECTOR_ORIGIN_FORBIDDEN"],
    [{ origin: "null" }, "CONNECTOR_ORIGIN_FORBIDDEN"],
    [{ origin: `http://127.0.0.1:${PORT}` }, "CONNECTOR_ORIGIN_FORBIDDEN"],
    [{ "sec-fetch-site": "cross-site" }, "CONNECTOR_ORIGIN_FORBIDDEN"],
    [{ "sec-fetch-site": "same-origin" }, "CONNECTOR_ORIGIN_FORBIDDEN"],
    [{ "sec-fetch-site": "" }, "CONNECTOR_ORIGIN_FORBIDDEN"],
    [{ authorization: "" }, "CONNECTOR_UNAUTHORIZED"],
    [{ authorization: `Basic ${TOKEN}` }, "CONNECTOR_UNAUTHORIZED"],
    [{ authorization: `Bearer ${TOKEN}, Bearer ${TOKEN}` }, "CONNECTOR_UNAUTHORIZED"],
  ];
  for (const [headers, code] of refused) {
    await t.step(JSON.stringify(headers), async () => {
      const { status, body, headers: answered } = await ask("/v1/status", { headers });
      assertEquals([status, body.error.code], [code.endsWith("UNAUTHORIZED") ? 401 : 403, code]);
      assertEquals(answered.get("cross-origin-resource-policy"), "same-origin");
    });
  }
  const { status, headers } = await ask("/v1/status", { headers: { "sec-fetch-site": "none" } });
  assertEquals([status, headers.get("cross-origin-resource-policy")], [200, "same-origin"]);
  assertEquals([...headers.keys()].filter((name) => name.startsWith("access-control")), []);
});

Deno.test("unknown routes, wrong methods and bad bodies are refused in one form", async (t) => {
  await using world = await World.open();
  const { a, bench } = await story(world);
  const ask = asker(bench);
  const to = a.agent.did;
  const cases: [string, Asked, number, string][] = [
    ["/v1/nothing", {}, 404, "NOT_FOUND"],
    ["/__proto__", {}, 404, "NOT_FOUND"],
    ["/v1/outbound", {}, 405, "METHOD_NOT_ALLOWED"],
    ["/v1/outbound", post("{"), 400, "CONNECTOR_INVALID_BODY"],
    ["/v1/outbound", post([]), 400, "CONNECTOR_INVALID_BODY"],
    ["/v1/outbound", post({ payload: {} }), 400, "CONNECTOR_INVALID_BODY"],
    ["/v1/outbound", post({ to, payload: {}, url: "http://evil.example" }), 400, "CONNECTOR_INVALID_BODY"],
    ["/v1/outbound", post({ to, payload: {}, requestId: "x\r\ny" }), 400, "CONNECTOR_INVALID_BODY"],
    ["/v1/outbound", post({ to, payload: {}, prefer: "x" }), 400, "CONNECTOR_INVALID_BODY"],
    ["/v1/outbound", post({ to: "nobody", payload: {} }), 404, "CONNECTOR_PEER_UNKNOWN"],
    ["/v1/outbound", post({ to: "constructor", payload: {} }), 404, "CONNECTOR_PEER_UNKNOWN"],
    ["/v1/outbound", post("x".repeat(300_000)), 413, "PAYLOAD_TOO_LARGE"],
    ["/v1/dead-letter?limit=0", {}, 400, "CONNECTOR_INVALID_BODY"],
    ["/v1/dead-letter/purge", post({}), 400, "CONNECTOR_INVALID_BODY"],
    ["/v1/dead-letter/replay", post({ ids: ["1"] }), 400, "CONNECTOR_INVALID_BODY"],
    ["/v1/pair/start", post({ ttlSecond: 60 }), 400, "CONNECTOR_INVALID_BODY"],
    ["/v1/pair/confirm", post({ ticket: "svcpair1_x", profile: {} }), 400, "CONNECTOR_INVALID_BODY"],
    ["/v1/pair/status", post({ ticket: "svcpair1_x", to: "x" }), 400, "CONNECTOR_INVALID_BODY"],
    ["/v1/pair/remove", post({ to, peer: "x" }), 400, "CONNECTOR_INVALID_BODY"],
    ["/v1/pair/start", post({ ttlSeconds: 0 }), 400, "PROXY_PAIR_INVALID_BODY"],
    ["/v1/pair/confirm", post({ ticket: "svcpair1_x" }), 404, "PROXY_PAIR_TICKET_NOT_FOUND"],
    ["/v1/pair/remove", post({ to: "nobody" }), 404, "CONNECTOR_PEER_UNKNOWN"],
    ["/v1/receipts", {}, 400, "PROXY_RELAY_RECEIPT_INVALID_QUERY"],
    ["/v1/receipts?to=nobody&requestId=x", {}, 404, "CONNECTOR_PEER_UNKNOWN"],
  ];
  for (const [path, asked, status, code] of cases) {
    await t.step(`${asked.method ?? "GET"} ${path} ${code}`, async () => {
      const answer = await ask(path, asked);
      assertEquals([answer.status, answer.body.error.code], [status, code]);
      assertEquals(Object.keys(answer.body), ["error"]);
    });
  }
});

Deno.test("a body that does not end is refused after 10 s, and is then read no further", async () => {
  await using world = await World.open();
  const { bench: { connector } } = await story(world);
  const answer = localApi({ connector, token: TOKEN, port: PORT, a2aPeers: () => [], page: null });
  let isLeft = false;
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(new TextEncoder().encode("{")),
    cancel: () => void (isLeft = true),
  });
  const headers = { host: `127.0.0.1:${PORT}`, authorization: `Bearer ${TOKEN}` };
  const asked = answer(localRequest(`${ORIGIN}/v1/outbound`, { method: "POST", body, headers }), SENT);
  await flushTasks();
  await world.clock.advance(LIMITS.bodyTimeoutMs);
  const response = await asked;
  const { error } = await response.json();
  assertEquals([response.status, error.message], [400, "The body did not arrive within 10 s"]);
  await world.clock.advance(2_000);
  assert(isLeft);
});

Deno.test("svc explain has an entry for every code that only a connector uses", async () => {
  await using machine = await Machine.open();
  assertEquals(CONNECTOR_CODES.length, 17);
  for (const code of CONNECTOR_CODES) {
    const { when, fix, status, from } = await machine.json("explain", code);
    const row = LOCAL_ERRORS[code as LocalCode];
    assertEquals([when, fix, status, from], [row.when, row.fix, [row.status], "the connector on this machine"]);
  }
});

Deno.test("a message is sent unchanged to a DID or an alias, and the answer is the proxy's", async () => {
  await using world = await World.open();
  const { a, bench } = await story(world);
  await using other = await Bench.open(world, a);
  const ask = asker(bench);
  const name = a.agent.name;
  const first = await ask(
    "/v1/outbound",
    post(`{"to":"${name}","conversationId":"c","payload":{ "n": 12345678901234567890 }}`),
  );
  assertEquals([first.status, first.body.delivered], [202, true]);
  await until(() => other.handedOver.length === 1);
  assertEquals(other.handedOver, ['{ "n": 12345678901234567890 }']);
  assertEquals(other.calls[0]?.headers.get("x-svc-conversation-id"), "c");
  await until(() => other.eventsOf("receipt_sent").length === 1);
  const { body } = await ask(`/v1/receipts?to=${name}&requestId=${first.body.requestId}`);
  assertEquals(body.receipts.map(({ status }: { status: string }) => status), ["processed_by_svc"]);

  await other.stop();
  const offline = await ask("/v1/outbound", post({ to: a.agent.did, payload: {} }));
  assertEquals([offline.status, offline.body.error.code], [502, "PROXY_RELAY_CONNECTOR_OFFLINE"]);
  const queued = await ask("/v1/outbound", post({ to: a.agent.did, payload: {}, prefer: "respond-async" }));
  assertEquals([queued.status, queued.body.queued], [202, true]);
  for (const name of ["sent", "not_sent", "queued"] as const) assertEquals(bench.eventsOf(name).length, 1, name);
});

Deno.test("a message whose headers change between connector and proxy is refused", async () => {
  await using world = await World.open();
  let change: Record<string, string> = {};
  const { a, bench } = await story(world, {
    fetch: (input, init) => {
      const request = new Request(input, init);
      for (const [name, value] of Object.entries(change)) request.headers.set(name, value);
      return world.fetch(request);
    },
  });
  await using _other = await Bench.open(world, a);
  const send = async (headers: Record<string, string>) => {
    change = headers;
    const { status, body } = await asker(bench)("/v1/outbound", post({ to: a.agent.did, payload: {} }));
    return [status, body.error?.code];
  };
  const codes = [];
  for (const name of [HEADERS.conversationId, HEADERS.inReplyTo, HEADERS.requestId]) {
    codes.push(await send({ [name]: "another-one" }));
  }
  assertEquals(codes, Array(3).fill([400, "PROXY_HOOK_CONTEXT_INVALID"]));
  assertEquals(await send({}), [202, undefined]);
});

Deno.test("a message that the recipient's connector refuses is not reported as sent", async () => {
  await using world = await World.open();
  const { a, bench } = await story(world);
  await using other = await Bench.open(world, a);
  other.connector.store.received.take = (messages) => messages.map(() => "full");
  const { body } = await asker(bench)("/v1/outbound", post({ to: a.agent.did, payload: {} }));
  assertEquals([body.delivered, body.reason], [false, "inbox_full"]);
  assertEquals([bench.eventsOf("sent").length, bench.eventsOf("not_taken").length], [0, 1]);
});

Deno.test("two people pair through the API, and the ticket is in its answer but not in the events", async () => {
  await using world = await World.open();
  const [a, b] = [await world.agent(), await world.agent()];
  await using one = await Bench.open(world, a);
  await using two = await Bench.open(world, b);
  const tickets: string[] = [];
  const [askOne, askTwo] = [asker(one, tickets), asker(two)];
  const { status, body } = await askOne("/v1/pair/start", post("{}"));
  assertEquals([status, tickets, body.initiatorProfile.agentName], [200, [body.ticket], a.agent.name]);
  assert(!JSON.stringify(one.events).includes(body.ticket));
  assertEquals((await askOne("/v1/pair/status", post({ ticket: body.ticket }))).body.status, "pending");
  for (
    const [text, message] of [
      ["hello", "No pairing ticket in the pasted text."],
      [body.ticket.slice(0, 40), "This ticket was cut off: copy it whole."],
    ]
  ) {
    const { body: { error } } = await askTwo("/v1/pair/confirm", post({ ticket: text }));
    assertEquals(error, { code: "PROXY_PAIR_TICKET_NOT_FOUND", message });
  }
  assertEquals((await askTwo("/v1/pair/confirm", post({ ticket: `Here: “${body.ticket}”.` }))).status, 201);
  await until(() => one.eventsOf("paired").length === 1 && Object.keys(one.peers).length === 1);
  assertEquals([Object.keys(one.peers), Object.keys(two.peers)], [[b.agent.name], [a.agent.name]]);
  assertEquals((await askOne("/v1/pair/peers")).body.peers.length, 1);
  assertEquals((await askOne("/v1/pair/remove", post({ to: b.agent.name }))).status, 204);
  // The alias stays with its agent.
  assertEquals(Object.entries(one.peers).map(([alias, { gone }]) => [alias, gone]), [[b.agent.name, true]]);
  const sent = await askOne("/v1/outbound", post({ to: b.agent.name, text: "x" }));
  assertEquals([sent.status, sent.body.error.code], [404, "CONNECTOR_PEER_UNKNOWN"]);
  assertEquals((await askOne(`/v1/sent?to=${b.agent.name}`)).body, { messages: [], more: false });
  assertEquals((await askOne(`/v1/receipts?to=${b.agent.name}&requestId=request-1`)).body, { receipts: [] });
  assertEquals((await askOne("/v1/pair/remove", post({ to: b.agent.name }))).status, 204);
});

Deno.test("an expired access token is refreshed, and the call succeeds", async () => {
  await using world = await World.open();
  const { b, bench } = await story(world);
  const good = bench.session.identity;
  bench.session.identity = { ...good, accessToken: "svc_agt_" + "A".repeat(43) };
  bench.session.onRenew = () => {
    bench.session.identity = good;
    return true;
  };
  const { status } = await asker(bench)(`/v1/receipts?requestId=request-1&recipientAgentDid=${b.agent.did}`);
  assertEquals([status, bench.session.renewed], [200, ["access"]]);
});

Deno.test("only the whole token opens the local API, and another one is answered with the name of the agent", async () => {
  await using world = await World.open();
  const { bench } = await story(world);
  const ask = asker(bench);
  const why = `This is the connector of ${bench.agent.agent.name}; its token is in connector.json of that agent`;
  const cut = Array.from({ length: TOKEN.length }, (_, length) => TOKEN.slice(0, length));
  const wrong = [
    ...cut,
    `${TOKEN}x`,
    TOKEN.toUpperCase(),
    TOKEN.slice(1),
    TOKEN.slice(0, -1) + "x",
    `${TOKEN}, ${TOKEN}`,
  ];
  for (const token of wrong) {
    const { status, body } = await ask("/v1/status", { headers: { authorization: `Bearer ${token}` } });
    assertEquals([status, body.error.message], [401, why], token);
  }
  assertEquals((await ask("/v1/status", { headers: { authorization: `Bearer ${TOKEN}` } })).status, 200);
});

Deno.test("the token of a peer is compared as a whole", () => {
  const token = "svc_a2a_token";
  const tokenHash = peerTokenHash(token);
  const other = tokenHash.at(-1) === "A" ? "B" : "A";
  const wrong = [...Array(tokenHash.length).keys()].map((length) => tokenHash.slice(0, length));
  for (const kept of [...wrong, tokenHash.slice(0, -1) + other, `${tokenHash}A`]) {
    assertEquals([kept, isSameSecret(peerTokenHash(token), kept)], [kept, false]);
  }
  assertEquals(isSameSecret(peerTokenHash(token), tokenHash), true);
});
