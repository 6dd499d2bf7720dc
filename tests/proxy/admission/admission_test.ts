/**
 * Shows when an admitted request commits its nonce and its rate-limit count: in every case, once, and together with the
 * records of its handler if there are any.
 */
import { assertEquals } from "@std/assert";
import { UNDER_WAY_LOOK_MS } from "../../../proxy/relay/deliver.ts";
import { requestsIn } from "../../support/sender_counts.ts";
import type { AdmittedAgent } from "../../../proxy/caller.ts";
import { AUTHENTICATORS } from "../../../proxy/routes.ts";
import { packDelivery } from "../../../proxy/schema/delivery_record.ts";
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import { KEYS as REGISTRY_KEYS } from "../../../registry/schema/kv_keys.ts";
import { sha256, utf8Bytes } from "../../../shared/protocol/base64url.ts";
import { parseDid } from "../../../shared/protocol/did.ts";
import { ServiceError } from "../../../shared/protocol/errors.ts";
import { type App, createApp } from "../../../shared/server/http/app.ts";
import { type Answer, json, routeFor } from "../../../shared/server/http/route.ts";
import type { Update } from "../../../shared/server/store/batch.ts";
import { FaultyKv } from "../../support/faulty_kv.ts";
import { refused } from "../../support/registry_world.ts";
import { until } from "../../support/until.ts";
import type { TestAgent, World } from "../../support/world.ts";
import { openProxy } from "../proxy_world.ts";
import { type CastTest, inWorld, openCast } from "../cast.ts";

interface Callers {
  message: AdmittedAgent;
}

/** The proxy with another handler of messages. */
function appWith(w: World, handler: (caller: AdmittedAgent) => Promise<Answer>): App {
  const { message } = AUTHENTICATORS;
  const row = routeFor<typeof w.proxy.deps, Callers>()("POST", "/hooks/agent", "", {
    auth: "message",
    limit: null,
    response: { status: 200 },
    errors: [],
    handler: (_deps, { caller }) => handler(caller),
  });
  return createApp([row], { message }, w.proxy.deps);
}

/** Requests that the agent's window counts. */
async function counted(w: World, agent: TestAgent): Promise<number> {
  const { value } = await w.kv.get(KEYS.sender(agent.agent.did));
  return requestsIn(value);
}

const RECORD: Deno.KvKey = ["proxy", "test-record"];

function writes(value: string): Update<never> {
  return { key: RECORD, next: () => ({ value, expireInMs: 60_000 }) };
}

const REFUSES: Update<"taken"> = { key: RECORD, next: () => ({ refuse: "taken" }) };

const test = (name: string, run: CastTest) => Deno.test(name, inWorld(openCast, run));

test("a message whose handler throws uses up its nonce and counts once", async ({ w, a, b }) => {
  const app = appWith(w, () => Promise.reject(new ServiceError("PROXY_RELAY_DELIVERY_FAILED")));
  const request = await w.signed(a, { recipient: b.agent.did, body: "{}" });
  const before = await counted(w, a);
  const send = () => app.fetch(request.clone(), { from: "process" });
  await refused(await send(), "PROXY_RELAY_DELIVERY_FAILED");
  await refused(await send(), "PROXY_AUTH_REPLAY");
  assertEquals(await counted(w, a) - before, 1);
});

test("a message is counted when its handler answers without a commit", async ({ w, a, b }) => {
  const app = appWith(w, () => Promise.resolve(json({})));
  const before = await counted(w, a);
  const request = await w.signed(a, { recipient: b.agent.did, body: "{}" });
  assertEquals((await app.fetch(request.clone(), { from: "process" })).status, 200);
  assertEquals(await counted(w, a) - before, 1);
  await refused(await app.fetch(request, { from: "process" }), "PROXY_AUTH_REPLAY");
});

Deno.test("a handler that commits leaves no second commit to the pipeline", async (t) => {
  using store = await FaultyKv.open();
  await using w = await openProxy({ kv: store.kv });
  const { a, b } = await w.story();
  let commits = 0;
  const cases: [name: string, handler: (caller: AdmittedAgent) => Promise<Answer>][] = [
    ["commitAlone", async ({ admission }) => {
      await admission.commitAlone();
      return json({});
    }],
    ["commitWith", async ({ admission }) => {
      assertEquals(await admission.commitWith([writes("first")]), null);
      return json({});
    }],
    ["commitAlone, then an error", async ({ admission }) => {
      await admission.commitAlone();
      throw new ServiceError("PROXY_RELAY_DELIVERY_FAILED");
    }],
  ];
  for (const [name, handler] of cases) {
    await t.step(name, async () => {
      const request = await w.signed(a, { recipient: b.agent.did, body: "{}" });
      const before = await counted(w, a);
      const sender = KEYS.sender(a.agent.did).join();
      commits = 0;
      store.faults.before = ({ method, keys }) => {
        if (method === "commit" && keys.some((key) => sender === key.join())) commits++;
      };
      await app(handler).fetch(request, { from: "process" });
      delete store.faults.before;
      assertEquals([commits, await counted(w, a) - before], [1, 1]);
    });
  }
  function app(handler: (caller: AdmittedAgent) => Promise<Answer>): App {
    return appWith(w, handler);
  }
});

test("admission commits nonce and count when the updates of the handler refuse", async ({ w, a, b }) => {
  const results: unknown[] = [];
  const app = appWith(w, async ({ admission }) => {
    results.push(await admission.commitWith([REFUSES]), await admission.commitWith([writes("second")]));
    return json({});
  });
  const request = await w.signed(a, { recipient: b.agent.did, body: "{}" });
  const before = await counted(w, a);
  assertEquals((await app.fetch(request.clone(), { from: "process" })).status, 200);
  assertEquals(results, ["taken", null]);
  assertEquals((await w.kv.get(RECORD)).value, "second");
  assertEquals(await counted(w, a) - before, 1);
  await refused(await app.fetch(request, { from: "process" }), "PROXY_AUTH_REPLAY");
});

Deno.test("a store failure after the handler replaces its answer with 503", async (t) => {
  for (const fails of [false, true]) {
    await t.step(fails ? "the handler throws" : "the handler answers", async () => {
      using store = await FaultyKv.open();
      await using w = await openProxy({ kv: store.kv });
      const { a, b } = await w.story();
      const app = appWith(w, () => {
        store.faults.fails = ({ method, keys }) => method === "commit" && keys.some((key) => key[1] === "sender");
        return fails ? Promise.reject(new ServiceError("PROXY_RELAY_DELIVERY_FAILED")) : Promise.resolve(json({}));
      });
      const request = await w.signed(a, { recipient: b.agent.did, body: "{}" });
      const answer = await app.fetch(request, { from: "process" });
      assertEquals(answer.headers.get("retry-after"), "1");
      await refused(answer, "PROXY_AUTH_DEPENDENCY_UNAVAILABLE", 503);
      delete store.faults.fails;
    });
  }
});

test("a duplicate is counted before it waits for an attempt of the same instance", async ({ w, a, b, socket }) => {
  socket.behaviour = "silent";
  const before = await counted(w, a);
  const send = () => w.message(a, b, { headers: { "x-request-id": "duplicate-here" } });
  const first = send();
  await until(() => socket.delivered.length === 1);
  const duplicate = send();
  await until(async () => await counted(w, a) === before + 2);
  socket.ack(socket.delivered[0]?.id ?? "");
  assertEquals([(await first).status, (await duplicate).status, socket.delivered.length], [202, 202, 1]);
});

Deno.test("a duplicate is counted before it waits for an attempt of another instance", async () => {
  await using w = await openProxy();
  const { a, b } = await w.pairedAgents();
  const requestId = "duplicate-elsewhere", body = "{}", startedAt = w.clock.now();
  const attempt = { startedAt, instance: "other", answer: null, answeredAt: 0, receiptAt: 0 };
  await w.kv.set(
    KEYS.delivery(b.agent.did, requestId, a.agent.did),
    packDelivery({ ...attempt, bodySha256: await sha256(utf8Bytes(body)) }),
  );
  await w.kv.set(KEYS.instance("other"), { at: startedAt, pid: 1, state: "serving" });
  const before = await counted(w, a);
  const duplicate = w.message(a, b, { body, headers: { "x-request-id": requestId } });
  await until(async () => await counted(w, a) === before + 1);
  await w.kv.delete(KEYS.instance("other"));
  await w.clock.advance(UNDER_WAY_LOOK_MS);
  await refused(await duplicate, "PROXY_RELAY_CONNECTOR_OFFLINE");
});

Deno.test("conclude is not called when authentication fails or yields no caller", async () => {
  await using w = await openProxy();
  let concluded = 0;
  const routes = (["missing", "failing"] as const).map((auth) =>
    routeFor<typeof w.proxy.deps, { missing: AdmittedAgent | undefined; failing: AdmittedAgent }>()(
      "POST",
      `/${auth}`,
      "",
      {
        auth,
        limit: null,
        response: { status: 200 },
        errors: [],
        handler(_deps, { caller }) {
          if (!caller) throw new ServiceError("PROXY_RELAY_AUTH_CONTEXT_MISSING");
          return json({});
        },
      },
    )
  );
  const common = {
    ...AUTHENTICATORS.message,
    precheck: () => undefined,
    conclude: () => Promise.resolve(void concluded++),
  };
  const app = createApp(routes, {
    missing: { ...common, run: () => Promise.resolve(undefined) },
    failing: { ...common, run: () => Promise.reject(new ServiceError("PROXY_AUTH_INVALID_AIT")) },
  }, w.proxy.deps);
  const send = (path: string) => app.fetch(new Request(`http://proxy${path}`, { method: "POST" }), { from: "process" });
  await refused(await send("/missing"), "PROXY_RELAY_AUTH_CONTEXT_MISSING", 500);
  await refused(await send("/failing"), "PROXY_AUTH_INVALID_AIT");
  assertEquals(concluded, 0);
});

Deno.test("records that a rare request rests on are not cached after its commit", async () => {
  await using w = await openProxy({ sharedProcess: true });
  const a = await w.agent();
  const answer = await w.fetch(await w.signed(a, { method: "GET", target: "/v1/relay/connect" }));
  await refused(answer, "PROXY_RELAY_UPGRADE_REQUIRED");
  const id = parseDid(a.agent.did)?.id ?? "";
  const own = [KEYS.window("connect", a.agent.did), KEYS.sender(a.agent.did)];
  for (const key of [...own, REGISTRY_KEYS.agent(id), REGISTRY_KEYS.session(id)]) {
    assertEquals(w.proxy.deps.commits.cachedRecord(key), undefined);
  }
});
