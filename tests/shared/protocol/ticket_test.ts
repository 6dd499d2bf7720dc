/**
 * Shows how pairing tickets are formatted and parsed (D-26): the vectors, a round trip, and malformed texts. White
 * space and backticks around a pasted ticket are ignored.
 */
import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { toBase64Url } from "../../../shared/protocol/base64url.ts";
import { formatTicket, isTicketOf, parseTicket } from "../../../shared/protocol/ticket.ts";
import { vectors } from "../../support/vectors.ts";
import { anyText, authority } from "./arbitraries.ts";

const RUNS = { seed: 1, numRuns: 300 };
const { valid, pasted, invalid } = vectors("ticket");
const [first] = valid;
if (!first) throw new Error("ticket.json has no valid ticket");

Deno.test("ticket parsing reads the valid vectors", () => {
  for (const vector of valid) assertEquals(parseTicket(vector.ticket), vector);
});

Deno.test("ticket formatting writes the plain form of the valid vectors", () => {
  const secret = Uint8Array.from({ length: 16 }, (_, i) => i);
  for (const { plain, origin } of valid) assertEquals(formatTicket(origin, secret), plain);
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
    ["white space inside", first.ticket.replace(".", ". ")],
    ["quotes around it", `"${first.ticket}"`],
    ["two tickets", `${first.ticket} ${first.ticket}`],
    ["two tickets without a space", first.ticket + first.ticket],
    ["10 KiB", `svcpair1_${"A".repeat(10_240)}`],
    ["10 KiB of blanks in front", " ".repeat(10_240) + first.ticket],
    ["a host of 2 KiB", `${first.ticket}.${"a.".repeat(1_024)}a`],
  ];
  for (const [name, text] of rows) await t.step(name, () => assertEquals(parseTicket(text), null));
});

Deno.test("ticket parsing returns the parts that were formatted, and takes a long form for the same plain one", () => {
  const host = authority.filter((text) => URL.canParse(`https://${text}`)).map((text) =>
    new URL(`https://${text}`).host
  );
  const bytes = fc.uint8Array({ minLength: 16, maxLength: 16 });
  fc.assert(
    fc.property(host, bytes, bytes, (own, secret, pair) => {
      fc.pre(!/\.(?::\d+)?$/.test(own));
      const plain = formatTicket(`https://${own}`, secret);
      assertEquals(partsOf(plain), [plain, plain, null, own]);
      const pairSecret = toBase64Url(pair);
      const ticket = plain.replace(".-.", `.${pairSecret}.`);
      assertEquals(partsOf(ticket), [ticket, plain, pairSecret, own]);
    }),
    RUNS,
  );
});

Deno.test("a ticket belongs to a proxy of the same authority, with any scheme", () => {
  const cases: [authority: string, proxyUrl: string, isOwn: boolean][] = [
    ["a.example", "https://a.example", true],
    ["a.example", "http://a.example", true],
    ["a.example", "https://a.example:8443", false],
    ["a.example", "https://b.example", false],
    ["10.0.0.1:8787", "http://10.0.0.1:8787", true],
  ];
  for (const [authority, proxyUrl, isOwn] of cases) assertEquals(isTicketOf({ authority }, proxyUrl), isOwn);
});

Deno.test("ticket parsing returns a ticket or null for any text", () => {
  const text = fc.oneof(anyText, anyText.map((body) => `svcpair1_${body}`), fc.json());
  fc.assert(fc.property(text, (pastedText) => assertEquals(parseTicket(pastedText), null)), RUNS);
});

function partsOf(text: string): unknown[] {
  const parsed = parseTicket(text);
  return [parsed?.ticket, parsed?.plain, parsed?.pairSecret, parsed?.authority];
}
