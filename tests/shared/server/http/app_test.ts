/**
 * Shows the order of the checks of a request, which requests count against which limit, and what the handler
 * receives. Uses its own small route table; contract tests cover the services' tables.
 */
import { assert, assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
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
