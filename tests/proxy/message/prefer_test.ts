/** The `Prefer` header (RFC 7240) and the bound on `Content-Type`. */
import { assertEquals } from "@std/assert";
import { prefersAsync } from "../../../proxy/message/request.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { codeOf } from "../../support/world.ts";
import { openProxy } from "../proxy_world.ts";

Deno.test("the async preference is found among others and outside quotes only", () => {
  const wanted = [
    "respond-async",
    " Respond-Async ",
    "wait=10, respond-async",
    "respond-async; foo",
    "respond-async=true",
    'foo="a, b\\", c", respond-async',
    'foo="", respond-async;bar="x;,="',
    ",,respond-async,,",
  ];
  const others = [
    null,
    "",
    "respond-asynchronously",
    "wait=respond-async",
    '"respond-async"',
    'foo="a, respond-async, b"',
    'foo="a\\", respond-async, b"',
    'foo="unterminated, respond-async',
    "foo;respond-async",
    '"\\',
  ];
  for (const prefer of wanted) assertEquals(prefersAsync(prefer), true, prefer);
  for (const prefer of others) assertEquals(prefersAsync(prefer), false, String(prefer));
});

Deno.test("a message is queued with a Prefer of 256 characters and refused with one more", async () => {
  await using w = await openProxy();
  const { a, b } = await w.pairedAgents();
  for (const [length, expected] of [[LIMITS.preferLength, 202], [LIMITS.preferLength + 1, 502]] as const) {
    const Prefer = "respond-async, ".padEnd(length, "x");
    assertEquals((await w.message(a, b, { headers: { Prefer } })).status, expected, `${length} characters`);
  }
});

Deno.test("a message is refused with 415 when its Content-Type has over 256 characters", async () => {
  await using w = await openProxy();
  const { a, b } = await w.story();
  const typeOf = (length: number) => ({ "Content-Type": "application/json; a=".padEnd(length, "x") });
  assertEquals((await w.message(a, b, { headers: typeOf(LIMITS.contentTypeLength) })).status, 202);
  const answer = await w.message(a, b, { headers: typeOf(LIMITS.contentTypeLength + 1) });
  assertEquals([answer.status, await codeOf(answer)], [415, "PROXY_HOOK_UNSUPPORTED_MEDIA_TYPE"]);
});
