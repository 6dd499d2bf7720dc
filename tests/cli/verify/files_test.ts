/**
 * Files that a person gives to `svc verify` and `svc receipt verify`: each form of a request is read back, any other text is
 * refused as a usage error, and the largest file ends in bounded work.
 */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { parseRequestFile } from "../../../cli/verify/request_file.ts";
import { readReceipt } from "../../../cli/verify/verify_receipt.ts";
import { CliError } from "../../../cli/errors.ts";
import type { Context } from "../../../cli/context.ts";
import { utf8Bytes } from "../../../shared/protocol/base64url.ts";
import { anyText, jsonText } from "../../shared/protocol/arbitraries.ts";
import { tempFolder } from "../../support/temp_folder.ts";

const method = fc.constantFrom("GET", "POST", "DELETE");
const origin = fc.constantFrom("", "https://p.example", "http://127.0.0.1:8787");
const target = fc.stringMatching(/^\/[!-~]{0,30}$/);
/** Texts with a beginning and an end that no reader cuts off. */
const value = fc.stringMatching(/^[!-~]([ -~]{0,20}[!-~])?$/);
const headers = fc.dictionary(fc.stringMatching(/^x-[a-z]{1,8}$/), value, { maxKeys: 5 });
const body = anyText.map((text) => text.toWellFormed());

Deno.test("a request is read back from both forms of its file, for any header, target and body", () => {
  fc.assert(fc.property(method, origin, target, headers, body, (method, origin, target, headers, body) => {
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
    const texts = [
      JSON.stringify({ method, url: origin + target, headers, body }),
      [`${method} ${origin}${target} HTTP/1.1`, ...lines, "", body].join("\n"),
      [`${method} ${origin}${target}`, ...lines, "", body].join("\r\n"),
    ];
    for (const text of texts) {
      const file = parseRequestFile(utf8Bytes(text));
      assert(file, text);
      assertEquals([file.method, file.origin, file.target], [method, origin || null, target]);
      assertEquals(Object.fromEntries(file.headers), headers);
      assertEquals([...file.body], [...utf8Bytes(body)]);
    }
  }));
});

Deno.test("any bytes are a request or none, and no exception", () => {
  const bytes = fc.oneof(fc.uint8Array({ maxLength: 200 }), fc.oneof(anyText, jsonText).map(utf8Bytes));
  fc.assert(fc.property(bytes, (bytes) => {
    const file = parseRequestFile(Uint8Array.from(bytes));
    assert(file === null || file.target !== "" && !/\s/.test(file.target));
  }));
});

Deno.test("a file of 1 MiB of line feeds, colons, levels or one header is a request or none", () => {
  const large = 2 ** 20, worst = ["\n", ":", " ", "a:\n", "\r", "GET "].map((unit) => unit.repeat(large / unit.length));
  for (
    const text of [
      ...worst,
      `GET /${"x".repeat(large)}`,
      `{"headers":${"[".repeat(large)}`,
      `{"a":"${"\\".repeat(large)}`,
    ]
  ) {
    assertEquals(
      parseRequestFile(utf8Bytes(text)),
      text.startsWith("GET /") ? parseRequestFile(utf8Bytes(text)) : null,
    );
  }
  const named = (count: number) => Array.from({ length: count }, (_, i) => [`x-${i}`, "1"] as const);
  const message = (count: number) => `GET / HTTP/1.1\n${named(count).map(([name]) => `${name}: 1\n`).join("")}\nbody`;
  const json = (count: number) =>
    JSON.stringify({ method: "GET", url: "/", headers: Object.fromEntries(named(count)) });
  for (const form of [message, json]) {
    // The names are counted before any is read: `Headers` looks at all of them for each other one.
    const counts = [1_000, 1_001, 80_000].map((n) => [...parseRequestFile(utf8Bytes(form(n)))?.headers ?? []].length);
    assertEquals(counts, [1_000, 0, 0]);
  }
});

Deno.test("any JSON is a file with one signed receipt, or a usage error", async () => {
  await using folder = await tempFolder();
  const path = `${folder.path}/receipt.json`, ctx = {} as Context;
  const row = fc.record({ signed: fc.oneof(anyText, fc.jsonValue()), ait: fc.oneof(anyText, fc.jsonValue()) }, {
    requiredKeys: [],
  }).map((one) => JSON.stringify(one));
  const list = fc.array(fc.oneof(row, jsonText), { maxLength: 3 }).map((rows) => `{"receipts":[${rows.join(",")}]}`);
  await fc.assert(
    fc.asyncProperty(fc.oneof(row, list, jsonText, anyText), async (text) => {
      await Deno.writeTextFile(path, text);
      try {
        const { signed, ait } = await readReceipt(ctx, path);
        assertEquals([typeof signed, typeof ait], ["string", "string"]);
      } catch (error) {
        if (!(error instanceof CliError)) throw error;
        assertEquals(error.code, "CLI_USAGE");
      }
    }),
  );
});
