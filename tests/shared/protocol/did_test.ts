/**
 * Shows which texts are DIDs: one table for agents, humans and malformed texts. An accepted DID formats to the same
 * text, and an issuer URL can have its authority.
 */
import { assertEquals } from "@std/assert";
import fc from "fast-check";
import {
  authorityOf,
  type DidKind,
  formatDid,
  isAgentDid,
  isAuthority,
  isHumanDid,
  parseDid,
} from "../../../shared/protocol/did.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { steps } from "../../support/steps.ts";
import { anyText, authority, ulid } from "./arbitraries.ts";

const RUNS = { seed: 1, numRuns: 300 };
const ID = "01KHYQ5H00AAAAAAAAAAAAAAAA";
const LABEL_63 = "a".repeat(63);
const AUTHORITY_119 = `${LABEL_63}.${"b".repeat(55)}`;

const VALID: [authority: string, kind: DidKind, id: string][] = [
  ["registry.example.test", "agent", ID],
  ["registry.example.test", "human", ID],
  ["localhost", "agent", ID],
  ["a", "agent", ID],
  ["a.b.c.d.e.f", "agent", ID],
  ["127.0.0.1", "agent", ID],
  ["0.0.0.0", "agent", ID],
  ["255.255.255.255", "human", ID],
  ["3com.example", "agent", ID],
  ["1.2.3.4.example", "agent", ID],
  ["1a", "agent", ID],
  ["a-b.example", "agent", ID],
  ["a--b.example", "agent", ID],
  ["xn--bcher-kva.example", "agent", ID],
  [`${LABEL_63}.example`, "agent", ID],
  [AUTHORITY_119, "agent", ID],
  [AUTHORITY_119, "human", ID],
  ["example.test", "agent", "00000000000000000000000000"],
  ["example.test", "agent", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"],
];

const INVALID: [name: string, text: string][] = [
  ["nothing", ""],
  ["an authority of 120 characters", `did:svc:${AUTHORITY_119}b:agent:${ID}`],
  ["a label of 64 characters", `did:svc:${LABEL_63}a.example:agent:${ID}`],
  ["no authority", `did:svc::agent:${ID}`],
  ["an upper-case authority", `did:svc:Example.test:agent:${ID}`],
  ["a port", `did:svc:example.test:8787:agent:${ID}`],
  ["a percent-encoded port", `did:svc:example.test%3A8787:agent:${ID}`],
  ["a percent-encoded letter", `did:svc:ex%61mple.test:agent:${ID}`],
  ["an IPv6 address", `did:svc:[::1]:agent:${ID}`],
  ["an IPv6 address without colons", `did:svc:[2001-db8--1]:agent:${ID}`],
  ["an IPv4 address of three parts", `did:svc:127.0.1:agent:${ID}`],
  ["an IPv4 address of two parts", `did:svc:127.1:agent:${ID}`],
  ["an IPv4 address of five parts", `did:svc:1.2.3.4.5:agent:${ID}`],
  ["an IPv4 address as one number", `did:svc:2130706433:agent:${ID}`],
  ["an IPv4 octet of 256", `did:svc:1.2.3.256:agent:${ID}`],
  ["an IPv4 octet of four digits", `did:svc:1.2.3.1000:agent:${ID}`],
  ["an octal IPv4 octet", `did:svc:0177.0.0.1:agent:${ID}`],
  ["an IPv4 octet with a leading zero", `did:svc:127.0.0.01:agent:${ID}`],
  ["a hexadecimal IPv4 octet", `did:svc:0x7f.0.0.1:agent:${ID}`],
  ["a name whose last label is a number", `did:svc:example.1:agent:${ID}`],
  ["a trailing dot", `did:svc:example.test.:agent:${ID}`],
  ["a leading dot", `did:svc:.example.test:agent:${ID}`],
  ["an empty label", `did:svc:example..test:agent:${ID}`],
  ["an underscore", `did:svc:ex_ample.test:agent:${ID}`],
  ["a label that starts with a hyphen", `did:svc:-example.test:agent:${ID}`],
  ["a label that ends in a hyphen", `did:svc:example-.test:agent:${ID}`],
  ["a letter beyond ASCII", `did:svc:bücher.example:agent:${ID}`],
  ["a full-width letter", `did:svc:ｅxample.test:agent:${ID}`],
  ["a space in the authority", `did:svc:example .test:agent:${ID}`],
  ["user info", `did:svc:user@example.test:agent:${ID}`],
  ["a slash in the authority", `did:svc:example.test/x:agent:${ID}`],
  ["a scheme in the authority", `did:svc:https://example.test:agent:${ID}`],
  ["an upper-case scheme", `DID:svc:example.test:agent:${ID}`],
  ["another scheme", `dad:svc:example.test:agent:${ID}`],
  ["another method", `did:web:example.test:agent:${ID}`],
  ["an upper-case method", `did:SVC:example.test:agent:${ID}`],
  ["another kind", `did:svc:example.test:service:${ID}`],
  ["an upper-case kind", `did:svc:example.test:Agent:${ID}`],
  ["an inherited name as kind", `did:svc:example.test:constructor:${ID}`],
  ["no kind", `did:svc:example.test:${ID}`],
  ["an empty kind", `did:svc:example.test::${ID}`],
  ["six parts", `did:svc:example.test:agent:${ID}:x`],
  ["a colon at the end", `did:svc:example.test:agent:${ID}:`],
  ["four parts", "did:svc:example.test:agent"],
  ["no ULID", "did:svc:example.test:agent:"],
  ["a lower-case ULID", `did:svc:example.test:agent:${ID.toLowerCase()}`],
  ["a ULID of 25 characters", `did:svc:example.test:agent:${ID.slice(1)}`],
  ["a ULID of 27 characters", `did:svc:example.test:agent:${ID}A`],
  ["a ULID over 128 bits", "did:svc:example.test:agent:8ZZZZZZZZZZZZZZZZZZZZZZZZZ"],
  ["a ULID with a letter that Crockford leaves out", `did:svc:example.test:agent:${ID.slice(1)}U`],
  ["a fragment", `did:svc:example.test:agent:${ID}#key`],
  ["a query", `did:svc:example.test:agent:${ID}?x`],
  ["a path", `did:svc:example.test:agent:${ID}/x`],
  ["a leading space", ` did:svc:example.test:agent:${ID}`],
  ["a trailing space", `did:svc:example.test:agent:${ID} `],
  ["a line feed at the end", `did:svc:example.test:agent:${ID}\n`],
  ["a NUL", `did:svc:example\0.test:agent:${ID}`],
  ["two DIDs", `did:svc:example.test:agent:${ID},did:svc:example.test:agent:${ID}`],
  ["100 KiB", `did:svc:${"a.".repeat(51_200)}test:agent:${ID}`],
];

Deno.test("DID parsing reads every valid DID", async (t) => {
  for (const [host, kind, id] of VALID) {
    const text = `did:svc:${host}:${kind}:${id}`;
    await t.step(text, () => {
      assertEquals(parseDid(text), { authority: host, kind, id });
      assertEquals(isAgentDid(text), kind === "agent");
      assertEquals(isHumanDid(text), kind === "human");
    });
  }
});

Deno.test("DID parsing refuses each malformed DID", async (t) => {
  await steps(t, INVALID, ([, text]) => {
    assertEquals(parseDid(text), null);
    assertEquals(isAgentDid(text), false);
    assertEquals(isHumanDid(text), false);
  });
});

Deno.test("DID parsing refuses a host that URLs read as a hexadecimal IPv4 address or as nothing", async (t) => {
  await steps(t, ["0x7f000001", "127.0.0.0x1", "example.0x1", "example.0x"], (host) => {
    assertEquals(authorityOf(`https://${host}`) === host, false);
    assertEquals(parseDid(`did:svc:${host}:agent:${ID}`), null);
  });
});

Deno.test("the DID checks are false for a value that is not a text", () => {
  for (const value of [undefined, null, 1, true, {}, [`did:svc:localhost:agent:${ID}`]]) {
    assertEquals([isAgentDid(value), isHumanDid(value)], [false, false]);
  }
});

Deno.test("DID parsing returns the parts that were formatted", () => {
  const did = fc.record({ authority, kind: fc.constantFrom<DidKind>("agent", "human"), id: ulid });
  fc.assert(fc.property(did, (parts) => assertEquals(parseDid(formatDid(parts)), parts)), RUNS);
});

Deno.test("DID parsing accepts one text only for the same DID", () => {
  const nearly = fc.tuple(fc.constantFrom("did", "Did"), fc.oneof(authority, anyText), fc.string(), ulid)
    .map(([scheme, host, kind, id]) => `${scheme}:svc:${host}:${kind}:${id}`);
  fc.assert(
    fc.property(fc.oneof(nearly, anyText), (text) => {
      const did = parseDid(text);
      assertEquals(did === null ? text : formatDid(did), text);
    }),
    RUNS,
  );
});

Deno.test("the longest DID fills the identity block's field exactly", () => {
  assertEquals(`did:svc:${AUTHORITY_119}:agent:${ID}`.length, LIMITS.identityAgentDid);
  assertEquals(`did:svc:${AUTHORITY_119}:human:${ID}`.length, LIMITS.identityOwnerDid);
});

Deno.test("the authority of an issuer is its host name, or null", async (t) => {
  const rows: [issuer: string, expected: string | null][] = [
    ["https://registry.example.test", "registry.example.test"],
    ["https://registry.example.test:8443", "registry.example.test"],
    ["https://REGISTRY.Example.Test", "registry.example.test"],
    ["http://localhost:8787", "localhost"],
    ["http://127.0.0.1:8787", "127.0.0.1"],
    ["http://0x7f000001:8787", "127.0.0.1"],
    ["http://127.1", "127.0.0.1"],
    ["https://bücher.example", "xn--bcher-kva.example"],
    [`https://${AUTHORITY_119}`, AUTHORITY_119],
    [`https://${AUTHORITY_119}b`, null],
    ["http://[::1]:8787", null],
    ["http://[::ffff:127.0.0.1]", null],
    ["https://registry.example.test.", null],
    ["https://reg_istry.example.test", null],
    ["https://1.2.3.4.5", null],
    ["mailto:a@example.test", null],
    ["file:///etc", null],
    ["registry.example.test", null],
    ["", null],
  ];
  for (const [issuer, expected] of rows) {
    await t.step(issuer || "(empty)", () => assertEquals(authorityOf(issuer), expected));
  }
});

Deno.test("the authority of an issuer with a valid authority is that authority", () => {
  fc.assert(
    fc.property(authority, fc.integer({ min: 1, max: 65_535 }), (host, port) => {
      assertEquals([isAuthority(host), authorityOf(`https://${host}:${port}`)], [true, host]);
    }),
    RUNS,
  );
});
