/**
 * Shows how pairing tickets are formatted and parsed (D-26): the vectors, a round trip, and malformed texts. White
 * space and backticks around a pasted ticket are ignored.
 */
import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { fromBase64Url, toBase64Url, utf8Bytes } from "../../../shared/protocol/base64url.ts";
import { formatTicket, parseTicket } from "../../../shared/protocol/ticket.ts";
import { vectors } from "../../support/vectors.ts";
import { anyText, authority, ulid } from "./arbitraries.ts";

const RUNS = { seed: 1, numRuns: 300 };
const { valid, pasted, invalid } = vectors("ticket");
const [first] = valid;
if (!first) throw new Error("ticket.json has no valid ticket");

const BODY = {
  v: 1,
  iss: "https://proxy.example.test",
  id: "01KHYQ5H00JJJJJJJJJJJJJJJJ",
  exp: 1_771_632_300,
  s: "A".repeat(32),
};

Deno.test("ticket parsing reads the valid vectors", () => {
  for (const vector of valid) assertEquals(parseTicket(vector.ticket), vector);
});

Deno.test("ticket formatting writes the valid vectors", () => {
  for (const { ticket, ...fields } of valid) {
    assertEquals(formatTicket(fields, secretOf(ticket)), ticket);
  }
});

Deno.test("ticket parsing ignores white space and backticks around a pasted ticket", async (t) => {
  const more = ["\t", "\r\n", "\u00a0", "```\n", "`` ` ``"].map((around) => `${around}${first.ticket}${around}`);
  for (const text of [...pasted, ...more]) {
    await t.step(JSON.stringify(text.replace(first.ticket, "ticket")), () => assertEquals(parseTicket(text), first));
  }
});

Deno.test("ticket parsing refuses the invalid vectors", async (t) => {
  for (const { name, ticket } of invalid) await t.step(name, () => assertEquals(parseTicket(ticket), null));
});

Deno.test("ticket parsing refuses each malformed ticket", async (t) => {
  const rows: [name: string, text: string][] = [
    ["the upper-case prefix", first.ticket.replace("svcpair1_", "SVCPAIR1_")],
    ["the body without its prefix", first.ticket.replace("svcpair1_", "")],
    ["white space inside", first.ticket.replace("_", "_ ")],
    ["quotes around it", `"${first.ticket}"`],
    ["two tickets", `${first.ticket} ${first.ticket}`],
    ["the last character cut off", first.ticket.slice(0, -1)],
    ["10 KiB", `svcpair1_${"A".repeat(10_240)}`],
    ["10 KiB of blanks in front", " ".repeat(10_240) + first.ticket],
    ["bytes that are not UTF-8", `svcpair1_${toBase64Url(utf8Bytes(JSON.stringify(BODY)).fill(0xff, 15, 16))}`],
    ...([
      ["null", null],
      ["a list", [BODY]],
      ["a text", "x"],
      ["no v", { ...BODY, v: undefined }],
      ["v as text", { ...BODY, v: "1" }],
      ["v 2", { ...BODY, v: 2 }],
      ["no iss", { ...BODY, iss: undefined }],
      ["iss of another type", { ...BODY, iss: 1 }],
      ["a lower-case id", { ...BODY, id: BODY.id.toLowerCase() }],
      ["no id", { ...BODY, id: undefined }],
      ["exp as text", { ...BODY, exp: "1771632300" }],
      ["a negative exp", { ...BODY, exp: -1 }],
      ["a fraction as exp", { ...BODY, exp: 1.5 }],
      ["an endless exp", { ...BODY, exp: 1e308 }],
      ["a secret of 23 bytes", { ...BODY, s: toBase64Url(new Uint8Array(23)) }],
      ["a secret of 25 bytes", { ...BODY, s: toBase64Url(new Uint8Array(25)) }],
      ["a padded secret", { ...BODY, s: `${BODY.s}=` }],
      ["a secret of another type", { ...BODY, s: [BODY.s] }],
      ["no secret", { ...BODY, s: undefined }],
      ["a further member", { ...BODY, role: "admin" }],
      ["a further member __proto__", JSON.parse(JSON.stringify(BODY).replace("{", '{"__proto__":{},'))],
    ] as [string, unknown][]).map(([name, body]): [string, string] => [
      name,
      `svcpair1_${toBase64Url(utf8Bytes(JSON.stringify(body)))}`,
    ]),
  ];
  for (const [name, text] of rows) await t.step(name, () => assertEquals(parseTicket(text), null));
});

Deno.test("ticket parsing returns the parts that were formatted", () => {
  const fields = fc.record({
    iss: fc.oneof(authority.map((host) => `https://${host}`), anyText),
    id: ulid,
    exp: fc.maxSafeNat(),
  });
  fc.assert(
    fc.property(fields, fc.uint8Array({ minLength: 24, maxLength: 24 }), (given, secret) => {
      const ticket = formatTicket(given, secret);
      assertEquals(parseTicket(ticket), { ticket, ...given });
      assertEquals(secretOf(ticket), new Uint8Array(secret));
    }),
    RUNS,
  );
});

Deno.test("ticket parsing returns a ticket or null for any text", () => {
  const text = fc.oneof(anyText, anyText.map((body) => `svcpair1_${toBase64Url(utf8Bytes(body))}`), fc.json());
  fc.assert(fc.property(text, (pastedText) => assertEquals(parseTicket(pastedText), null)), RUNS);
});

function secretOf(ticket: string): Uint8Array {
  const bytes = fromBase64Url(ticket.slice("svcpair1_".length)) ?? new Uint8Array();
  const { s } = JSON.parse(new TextDecoder().decode(bytes)) as { s: string };
  return fromBase64Url(s) ?? new Uint8Array();
}
