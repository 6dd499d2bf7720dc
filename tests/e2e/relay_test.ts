/**
 * The relay over real WebSockets (D-67, D-68, D-69): delivery, loss of a socket, several sockets, a crash. The regular
 * connector is `link.ts`; sockets that die are opened directly. Times and upgrades: tests/proxy/relay.
 */
import { assert, assertEquals } from "@std/assert";
import { CLOSE } from "../../shared/protocol/frames.ts";
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
import { BareConnector } from "../support/raw_http.ts";
import { connectedSockets } from "./harness.ts";

let relay: Service;
Deno.test.beforeAll(async () => {
  relay = await Service.open(PATIENT);
});
Deno.test.afterAll(() => relay?.[Symbol.asyncDispose]());

Deno.test("the code of a refused upgrade reaches the connector", async () => {
  const { b } = await relay.agents();
  const identity = { ...b.identity, accessToken: `svc_agt_${"x".repeat(43)}` };
  const error = await refusedWith("PROXY_AGENT_ACCESS_INVALID", relay.connect({ ...b, identity }));
  assertEquals(error.status, 401);
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
