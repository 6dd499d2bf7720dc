/**
 * Headers of any client: each parser says the same as a plain reading of the rule, for any text, and the largest text ends
 * in bounded work.
 */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { prefersAsync } from "../../../../proxy/message/request.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { HEADERS } from "../../../../shared/protocol/proof.ts";
import { declaredBytes } from "../../../../shared/server/http/body.ts";
import { clientBucket, TrustedProxies } from "../../../../shared/server/http/client_ip.ts";
import type { RequestContext } from "../../../../shared/server/http/route.ts";
import { authorizationToken, requestTimestamp } from "../../../../shared/server/http/signed_request.ts";

/** The longest head of a request that the runtime accepts, bytes. */
const HEAD_BYTES = 65_536;

/** What a header may hold: visible ASCII, spaces and tabs, none of them at an end. */
const headerValue = fc.stringMatching(/^[\t\x20-\x7e]{0,80}$/).map((text) => text.trim());
const withHeader = (name: string, value: string) =>
  ({ request: new Request("https://x.example", { headers: { [name]: value } }) }) as RequestContext;

const trusted = new TrustedProxies(["10.0.0.0/8", "2001:db8:f::/48"]);
const PROXIES = ["10.0.0.1", "10.255.0.9", "2001:db8:f::1", "::ffff:10.0.0.1"] as const;
const OTHERS = [["192.0.2.7", "192.0.2.7"], ["2001:db8::5", "2001:db8:0:0::/64"]] as const;

Deno.test("behind any chain of trusted proxies a client counts as the last address that is none, with any text before it", () => {
  const chain = fc.array(fc.constantFrom(...PROXIES), { maxLength: 4 });
  fc.assert(fc.property(headerValue, fc.constantFrom(...OTHERS), chain, (invented, [client, bucket], proxies) => {
    const hops = [invented, client, ...proxies].join(", ");
    assertEquals(clientBucket({ from: "socket", address: PROXIES[0] }, hops, trusted), bucket);
    // A header of a client that comes directly counts for nothing.
    assertEquals(clientBucket({ from: "socket", address: client }, hops, trusted), bucket);
  }));
  fc.assert(fc.property(headerValue, (hops) => {
    const bucket = clientBucket({ from: "socket", address: PROXIES[0] }, hops, trusted);
    assert(/^(?:unknown|[0-9.]{7,15}|[0-9a-f:]{9,24}\/64)$/.test(bucket), bucket);
  }));
});

Deno.test("a header of trusted addresses only, as long as a head may be, is looked at once for each of them", () => {
  const hops = Array<string>(Math.floor(HEAD_BYTES / 9)).fill("10.0.0.1");
  let looks = 0;
  const counting = { has: (address: string) => (looks++, trusted.has(address)) } as unknown as TrustedProxies;
  assertEquals(clientBucket({ from: "socket", address: PROXIES[0] }, hops.join(","), counting), "10.0.0.1");
  assert(looks <= hops.length + 2, `${looks} looks`);
});

Deno.test("an Authorization header is its scheme and one token, or it gives none", () => {
  const token = fc.stringMatching(/^[\x21-\x2b\x2d-\x7e]{1,40}$/), spaces = fc.nat(3).map((n) => " ".repeat(1 + n));
  const scheme = fc.constantFrom("Svc", "svc", "SVC", "sVc");
  fc.assert(fc.property(scheme, spaces, token, (scheme, gap, token) => {
    const { headers } = withHeader(HEADERS.authorization, scheme + gap + token).request;
    assertEquals([authorizationToken(headers, "Svc"), authorizationToken(headers, "Bearer")], [token, ""]);
  }));
  fc.assert(fc.property(headerValue, (value) => {
    const found = authorizationToken(withHeader(HEADERS.authorization, value).request.headers, "Svc") ?? "";
    assert(!/[\s,]/.test(found) && value.endsWith(found), found);
    if (found !== "") assertEquals(/^svc +/i.exec(value)?.[0].length, value.length - found.length);
  }));
});

Deno.test("a timestamp counts in its one decimal form and within 300 s, for any text", () => {
  const now = 1_771_632_060, near = fc.integer({ min: -1_000, max: 1_000 });
  fc.assert(fc.property(near, fc.constantFrom("", "0", "+", " ", "1e0"), (off, more) => {
    const found = requestTimestamp(
      withHeader(HEADERS.timestamp, `${more === "1e0" ? "" : more}${now + off}`),
      now * 1000 + 999,
    );
    const isPlain = more === "" || more === " " || more === "1e0";
    assertEquals(found, !isPlain ? "invalid" : Math.abs(off) > LIMITS.timestampSkewSeconds ? "skew" : now + off);
  }));
  fc.assert(fc.property(headerValue, (value) => {
    const found = requestTimestamp(withHeader(HEADERS.timestamp, value), now * 1000);
    assert(found === "invalid" || /^(?:0|[1-9]\d{0,15})$/.test(value), value);
  }));
});

Deno.test("a declared length is a number of bytes or counts as not declared, for any text", () => {
  fc.assert(fc.property(fc.oneof(headerValue, fc.bigInt({ min: 0n, max: 10n ** 20n }).map(String)), (value) => {
    const { headers } = withHeader("Content-Length", value).request;
    const length = declaredBytes({ headers, body: {} } as Request);
    assert(
      length === null || Number.isInteger(length) && length >= 0 && Number(value) === length,
      `${value}: ${length}`,
    );
  }));
});

Deno.test("a Prefer header asks for a queue only with that word outside quotes, and is read up to its bound", () => {
  const plain = fc.constantFrom("wait=5", "return=minimal", "", "respond-asynchronously");
  const other = fc.oneof(plain, fc.constantFrom('x="respond-async, y"', String.raw`z="\", respond-async"`));
  fc.assert(fc.property(fc.array(other, { maxLength: 5 }), fc.nat(5), (list, at) => {
    const value = [...list.slice(0, at), "Respond-Async;q=1", ...list.slice(at)].join(", ");
    assertEquals([prefersAsync(value), prefersAsync(list.join(", "))], [value.length <= LIMITS.preferLength, false]);
  }));
  // An open quote takes everything behind it.
  fc.assert(fc.property(fc.array(plain, { maxLength: 5 }), (list) => {
    assertEquals(prefersAsync(['"', ...list, "respond-async"].join(", ")), false);
  }));
  assertEquals(prefersAsync(`respond-async${",".repeat(HEAD_BYTES)}`), false);
});
