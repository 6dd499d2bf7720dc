/**
 * Shows the one form of every error: its envelope, its headers, its log line, and that it shows nothing
 * internal. Also which errors a route can answer.
 */
import { assert, assertEquals } from "@std/assert";
import type { ErrorCode } from "../../../../shared/protocol/errors.ts";
import { routedPath } from "../../../../shared/server/http/app.ts";
import { errorsOf } from "../../../../shared/server/http/route.ts";
import { steps } from "../../../support/steps.ts";
import { AUTHENTICATORS, errorOf, post, ROUTES, TestApp } from "./small_app.ts";

Deno.test("an unknown path is 404, another method is 405 with Allow, and HEAD is routed as GET", async () => {
  using t = await TestApp.open();
  for (const path of ["/", "/Open", "/open/", "//open", "/open/x", "/things", "/things/1/2"]) {
    assertEquals(await errorOf(await t.ask(path)), [404, "NOT_FOUND"], path);
  }
  for (const method of ["POST", "PUT", "OPTIONS", "PATCH", "DELETE"]) {
    const answer = await t.ask("/open", { method });
    assertEquals(answer.headers.get("allow"), "GET, HEAD");
    assertEquals(await errorOf(answer), [405, "METHOD_NOT_ALLOWED"]);
  }
  assertEquals((await t.ask("/things/1")).headers.get("allow"), "POST");
  const head = await t.ask("/open", { method: "HEAD" });
  assertEquals([head.status, await head.text()], [200, ""]);
  const owns = (path: string) => t.app.owns(routedPath(new Request(`http://localhost${path}`)));
  assertEquals([owns("/open?x"), owns("/%6fpen"), owns("/things/x"), owns("/none")], [true, true, true, false]);
});

Deno.test("an internal failure is logged with the request ID and never answered", async (t) => {
  const cases: [how: string, error: [number, ErrorCode], retryAfter: string | null][] = [
    ["error", [500, "INTERNAL_ERROR"], null],
    ["text", [500, "INTERNAL_ERROR"], null],
    ["store", [503, "SERVICE_UNAVAILABLE"], "1"],
  ];
  await steps(t, cases, async ([how, error, retryAfter]) => {
    for (const showDetails of [true, false]) {
      using app = await TestApp.open(showDetails);
      const answer = await app.ask(`/fails/${how}?key=svc_pat_x`, { headers: { "x-request-id": "the-request" } });
      assertEquals(answer.headers.get("retry-after"), retryAfter);
      const text = await answer.clone().text();
      for (const inside of ["secret", "svc.kv", "at ", ".ts"]) assert(!text.includes(inside), text);
      assertEquals(await errorOf(answer), error);
      const [line] = app.log;
      assertEquals([line?.level, line?.fields.requestId, line?.fields.path], [
        "error",
        "the-request",
        `/fails/${how}`,
      ]);
      assert(line?.fields.cause !== undefined);
    }
  });
});

Deno.test("a client cannot make the log line of its refusal long", async () => {
  using t = await TestApp.open();
  assertEquals(await errorOf(await t.ask(`/open/${"x".repeat(60_000)}`)), [404, "NOT_FOUND"]);
  assertEquals(await errorOf(await t.ask("/open", { method: "X".repeat(60_000) })), [405, "METHOD_NOT_ALLOWED"]);
  for (const { fields } of t.log) assert(JSON.stringify(fields).length < 600, String(fields.code));
});

Deno.test("a 401 names the scheme of its route", async () => {
  using t = await TestApp.open();
  assertEquals((await t.ask("/things/1", post("", {}))).headers.get("www-authenticate"), "Bearer");
  assertEquals((await t.ask("/fails/unauthorised")).headers.get("www-authenticate"), "Bearer");
  assertEquals((await t.ask("/open")).headers.get("www-authenticate"), null);
});

Deno.test("the error list of a route has each possible code once, in the order of the error table", () => {
  const errorsIn = (path: string) => {
    const found = ROUTES.find((candidate) => candidate.path === path);
    assert(found);
    return errorsOf(found, AUTHENTICATORS[found.auth as keyof typeof AUTHENTICATORS]);
  };
  const always = ["PAYLOAD_TOO_LARGE", "REQUEST_TIMEOUT", "INTERNAL_ERROR", "SERVICE_UNAVAILABLE"];
  assertEquals(errorsIn("/open"), always as ErrorCode[]);
  const things = errorsIn("/things/:id");
  for (
    const code of [
      "API_KEY_INVALID",
      "ADMIN_REQUIRED",
      "ADMIN_BOOTSTRAP_INVALID",
      "AGENT_REVOKE_INVALID_PATH",
      "RATE_LIMIT_EXCEEDED",
    ]
  ) {
    assertEquals(things.filter((other) => other === code).length, 1, code);
  }
  assertEquals(errorsIn("/off").includes("ADMIN_BOOTSTRAP_DISABLED"), true);
});
