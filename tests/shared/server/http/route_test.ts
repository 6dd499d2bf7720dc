/** Shows the responses that handlers create: JSON that is not cached, and 204. */
import { assertEquals } from "@std/assert";
import { json, noContent } from "../../../../shared/server/http/route.ts";

Deno.test("a JSON response is not cached and accepts a status and more headers", async () => {
  const plain = json({ a: 1 });
  assertEquals([plain.status, await plain.text()], [200, '{"a":1}']);
  assertEquals(plain.headers.get("content-type"), "application/json; charset=utf-8");
  assertEquals(plain.headers.get("cache-control"), "no-store");
  const other = json([], 201, { "Retry-After": "1" });
  assertEquals([other.status, other.headers.get("retry-after")], [201, "1"]);
});

Deno.test("an empty response is 204 without a body", async () => {
  const answer = noContent();
  assertEquals([answer.status, await answer.text(), answer.headers.get("cache-control")], [204, "", "no-store"]);
});
