/**
 * Shows the order of the checks of a request (D-11, D-14, D-15), which requests count against which limit, and what the
 * handler receives. Uses its own small route table; contract tests cover the services' tables.
 */
import { assert, assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import type { ErrorCode } from "../../../../shared/protocol/errors.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { isUlid } from "../../../../shared/protocol/ids.ts";
import { type AppDeps, createApp, rawTarget } from "../../../../shared/server/http/app.ts";
import { AUTHENTICATORS, errorOf, post, ROUTES, TestApp } from "./small_app.ts";

Deno.test("a route's handler gets path, body and caller, and its answer carries a request id", async () => {
  using t = await TestApp.open();
  const answer = await t.ask("/things/7", post('{"name":"a","role":"admin"}'));
  assertEquals([answer.status, await answer.json()], [201, { id: "7", name: "a", caller: "admin" }]);
  assert(isUlid(answer.headers.get("x-request-id")));
  assertEquals(t.log, []);
});

Deno.test("a valid request ID of the client is used, else a new ULID, also in errors", async (t) => {
  const cases: [name: string, id: string, kept: boolean][] = [
    ["8 characters", "abcdefgh", true],
    ["128 characters", "x".repeat(128), true],
    ["all kinds", "AZaz09._:-", true],
    ["7 characters", "abcdefg", false],
    ["129 characters", "x".repeat(129), false],
    ["a blank inside", "abcd efgh", false],
    ["two of them", "abcdefgh, abcdefgh", false],
    ["a slash", "abcdefgh/", false],
  ];
  for (const [name, id, kept] of cases) {
    await t.step(name, async () => {
      using app = await TestApp.open();
      for (const path of ["/open", "/none", "/fails/x"]) {
        const answer = await app.ask(path, { headers: { "x-request-id": id } });
        const given = answer.headers.get("x-request-id");
        assertEquals(kept ? given === id : isUlid(given), true);
        await answer.body?.cancel();
      }
    });
  }
});

Deno.test("a request with several faults is refused for the first one", async (t) => {
  const big = "x".repeat(100);
  const stream = () => new Blob([big]).stream();
  const bad = (length?: string) => ({ ...(length ? { "content-length": length } : {}) });
  const cases: [name: string, path: string, init: RequestInit, error: [number, ErrorCode]][] = [
    ["an unknown path", "/thing/x", post(big, bad("1000")), [404, "NOT_FOUND"]],
    ["a wrong method", "/things/x", { ...post(big, bad("1000")), method: "PUT" }, [405, "METHOD_NOT_ALLOWED"]],
    ["Content-Length", "/things/x", post(big, bad("1000")), [413, "PAYLOAD_TOO_LARGE"]],
    ["a precondition", "/off", { method: "DELETE" }, [503, "ADMIN_BOOTSTRAP_DISABLED"]],
    ["no credential", "/things/x", post(stream(), {}), [401, "API_KEY_INVALID"]],
    ["a role", "/things/x", post(stream(), { "x-key": "user" }), [403, "ADMIN_REQUIRED"]],
    ["the path", "/things/x", post(stream()), [400, "AGENT_REVOKE_INVALID_PATH"]],
    ["the body's size", "/things/404", post(stream()), [413, "PAYLOAD_TOO_LARGE"]],
    ["the body's form", "/things/404", post("{"), [400, "ADMIN_BOOTSTRAP_INVALID"]],
    ["the body's shape", "/things/404", post("[]"), [400, "ADMIN_BOOTSTRAP_INVALID"]],
    ["what is asked for", "/things/404", post('{"name":"a"}'), [404, "AGENT_NOT_FOUND"]],
  ];
  for (const [name, path, init, error] of cases) {
    await t.step(name, async () => {
      using app = await TestApp.open();
      assertEquals(await errorOf(await app.ask(path, init)), error);
    });
  }
});

Deno.test("a precheck refuses before the body is read, and the handler checks again with the body", async () => {
  using t = await TestApp.open();
  let pulled = 0;
  const body = () => new ReadableStream({ pull: (controller) => (pulled++, controller.close()) }, { highWaterMark: 0 });
  assertEquals(await errorOf(await t.ask("/glanced", post(body(), {}))), [401, "PROXY_AUTH_MISSING_TOKEN"]);
  assertEquals(pulled, 0);
  const answer = await t.ask("/glanced", post(body()));
  assertEquals([answer.headers.get("www-authenticate"), pulled], ["Svc", 1]);
  assertEquals(await errorOf(answer), [401, "PROXY_AUTH_INVALID_AIT"]);
});

Deno.test("the limit per key is checked between credential and role, and the limit per IP before both", async () => {
  using t = await TestApp.open();
  for (let i = 0; i < 3; i++) assertEquals((await t.ask("/things/x", post("", { "x-key": "user" }))).status, 403);
  assertEquals(await errorOf(await t.ask("/things/x", post("", { "x-key": "user" }))), [429, "RATE_LIMIT_EXCEEDED"]);
  assertEquals((await t.ask("/things/x", post("", {}))).status, 401);
  assertEquals((await t.ask("/things/7", post('{"name":"a"}', { "x-key": "other" }))).status, 201);
});

Deno.test("a limit per IP counts each bucket, sends the remaining requests and skips exempt callers", async () => {
  using t = await TestApp.open();
  const first = await t.ask("/limited");
  assertEquals(first.headers.get("ratelimit-policy"), '"ip";q=2;w=60');
  assertEquals(first.headers.get("ratelimit"), '"ip";r=1;t=60');
  assertEquals(first.headers.get("retry-after"), null);
  await t.clock.advance(20_000);
  await t.ask("/limited");
  const refused = await t.ask("/limited");
  assertEquals(refused.headers.get("ratelimit"), '"ip";r=0;t=40');
  assertEquals(refused.headers.get("retry-after"), "40");
  assertEquals(await errorOf(refused), [429, "RATE_LIMIT_EXCEEDED"]);
  assertEquals((await t.ask("/limited", {}, { from: "socket", address: "192.0.2.2" })).status, 200);
  const behind = { headers: { "x-forwarded-for": "192.0.2.1" } };
  assertEquals((await t.ask("/limited", behind, { from: "socket", address: "10.0.0.1" })).status, 429);
  assertEquals((await t.ask("/limited", behind, { from: "socket", address: "10.0.0.2" })).status, 200);
  for (let i = 0; i < 9; i++) {
    assertEquals((await t.ask("/limited", { headers: { "x-key": "service" } })).status, 200);
    assertEquals((await t.ask("/limited", {}, { from: "process" })).status, 200);
  }
  await t.clock.advance(39_999);
  assertEquals((await t.ask("/limited")).status, 429);
  await t.clock.advance(1);
  assertEquals((await t.ask("/limited")).status, 200);
});

Deno.test("a limit that counts failures counts only them, also of concurrent requests", async () => {
  using t = await TestApp.open();
  for (let i = 0; i < 5; i++) assertEquals((await t.ask("/failures", post())).status, 200);
  const answers = await Promise.all(Array.from({ length: 20 }, () => t.ask("/failures", post("bad"))));
  const statuses = answers.map((answer) => answer.status).toSorted();
  assertEquals(statuses, [400, 400, ...Array(18).fill(429)]);
  assertEquals(await errorOf(await t.ask("/failures", post())), [429, "RATE_LIMIT_EXCEEDED"]);
  await t.clock.advance(60_000);
  assertEquals((await t.ask("/failures", post())).status, 200);
});

Deno.test("an empty body stands for an empty object when the route allows it", async () => {
  using t = await TestApp.open(true);
  const { error } = await (await t.ask("/things/1", post(""))).json();
  assertEquals([error.code, Object.keys(error.details.fieldErrors)], ["ADMIN_BOOTSTRAP_INVALID", ["name"]]);
});

Deno.test("a query is read from the unchanged request line, and a repeated name is a list", async () => {
  using t = await TestApp.open();
  const answer = await t.ask("/query?a=1%202&b=x&b=y&c=%zz");
  assertEquals(await answer.json(), { query: { a: "1 2", b: ["x", "y"] }, target: "/query?a=1%202&b=x&b=y&c=%zz" });
  for (const query of ["", "?", "?a", "?a=1&a=2", "?b=1"]) {
    const { status } = await t.ask(`/query${query}`);
    assertEquals(status, query === "?a" ? 200 : 400, query);
  }
});

Deno.test("a query over 4,096 characters is refused with the code of the route", async () => {
  using t = await TestApp.open();
  assertEquals((await t.ask(`/query?${"a=1&c=".padEnd(LIMITS.queryLength, "x")}`)).status, 200);
  const answer = await t.ask(`/query?${"a=1&c=".padEnd(LIMITS.queryLength + 1, "x")}`);
  assertEquals(await errorOf(answer), [400, "AGENT_LIST_INVALID_QUERY"]);
});

Deno.test("the raw target is path and query of the request line", () => {
  assertEquals(rawTarget("https://p.example/a/%61?b=c#"), "/a/%61?b=c#");
  assertEquals(rawTarget("https://p.example//a"), "//a");
  assertEquals(rawTarget("https://p.example"), "/");
});

Deno.test("the app refuses a row that names an unknown authenticator", () => {
  const [first] = ROUTES;
  assert(first);
  const deps = {} as AppDeps;
  const error = assertThrows(() => createApp([{ ...first, auth: "nobody" }], AUTHENTICATORS, deps), Error);
  assertStringIncludes(error.message, "nobody");
  assertMatch(error.message, /\/open/);
});
