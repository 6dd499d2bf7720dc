/**
 * Shows the access token check (check 8, D-63): the registry validates the token for every message, only an answer in
 * the form of the protocol counts, and no message passes when the registry is unreachable.
 */
import { assert, assertEquals } from "@std/assert";
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import { KEYS as REGISTRY_KEYS } from "../../../registry/schema/kv_keys.ts";
import { HEADERS } from "../../../shared/protocol/proof.ts";
import { WriteWatch } from "../../../shared/server/write_watch.ts";
import { openTestKv } from "../../support/test_store.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import { until } from "../../support/until.ts";
import { outcome, tally } from "../../support/registry_world.ts";
import type { TestAgent, World, WorldOptions } from "../../support/world.ts";
import { endsAfter, get, post, PROFILE, RegistryCalls, withAccess } from "../proxy_world.ts";
import { inWorld, openCast } from "../cast.ts";

const PATH = "/v1/agents/auth/validate";
const INVALID = "401 PROXY_AGENT_ACCESS_INVALID";
const REQUIRED = "401 PROXY_AGENT_ACCESS_REQUIRED";
const UNAVAILABLE = "503 PROXY_AUTH_DEPENDENCY_UNAVAILABLE";

async function cast(options: WorldOptions = {}) {
  const opened = await openCast(options);
  return { ...opened, validations: new RegistryCalls(opened.w, PATH) };
}

const error = (code: string, status: number) => () => Response.json({ error: { code, message: "no" } }, { status });

type Run = (all: Awaited<ReturnType<typeof cast>>, t: Deno.TestContext) => Promise<void>;
const test = (name: string, run: Run) => Deno.test(name, inWorld(cast, run));

test("a message without an access token is refused", async ({ w, a, b }) => {
  for (const missing of [null, ""]) {
    const headers = { [HEADERS.access]: missing };
    assertEquals(await outcome(await w.message(a, b, { headers })), REQUIRED);
  }
});

test("a sender without a pair is refused as unpaired even when its access token is invalid", async ({ w, b, validations }) => {
  const stranger = await w.agent();
  for (const access of [null, "junk", stranger.identity.accessToken]) {
    const answer = await w.message(stranger, b, { headers: { [HEADERS.access]: access } });
    assertEquals(await outcome(answer), "403 PROXY_AUTH_FORBIDDEN");
  }
  assertEquals(validations.asked, []);
});

for (const sharedProcess of [false, true]) {
  const how = sharedProcess ? "checked in the process" : "requested from the registry";

  Deno.test(`only the agent's own active access token is accepted, ${how}`, async (t) => {
    const { w, a, b, socket, validations } = await cast({ sharedProcess });
    await using _ = w;
    assertEquals(await outcome(await w.message(a, b)), "202");
    const old = a.identity.accessToken;
    const next = await w.client.refresh(a.identity, a.agentAuth.refreshToken), refreshed = w.clock.now();
    w.passRelied();
    const cases: [name: string, access: string, result: string][] = [
      ["the one before", old, INVALID],
      ["its own", next.accessToken, "202"],
      ["another agent's", b.identity.accessToken, INVALID],
      ["its refresh token", next.refreshToken, INVALID],
      ["its owner's API key", a.owner.apiKey, INVALID],
      ["garbage", "junk", INVALID],
      ["cut short", next.accessToken.slice(0, -1), INVALID],
      ["twice", `${next.accessToken}, ${next.accessToken}`, INVALID],
      ["with a comma", `${next.accessToken},`, INVALID],
      ["the AIT", a.identity.ait, INVALID],
      ["its own again", next.accessToken, "202"],
    ];
    for (const [name, access, result] of cases) {
      await t.step(name, async () => assertEquals(await outcome(await w.message(withAccess(a, access), b)), result));
    }
    assertEquals(socket.delivered.length, 3);
    await t.step("two tokens in one header are refused without a validation request", async () => {
      const before = validations.asked.length;
      validations.answer = () => new Response(null, { status: 204 });
      assertEquals(await outcome(await w.message(withAccess(a, `${next.accessToken}, x`), b)), INVALID);
      assertEquals(validations.asked.length, before);
      validations.answer = null;
    });
    await t.step("the agent's own token, just before and just after it expires", async () => {
      const sender = withAccess(a, next.accessToken);
      await w.clock.stepWhenIdle(refreshed + 899_000 - w.clock.now());
      assertEquals(await outcome(await w.message(sender, b)), "202");
      await w.clock.stepWhenIdle(1_000);
      assertEquals(await outcome(await w.message(sender, b)), INVALID);
    });
    if (sharedProcess) assertEquals(validations.asked, []);
  });

  Deno.test(`an access token is refused and the AIT still accepted after the session is revoked, ${how}`, async () => {
    const { w, a, b, socket } = await cast({ sharedProcess });
    await using _ = w;
    assertEquals(await outcome(await w.message(a, b)), "202");
    const path = `/v1/agents/${a.agent.id}/auth/revoke`;
    assertEquals((await w.ask("DELETE", path, { apiKey: a.owner.apiKey })).status, 204);
    w.passRelied();
    assertEquals(await outcome(await w.message(a, b)), INVALID);
    // The AIT admits the request; the route itself requires an active session.
    assertEquals(await outcome(await get(w, a, "/pair/peers")), "403 PROXY_PAIR_OWNERSHIP_FORBIDDEN");
    assertEquals(socket.delivered.length, 1);
  });
}

Deno.test("in one process a message is refused in every race after its session, agent or pair has ended", async (t) => {
  const ends: [name: string, end: (w: World, a: TestAgent, b: TestAgent) => Promise<Response>][] = [
    ["session revoked", (w, a) => w.ask("DELETE", `/v1/agents/${a.agent.id}/auth/revoke`, { apiKey: a.owner.apiKey })],
    ["agent deleted", (w, a) => w.ask("DELETE", `/v1/agents/${a.agent.id}`, { apiKey: a.owner.apiKey })],
    ["pair removed", (w, a, b) => post(w, b, "/pair/remove", { peerAgentDid: a.agent.did })],
  ];
  for (const [name, end] of ends) {
    await t.step(name, async () => {
      for (let round = 0; round < 2; round++) {
        const { w, a, b, socket } = await cast({ sharedProcess: true, seed: round });
        await using _ = w;
        assertEquals(await outcome(await w.message(a, b)), "202");
        const racing = Array.from({ length: 10 }, () => w.message(a, b));
        const ended = end(w, a, b).then((answer) => {
          assertEquals(answer.status, 204);
          w.passRelied();
          return Promise.all(Array.from({ length: 5 }, () => w.message(a, b)));
        });
        const accepted = (await Promise.all(racing)).filter(({ status }) => status === 202).length;
        for (const answer of await ended) assert(answer.status === 401 || answer.status === 403, `${answer.status}`);
        assertEquals(socket.delivered.length, 1 + accepted);
      }
    });
  }
});

Deno.test("the registry validates every message and receives its service credential and no agent data", async () => {
  const serviceCredential = { id: "01KHYQ5H00AAAAAAAAAAAAAAAA", secret: "svc_srv_test" };
  const { w, a, b, validations } = await cast({ proxy: { serviceCredential } });
  await using _ = w;
  for (let i = 0; i < 3; i++) assertEquals(await outcome(await w.message(a, b)), "202");
  assertEquals(validations.asked.length, 3);
  const [request] = validations.asked;
  assert(request);
  assertEquals([request.method, request.redirect], ["POST", "manual"]);
  assertEquals(await request.json(), { agentDid: a.agent.did, aitJti: a.agent.currentJti });
  assertEquals(request.headers.get(HEADERS.access), a.identity.accessToken);
  assertEquals(request.headers.get(HEADERS.serviceId), serviceCredential.id);
  assertEquals(request.headers.get(HEADERS.serviceSecret), serviceCredential.secret);
  assertEquals(request.headers.get("authorization"), null);
});

Deno.test("204 from the registry accepts, 401 about the token refuses, and any other answer is 503", async (t) => {
  const cases: [name: string, answer: () => Response | Promise<Response>, result: string][] = [
    ["204", () => new Response(null, { status: 204 }), "202"],
    ["401 unauthorised", error("AGENT_AUTH_VALIDATE_UNAUTHORIZED", 401), INVALID],
    ["401 expired", error("AGENT_AUTH_VALIDATE_EXPIRED", 401), INVALID],
    ["401 with another code", error("API_KEY_INVALID", 401), INVALID],
    ["401 without an envelope", () => Response.json({}, { status: 401 }), INVALID],
    ["401 without a body", () => new Response(null, { status: 401 }), INVALID],
    ["401 about the service", error("INTERNAL_SERVICE_UNAUTHORIZED", 401), UNAVAILABLE],
    ["403 about the service", error("INTERNAL_SERVICE_FORBIDDEN", 403), UNAVAILABLE],
    ["400", error("AGENT_AUTH_VALIDATE_INVALID", 400), UNAVAILABLE],
    ["404", error("NOT_FOUND", 404), UNAVAILABLE],
    ["429", error("RATE_LIMIT_EXCEEDED", 429), UNAVAILABLE],
    ["500", error("INTERNAL_ERROR", 500), UNAVAILABLE],
    ["503", error("SERVICE_UNAVAILABLE", 503), UNAVAILABLE],
    ["200", () => Response.json({ valid: true }), UNAVAILABLE],
    ["201", () => Response.json({}, { status: 201 }), UNAVAILABLE],
    ["302", () => new Response(null, { status: 302, headers: { Location: "https://canary.example" } }), UNAVAILABLE],
    ["no connection", () => Promise.reject(new TypeError("connection refused")), UNAVAILABLE],
    [
      "a body that breaks off",
      () =>
        new Response(new ReadableStream({ start: (controller) => controller.error(new Error("reset")) }), {
          status: 401,
        }),
      UNAVAILABLE,
    ],
  ];
  const { w, a, b, socket, validations } = await cast();
  await using _ = w;
  for (const [name, answer, result] of cases) {
    await t.step(name, async () => {
      validations.answer = answer;
      assertEquals(await outcome(await w.message(a, b)), result);
    });
  }
  assertEquals(socket.delivered.length, 1);
});

test("a registry that hangs causes 503 within 5 s of the clock; other agents continue", async ({ w, a, b, validations }) => {
  const c = await w.agent();
  await w.pair(c, b);
  validations.answer = () => new Promise(() => {});
  const asking = w.message(a, b).then(outcome);
  for (let i = 0; i < 3; i++) await flushTasks();
  validations.answer = null;
  assertEquals(await outcome(await w.message(c, b)), "202");
  assertEquals(await endsAfter(w, 5_000, asking), UNAVAILABLE);
  assertEquals(await outcome(await w.message(a, b)), "202");
});

test("identical validations that run at once are joined; different ones are not, and none is cached", async ({ w, a, b, validations }) => {
  const { promise, resolve } = Promise.withResolvers<void>();
  validations.answer = async () => {
    await promise;
    return new Response(null, { status: 204 });
  };
  // A length is required: bodies of unknown length share a small budget.
  const parts = { body: "{}", headers: { "Content-Length": "2" } };
  const answers = tally(Array.from({ length: 20 }, () => w.message(a, b, parts)));
  const other = w.message(withAccess(a, "svc_agt_other"), b, parts);
  await until(() => validations.asked.length === 2);
  await flushTasks();
  assertEquals(validations.asked.length, 2);
  resolve();
  assertEquals([await answers, await outcome(await other)], [{ "202": 20 }, "202"]);
  assertEquals(await outcome(await w.message(a, b)), "202");
  assertEquals(validations.asked.length, 3);
});

Deno.test("a positive validation is cached for AGENT_ACCESS_CACHE_MS when set; a refusal never is", async () => {
  const { w, a, b, validations } = await cast({ proxy: { accessCacheMs: 5_000 } });
  await using _ = w;
  for (let i = 0; i < 3; i++) assertEquals(await outcome(await w.message(a, b)), "202");
  assertEquals(validations.asked.length, 1);
  await w.clock.stepWhenIdle(4_999);
  assertEquals(await outcome(await w.message(a, b)), "202");
  assertEquals(validations.asked.length, 1);
  await w.clock.stepWhenIdle(1);
  assertEquals(await outcome(await w.message(a, b)), "202");
  assertEquals(validations.asked.length, 2);
  for (let i = 0; i < 3; i++) assertEquals(await outcome(await w.message(withAccess(a, "junk"), b)), INVALID);
  assertEquals(validations.asked.length, 5);
  await w.clock.stepWhenIdle(-30_000);
  assertEquals(await outcome(await w.message(a, b)), "202");
  assertEquals(validations.asked.length, 6, "after a step back of the clock");
});

Deno.test("a validation from before a trust change, or from before a step back of the clock, admits no later message", async () => {
  const { w, a, b, validations } = await cast({ proxy: { accessCacheMs: 5_000 } });
  await using _ = w;
  const { promise, resolve } = Promise.withResolvers<void>();
  validations.answer = () => promise.then(() => new Response(null, { status: 204 }));
  const before = w.message(a, b);
  await until(() => validations.asked.length === 1);
  await w.proxy.deps.revalidation.onTrustChange([a.agent.did], w.clock.now());
  validations.answer = error("AGENT_AUTH_VALIDATE_UNAUTHORIZED", 401);
  assertEquals(await outcome(await w.message(a, b)), INVALID);
  resolve();
  assertEquals(await outcome(await before), "202");
  assertEquals(await outcome(await w.message(a, b)), INVALID);
  validations.answer = () => Promise.resolve(new Response(null, { status: 204 }));
  assertEquals(await outcome(await w.message(a, b)), "202");
  validations.answer = error("AGENT_AUTH_VALIDATE_UNAUTHORIZED", 401);
  w.clock.step(-1_000);
  assertEquals(await outcome(await w.message(a, b)), INVALID);
});

test("a validation from before a trust change that ends does not end the sharing of a later one", async ({ w, a, b, validations }) => {
  const ends = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const;
  const answerAt = (end: Promise<void>) => () => end.then(() => new Response(null, { status: 204 }));
  validations.answer = answerAt(ends[0].promise);
  const before = w.message(a, b);
  await until(() => validations.asked.length === 1);
  await w.proxy.deps.revalidation.onTrustChange([a.agent.did], w.clock.now());
  validations.answer = answerAt(ends[1].promise);
  const later = [w.message(a, b)];
  await until(() => validations.asked.length === 2);
  ends[0].resolve();
  assertEquals(await outcome(await before), "202");
  later.push(w.message(a, b));
  for (let i = 0; i < 20; i++) await flushTasks();
  ends[1].resolve();
  for (const response of later) assertEquals(await outcome(await response), "202");
  assertEquals(validations.asked.length, 2);
});

test("pairing continues while validation is down", async ({ w, a, validations }) => {
  validations.answer = () => Promise.reject(new TypeError("connection refused"));
  assertEquals(await outcome(await post(w, a, "/pair/start", { initiatorProfile: PROFILE })), "200");
  assertEquals(validations.asked, []);
});

Deno.test("a session or a pair that another process ended in the same file counts after a second at most", async (t) => {
  for (const what of ["session", "pair"] as const) {
    await t.step(what, async () => {
      using kv = await openTestKv();
      const byAnother = kv.delete.bind(kv);
      const { w, a, b } = await openCast({ kv, writes: new WriteWatch(kv), sharedProcess: true });
      await using _ = w;
      for (let i = 0; i < 3; i++) assertEquals(await outcome(await w.message(a, b)), "202");
      if (what === "session") await byAnother(REGISTRY_KEYS.session(a.agent.id));
      else await byAnother(KEYS.pair(a.agent.did, b.agent.did));
      await w.clock.advance(1_000);
      assertEquals(await outcome(await w.message(a, b)), what === "session" ? INVALID : "403 PROXY_AUTH_FORBIDDEN");
    });
  }
});
