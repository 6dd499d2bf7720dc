/**
 * The relay over real WebSockets (D-67, D-68, D-69, D-70): upgrade, delivery, loss of a socket, several sockets,
 * heartbeats. The regular connector is `link.ts`; sockets that die or stay silent are opened directly.
 */
import { assert, assertEquals } from "@std/assert";
import { CLOSE } from "../../shared/protocol/frames.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import {
  type Connector,
  eventually,
  messageTo,
  PATIENT,
  refusedWith,
  Service,
  SOON_MS,
  within,
} from "../support/process.ts";
import {
  BareConnector,
  codeOf,
  CONNECT,
  rawExchange,
  rawRequest,
  RawSocket,
  upgradeLines,
} from "../support/raw_http.ts";
import { connectedSockets } from "./harness.ts";

const SHORT_LIMITS = { RELAY_ACK_TIMEOUT_MS: "500", RELAY_HEARTBEAT_INTERVAL_MS: "200" };

let relay: Service;
let shortLimits: Service;
Deno.test.beforeAll(async () => {
  [relay, shortLimits] = await Promise.all([Service.open(PATIENT), Service.open(SHORT_LIMITS)]);
});
Deno.test.afterAll(async () => {
  await Promise.all([relay?.[Symbol.asyncDispose](), shortLimits?.[Symbol.asyncDispose]()]);
});

Deno.test("an authenticated GET without an upgrade gets 426 that names the upgrade", async () => {
  const { a } = await relay.agents();
  const lines = await upgradeLines(relay.url, a);
  const answer = await rawExchange(relay.url, rawRequest("GET", CONNECT, lines));
  assert(answer);
  assertEquals([answer.status, codeOf(answer)], [426, "PROXY_RELAY_UPGRADE_REQUIRED"]);
  assertEquals(answer.headers.get("upgrade"), "websocket");
  assert(answer.headers.get("x-request-id"));
});

Deno.test("a captured upgrade cannot be sent again", async () => {
  const { b } = await relay.agents();
  const lines = await upgradeLines(relay.url, b);
  const first = await RawSocket.open(relay.url, CONNECT, lines);
  assert(first instanceof RawSocket);
  const second = await RawSocket.open(relay.url, CONNECT, lines);
  assert(!(second instanceof RawSocket));
  assertEquals([second.status, codeOf(second)], [401, "PROXY_AUTH_REPLAY"]);
  await first[Symbol.asyncDispose]();
});

Deno.test("the code of a refused upgrade reaches the connector", async () => {
  const { b } = await relay.agents();
  const identity = { ...b.identity, accessToken: `svc_agt_${"x".repeat(43)}` };
  const error = await refusedWith("PROXY_AGENT_ACCESS_INVALID", relay.connect({ ...b, identity }));
  assertEquals(error.status, 401);
});

Deno.test("a message without an ack fails after the time limit and leaves no pending work", async () => {
  const { a, b } = await shortLimits.agents();
  await using silent = await BareConnector.open(shortLimits.url, b);
  const began = performance.now();
  await refusedWith("PROXY_RELAY_DELIVERY_FAILED", a.client.sendMessage(messageTo(b)));
  const took = performance.now() - began;
  assert(took >= 490 && took < LIMITS.ackTimeoutMs, `answered after ${took} ms`);
  const late = await silent.frame("deliver");
  await silent.say({ type: "deliver_ack", ackId: late.id, accepted: true });
  const next = a.client.sendMessage(messageTo(b, "next"));
  const second = await silent.frame("deliver", 2);
  await silent.say({ type: "deliver_ack", ackId: second.id, accepted: true });
  assertEquals((await next).delivered, true);
});

Deno.test("a message fails at once when its socket dies between frame and ack", async () => {
  const { a, b } = await relay.agents();
  await using bare = await BareConnector.open(relay.url, b);
  const sending = refusedWith("PROXY_RELAY_DELIVERY_FAILED", a.client.sendMessage(messageTo(b)));
  await bare.frame("deliver");
  await bare[Symbol.asyncDispose]();
  await within(SOON_MS, "the sender is answered", sending);
});

Deno.test("the next socket gets the message when the newest one dies before its ack", async () => {
  const { a, b } = await relay.agents();
  const older = await relay.connect(b);
  await using newer = await BareConnector.open(relay.url, b);
  const sending = a.client.sendMessage({ ...messageTo(b), requestId: "request-of-two-tries" });
  const first = await newer.frame("deliver");
  await newer[Symbol.asyncDispose]();
  assertEquals((await sending).delivered, true);
  const again = await older.frame(1);
  assertEquals([first.attempt, again.attempt, again.requestId], [1, 2, "request-of-two-tries"]);
  assert(first.id !== again.id, "each attempt has a frame ID of its own");
  await older.close();
});

Deno.test("a fifth socket closes the oldest with 4409, and health counts the open ones", async () => {
  const { b } = await relay.agents();
  const before = await connectedSockets(relay.url);
  const connectors: Connector[] = [];
  for (let i = 0; i < 5; i++) connectors.push(await relay.connect(b));
  const [oldest, ...rest] = connectors;
  assert(oldest);
  assertEquals((await within(SOON_MS, "the oldest is closed", oldest.closed)).code, CLOSE.replaced);
  assertEquals(await connectedSockets(relay.url), before + 4);
  for (const connector of rest) await connector.close();
  await eventually(SOON_MS, "all are gone", async () => await connectedSockets(relay.url) === before || undefined);
});

Deno.test("heartbeats arrive at their interval, and each one needs an ack", async () => {
  const { b } = await shortLimits.agents();
  await using bare = await BareConnector.open(shortLimits.url, b);
  const began = performance.now();
  for (let n = 1; n <= 5; n++) {
    const { id } = await bare.frame("heartbeat", n);
    await bare.say({ type: "heartbeat_ack", ackId: id });
  }
  const took = performance.now() - began;
  assert(took >= 900 && took < LIMITS.heartbeatIntervalMs, `five heartbeats took ${took} ms`);
  await bare.say({ type: "heartbeat" });
  await bare.frame("heartbeat_ack");
});

Deno.test("a connected agent is offline after a crash: 502 at once, 202 queued with Prefer", async (t) => {
  await using service = await Service.open(PATIENT);
  const { a, b } = await service.agents();
  await service.connect(b);
  assertEquals((await a.client.sendMessage(messageTo(b))).delivered, true);
  await service.server.end("SIGKILL");
  await service.restart(0);

  await t.step("502", async () => {
    const sending = refusedWith("PROXY_RELAY_CONNECTOR_OFFLINE", a.client.sendMessage(messageTo(b)));
    await within(SOON_MS, "the sender is answered: no process can still hold b's socket", sending);
  });
  await t.step("202 queued, and delivered when the recipient is back", async () => {
    const preferring = { ...messageTo(b), prefer: "respond-async" as const };
    const sent = await within(SOON_MS, "the sender is answered", a.client.sendMessage(preferring));
    assertEquals([sent.accepted, sent.delivered, sent.queued], [true, false, true]);
    const connector = await service.connect(b);
    assertEquals((await connector.frame(1)).requestId, sent.requestId);
    await connector.close();
  });
});
