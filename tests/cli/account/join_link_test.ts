/** Join links: the vectors, a round trip, any other text, and the longest texts. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import fc from "fast-check";
import { fieldsOf, joinLink, joinWords, parseJoinLink, ticketOf } from "../../../cli/account/join_link.ts";
import { toBase64Url } from "../../../shared/protocol/base64url.ts";
import { CliError } from "../../../cli/errors.ts";
import { parseTicket } from "../../../shared/protocol/ticket.ts";
import { makeSecret } from "../../../shared/protocol/secrets.ts";
import { anyText, authority } from "../../shared/protocol/arbitraries.ts";
import { vectors } from "../../support/vectors.ts";

const RUNS = { seed: 1, numRuns: 300 };
const { valid, invalid } = vectors("join-link");
const [first] = valid;
if (!first) throw new Error("join-link.json has no valid link");

/** The message of a refusal; `null` when the link is accepted. */
function refusal(link: string): string | null {
  try {
    parseJoinLink(link);
    return null;
  } catch (error) {
    assert(error instanceof CliError);
    assertEquals(error.code, "CLI_USAGE");
    return `${error.message} ${error.fix}`;
  }
}

Deno.test("join link parsing reads the valid vectors", async (t) => {
  for (const { link, registryUrl, code, ticketFields = null } of valid) {
    await t.step(JSON.stringify(link), () => assertEquals(parseJoinLink(link), { registryUrl, code, ticketFields }));
  }
});

Deno.test("join link parsing refuses each invalid vector with its reason and does not repeat the link", async (t) => {
  for (const { name, link, reason } of invalid) {
    await t.step(name, () => {
      const message = refusal(link) ?? "";
      assertStringIncludes(message, reason);
      assert(!message.includes(first.code) && !message.includes("registry.example.test"), message);
    });
  }
});

Deno.test("join link parsing returns the parts that were formatted", () => {
  const origin = fc.tuple(fc.constantFrom("http", "https"), authority, fc.option(fc.integer({ min: 1, max: 65_535 })))
    .map(([scheme, host, port]) => `${scheme}://${host}${port === null ? "" : `:${port}`}`)
    .filter((text) => URL.canParse(text)).map((text) => new URL(text).origin);
  const code = fc.uint8Array({ minLength: 24, maxLength: 24 }).map((bytes) => makeSecret("invite", () => bytes));
  const secret = fc.uint8Array({ minLength: 16, maxLength: 16 }).map(toBase64Url);
  const ticketFields = fc.tuple(secret, fc.oneof(secret, fc.constant("-"))).map((fields) => fields.join("."));
  fc.assert(
    fc.property(
      origin,
      code,
      fc.option(ticketFields),
      fc.array(fc.nat(200)),
      (registryUrl, code, ticketFields, breaks) => {
        const parts = { registryUrl, code, ticketFields };
        const link = joinLink(parts);
        assertEquals(parseJoinLink(link), parts);
        // A mail has broken it, and a person has copied the indentation.
        const broken = breaks.toSorted((a, b) => b - a)
          .reduce((text, at) => `${text.slice(0, at % link.length)}\n  ${text.slice(at % link.length)}`, link);
        assertEquals(parseJoinLink(broken), parts);
      },
    ),
    { ...RUNS, numRuns: 100 },
  );
});

Deno.test("join link parsing reads or refuses any text, and reads only texts that name the same registry", () => {
  const piece = fc.oneof(
    anyText,
    fc.constantFrom("https://", "http://", "registry.example.test", "/join", "#", "?", "@", ":", "\\", first.code),
  );
  const text = fc.oneof(anyText, fc.array(piece, { maxLength: 8 }).map((pieces) => pieces.join("")));
  fc.assert(
    fc.property(text, (link) => {
      if (refusal(link) !== null) return;
      const { registryUrl, code, ticketFields } = parseJoinLink(link);
      const url = new URL(link.split(/\s+/).join(""));
      assertEquals([url.origin, url.pathname, url.search, ticketFields], [registryUrl, "/join", "", null]);
      // Punctuation behind the link does not count.
      assert(url.hash.startsWith(`#${code}`) && !/[\w-]/.test(url.hash.slice(code.length + 1)), url.hash);
      assertEquals([url.username, url.password], ["", ""]);
    }),
    { ...RUNS, numRuns: 2_000 },
  );
});

Deno.test("join link parsing reads at most 512 characters when the text is long", () => {
  for (const unit of ["a", "/", "@", "#", "?", " ", "\\", "%", ":", "[", "svc_inv_"]) {
    for (const head of ["", "https://", "https://x/join#", "https://x/join#svc_inv_"]) {
      assertStringIncludes(refusal(head + unit.repeat(1_000_000)) ?? "", "more than 512 characters");
    }
  }
});

Deno.test("the command of an invite has a switch when the registry uses plain http on another machine", () => {
  const words = (registryUrl: string) => joinWords({ registryUrl, code: first.code, ticketFields: null }).slice(2);
  for (const origin of ["https://registry.example.test", "http://127.0.0.1:8787", "http://localhost:8787"]) {
    assertEquals(words(origin), []);
  }
  assertEquals(words("http://192.168.1.20:8787"), ["--allow-insecure"]);
});

Deno.test("the pairing part of a link is that of a ticket, whole or not at all", () => {
  const fields = "AAECAwQFBgcICQoLDA0ODw.BwcHBwcHBwcHBwcHBwcHBw";
  const link = (end: string) => `https://registry.example.test/join#${first.code}${end}`;
  assertEquals(parseJoinLink(link(`.${fields}`)).ticketFields, fields);
  for (
    const cut of [".A", ".AAECAwQFBgcICQoLDA0ODw", `.${fields.slice(0, -1)}`, `.${fields}.x`, `.${fields}A`, "..-"]
  ) {
    assertStringIncludes(refusal(link(cut)) ?? "accepted", "pairing part is not whole", cut);
  }
  // Broken before its pairing part, and cut.
  assertStringIncludes(refusal(link(`\n.${fields.slice(0, -1)}`)) ?? "accepted", "pairing part is not whole");
  const parsed = parseJoinLink(link(`.${fields}`));
  assertEquals(ticketOf(parsed, "https://proxy.example.test:8443"), `svcpair1_${fields}.proxy.example.test:8443`);
  const ticket = parseTicket(`svcpair1_${fields}.[::1]:8787`);
  assertEquals([ticket && fieldsOf(ticket), ticketOf(parseJoinLink(link("")), "https://x.test")], [fields, null]);
});
