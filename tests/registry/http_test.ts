/**
 * Shows how the registry handles any request: unknown paths, other methods, large bodies and slow ones,
 * request IDs, the shape of every error, and that no answer shows the request or the inside of the service.
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { REGISTRY_ROUTES } from "../../registry/routes.ts";
import { isUlid } from "../../shared/protocol/ids.ts";
import { BODY_LEFT_MS } from "../../shared/server/http/body.ts";
import { FaultyKv } from "../support/faulty_kv.ts";
import { flushTasks } from "../support/manual_clock.ts";
import { answered, moveTo, openRegistry, outcome, refused, rowOf } from "../support/registry_world.ts";
import { judgeEnvelope } from "../support/table_conformance.ts";
import { BOOTSTRAP_SECRET, REGISTRY_URL } from "../support/world.ts";

const ID = "01KHYQ5H00AAAAAAAAAAAAAAAA";
const KIB = 1024;
const PATHS = [...new Set(REGISTRY_ROUTES.map((row) => row.path))];

/** A request with a method that HTTP has and `new Request` refuses. */
function withMethod(method: string, path: string): Request {
  const request = new Request(REGISTRY_URL + path);
  return new Proxy(request, {
    get(_, name) {
      if (name === "method") return method;
      const value: unknown = Reflect.get(request, name);
      return typeof value === "function" ? value.bind(request) : value;
    },
  });
}

/** A body that arrives in pieces, without a length. */
function chunked(pieces: Iterable<string>): ReadableStream<Uint8Array<ArrayBuffer>> {
  const rest = pieces[Symbol.iterator]();
  return new ReadableStream({
    pull(controller) {
      const { done, value } = rest.next();
      if (done) controller.close();
      else controller.enqueue(new TextEncoder().encode(value));
    },
  });
}

Deno.test("an unknown path is 404 with any method", async () => {
  await using w = await openRegistry();
  const paths = [
    "/v1",
    "/v1/",
    "/v1/me/",
    "//v1/me",
    "/v2/me",
    "/v1/agents/a/b/c",
    "/v1/Me",
    "/hooks/agent",
    "/%",
  ];
  for (const path of [...paths, "/.well-known/", "/v1/invites/redeem/x", `/v1/resolve/${ID}/`, "/v1/resolve"]) {
    for (const method of ["GET", "POST", "DELETE", "PUT", "PATCH", "OPTIONS"]) {
      await refused(await w.ask(method, path), "NOT_FOUND");
    }
    await refused(await w.registry.fetch(withMethod("TRACE", path), w.peer), "NOT_FOUND");
  }
});

Deno.test("a known path is 405 with the allowed methods when the method is another", async (t) => {
  await using w = await openRegistry();
  for (const path of PATHS) {
    await t.step(path, async () => {
      const has = REGISTRY_ROUTES.filter((row) => row.path === path).map((row) => row.method as string);
      // /v1/agents/challenge also matches /v1/agents/:id, which has other methods.
      const others = ["GET", "POST", "DELETE", "PUT", "PATCH", "OPTIONS", "TRACE"].filter((name) => !rowOf(name, path));
      for (const method of others) {
        const answer = await w.registry.fetch(withMethod(method, path.replace(":id", ID)), w.peer);
        const allow = (answer.headers.get("allow") ?? "").split(", ");
        for (const name of has) assert(allow.includes(name), `${method} ${path}: Allow ${allow}`);
        assertEquals(allow.includes("HEAD"), allow.includes("GET"));
        await refused(answer, "METHOD_NOT_ALLOWED");
      }
    });
  }
});

Deno.test("a HEAD request is answered like GET, without a body", async () => {
  await using w = await openRegistry();
  for (const path of ["/health", "/v1/metadata", "/.well-known/svc-keys.json"]) {
    const head = await w.ask("HEAD", path);
    const get = await w.ask("GET", path);
    assertEquals([head.status, await head.text()], [200, ""]);
    assertEquals(head.headers.get("etag"), get.headers.get("etag"));
    await get.body?.cancel();
  }
});

Deno.test("every answer carries the client's request ID when it is valid, else a new ULID", async (t) => {
  await using w = await openRegistry();
  const kept = ["12345678", "a.b_c:d-e", "x".repeat(128), "svc:0001"];
  const replaced = ["1234567", "x".repeat(129), "a b c d e f", "req/1234", "ümlaut-id", "1,2,3,4,5", '"quoted"', ""];
  for (const path of ["/health", "/v1/me", "/nowhere"]) {
    await t.step(path, async () => {
      for (const id of kept) {
        const answer = await w.ask("GET", path, { headers: { "x-request-id": id } });
        assertEquals(answer.headers.get("x-request-id"), id);
        await answer.body?.cancel();
      }
      const made = new Set<string>();
      for (const id of [...replaced, undefined]) {
        const answer = await w.ask("GET", path, { headers: id === undefined ? {} : { "x-request-id": id } });
        const own = answer.headers.get("x-request-id") ?? "";
        assert(isUlid(own), `${id} became ${own}`);
        made.add(own);
        await answer.body?.cancel();
      }
      assertEquals(made.size, replaced.length + 1);
    });
  }
});

Deno.test("a Content-Length over 64 KiB is 413 on every route before limit and credential are checked", async () => {
  await using w = await openRegistry();
  for (const row of REGISTRY_ROUTES) {
    for (const length of [64 * KIB + 1, 2 ** 30, Number.MAX_SAFE_INTEGER]) {
      const path = row.path.replace(":id", "abc");
      const answer = await w.ask(row.method, path, { headers: { "content-length": String(length) } });
      assertEquals(answer.headers.get("ratelimit"), null);
      await refused(answer, "PAYLOAD_TOO_LARGE");
    }
  }
});

Deno.test("a body of 64 KiB is accepted and one byte more is refused, also without a length", async (t) => {
  await using w = await openRegistry();
  const { apiKey } = await w.admin();
  const body = (bytes: number) =>
    JSON.stringify({ expiresAt: null, padding: "" }).replace('""', `"${"x".repeat(bytes)}"`);
  const overhead = body(0).length;
  const post = (payload: BodyInit) =>
    w.fetch(`${REGISTRY_URL}/v1/invites`, {
      method: "POST",
      headers: { Authorization: `Bearer ${apiKey}` },
      body: payload,
    });
  await t.step("whole", async () => {
    await answered(await post(body(64 * KIB - overhead)), 201);
    await refused(await post(body(64 * KIB - overhead + 1)), "PAYLOAD_TOO_LARGE");
  });
  await t.step("in pieces", async () => {
    const pieces = (text: string) => chunked(text.match(/.{1,1000}/gs) ?? []);
    await answered(await post(pieces(body(64 * KIB - overhead))), 201);
    await refused(await post(pieces(body(64 * KIB - overhead + 1))), "PAYLOAD_TOO_LARGE");
  });
  await t.step("without end", async () => {
    let sent = 0;
    const endless = (function* () {
      while (true) {
        sent += KIB;
        yield "x".repeat(KIB);
      }
    })();
    await refused(await post(chunked(endless)), "PAYLOAD_TOO_LARGE");
    assert(sent < 128 * KIB, `${sent} bytes were read`);
  });
  await t.step("on a route that reads none", async () => {
    const answer = await w.fetch(`${REGISTRY_URL}/v1/admin/keys/rotate`, {
      method: "POST",
      headers: { Authorization: `Bearer ${apiKey}` },
      body: chunked([body(64 * KIB)]),
    });
    await refused(answer, "PAYLOAD_TOO_LARGE");
  });
});

Deno.test("a body that is not complete within 10 s is 408", async (t) => {
  await using w = await openRegistry();
  const { apiKey } = await w.admin();
  const headers = { Authorization: `Bearer ${apiKey}` };
  for (const seconds of [9, 11]) {
    await t.step(`${seconds} s`, async () => {
      const pipe = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>();
      const writer = pipe.writable.getWriter();
      const answer = w.fetch(`${REGISTRY_URL}/v1/invites`, { method: "POST", headers, body: pipe.readable });
      const waiting = w.clock.waiting;
      while (w.clock.waiting === waiting) await flushTasks();
      for (const piece of Array.from({ length: seconds }, () => " ")) {
        writer.write(new TextEncoder().encode(piece)).catch(() => {});
        await w.clock.advance(1000);
      }
      if (seconds < 10) {
        await writer.write(new TextEncoder().encode("{}"));
        await writer.close();
        await answered(await answer, 201);
      } else {
        await refused(await answer, "REQUEST_TIMEOUT");
        await w.clock.advance(BODY_LEFT_MS);
        await writer.closed.then(() => assert(false, "the body was read on"), () => {});
      }
      assertEquals(w.clock.waiting, waiting, "no timer is left");
    });
  }
});

Deno.test("a body is 408, not 500, when the client aborts it", async () => {
  await using w = await openRegistry();
  let pieces = 0;
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
    pull: (c) => pieces++ === 0 ? c.enqueue(Uint8Array.of(0x7b)) : c.error(new Error("connection reset")),
  });
  await refused(await w.fetch(`${REGISTRY_URL}/v1/invites/redeem`, { method: "POST", body }), "REQUEST_TIMEOUT");
});

Deno.test("a request with several faults is answered with the first in the order of checks", async (t) => {
  await using w = await openRegistry();
  const admin = await w.admin();
  const user = await w.person();
  const services = "/v1/admin/internal-services";
  const large = () => chunked(["{", "x".repeat(65 * KIB)]);
  const ask = (method: string, path: string, apiKey?: string, body?: BodyInit) =>
    w.fetch(REGISTRY_URL + path, {
      method,
      headers: apiKey === undefined ? {} : { Authorization: `Bearer ${apiKey}` },
      body: body ?? null,
    });
  const rows: [what: string, answer: () => Promise<Response>, wanted: string][] = [
    [
      "405 before 413",
      () => w.ask("PUT", "/v1/me", { headers: { "content-length": "99999" } }),
      "405 METHOD_NOT_ALLOWED",
    ],
    ["401 before 400 path", () => ask("DELETE", "/v1/agents/abc"), "401 API_KEY_MISSING"],
    ["401 before 413 of a body in pieces", () => ask("POST", services, undefined, large()), "401 API_KEY_MISSING"],
    ["403 before 400 path", () => ask("DELETE", `${services}/abc`, user.apiKey), "403 INTERNAL_SERVICE_FORBIDDEN"],
    [
      "403 before 413 of a body in pieces",
      () => ask("POST", services, user.apiKey, large()),
      "403 INTERNAL_SERVICE_FORBIDDEN",
    ],
    ["403 before 400 body", () => ask("POST", "/v1/invites", user.apiKey, "{"), "403 INVITE_CREATE_FORBIDDEN"],
    ["403 before 400 query", () => ask("GET", "/v1/admin/audit?limit=0", user.apiKey), "403 ADMIN_REQUIRED"],
    [
      "400 path before 413 of a body in pieces",
      () => ask("POST", "/v1/agents/abc/reissue", user.apiKey, large()),
      "400 AGENT_REVOKE_INVALID_PATH",
    ],
    ["413 before 400 body", () => ask("POST", services, admin.apiKey, large()), "413 PAYLOAD_TOO_LARGE"],
    [
      "400 body before 409",
      () => ask("POST", services, admin.apiKey, JSON.stringify({ name: "proxy", scopes: ["all"] })),
      "400 INTERNAL_SERVICE_INVALID",
    ],
  ];
  for (const [what, answer, wanted] of rows) {
    await t.step(what, async () => assertEquals(await outcome(await answer()), wanted));
  }
  await t.step("429 per IP before 400 path", async () => {
    moveTo(w, 1);
    for (let i = 0; i < 10; i++) await refused(await w.ask("GET", "/v1/resolve/abc"), "AGENT_RESOLVE_INVALID_PATH");
    await refused(await w.ask("GET", "/v1/resolve/abc"), "RATE_LIMIT_EXCEEDED");
  });
});

Deno.test("error details are shown in local and dev, never in production", async (t) => {
  for (const environment of ["local", "dev", "production"] as const) {
    await t.step(environment, async () => {
      await using w = await openRegistry({ registry: { environment } });
      const { apiKey } = await w.admin();
      const shown = environment !== "production";
      const bodies = [{ expiresAt: "tomorrow" }, { expiresAt: "2020-01-01T00:00:00Z" }, "{", "[]"];
      for (const body of bodies) {
        const text = await refused(await w.ask("POST", "/v1/invites", { apiKey, body }), "INVITE_CREATE_INVALID");
        const { error } = JSON.parse(text);
        assertEquals(Object.keys(error), shown ? ["code", "message", "details"] : ["code", "message"]);
        if (shown && typeof body === "object") assert(error.details.fieldErrors.expiresAt.length > 0);
      }
      for (const path of ["/nowhere", "/v1/me", "/v1/crl", "/v1/resolve/abc?x=%00"]) {
        const text = await (await w.ask("GET", path)).text();
        assert(!/ at |\.ts|\/work|stack|cause/i.test(text), text);
      }
    });
  }
});

Deno.test("an internal failure is 500 in the same envelope without its cause", async (t) => {
  for (const environment of ["dev", "production"] as const) {
    await t.step(environment, async () => {
      using faulty = await FaultyKv.open();
      await using w = await openRegistry({ kv: faulty.kv, registry: { environment } });
      const { apiKey } = await w.admin();
      const defect = () => Promise.reject(new TypeError(`secret detail in /srv/registry/store.ts ${apiKey}`));
      Object.assign(faulty.kv, { get: defect, getMany: defect });
      const answer = await w.ask("GET", "/v1/me", { apiKey });
      const text = await refused(answer, "INTERNAL_ERROR");
      judgeEnvelope(JSON.parse(text), environment === "dev", text);
      for (const word of ["secret detail", "/srv", "store.ts", "TypeError", apiKey]) assert(!text.includes(word), text);
      const logged = w.log.find((line) => line.fields.code === "INTERNAL_ERROR");
      assertEquals(logged?.level, "error");
      assertMatch(String(logged?.fields.cause), /secret detail/);
    });
  }
});

Deno.test("an error response never repeats a secret of the request", async () => {
  await using w = await openRegistry();
  const agent = await w.agent();
  const { apiKey } = agent.owner;
  const { invite } = await w.client.createInvite((await w.admin()).apiKey);
  const { accessToken, refreshToken } = agent.agentAuth;
  const secrets = [apiKey, invite.code, accessToken, refreshToken, BOOTSTRAP_SECRET, agent.identity.ait];
  for (const [i, secret] of secrets.entries()) {
    moveTo(w, i);
    const body = {
      code: secret,
      name: [secret],
      displayName: [secret],
      expiresAt: secret,
      refreshToken: [secret],
      publicKey: secret,
    };
    const answers = [
      w.ask("GET", `/${secret}`),
      w.ask("GET", `/v1/resolve/${secret}`),
      w.ask("DELETE", `/v1/me/api-keys/${secret}`, { apiKey }),
      w.ask("GET", `/v1/agents?cursor=${secret}&limit=${secret}`, { apiKey }),
      w.ask("GET", "/v1/me", { apiKey: `${secret}x` }),
      w.ask("POST", "/v1/admin/bootstrap", { headers: { "x-bootstrap-secret": `${secret}x` } }),
      w.ask("POST", "/v1/agents/auth/validate", {
        headers: { "X-Svc-Agent-Access": secret },
        body: { agentDid: secret },
      }),
      w.ask("POST", "/v1/agents/auth/refresh", {
        headers: { Authorization: `Svc ${secret}` },
        body: { refreshToken: secret },
      }),
      w.ask("GET", "/v1/crl", { headers: { "X-Svc-Service-Id": secret, "X-Svc-Service-Secret": secret } }),
      ...["/v1/invites/redeem", "/v1/agents/auth/refresh"].map((path) =>
        w.ask("POST", path, { body: { ...body, code: 1 } })
      ),
      ...["/v1/me/api-keys", "/v1/agents/challenge", "/v1/agents"].map((path) => w.ask("POST", path, { apiKey, body })),
    ];
    for (const answer of await Promise.all(answers)) {
      const text = await answer.text() + JSON.stringify([...answer.headers]);
      assert(answer.status >= 400, text);
      assert(!text.includes(secret), text);
    }
  }
});

Deno.test("clients that read nothing keep no answer from another person at their address", async () => {
  await using w = await openRegistry();
  const owner = await w.person(), agent = await w.agent(owner);
  for (let n = 0; n < 6; n++) await w.pair(agent, await w.agent(owner));
  w.peer = { from: "socket", address: "192.0.2.9", info: { completed: new Promise(() => {}) } };
  for (const service of [w.registry, w.proxy]) {
    const page = () => service.fetch(new Request(`${REGISTRY_URL}/openapi.json`), w.peer);
    while ((await page()).status === 200);
    assertEquals(await outcome(await page()), "503 SERVICE_UNAVAILABLE");
  }
  assertEquals((await w.agent(owner)).agent.status, "active");
  const peers = await answered(await w.fetch(await w.signed(agent, { method: "GET", target: "/pair/peers" })), 200);
  assert(JSON.stringify(peers).length > KIB);
});
