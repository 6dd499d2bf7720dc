/**
 * The functions of `@std` in use, which `shared/jsr/` serves from a repackaging (D-242), return the results of fixed
 * vectors. docs/security.md names the package that deno.lock has.
 */
import {
  assert,
  assertEquals,
  assertExists,
  assertInstanceOf,
  assertMatch,
  assertNotEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
  fail,
} from "@std/assert";
import { parseArgs } from "@std/cli";
import { decodeBase64Url, encodeBase64Url } from "@std/encoding/base64url";
import * as forNode from "../../shared/jsr/encoding/base64url_node.ts";
import { decodeHex, encodeHex } from "@std/encoding/hex";

const ROOT = new URL("../../", import.meta.url);
const bytesOf = (text: string) => new TextEncoder().encode(text);

/** RFC 4648 section 10, without padding, and all 64 letters. */
const BASE64URL: [bytes: Uint8Array, text: string][] = [
  [bytesOf(""), ""],
  [bytesOf("f"), "Zg"],
  [bytesOf("fo"), "Zm8"],
  [bytesOf("foo"), "Zm9v"],
  [bytesOf("foob"), "Zm9vYg"],
  [bytesOf("fooba"), "Zm9vYmE"],
  [bytesOf("foobar"), "Zm9vYmFy"],
  [Uint8Array.of(0xfb, 0xff, 0xbf), "-_-_"],
  [
    Uint8Array.from({ length: 48 }, (_, i) => {
      const letter = (n: number) => n & 63;
      const [a, b, c, d] = [0, 1, 2, 3].map((n) => letter(Math.floor(i / 3) * 4 + n)) as [
        number,
        number,
        number,
        number,
      ];
      return [(a << 2) | (b >> 4), ((b & 15) << 4) | (c >> 2), ((c & 3) << 6) | d][i % 3] ?? 0;
    }),
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
  ],
];

Deno.test("base64url of the client library's package encodes and decodes the vectors of RFC 4648", () => {
  for (const [bytes, text] of BASE64URL) {
    assertEquals(forNode.encodeBase64Url(bytes), text);
    assertEquals(forNode.encodeBase64Url(Uint8Array.from(bytes).buffer), text);
    assertEquals([...forNode.decodeBase64Url(text)], [...bytes]);
  }
});

Deno.test("base64url of @std encodes and decodes the vectors of RFC 4648", () => {
  for (const [bytes, text] of BASE64URL) {
    assertEquals(encodeBase64Url(bytes), text);
    assertEquals([...decodeBase64Url(text)], [...bytes]);
  }
});

Deno.test("hex of @std encodes and decodes fixed vectors", () => {
  const vectors: [bytes: Uint8Array, text: string][] = [
    [bytesOf(""), ""],
    [bytesOf("foobar"), "666f6f626172"],
    [Uint8Array.of(0, 1, 15, 16, 127, 128, 254, 255), "00010f107f80feff"],
  ];
  for (const [bytes, text] of vectors) {
    assertEquals(encodeHex(bytes), text);
    assertEquals([...decodeHex(text)], [...bytes]);
  }
  assertThrows(() => decodeHex("0g"));
  assertThrows(() => decodeHex("0"));
});

Deno.test("parseArgs of @std reads a command line as the command svc expects", () => {
  const unknown: string[] = [];
  const parsed = parseArgs(["agent", "--name", "a", "--name=b", "--json", "-h", "--other=1", "--", "--rest"], {
    boolean: ["json", "help"],
    string: ["name"],
    collect: ["name", "json"],
    alias: { h: "help" },
    "--": true,
    unknown: (arg, key) => {
      if (key === undefined) return true;
      unknown.push(arg);
      return false;
    },
  });
  assertEquals(parsed._, ["agent"]);
  assertEquals(parsed.name, ["a", "b"]);
  assertEquals([parsed.json, parsed.help, parsed["--"]], [[true], true, ["--rest"]]);
  assertEquals(unknown, ["--other=1"]);
});

/** Runs an assertion. True when it throws. */
async function fails(run: () => unknown): Promise<boolean> {
  try {
    await run();
    return false;
  } catch {
    return true;
  }
}

Deno.test("each assertion of @std passes what holds and fails what does not", async () => {
  const rejection = () => Promise.reject(new TypeError("x"));
  const thrown = () => {
    throw new TypeError("x");
  };
  const cases: [name: string, holds: () => unknown, doesNot: () => unknown][] = [
    ["assert", () => assert(1), () => assert(0)],
    ["assertEquals", () => assertEquals({ a: [1] }, { a: [1] }), () => assertEquals({ a: [1] }, { a: [2] })],
    [
      "assertEquals on types",
      () => assertEquals(new Map([[1, 2]]), new Map([[1, 2]])),
      () => assertEquals<unknown>(1, "1"),
    ],
    ["assertNotEquals", () => assertNotEquals(1, 2), () => assertNotEquals([1], [1])],
    ["assertExists", () => assertExists(0), () => assertExists(null)],
    ["assertMatch", () => assertMatch("ab", /b$/), () => assertMatch("ab", /a$/)],
    ["assertStringIncludes", () => assertStringIncludes("abc", "bc"), () => assertStringIncludes("abc", "d")],
    ["assertInstanceOf", () => assertInstanceOf(new TypeError(), Error), () => assertInstanceOf({}, Error)],
    ["assertThrows", () => assertThrows(thrown, TypeError), () => assertThrows(() => {})],
    ["assertThrows by class", () => assertThrows(thrown, Error), () => assertThrows(thrown, RangeError)],
    ["assertRejects", () => assertRejects(rejection, TypeError), () => assertRejects(() => Promise.resolve())],
    ["assertRejects by class", () => assertRejects(rejection, Error), () => assertRejects(rejection, RangeError)],
    ["fail", () => {}, () => fail("x")],
  ];
  for (const [name, holds, doesNot] of cases) {
    // Compared without an assertion, because the assertions are under test.
    if (await fails(holds) || !(await fails(doesNot))) throw new Error(name);
  }
});

Deno.test("docs/security.md names the version and the integrity of deno-std in deno.lock", async () => {
  const lock = JSON.parse(await Deno.readTextFile(new URL("deno.lock", ROOT)));
  const text = await Deno.readTextFile(new URL("docs/security.md", ROOT));
  const [key = ""] = Object.keys(lock.npm).filter((name) => name.startsWith("deno-std@"));
  assertStringIncludes(text, `\`deno-std\`, version ${key.slice("deno-std@".length)},`);
  assertStringIncludes(text, lock.npm[key].integrity);
});
