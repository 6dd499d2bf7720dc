/** Shows which origins may be issuers of visiting agents (D-280), and what `FEDERATION` may say. */
import { assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { federationRules, IssuerPolicy } from "../../../proxy/issuer_policy.ts";
import { webAddress } from "../../shared/protocol/arbitraries.ts";

const place = { registryUrl: "https://a.example", environment: "production" } as const;
const accepts = (text: string, issuer: string, more: Partial<Parameters<typeof policy>[1]> = {}) =>
  policy(text, more).accepts(issuer);

function policy(text: string, more: { environment?: "local" | "production"; registryUrl?: string } = {}) {
  return new IssuerPolicy({ ...place, ...more, federation: federationRules(text) });
}

Deno.test("an issuer is an https origin that is a DNS name and nothing else, and never this server's own", () => {
  const cases: [issuer: string, authority: string | null][] = [
    ["https://b.example", "b.example"],
    ["https://xn--80ak6aa92e.example", "xn--80ak6aa92e.example"],
    ["https://a.example", null],
    ["http://b.example", null],
    ["https://b.example/", null],
    ["https://b.example:443", null],
    ["https://b.example:8443", null],
    ["https://B.example", null],
    ["https://b.example.", null],
    ["https://b", null],
    ["https://localhost", null],
    ["https://192.0.2.7", null],
    ["https://[2001:db8::1]", null],
    ["https://0x7f000001", null],
    ["https://b.example/path", null],
    ["https://u@b.example", null],
    ["https://аpple.example", null],
    [`https://${"b".repeat(65_536)}.example`, null],
    [`https://${"b.".repeat(70)}example`, null],
    ["http://127.0.0.2:8787", null],
    ["", null],
  ];
  for (const [issuer, authority] of cases) assertEquals(accepts("on", issuer), authority, issuer.slice(0, 80));
});

Deno.test("with ENVIRONMENT=local a loopback origin with a port is an issuer too", () => {
  const local = { environment: "local", registryUrl: "http://127.0.0.1:8787" } as const;
  assertEquals(accepts("on", "http://127.0.0.2:8787", local), "127.0.0.2");
  assertEquals(accepts("on", "http://localhost:8788", local), "localhost");
  assertEquals(accepts("on", "http://127.0.0.1:9999", local), null, "the own authority at another port");
  assertEquals(accepts("on", "http://10.0.0.1:8787", local), null);
  assertEquals(policy("on", local).acceptsAuthority("127.0.0.2"), true);
  assertEquals(policy("on").acceptsAuthority("127.0.0.2"), false);
});

Deno.test("FEDERATION accepts all, none, those that it names, or all but those", () => {
  const cases: [text: string, b: boolean, c: boolean][] = [
    ["on", true, true],
    ["off", false, false],
    ["b.example", true, false],
    ["b.example, c.example", true, true],
    ["on,-b.example", false, true],
    ["on,-b.example,-c.example", false, false],
  ];
  for (const [text, b, c] of cases) {
    assertEquals(
      [accepts(text, "https://b.example") !== null, accepts(text, "https://c.example") !== null],
      [b, c],
      text,
    );
  }
  for (
    const text of [
      ",",
      "on,b.example",
      "-b.example",
      "off,b.example",
      "https://b.example",
      "b.example:443",
      "B.example",
      "on,-",
    ]
  ) {
    assertThrows(() => federationRules(text), TypeError, "must be on, off", text);
  }
});

Deno.test("no text makes the policy throw, and what it accepts is https with its authority", () => {
  fc.assert(fc.property(fc.oneof(fc.string(), webAddress, fc.domain().map((name) => `https://${name}`)), (text) => {
    const authority = accepts("on", text);
    if (authority !== null) assertEquals(`https://${authority}`, text);
  }));
});
