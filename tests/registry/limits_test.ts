/**
 * Shows the registry's limits (D-49): exactly the stated number in any minute, counted for each address and key, the
 * address behind proxies, and the exempt callers.
 */
import { assert, assertEquals } from "@std/assert";
import type { Peer } from "../../shared/server/http/client_ip.ts";
import {
  answered,
  moveTo,
  openRegistry,
  outcome,
  refresh,
  refused,
  restart,
  tally,
  validate,
} from "../support/registry_world.ts";
import { seededRandom } from "../support/seeded_random.ts";
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

Deno.test("the sliding window accepts random arrivals over ten minutes exactly as a model does", async () => {
  await using w = await openRegistry();
  const random = seededRandom(7);
  const taken: number[] = [];
  for (let i = 0; i < 1000; i++) {
    const [a = 0, b = 0] = random.bytes(2);
    w.clock.step(a < 100 ? 0 : a < 200 ? b : b * 20);
    const now = w.clock.now();
    const allowed = taken.filter((at) => at > now - 60_000).length < 10;
    if (allowed) taken.push(now);
    assertEquals(await request(w, "192.0.2.7"), allowed ? UNDER : OVER, `arrival ${i}`);
  }
  assert(taken.length > 50 && taken.length < 1000);
});

Deno.test("Retry-After is the first whole second at which a request is accepted; refused ones do not count", async () => {
  await using w = await openRegistry();
  const start = w.clock.now();
  for (let i = 0; i < 10; i++) {
    assertEquals(await request(w, "192.0.2.7"), UNDER);
    await w.clock.advance(1500);
  }
  for (let i = 0; i < 100; i++) assertEquals(await request(w, "192.0.2.7"), OVER);
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

Deno.test("the RateLimit header counts down with every request", async () => {
  await using w = await openRegistry();
  for (let left = 9; left >= 0; left--) {
    const answer = await w.ask("GET", RESOLVE);
    assertEquals(answer.headers.get("ratelimit"), `"resolve";r=${left};t=60`);
    assertEquals(answer.headers.get("ratelimit-policy"), '"resolve";q=10;w=60');
    assertEquals(answer.headers.get("retry-after"), null);
    await answer.body?.cancel();
  }
});

Deno.test("exactly the limit of 100 concurrent requests pass at two instances, also after a restart", async () => {
  await using w = await openRegistry();
  assertEquals(await tally(Array.from({ length: 100 }, () => w.ask("GET", RESOLVE))), { [UNDER]: 10, [OVER]: 90 });
  await restart(w);
  assertEquals(await request(w, "192.0.2.1"), OVER);
  await using other = await openRegistry({ kv: w.kv, seed: 2 });
  for (let round = 0; round < 5; round++) {
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
  const body = { name: "relay", scopes: ["crl.read"] };
  const made = await w.ask("POST", "/v1/admin/internal-services", { apiKey: (await w.admin()).apiKey, body });
  const { internalService: { id, secret } } = await answered<{ internalService: Record<string, string> }>(made, 201);
  const credential = { "X-Svc-Service-Id": id, "X-Svc-Service-Secret": secret };
  const counts = await tally(Array.from({ length: 100 }, () => get(credential)));
  assertEquals(counts, { "404 CRL_NOT_FOUND": 100 });
  w.peer = { from: "process" };
  assertEquals(await tally(Array.from({ length: 100 }, () => get())), { "404 CRL_NOT_FOUND": 100 });
});

Deno.test("validations are limited to 120 a minute, except for a service with the scope", async () => {
  await using w = await openRegistry();
  const a = await w.agent();
  const ask = (more = {}) => validate(w, a, a.agentAuth.accessToken, more);
  assertEquals(await tally(Array.from({ length: 121 }, () => ask())), { "204": 120, [OVER]: 1 });
  const body = { name: "relay", scopes: ["auth.validate"] };
  const made = await w.ask("POST", "/v1/admin/internal-services", { apiKey: (await w.admin()).apiKey, body });
  const { internalService: { id = "", secret = "" } } = await answered<{ internalService: Record<string, string> }>(
    made,
    201,
  );
  const credential = { "X-Svc-Service-Id": id, "X-Svc-Service-Secret": secret };
  assertEquals(await tally(Array.from({ length: 300 }, () => ask(credential))), { "204": 300 });
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
  for (let i = 0; i < 80; i++) codes.push((await w.client.createInvite(admin.apiKey)).invite.code);
  const [last = "", ...others] = codes;
  assertEquals(await tally(others.map(redeem)), { "201": 79 });
  assertEquals(await tally(others.map(redeem)), { "409 INVITE_REDEEM_ALREADY_USED": 79 });
  assertEquals(await tally(others.map(() => w.ask("POST", "/v1/invites/redeem", { body: "{" }))), {
    "400 INVITE_REDEEM_INVALID": 79,
  });
  const guesses = await tally(Array.from({ length: 100 }, (_, i) => redeem(`svc_inv_guess${i}`)));
  assertEquals(guesses, { "400 INVITE_REDEEM_CODE_INVALID": 60, [OVER]: 40 });
  await refused(await redeem(last), "RATE_LIMIT_EXCEEDED");
  moveTo(w, 9);
  await answered(await redeem(last), 201);
});

Deno.test("each human has 600 requests a minute over all routes, keys and addresses", async () => {
  await using w = await openRegistry();
  const { apiKey } = await w.person();
  const made = await w.ask("POST", "/v1/me/api-keys", { apiKey });
  const { apiKey: { token } } = await answered<{ apiKey: { token: string } }>(made, 201);
  const paths = ["/v1/me", "/v1/agents", "/v1/me/api-keys"];
  const ask = (key: string, i: number) => {
    moveTo(w, i);
    return w.ask("GET", paths[i % 3] ?? "", { apiKey: key });
  };
  assertEquals(await tally(Array.from({ length: 650 }, (_, i) => ask(apiKey, i))), { "200": 599, [OVER]: 51 });
  assertEquals(await tally(Array.from({ length: 50 }, (_, i) => ask(token, i))), { [OVER]: 50 });
  await answered(await ask((await w.person()).apiKey, 0));
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

Deno.test("all addresses of one /64 share one limit", async () => {
  await using w = await openRegistry();
  const answers = Array.from({ length: 1000 }, (_, i) => {
    w.peer = { from: "socket", address: `2001:db8:0:7:${i.toString(16)}::${(i * 7).toString(16)}` };
    return w.ask("GET", RESOLVE);
  });
  assertEquals(await tally(answers), { [UNDER]: 10, [OVER]: 990 });
});

Deno.test("many addresses are counted without waiting for each other", async () => {
  await using w = await openRegistry();
  const answers = Array.from({ length: 1000 }, (_, i) => {
    moveTo(w, i % 100);
    return w.ask("GET", RESOLVE);
  });
  assertEquals(await tally(answers), { [UNDER]: 1000 });
});

Deno.test("a clock that steps back blocks no address for longer than a window and grants no second limit", async () => {
  await using w = await openRegistry();
  const peer: Peer = { from: "socket", address: "192.0.2.7" };
  for (const before of [5, 10]) {
    await w.clock.advance(120_000);
    for (let i = 0; i < before; i++) assertEquals(await request(w, peer.address), UNDER);
    w.clock.step(-600_000);
    const granted = [];
    for (let i = 0; i < 20; i++) granted.push(await request(w, peer.address));
    assert(granted.filter((name) => name === UNDER).length <= 10 - before, "more than the limit in one window");
    await w.clock.advance(60_000);
    for (let i = 0; i < 10; i++) {
      assertEquals(await request(w, peer.address), UNDER, "blocked for longer than a window");
    }
    assertEquals(await request(w, peer.address), OVER);
    await w.clock.advance(1_200_000);
  }
});

Deno.test("calls within the process are not limited", async () => {
  await using w = await openRegistry();
  w.peer = { from: "process" };
  assertEquals(await tally(Array.from({ length: 50 }, () => w.ask("GET", RESOLVE))), { [UNDER]: 50 });
});
