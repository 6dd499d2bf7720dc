/** Shows what handlers answer, JSON that is not cached or 204, and the one response that an answer becomes (D-259). */
import { assertEquals } from "@std/assert";
import { utf8Bytes } from "../../../../shared/protocol/base64url.ts";
import { toResponse } from "../../../../shared/server/http/response.ts";
import { type Answer, json, noContent } from "../../../../shared/server/http/route.ts";

Deno.test("a JSON answer is not cached and accepts a status and more headers", async () => {
  const plain = toResponse(json({ a: 1 }));
  assertEquals([plain.status, await plain.text()], [200, '{"a":1}']);
  assertEquals(plain.headers.get("content-type"), "application/json; charset=utf-8");
  assertEquals(plain.headers.get("cache-control"), "no-store");
  const other = toResponse(json([], 201, { "Retry-After": "1" }));
  assertEquals([other.status, other.headers.get("retry-after")], [201, "1"]);
});

Deno.test("an empty answer is 204 without a body", async () => {
  const response = toResponse(noContent());
  assertEquals([response.status, await response.text(), response.headers.get("cache-control")], [204, "", "no-store"]);
});

Deno.test("the response to HEAD has status, headers and length of the answer, without its body", async (t) => {
  const large = new Uint8Array(300_000);
  const cases: [name: string, answer: Answer, length: string | null][] = [
    ["text", json({ a: "\u00e9" }, 404, { Allow: "GET" }), "10"],
    ["no text", { status: 200, headers: {}, body: "" }, "0"],
    ["bytes", { status: 200, headers: { "Content-Length": "3" }, body: utf8Bytes("abc") }, "3"],
    ["many bytes", { status: 200, headers: {}, body: large }, "300000"],
    ["no body", noContent(), null],
  ];
  for (const [name, answer, length] of cases) {
    await t.step(name, async () => {
      const response = toResponse(answer, true);
      assertEquals([response.status, response.body, await response.text()], [answer.status, null, ""]);
      assertEquals(response.headers.get("content-length"), length);
      for (const [header, value] of Object.entries(answer.headers)) assertEquals(response.headers.get(header), value);
    });
  }
});
