/**
 * Shows that base64url is strict: one byte string has one accepted text, and every other text is refused. The
 * cases are generated: padding, foreign alphabets, white space, impossible lengths, trailing bits.
 */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { fromBase64Url, sha256, toBase64Url, utf8Bytes } from "../../../shared/protocol/base64url.ts";
import { steps } from "../../support/steps.ts";
import { anyText } from "./arbitraries.ts";

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const RUNS = { seed: 1, numRuns: 500 };

const KNOWN: [text: string, bytes: number[]][] = [
  ["", []],
  ["Zg", [0x66]],
  ["Zm8", [0x66, 0x6f]],
  ["Zm9v", [0x66, 0x6f, 0x6f]],
  ["Zm9vYg", [0x66, 0x6f, 0x6f, 0x62]],
  ["Zm9vYmE", [0x66, 0x6f, 0x6f, 0x62, 0x61]],
  ["Zm9vYmFy", [0x66, 0x6f, 0x6f, 0x62, 0x61, 0x72]],
  ["-_-_", [0xfb, 0xff, 0xbf]],
  ["____", [0xff, 0xff, 0xff]],
  ["AAAA", [0, 0, 0]],
];

Deno.test("base64url encoding and decoding agree with the examples of RFC 4648", () => {
  for (const [text, bytes] of KNOWN) {
    assertEquals(fromBase64Url(text), new Uint8Array(bytes), text);
    assertEquals(toBase64Url(new Uint8Array(bytes)), text);
  }
});

Deno.test("base64url decoding refuses every text that is not canonical", async (t) => {
  const whole = ["AA", "AAA", "AAAA", "AAAAAA"];
  const foreign = [..."+/.~*%,:;!$&=@#|\\\"'`(){}[]<>?^\0\x7f", "é", "Ａ", "\u212a", "\u200b", "\ud800", "👋"];
  const blanks = [" ", "\t", "\n", "\r", "\r\n", "\v", "\f", "\u00a0", "\u0085", "\u2028", "\ufeff", "%20"];
  const situations: [name: string, texts: string[]][] = [
    ["padding", whole.flatMap((text) => ["=", "==", "===", "%3D", "."].map((pad) => text + pad))],
    ["padding alone", ["=", "==", "===", "===="]],
    [
      "a foreign character",
      foreign.flatMap((c) => [0, 1, 2, 3].map((at) => "AAAA".slice(0, at) + c + "AAAA".slice(at + 1))),
    ],
    ["white space", blanks.flatMap((c) => [`${c}AAAA`, `AA${c}AA`, `AAAA${c}`])],
    ["white space alone", blanks],
    ["an impossible length", [1, 5, 9, 45, 4001].map((length) => "A".repeat(length))],
  ];
  await steps(t, situations, ([, texts]) => {
    for (const text of texts) assertEquals(fromBase64Url(text), null, JSON.stringify(text));
  });
  await t.step("non-zero trailing bits", () => {
    for (const [prefix, step] of [["A", 16], ["AAAAA", 16], ["AA", 4], ["AAAAAA", 4]] as const) {
      const accepted = [...ALPHABET].filter((last) => fromBase64Url(prefix + last) !== null);
      assertEquals(accepted, [...ALPHABET].filter((_, value) => value % step === 0), prefix);
    }
  });
});

Deno.test("base64url decoding returns the bytes that were encoded", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      const text = toBase64Url(bytes);
      assert(/^[A-Za-z0-9_-]*$/.test(text) && text.length === Math.ceil(bytes.length * 4 / 3));
      assertEquals(fromBase64Url(text), new Uint8Array(bytes));
    }),
    RUNS,
  );
});

Deno.test("base64url decoding accepts one text only for the same bytes", () => {
  const nearly = fc.string({ unit: fc.constantFrom(...ALPHABET, "=", "+", "/", " "), maxLength: 9 });
  fc.assert(
    fc.property(fc.oneof(nearly, anyText), (text) => {
      const bytes = fromBase64Url(text);
      assert(bytes === null || toBase64Url(bytes) === text, JSON.stringify(text));
    }),
    RUNS,
  );
});

Deno.test("UTF-8 encoding includes text beyond ASCII", () => {
  assertEquals(utf8Bytes("aé👋"), new Uint8Array([0x61, 0xc3, 0xa9, 0xf0, 0x9f, 0x91, 0x8b]));
});

Deno.test("SHA-256 returns the known digests for a text and for its bytes", async () => {
  assertEquals(await sha256(""), "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU");
  assertEquals(await sha256("abc"), "ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0");
  assertEquals(await sha256(utf8Bytes("grüße 👋")), await sha256("grüße 👋"));
});
