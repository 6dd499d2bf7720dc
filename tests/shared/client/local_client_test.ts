/** The one client of the local API: when it sends, what a failure says, and the loop that sends and waits. */
import { assertEquals, assertRejects } from "@std/assert";
import { ApiError, LocalDown } from "../../../shared/client/errors.ts";
import { get, sendAndWait, type WaitedMessage } from "../../../shared/client/local_client.ts";
import { FakeConnector, refusal } from "./fake_connector.ts";
import { passing } from "./library_bench.ts";
import { until } from "../../support/until.ts";

const MESSAGE: WaitedMessage = {
  members: { to: "beta", requestId: "question-1" },
  payload: '{"n":12345678901234567890}',
  waitSeconds: 60,
};

Deno.test("the connector is looked for before each request, and nothing is sent while none runs", async () => {
  await using connector = await FakeConnector.open();
  const { local } = connector;
  await local.send(get("/v1/inbox?wait=0&after=0&limit=1"));
  connector.isUp = false;
  const down = await assertRejects(() => local.send(get("/v1/inbox?wait=0")), LocalDown, "does not run");
  assertEquals([down.wasSent, connector.calls.length], [false, 1]);
  connector.isUp = true;
  connector.tamper = () => Promise.reject(new TypeError("connection reset"));
  assertEquals((await assertRejects(() => local.send(get("/v1/status")), LocalDown)).wasSent, true);
});

Deno.test("a refusal ends the wait at once, also one that asks to wait, unless its sender obeys", async () => {
  await using connector = await FakeConnector.open();
  const { local, clock } = connector;
  connector.tamper = () => refusal(429, "CONNECTOR_LOOP_GUARD", 20);
  const refused = await assertRejects(() => sendAndWait(local, clock, MESSAGE), ApiError);
  assertEquals([refused.code, refused.retryAfter], ["CONNECTOR_LOOP_GUARD", 20]);
  assertEquals([connector.calls.length, clock.waiting], [1, 0]);
});

Deno.test("the payload is sent byte for byte, and a signal ends the wait after the request under way", async () => {
  await using connector = await FakeConnector.open();
  const { local, clock } = connector;
  const bodies: string[] = [];
  const { fetch } = local.deps;
  local.deps.fetch = (input, init) => {
    bodies.push(String(init?.body));
    return fetch(input, init);
  };
  const stop = new AbortController();
  let state = "";
  void sendAndWait(local, clock, { ...MESSAGE, callSeconds: 5, signal: stop.signal })
    .then(({ result }) => state = result.state);
  await until(() => connector.calls.length > 0);
  stop.abort();
  await until(() => state !== "");
  assertEquals([state, connector.sent.length, clock.waiting], ["delivered", 1, 0]);
  assertEquals(bodies[0], `{"to":"beta","requestId":"question-1","payload":${MESSAGE.payload}}`);
});

Deno.test("a wait follows on the one before without a pause, so that no other program gets the reply in between", async () => {
  await using connector = await FakeConnector.open();
  const { local, clock } = connector;
  const begun = clock.now(), times: number[] = [];
  connector.tamper = ({ query }) => {
    times.push(clock.now() - begun);
    const wait = Number(query.get("wait") ?? 0) * 1000;
    return new Promise((resolve) => clock.after(wait, () => resolve(null as unknown as Response)));
  };
  let isOver = false;
  void sendAndWait(local, clock, { ...MESSAGE, waitSeconds: 120, onState: () => {} }).then(() => isOver = true);
  await until(() => times.length > 0);
  await passing(clock, 130, () => isOver);
  assertEquals(times, [0, 1_000, 61_000]);
});

Deno.test("a reply that came during a slow first call is found, although the time is over then", async () => {
  await using connector = await FakeConnector.open();
  const { local, clock } = connector;
  connector.tamper = ({ method }) => {
    if (method === "POST") {
      return new Promise((resolve) => clock.after(40_000, () => resolve(null as unknown as Response)));
    }
    connector.receive("answer-1", { inReplyTo: "question-1" });
    return null;
  };
  let reply: string | null | undefined = null;
  void sendAndWait(local, clock, { ...MESSAGE, waitSeconds: 30, onState: () => {} })
    .then(({ result }) => reply = result.reply?.requestId);
  await until(() => connector.calls.length > 0);
  await passing(clock, 45, () => reply !== null);
  assertEquals(reply, "answer-1");
  assertEquals(connector.calls.map(({ method, query }) => `${method} ${query.get("wait")}`), ["POST 1", "GET 0"]);
});
