/** Shows when a client that has the current answer gets 304 (RFC 9110), and with which headers. */
import { assertEquals } from "@std/assert";
import { utf8Bytes } from "../../../../shared/protocol/base64url.ts";
import type { Answer } from "../../../../shared/server/http/route.ts";
import { conditionalAnswer } from "../../../../shared/server/http/response.ts";
import { toResponse, UnsentResponses } from "../../../../shared/server/http/response.ts";
import { steps } from "../../../support/steps.ts";

function ask(ifNoneMatch?: string): Response {
  const headers = new Headers(ifNoneMatch === undefined ? {} : { "If-None-Match": ifNoneMatch });
  const request = new Request("https://r.example/v1/crl", { headers });
  return toResponse(conditionalAnswer(request, utf8Bytes('{"a":1}'), '"tag-1"', "no-cache"));
}

Deno.test("a conditional response is the body once, and 304 for a client that has it", async (t) => {
  const cases: [name: string, ifNoneMatch: string | undefined, status: number][] = [
    ["no tag", undefined, 200],
    ["another tag", '"tag-2"', 200],
    ["the tag", '"tag-1"', 304],
    ["the tag, weak", 'W/"tag-1"', 304],
    ["the tag among others", '"tag-0", W/"x" ,"tag-1"', 304],
    ["any", "*", 304],
    ["the tag without quotes", "tag-1", 200],
    ["a part of the tag", '"tag"', 200],
    ["empty", "", 200],
  ];
  await steps(t, cases, async ([, ifNoneMatch, status]) => {
    const answer = ask(ifNoneMatch);
    assertEquals([answer.status, answer.headers.get("etag"), answer.headers.get("cache-control")], [
      status,
      '"tag-1"',
      "no-cache",
    ]);
    assertEquals(await answer.text(), status === 200 ? '{"a":1}' : "");
    assertEquals(answer.headers.get("content-type"), status === 200 ? "application/json; charset=utf-8" : null);
  });
});

Deno.test("a conditional response sends a large body completely, with its length", async () => {
  for (const length of [32_767, 32_768, 32_769, 65_536, 1_000_000]) {
    const body = crypto.getRandomValues(new Uint8Array(65_536));
    const large = new Uint8Array(length).map((_, i) => body[i % body.length] ?? 0);
    const request = new Request("https://r.example/v1/crl");
    const answer = toResponse(conditionalAnswer(request, large, '"tag-1"', "no-cache"));
    assertEquals(answer.headers.get("content-length"), String(length));
    assertEquals(new Uint8Array(await answer.arrayBuffer()), large);
  }
});

Deno.test("a client that leaves 64 large responses unread gets no other until one has gone; others and small ones do", async () => {
  const unsent = new UnsentResponses(), sent: PromiseWithResolvers<void>[] = [];
  const large = { status: 200, headers: {}, body: "x".repeat(32_769) }, small = { ...large, body: "x" };
  const admits = (answer: Answer, ip = "192.0.2.1") => {
    const sending = Promise.withResolvers<void>();
    sent.push(sending);
    return unsent.admits(answer, { ip, peer: { from: "socket", address: ip, info: { completed: sending.promise } } });
  };
  assertEquals(Array.from({ length: 65 }, () => admits(large)), [...Array(64).fill(true), false]);
  assertEquals([admits(small), admits(large, "192.0.2.2")], [true, true]);
  assertEquals(unsent.admits(large, { ip: "192.0.2.1", peer: { from: "process" } }), true);
  sent[0]?.resolve();
  sent[1]?.reject(new Error("the client has gone"));
  await Promise.allSettled([sent[0]?.promise, sent[1]?.promise]);
  assertEquals([admits(large), admits(large), admits(large)], [true, true, false]);
});

Deno.test("clients at a hundred addresses that read nothing leave room for others", () => {
  const unsent = new UnsentResponses(), large = { status: 200, headers: {}, body: "x".repeat(32_769) };
  const admits = (ip: string) =>
    unsent.admits(large, {
      ip,
      peer: { from: "socket", address: ip, info: { completed: Promise.withResolvers<void>().promise } },
    });
  for (let n = 0; n < 64 * 100; n++) admits(`192.0.2.${n % 100}`);
  assertEquals(Array.from({ length: 5 }, () => admits("198.51.100.1")), Array(5).fill(true));
});
