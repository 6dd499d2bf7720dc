/** Shows when a client that has the current answer gets 304 (RFC 9110), and with which headers. */
import { assertEquals } from "@std/assert";
import { utf8Bytes } from "../../../../shared/protocol/base64url.ts";
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

/** The answers of a client at an address, which reads nothing until `sent` says so. */
function slowClient(unsent: UnsentResponses) {
  const sent: PromiseWithResolvers<void>[] = [];
  const admits = (body: string, ip = "192.0.2.1") => {
    const sending = Promise.withResolvers<void>();
    sent.push(sending);
    const peer = { from: "socket", address: ip, info: { completed: sending.promise } } as const;
    return unsent.admits({ status: 200, headers: {}, body }, peer, ip);
  };
  return { admits, sent };
}

const LARGE = "x".repeat(98_304), PAGE = "x".repeat(2_048), SMALL = "x".repeat(1_024);

Deno.test("a client that leaves 6 MiB of responses unread gets no other until one has gone; others and small ones do", async () => {
  const unsent = new UnsentResponses(), { admits, sent } = slowClient(unsent);
  assertEquals(Array.from({ length: 65 }, () => admits(LARGE)), [...Array(64).fill(true), false]);
  assertEquals([admits(SMALL), admits(LARGE, "192.0.2.2")], [true, true]);
  const answer = { status: 200, headers: {}, body: LARGE };
  assertEquals(unsent.admits(answer, { from: "process" }, "192.0.2.1"), true);
  sent[0]?.resolve();
  sent[1]?.reject(new Error("the client has gone"));
  await Promise.allSettled([sent[0]?.promise, sent[1]?.promise]);
  assertEquals([admits(LARGE), admits(LARGE), admits(LARGE)], [true, true, false]);
});

Deno.test("pages of 2 KiB that a client does not read count by their bytes", () => {
  const { admits } = slowClient(new UnsentResponses());
  const admitted = Array.from({ length: 10_000 }, () => admits(PAGE)).filter((isAdmitted) => isAdmitted).length;
  assertEquals(Math.round(admitted * PAGE.length / 2 ** 20), 6);
});

Deno.test("clients at three hundred addresses that read nothing leave room for one response of each other one", () => {
  const { admits } = slowClient(new UnsentResponses());
  for (let n = 0; n < 64 * 300; n++) admits(LARGE, `192.0.2.${Math.floor(n / 64)}`);
  assertEquals(Array.from({ length: 5 }, (_, n) => admits(LARGE, `198.51.100.${n}`)), Array(5).fill(true));
});
