/**
 * Shows which messages the proxy refuses and why, and what it answers the sender of a delivered one (D-60, D-67).
 */
import { assert, assertEquals } from "@std/assert";
import type { ProxyDeps } from "../../../proxy/deps.ts";
import { relayConnect } from "../../../proxy/relay/connect.ts";
import { postMessage } from "../../../proxy/relay/deliver.ts";
import { HEADERS } from "../../../shared/protocol/proof.ts";
import { createApp } from "../../../shared/server/http/app.ts";
import { type Authenticators, routeFor } from "../../../shared/server/http/route.ts";
import { FaultyKv } from "../../support/faulty_kv.ts";
import { until } from "../../support/until.ts";
import { answered, outcome, refused } from "../../support/registry_world.ts";
import { PROXY_URL, type TestSocket } from "../../support/world.ts";
import { openProxy } from "../proxy_world.ts";
import { type CastTest, inWorld, openCast } from "../cast.ts";
import { inFlight } from "../../support/in_flight.ts";

/** Waits until a connector has this number of messages. */
async function received(socket: TestSocket, count: number): Promise<void> {
  await until(() => socket.delivered.length >= count);
  assertEquals(socket.delivered.length, count);
}

const test = (name: string, run: CastTest) => Deno.test(name, inWorld(openCast, run));

test("a message needs a JSON Content-Type", async ({ w, a, b }, t) => {
  const cases: [contentType: string | null, status: number][] = [
    ["application/json", 202],
    ["application/json; charset=utf-8", 202],
    ["Application/JSON ;charset=utf-8", 202],
    [null, 415],
    ["", 415],
    ["text/plain", 415],
    ["application/jsonx", 415],
    ["application/json+x", 415],
    ["application/x-www-form-urlencoded", 415],
    ["text/plain; application/json", 415],
    ["application/json, text/plain", 415],
  ];
  for (const [contentType, status] of cases) {
    await t.step(contentType ?? "missing", async () => {
      const answer = await w.message(a, b, { headers: { "Content-Type": contentType } });
      if (status === 202) assertEquals(answer.status, 202);
      else await refused(answer, "PROXY_HOOK_UNSUPPORTED_MEDIA_TYPE");
    });
  }
});

test("a payload that stops readers is refused before the pair is read", async ({ w, a, b, socket }, t) => {
  // An agent without any pair is refused at admission, before its body is read.
  const stranger = await w.agent();
  await w.pair(stranger, a);
  const lists = (depth: number) => "[".repeat(depth) + "]".repeat(depth);
  const cases: [what: string, body: string, result: string][] = [
    ["64 levels", lists(64), "202"],
    ["65 levels", lists(65), "400 PROXY_HOOK_INVALID_JSON"],
    ["1,200 levels beside a text", `{"message":"hi","deep":${lists(1_199)}}`, "400 PROXY_HOOK_INVALID_JSON"],
    ["100,000 levels", lists(100_000), "400 PROXY_HOOK_INVALID_JSON"],
    ["300 digits", "1".repeat(300), "202"],
    ["4,301 digits", `{"n":${"1".repeat(4_301)}}`, "400 PROXY_HOOK_INVALID_JSON"],
  ];
  for (const [what, body, result] of cases) {
    await t.step(what, async () => {
      assertEquals(await outcome(await w.message(a, b, { body })), result);
      const refusal = result === "202" ? "403 PROXY_AUTH_FORBIDDEN" : result;
      assertEquals(await outcome(await w.message(stranger, b, { body })), refusal);
    });
  }
  assertEquals([socket.delivered.length, socket.closed], [2, null]);
});

test("the recipient is exactly one agent DID", async ({ w, a, b }, t) => {
  const { did } = b.agent;
  const cases: [name: string, recipient: string, result: string][] = [
    ["missing", "", "400 PROXY_HOOK_RECIPIENT_REQUIRED"],
    ["a human", b.owner.did, "400 PROXY_HOOK_RECIPIENT_INVALID"],
    ["another method", did.replace("did:svc", "did:web"), "400 PROXY_HOOK_RECIPIENT_INVALID"],
    ["lower case", did.toLowerCase(), "400 PROXY_HOOK_RECIPIENT_INVALID"],
    ["two of them", `${did}, ${did}`, "400 PROXY_HOOK_RECIPIENT_INVALID"],
    ["a part more", `${did}:x`, "400 PROXY_HOOK_RECIPIENT_INVALID"],
    ["a blank inside", did.replace("agent:", "agent: "), "400 PROXY_HOOK_RECIPIENT_INVALID"],
    ["percent-encoded", did.replaceAll(":", "%3A"), "400 PROXY_HOOK_RECIPIENT_INVALID"],
    ["an agent of another registry", did.replace("registry.example.test", "other.example"), "403 PROXY_AUTH_FORBIDDEN"],
    ["itself", a.agent.did, "403 PROXY_AUTH_FORBIDDEN"],
    ["the peer", did, "202"],
  ];
  for (const [name, recipient, result] of cases) {
    await t.step(name, async () => assertEquals(await outcome(await w.message(a, b, { recipient })), result));
  }
  await t.step("empty", async () => {
    const headers = { [HEADERS.recipient]: "" };
    assertEquals(await outcome(await w.message(a, b, { recipient: "", headers })), "400 PROXY_HOOK_RECIPIENT_REQUIRED");
  });
});

Deno.test("a conversation ID is 1 to 128 visible ASCII characters without a comma and is forwarded", async (t) => {
  const { w, a, b, socket } = await openCast();
  await using _ = w;
  const send = (id: string | null) => w.message(a, b, { headers: { [HEADERS.conversationId]: id } });
  for (const id of ["x", "x".repeat(128), "!~+-.:/", "a;b=c"]) {
    await t.step(id.slice(0, 20), async () => {
      assertEquals((await send(id)).status, 202);
      assertEquals(socket.delivered.at(-1)?.conversationId, id);
    });
  }
  for (const id of ["", "x".repeat(129), "a,b", "a b", "caf\u00e9", "a\tb"]) {
    await t.step(
      `not ${JSON.stringify(id.slice(0, 20))}`,
      async () => void await refused(await send(id), "PROXY_HOOK_CONVERSATION_INVALID"),
    );
  }
  assertEquals((await send(null)).status, 202);
  assertEquals(Object.hasOwn(socket.delivered.at(-1) ?? {}, "conversationId"), false);
});

test("the sender gets the connector's answer", async ({ w, a, b, socket }, t) => {
  await t.step("accepted", async () => {
    const answer = await w.message(a, b, { headers: { "x-request-id": "request-accepted" } });
    assertEquals(await answered(answer, 202), {
      accepted: true,
      delivered: true,
      connectedSockets: 1,
      requestId: "request-accepted",
    });
  });
  assertEquals(socket.delivered.map((frame) => frame.requestId), ["request-accepted"]);
  await t.step("refused", async () => {
    socket.behaviour = "nack";
    const answer = await w.message(a, b, { headers: { "x-request-id": "request-refused" } });
    assertEquals(await answered(answer, 202), {
      accepted: true,
      delivered: false,
      connectedSockets: 1,
      requestId: "request-refused",
      reason: "payload_invalid",
    });
  });
  await t.step("no connector", async () => {
    socket.link.lost();
    await refused(await w.message(a, b), "PROXY_RELAY_CONNECTOR_OFFLINE");
  });
});

Deno.test("a connector that does not answer fails the delivery after RELAY_ACK_TIMEOUT_MS; nothing is left", async () => {
  const { w, a, b, socket } = await openCast({ proxy: { ackTimeoutMs: 3_000 } });
  await using _ = w;
  socket.behaviour = "silent";
  let result: string | null = null;
  const sending = w.message(a, b).then(outcome).then((one) => result = one);
  await received(socket, 1);
  await w.clock.advance(2_999);
  assertEquals([result, inFlight(w.proxy.deps.connectedAgents)], [null, 1]);
  await w.clock.advance(1);
  await sending;
  assertEquals([result, inFlight(w.proxy.deps.connectedAgents)], ["502 PROXY_RELAY_DELIVERY_FAILED", 0]);
  assertEquals(socket.closed, null);
  const [late] = socket.delivered;
  assert(late);
  socket.ack(late.id);
  socket.behaviour = "ack";
  assertEquals(await outcome(await w.message(a, b)), "202");
});

test("a connector lost before its ack fails the delivery at once", async ({ w, a, b, socket }) => {
  socket.behaviour = "silent";
  const sending = w.message(a, b);
  await received(socket, 1);
  socket.link.lost();
  assertEquals(await outcome(await sending), "502 PROXY_RELAY_DELIVERY_FAILED");
  assertEquals(inFlight(w.proxy.deps.connectedAgents), 0);
});

test("the newest of two connectors gets every message once", async ({ w, a, b, socket }) => {
  const newer = w.connect(b);
  for (let i = 0; i < 5; i++) {
    const { connectedSockets, delivered } = await answered(await w.message(a, b), 202);
    assertEquals([connectedSockets, delivered], [2, true]);
  }
  assertEquals([socket.delivered.length, newer.delivered.length], [0, 5]);
});

test("messages arrive in the order they were sent, once each, and at their recipient only", async ({ w, a, b, socket }) => {
  const bystander = await w.agent();
  await w.pair(a, bystander);
  const other = w.connect(bystander);
  for (let i = 0; i < 20; i++) await answered(await w.message(a, b, { body: JSON.stringify({ i }) }), 202);
  assertEquals(socket.delivered.map((frame) => JSON.parse(frame.payload).i), Array.from({ length: 20 }, (_, i) => i));
  const all = await Promise.all(
    Array.from({ length: 40 }, (_, i) => w.message(a, b, { body: JSON.stringify({ i: 20 + i }) })),
  );
  assertEquals(all.filter((answer) => answer.status === 202).length, 40);
  assertEquals(new Set(socket.delivered.map((frame) => frame.id)).size, 60);
  assertEquals(new Set(socket.delivered.map((frame) => JSON.parse(frame.payload).i)).size, 60);
  assertEquals(other.frames, []);
});

Deno.test("a store that fails before delivery is 503, and no frame is sent", async (t) => {
  // Keys that only the relay reads; nonce and window belong to checks 5 and 9. A recently read pair is not read again.
  const cases: [name: string, part: string, commits: boolean][] = [
    ["pair not read", "pair", false],
    ["delivery not written", "delivery", true],
  ];
  for (const [name, part, commits] of cases) {
    await t.step(name, async () => {
      using store = await FaultyKv.open();
      const { w, a, b, socket } = await openCast({ kv: store.kv });
      await using _ = w;
      store.faults.fails = ({ method, keys }) =>
        method !== "list" && (method === "commit") === commits &&
        keys.some((key) => key[0] === "proxy" && key[1] === part);
      const answer = await w.message(a, b);
      assert(answer.headers.get("retry-after"));
      assertEquals(answer.status, 503);
      assertEquals(socket.delivered.length, 0);
      delete store.faults.fails;
      assertEquals((await w.message(a, b)).status, 202);
    });
  }
});

Deno.test("a relay handler without an identity answers 500 and does nothing", async () => {
  await using w = await openProxy();
  interface Callers {
    none: undefined;
  }
  const authenticators: Authenticators<ProxyDeps, Callers> = {
    none: {
      stage: "before_body",
      credential: "none",
      errors: [],
      run: () => Promise.resolve(undefined),
    },
  };
  const route = routeFor<ProxyDeps, Callers>();
  const row = { auth: "none", limit: null, response: { status: 202 }, errors: [] } as const;
  const app = createApp(
    [
      route("POST", "/hooks/agent", "", { ...row, handler: postMessage }),
      route("GET", "/v1/relay/connect", "", { ...row, handler: relayConnect }),
    ],
    authenticators,
    w.proxy.deps,
  );
  for (const [method, path] of [["POST", "/hooks/agent"], ["GET", "/v1/relay/connect"]] as const) {
    const answer = await app.fetch(new Request(PROXY_URL + path, { method }), { from: "process" });
    await refused(answer, "PROXY_RELAY_AUTH_CONTEXT_MISSING", 500);
  }
});
