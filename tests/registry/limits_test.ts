/**
 * Shows the registry's limits (D-49): exactly the stated number in any minute, counted for each address and key, the
 * address behind proxies, and the exempt callers.
 */
import { assertEquals } from "@std/assert";
import {
  answered,
  moveTo,
  openRegistry,
  outcome,
  refresh,
  refused,
  restart,
  serviceHeaders,
  tally,
  validate,
} from "../support/registry_world.ts";
import type { World } from "../support/world.ts";

const RESOLVE = "/v1/resolve/01KHYQ5H00AAAAAAAAAAAAAAAA";
const OVER = "429 RATE_LIMIT_EXCEEDED", UNDER = "404 AGENT_NOT_FOUND";

/** Sends one of ten requests a minute, as from this socket and with this forwarding header. */
async function request(w: World, address: string | null, forwardedFor?: string): Promise<string> {
  w.peer = { from: "socket", address };
  const headers: Record<string, string> = forwardedFor === undefined ? {} : { "X-Forwarded-For": forwardedFor };
  return await outcome(await w.ask("GET", RESOLVE, { headers }));
}

/** Uses the ten requests of a caller. Returns whether another caller shares them. */
async function share(w: World, one: (string | null)[], two: (string | null)[]): Promise<boolean> {
  await w.clock.advance(60_000);
  const [address = null, forwarded] = one;
  for (let i = 0; i < 10; i++) assertEquals(await request(w, address, forwarded ?? undefined), UNDER);
  assertEquals(await request(w, address, forwarded ?? undefined), OVER);
  const [other = null, otherForwarded] = two;
  return await request(w, other, otherForwarded ?? undefined) === OVER;
}

Deno.test("Retry-After is the first whole second at which a request is accepted; refused ones do not count", async () => {
  await using w = await openRegistry();
  const start = w.clock.now();
  for (let i = 0; i < 10; i++) {
    assertEquals(await request(w, "192.0.2.7"), UNDER);
    await w.clock.advance(1500);
  }
  for (let i = 0; i < 10; i++) assertEquals(await request(w, "192.0.2.7"), OVER);
  const answer = await w.ask("GET", RESOLVE);
  const seconds = Number(answer.headers.get("retry-after"));
  assertEquals(seconds, Math.ceil((start + 60_000 - w.clock.now()) / 1000));
  await refused(answer, "RATE_LIMIT_EXCEEDED");
  await w.clock.advance(seconds * 1000 - 1);
  assertEquals(w.clock.now(), start + 59_999);
  assertEquals(await request(w, "192.0.2.7"), OVER);
  await w.clock.advance(1);
  assertEquals(await request(w, "192.0.2.7"), UNDER);
  assertEquals(await request(w, "192.0.2.7"), OVER);
});

Deno.test("exactly the limit of 40 concurrent requests pass at two instances, also after a restart", async () => {
  await using w = await openRegistry();
  assertEquals(await tally(Array.from({ length: 40 }, () => w.ask("GET", RESOLVE))), { [UNDER]: 10, [OVER]: 30 });
  await restart(w);
  assertEquals(await request(w, "192.0.2.1"), OVER);
  await using other = await openRegistry({ kv: w.kv, seed: 2 });
  for (let round = 0; round < 3; round++) {
    moveTo(w, round);
    moveTo(other, round);
    const answers = Array.from({ length: 40 }, (_, i) => (i % 2 ? w : other).ask("GET", RESOLVE));
    assertEquals(await tally(answers), { [UNDER]: 10, [OVER]: 30 });
  }
});

Deno.test("the 31st revocation list in a minute is 429, except for a service with its scope and the process", async () => {
  await using w = await openRegistry();
  const get = (headers = {}) => w.ask("GET", "/v1/crl", { headers });
  assertEquals(await tally(Array.from({ length: 31 }, () => get())), { "404 CRL_NOT_FOUND": 30, [OVER]: 1 });
  const credential = await serviceHeaders(w, "crl.read");
  const counts = await tally(Array.from({ length: 31 }, () => get(credential)));
  assertEquals(counts, { "404 CRL_NOT_FOUND": 31 });
  w.peer = { from: "process" };
  assertEquals(await tally(Array.from({ length: 31 }, () => get())), { "404 CRL_NOT_FOUND": 31 });
});

Deno.test("validations are limited to 120 a minute, except for a service with the scope", async () => {
  await using w = await openRegistry();
  const a = await w.agent();
  const ask = (more = {}) => validate(w, a, a.agentAuth.accessToken, more);
  assertEquals(await tally(Array.from({ length: 121 }, () => ask())), { "204": 120, [OVER]: 1 });
  const credential = await serviceHeaders(w, "auth.validate");
  assertEquals(await tally(Array.from({ length: 121 }, () => ask(credential))), { "204": 121 });
  await w.clock.advance(60_000);
  await refused(await ask({ ...credential, "X-Svc-Service-Secret": "x" }), "INTERNAL_SERVICE_UNAUTHORIZED");
});

Deno.test("the 21st refresh in a minute is 429, and its token is still valid after the minute", async () => {
  await using w = await openRegistry();
  const a = await w.agent();
  for (let i = 0; i < 20; i++) await refused(await refresh(w, a, "unknown"), "AGENT_AUTH_REFRESH_INVALID", 401);
  const request = await refresh(w, a, a.agentAuth.refreshToken, { nonce: "N".repeat(20) });
  await refused(request, "RATE_LIMIT_EXCEEDED");
  await w.clock.advance(60_000);
  await answered(await refresh(w, a, a.agentAuth.refreshToken, { nonce: "N".repeat(20) }));
});

Deno.test("redemption is limited to 60 unknown codes a minute for an address, without used codes and successes", async () => {
  await using w = await openRegistry();
  const admin = await w.admin();
  const redeem = (code: string) => w.ask("POST", "/v1/invites/redeem", { body: { code } });
  const codes: string[] = [];
  for (let i = 0; i < 32; i++) codes.push((await w.client.createInvite(admin.apiKey)).invite.code);
  const [last = "", ...others] = codes;
  assertEquals(await tally(others.map(redeem)), { "201": 31 });
  assertEquals(await tally(others.map(redeem)), { "409 INVITE_REDEEM_ALREADY_USED": 31 });
  assertEquals(await tally(others.map(() => w.ask("POST", "/v1/invites/redeem", { body: "{" }))), {
    "400 INVITE_REDEEM_INVALID": 31,
  });
  const guesses = await tally(Array.from({ length: 80 }, (_, i) => redeem(`svc_inv_guess${i}`)));
  assertEquals(guesses, { "400 INVITE_REDEEM_CODE_INVALID": 60, [OVER]: 20 });
  await refused(await redeem(last), "RATE_LIMIT_EXCEEDED");
  moveTo(w, 9);
  await answered(await redeem(last), 201);
});

Deno.test("each human has the configured requests a minute over all routes, keys and addresses", async () => {
  await using w = await openRegistry({ registry: { apiKeyRequestsPerMinute: 20 } });
  const { apiKey } = await w.person();
  const made = await w.ask("POST", "/v1/me/api-keys", { apiKey });
  const { apiKey: { token } } = await answered<{ apiKey: { token: string } }>(made, 201);
  const paths = ["/v1/me", "/v1/agents", "/v1/me/api-keys"];
  const ask = (key: string, i: number) => {
    moveTo(w, i);
    return w.ask("GET", paths[i % 3] ?? "", { apiKey: key });
  };
  assertEquals(await tally(Array.from({ length: 30 }, (_, i) => ask(apiKey, i))), { "200": 19, [OVER]: 11 });
  assertEquals(await tally(Array.from({ length: 10 }, (_, i) => ask(token, i))), { [OVER]: 10 });
  const other = await ask((await w.person()).apiKey, 0);
  assertEquals(other.headers.get("ratelimit-policy"), '"api-key";q=20;w=60');
  await answered(other);
  await refused(await w.ask("GET", "/v1/me", { apiKey: `${apiKey}x` }), "API_KEY_INVALID");
  await w.clock.advance(60_000);
  await answered(await w.ask("GET", "/v1/me", { apiKey }));
});

Deno.test("a request counts for its peer or for the hop before the trusted proxies", async (t) => {
  await using w = await openRegistry({ trustedProxies: ["10.0.0.0/8", "192.0.2.1", "2001:db8:ffff::/48"] });
  const rows: [what: string, one: (string | null)[], two: (string | null)[], shared: boolean][] = [
    ["the same address", ["198.51.100.1"], ["198.51.100.1"], true],
    ["another address", ["198.51.100.1"], ["198.51.100.2"], false],
    ["a header from an untrusted peer", ["198.51.100.1", "203.0.113.1"], ["198.51.100.1", "203.0.113.2"], true],
    [
      "a header with the address of a trusted proxy",
      ["198.51.100.1", "10.0.0.1"],
      ["198.51.100.1", "203.0.113.2, 10.0.0.1"],
      true,
    ],
    ["two clients behind a trusted proxy", ["10.0.0.1", "203.0.113.1"], ["10.0.0.1", "203.0.113.2"], false],
    ["one client behind two trusted proxies", ["10.0.0.1", "203.0.113.1"], ["10.9.9.9", "203.0.113.1"], true],
    ["forged addresses are on the left", ["10.0.0.1", "1.1.1.1, 203.0.113.1"], [
      "10.0.0.1",
      "2.2.2.2,203.0.113.1",
    ], true],
    [
      "a chain of trusted proxies",
      ["10.0.0.1", "203.0.113.1, 10.0.0.2, 192.0.2.1"],
      ["192.0.2.1", "203.0.113.1"],
      true,
    ],
    [
      "an untrusted proxy in the chain is the client",
      ["10.0.0.1", "203.0.113.1, 8.8.8.8, 10.0.0.2"],
      ["8.8.8.8"],
      true,
    ],
    ["behind a proxy and directly from the same address", ["10.0.0.1", "203.0.113.1"], ["203.0.113.1"], true],
    ["a trusted proxy without the header", ["10.0.0.1"], ["10.0.0.1"], true],
    ["hops that are not addresses share one", ["10.0.0.1", "unknown"], ["10.0.0.2", "_hidden"], true],
    ["an IPv6 /64", ["2001:db8:1:2::1"], ["2001:db8:1:2:ffff:ffff:ffff:ffff"], true],
    ["an IPv6 /64 behind a trusted IPv6 proxy", ["2001:db8:ffff::9", "2001:db8:1:2::1"], ["2001:db8:1:2::5"], true],
    ["unknown peers share one", [null], [null], true],
    ["an unknown peer's header is ignored", [null, "203.0.113.1"], [null, "203.0.113.2"], true],
  ];
  for (const [what, one, two, shared] of rows) {
    await t.step(what, async () => assertEquals(await share(w, one, two), shared));
  }
});

Deno.test("many addresses are counted without waiting for each other", async () => {
  await using w = await openRegistry();
  const answers = Array.from({ length: 200 }, (_, i) => {
    moveTo(w, i % 20);
    return w.ask("GET", RESOLVE);
  });
  assertEquals(await tally(answers), { [UNDER]: 200 });
});
