/**
 * Shows how bodies are read: counted while they stream, refused over the limit, and timed out after 10 s of the clock.
 * Also which bytes are JSON.
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { type Bytes, utf8Bytes } from "../../../../shared/protocol/base64url.ts";
import { ServiceError } from "../../../../shared/protocol/errors.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import {
  BODY_LEFT_MS,
  BODY_PIECES_MAX,
  type BodySource,
  declaredBytes,
  leaveBody,
  parseJson,
  readBody,
  refuseByLength,
} from "../../../../shared/server/http/body.ts";
import { flushTasks, ManualClock } from "../../../support/manual_clock.ts";
import { steps } from "../../../support/steps.ts";

/** A body that arrives in chunks and records its cancellation. */
class Chunks implements BodySource {
  cancelled = false;
  readonly body: ReadableStream<Bytes>;

  constructor(chunks: readonly Bytes[], end: "close" | "hang" | "break" = "close") {
    let at = 0;
    this.body = new ReadableStream<Bytes>({
      pull: (controller) => {
        const chunk = chunks[at++];
        if (chunk) return controller.enqueue(chunk);
        if (end === "close") return controller.close();
        if (end === "break") return controller.error(new TypeError("connection reset"));
        return new Promise(() => {});
      },
      cancel: () => void (this.cancelled = true),
    }, { highWaterMark: 0 });
  }
}

async function refusal(read: Promise<unknown>): Promise<ServiceError> {
  return await assertRejects(() => read, ServiceError);
}

Deno.test("the body reader returns the bytes of one piece or many up to the limit", async (t) => {
  const cases: [name: string, chunks: string[], maxBytes: number][] = [
    ["no chunk", [], 0],
    ["one chunk", ["hello"], 5],
    ["many chunks", ["he", "", "l", "lo"], 5],
    ["a code point in two chunks", ["h\u00e9"], 3],
  ];
  await steps(t, cases, async ([, chunks, maxBytes]) => {
    const clock = new ManualClock();
    const bytes = await readBody(new Chunks(chunks.map(utf8Bytes)), maxBytes, clock);
    assertEquals(new TextDecoder().decode(bytes), chunks.join(""));
    assertEquals(clock.waiting, 0);
  });
  await t.step("no body at all", async () => {
    assertEquals(await readBody({ body: null }, 5, new ManualClock()), new Uint8Array());
  });
});

Deno.test("the body reader accepts 1,024 pieces and refuses more", async () => {
  const pieces = (count: number) => new Chunks(Array.from({ length: count }, () => utf8Bytes("x")));
  const clock = new ManualClock();
  assertEquals((await readBody(pieces(BODY_PIECES_MAX), 65_536, clock)).length, BODY_PIECES_MAX);
  const source = pieces(BODY_PIECES_MAX + 1);
  const error = await refusal(readBody(source, 65_536, clock));
  assertEquals([error.code, error.headers.Connection], ["PAYLOAD_TOO_LARGE", "close"]);
});

Deno.test("the body reader keeps no buffer that holds more than its piece, because a thousand of 64 KiB fill the memory", async () => {
  const buffer = new Uint8Array(65_536), text = "abc";
  let at = 0;
  // A buffer that is used again shows whether it was kept.
  const body = new ReadableStream<Bytes>({
    pull(controller) {
      buffer[0] = text.charCodeAt(at++);
      controller.enqueue(buffer.subarray(0, 1));
      if (at === text.length) controller.close();
    },
  }, { highWaterMark: 0 });
  assertEquals(await readBody({ body }, 10, new ManualClock()), utf8Bytes(text));
});

Deno.test("the body reader accepts a revocation list of 2 MiB in packets of 1,460 bytes", async () => {
  const packets = Array.from({ length: 1_437 }, () => new Uint8Array(1_460));
  const { length } = await readBody(new Chunks(packets), LIMITS.crlBytes, new ManualClock());
  assertEquals(length, 1_437 * 1_460);
});

Deno.test("the body reader refuses one byte over the limit and cancels the rest", async (t) => {
  const cases: [name: string, chunks: string[], maxBytes: number][] = [
    ["in one chunk", ["123456"], 5],
    ["in the last of many", ["12345", "6"], 5],
    ["an endless body", Array(1000).fill("x".repeat(1024)), 4096],
    ["an empty cap", ["1"], 0],
  ];
  await steps(t, cases, async ([, chunks, maxBytes]) => {
    const clock = new ManualClock();
    const source = new Chunks(chunks.map(utf8Bytes), "hang");
    const error = await refusal(readBody(source, maxBytes, clock));
    assertEquals([error.code, error.status, error.headers.Connection], ["PAYLOAD_TOO_LARGE", 413, "close"]);
    assertEquals([source.cancelled, clock.waiting], [false, 1], "the answer gets through first");
    await clock.advance(BODY_LEFT_MS);
    assertEquals([source.cancelled, clock.waiting], [true, 0]);
  });
});

Deno.test("the body reader times out after 10 s with any part of the body", async (t) => {
  for (const chunks of [[], ["a"], ["a", "b", "c"]]) {
    await t.step(`${chunks.length} chunks, then nothing`, async () => {
      const clock = new ManualClock();
      const source = new Chunks(chunks.map(utf8Bytes), "hang");
      let ended = false;
      const error = refusal(readBody(source, 100, clock)).finally(() => ended = true);
      await flushTasks();
      await clock.advance(9_999);
      assertEquals(ended, false);
      await clock.advance(1);
      const { code, status } = await error;
      assertEquals([code, status], ["REQUEST_TIMEOUT", 408]);
      assertEquals([source.cancelled, clock.waiting], [false, 1], "the answer gets through first");
      await clock.advance(BODY_LEFT_MS);
      assertEquals([source.cancelled, clock.waiting], [true, 0]);
    });
  }
});

Deno.test("the body reader times out at once when the client aborts the body", async () => {
  const clock = new ManualClock();
  const error = await refusal(readBody(new Chunks([utf8Bytes("ab")], "break"), 100, clock));
  assertEquals([error.code, clock.waiting], ["REQUEST_TIMEOUT", 0]);
});

/** A body that is read at once, as a request's is. Its stream must not be used. */
function atOnce(bytes: () => Promise<Bytes>): BodySource {
  return {
    get body(): never {
      throw new Error("The stream was used");
    },
    bytes,
  };
}

Deno.test("a small body with a declared length is read at once, with the bound and the errors of a stream", async (t) => {
  const read = (bytes: () => Promise<Bytes>, length: number, maxBytes = LIMITS.bodyBytes, clock = new ManualClock()) =>
    readBody(atOnce(bytes), maxBytes, clock, { length });
  await t.step("its bytes", async () => {
    const clock = new ManualClock();
    const bytes = utf8Bytes("x".repeat(LIMITS.bodyFreeBytes));
    assertEquals(await read(() => Promise.resolve(bytes), bytes.length, LIMITS.bodyBytes, clock), bytes);
    assertEquals(clock.waiting, 0);
  });
  await t.step("more bytes than its bound", async () => {
    const error = await refusal(read(() => Promise.resolve(utf8Bytes("123456")), 5, 5));
    assertEquals([error.code, error.headers.Connection], ["PAYLOAD_TOO_LARGE", "close"]);
  });
  await t.step("a body that breaks off", async () => {
    const error = await refusal(read(() => Promise.reject(new TypeError("connection reset")), 5));
    assertEquals([error.code, error.message], ["REQUEST_TIMEOUT", "The body broke off"]);
  });
  await t.step("a body that does not arrive", async () => {
    const clock = new ManualClock();
    const error = refusal(read(() => new Promise(() => {}), 5, LIMITS.bodyBytes, clock));
    await clock.advance(LIMITS.bodyTimeoutMs);
    assertEquals([(await error).code, clock.waiting], ["REQUEST_TIMEOUT", 0]);
  });
  await t.step("a body that is over the length of small ones, or has none", async () => {
    const never = () => Promise.reject(new Error("It was read at once"));
    for (const length of [LIMITS.bodyFreeBytes + 1, null]) {
      const source: BodySource = { body: new Chunks([utf8Bytes("ab")]).body, bytes: never };
      assertEquals(await readBody(source, 5, new ManualClock(), { length }), utf8Bytes("ab"));
    }
  });
});

Deno.test("the declared length is the header's, and 0 without a body", () => {
  const of = (length: string | null, body: BodyInit | null) => {
    const headers = new Headers(length === null ? {} : { "Content-Length": length });
    return declaredBytes(new Request("http://svc.example/", { method: "POST", body, headers }));
  };
  assertEquals([of(null, null), of("100000", null), of(null, "abc")], [0, 0, null]);
  assertEquals([of("3", "abc"), of("100000", "abc")], [3, 100_000]);
  // A budget that has counted NaN bytes would admit everything.
  assertEquals([of("3, 3", "abc"), of("100000, 100000", "abc")], [null, null]);
});

Deno.test("the length check uses Content-Length only, before the body is read", async (t) => {
  const cases: [name: string, length: string | null, refused: boolean][] = [
    ["none", null, false],
    ["zero", "0", false],
    ["the cap", "100", false],
    ["a byte more", "101", true],
    ["1 GiB", String(2 ** 30), true],
    ["endless digits", "9".repeat(400), true],
  ];
  await steps(t, cases, ([, length, refused]) => {
    const headers = new Headers(length === null ? {} : { "content-length": length });
    if (!refused) return refuseByLength(headers, 100);
    assertEquals(assertThrows(() => refuseByLength(headers, 100), ServiceError).code, "PAYLOAD_TOO_LARGE");
  });
});

Deno.test("JSON parsing accepts JSON in UTF-8 only and returns its text and value", async (t) => {
  const good = [
    "null",
    " 1 ",
    "[]",
    '{"a":1,"a":2}',
    '"\\ud800"',
    "1e400",
    '{"__proto__":1}',
    "[".repeat(1000) + "]".repeat(1000),
  ];
  for (const text of good) {
    await t.step(`good: ${text.slice(0, 20)}`, () => assertEquals(parseJson(utf8Bytes(text))?.text, text));
  }
  const bad: [name: string, bytes: Bytes][] = [
    ["empty", new Uint8Array()],
    ["white space", utf8Bytes(" \n")],
    ["a byte order mark", utf8Bytes('\ufeff{"a":1}')],
    ["invalid UTF-8", Uint8Array.of(0x22, 0xff, 0x22)],
    ["an encoded surrogate", Uint8Array.of(0x22, 0xed, 0xa0, 0x80, 0x22)],
    ["an overlong slash", Uint8Array.of(0x22, 0xc0, 0xaf, 0x22)],
    ["a sequence cut short", Uint8Array.of(0x22, 0xe2, 0x82, 0x22)],
    ["UTF-16", Uint8Array.of(0x31, 0x00)],
    ["a brace", utf8Bytes("{")],
    ["NaN", utf8Bytes("NaN")],
    ["a non-breaking space", utf8Bytes("\u00a01")],
  ];
  for (const [name, bytes] of bad) await t.step(`bad: ${name}`, () => assertEquals(parseJson(bytes), undefined));
  await t.step("the value is the text's", () => {
    const parsed = parseJson(utf8Bytes('{"a":[1,"b"]}'));
    assert(parsed);
    assertEquals(parsed.value, { a: [1, "b"] });
  });
});

Deno.test("body disposal reads a small rest and closes the connection of a long or slow one", async (t) => {
  const kib = "x".repeat(1024);
  const cases: [name: string, chunks: string[], end: "close" | "hang", isEnded: boolean][] = [
    ["a small body", ["ab", "cd"], "close", false],
    ["a body as long as is read", Array(256).fill(kib), "close", false],
    ["an endless body", Array(10_000).fill(kib), "hang", true],
    ["a body that stalls", ["ab"], "hang", true],
  ];
  await steps(t, cases, async ([, chunks, end, isEnded]) => {
    const clock = new ManualClock();
    const source = new Chunks(chunks.map(utf8Bytes), end);
    const left = leaveBody({ body: source.body, bodyUsed: false }, clock);
    for (let i = 0; i < 3; i++) await flushTasks();
    assertEquals([source.cancelled, clock.waiting], [false, isEnded ? 1 : 0]);
    await clock.advance(BODY_LEFT_MS);
    await left;
    assertEquals([source.cancelled, clock.waiting], [isEnded, 0]);
  });
  await t.step("no body, one that is read, and one of an upgraded request", async () => {
    const clock = new ManualClock();
    const { body } = new Chunks([], "hang");
    await leaveBody({ body: null, bodyUsed: false }, clock);
    await leaveBody({ body, bodyUsed: true }, clock);
    const upgraded = {
      bodyUsed: false,
      get body(): never {
        throw new TypeError("Request closed");
      },
    };
    await leaveBody(upgraded, clock);
    assertEquals(clock.waiting, 0);
  });
});
