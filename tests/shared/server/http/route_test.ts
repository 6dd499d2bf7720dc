/** Shows what handlers answer, JSON that is not cached or 204, and the one response that an answer becomes. */
import { assertEquals } from "@std/assert";
import * as z from "zod";
import { toResponse } from "../../../../shared/server/http/response.ts";
import { json, pick } from "../../../../shared/server/http/route.ts";

Deno.test("a JSON answer is not cached and accepts a status and more headers", async () => {
  const plain = toResponse(json({ a: 1 }));
  assertEquals([plain.status, await plain.text()], [200, '{"a":1}']);
  assertEquals(plain.headers.get("content-type"), "application/json; charset=utf-8");
  assertEquals(plain.headers.get("cache-control"), "no-store");
  const other = toResponse(json([], 201, { "Retry-After": "1" }));
  assertEquals([other.status, other.headers.get("retry-after")], [201, "1"]);
});

Deno.test("pick() copies what a schema names, and no other member of a record", () => {
  const Schema = z.object({ id: z.string(), seenAt: z.string().nullable(), detail: z.string().optional() });
  const record = { digest: "secret", seenAt: null, id: "a" };
  assertEquals(JSON.stringify(pick(Schema, record)), '{"id":"a","seenAt":null}');
  assertEquals(JSON.stringify(pick(Schema, { ...record, detail: "x" })), '{"id":"a","seenAt":null,"detail":"x"}');
});
