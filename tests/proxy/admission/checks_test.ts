/**
 * Shows the order of the nine checks (D-60): the first check that fails decides the response, even when later
 * checks would fail too. Also shows what a refused request leaves behind (D-25).
 */
import { assert, assertEquals } from "@std/assert";
import { CHECKS } from "../../../proxy/admission/checks.ts";
import type { ErrorCode } from "../../../shared/protocol/errors.ts";
import { unixSeconds } from "../../../shared/protocol/time.ts";
import { outcome, refused } from "../../support/registry_world.ts";
import type { RequestParts, TestAgent, World } from "../../support/world.ts";
import { aitWith, claimsOf, get, openProxy, restart, withAccess, withAit } from "../proxy_world.ts";

const WINDOW_MS = 60_000;
const OTHER_PROOF = "A".repeat(86);

/** A world in which a request can fail each check alone. */
interface Cast {
  w: World;
  /** Has a pair; its rate-limit window is full. */
  paired: TestAgent;
  /** Has no pair; its rate-limit window is full. */
  alone: TestAgent;
  /** `unpaired` with a revoked AIT. */
  revoked: TestAgent;
  /** `unpaired` with an AIT that is revoked and expired. */
  expired: TestAgent;
  /** A nonce that both agents have used. */
  usedNonce: string;
}

async function cast(agentRequests = 10): Promise<Cast> {
  const w = await openProxy({ proxy: { agentRequests, agentWindowMs: WINDOW_MS } });
  const { a: paired } = await w.story();
  const before = await w.agent();
  const { ait } = await (await w.ask("POST", `/v1/agents/${before.agent.id}/reissue`, { apiKey: before.owner.apiKey }))
    .json();
  const alone = withAit(before, ait);
  const times = { iat: unixSeconds(w.clock.now()) - 86_400, exp: unixSeconds(w.clock.now()) };
  const old = await aitWith(w, before, { ...times, nbf: times.iat });
  assertEquals(claimsOf(old).jti, claimsOf(before.identity.ait).jti);
  const usedNonce = "nonce-used-by-both";
  for (const agent of [paired, alone]) {
    const request = { method: "GET", target: "/pair/peers" };
    const used = await w.fetch(await w.signed(agent, { ...request, nonce: usedNonce }));
    assertEquals(used.status, 200);
    for (let full = false; !full;) full = (await get(w, agent, request.target)).status === 429;
  }
  await w.proxy.deps.crl.refresh();
  return { w, paired, alone, revoked: before, expired: withAit(before, old), usedNonce };
}

Deno.test("the table has the nine checks of the specification in their order", () => {
  assertEquals(CHECKS.map((check) => check.name), [
    "AIT signature",
    "AIT expiry",
    "timestamp",
    "proof of possession",
    "nonce",
    "revocation",
    "trust",
    "access token",
    "rate limit",
  ]);
  for (const check of CHECKS) assert(check.failsWith.length > 0);
});

Deno.test("a request that fails one check and every later one answers the code of the first", async (t) => {
  const c = await cast();
  await using w = c.w;
  const skewed = String(unixSeconds(w.clock.now()) - 301);
  const { usedNonce: nonce } = c;
  const proof = { "X-Svc-Proof": OTHER_PROOF };
  const junk = "svc_agt_junk";
  const unsigned = `${c.expired.identity.ait.slice(0, -4)}AAAA`;
  const cases: [check: string, agent: TestAgent, parts: RequestParts, code: ErrorCode][] = [
    [
      "AIT signature",
      withAit(c.expired, unsigned),
      { timestamp: skewed, nonce, headers: proof },
      "PROXY_AUTH_INVALID_AIT",
    ],
    ["AIT expiry", c.expired, { timestamp: skewed, nonce, headers: proof }, "PROXY_AUTH_INVALID_AIT"],
    ["timestamp", c.revoked, { timestamp: skewed, nonce, headers: proof }, "PROXY_AUTH_TIMESTAMP_SKEW"],
    ["proof of possession", c.revoked, { nonce, headers: proof }, "PROXY_AUTH_INVALID_PROOF"],
    ["nonce", c.revoked, { nonce }, "PROXY_AUTH_REPLAY"],
    ["revocation", c.revoked, {}, "PROXY_AUTH_REVOKED"],
    ["trust", c.alone, {}, "PROXY_AUTH_FORBIDDEN"],
    ["access token", c.paired, {}, "PROXY_AGENT_ACCESS_INVALID"],
    ["rate limit", c.paired, {}, "PROXY_RATE_LIMIT_EXCEEDED"],
  ];
  assertEquals(cases.map(([check]) => check), CHECKS.map((check) => check.name));
  for (const [i, [check, agent, parts, code]] of cases.entries()) {
    await t.step(check, async () => {
      const sender = check === "rate limit" ? agent : withAccess(agent, junk);
      await refused(await w.message(sender, c.alone, parts), code);
      assert(CHECKS[i]?.failsWith.includes(code));
    });
  }
});

Deno.test("a request that passes all nine checks is handled by its route", async () => {
  const c = await cast();
  await using w = c.w;
  w.clock.step(WINDOW_MS);
  const cases: [parts: RequestParts, code: ErrorCode][] = [
    [{ headers: { "Content-Type": "text/plain" }, body: "{", recipient: "" }, "PROXY_HOOK_UNSUPPORTED_MEDIA_TYPE"],
    [{ body: "{", recipient: "" }, "PROXY_HOOK_INVALID_JSON"],
    [{ recipient: "" }, "PROXY_HOOK_RECIPIENT_REQUIRED"],
    [{ recipient: "nobody" }, "PROXY_HOOK_RECIPIENT_INVALID"],
    [{ recipient: c.alone.agent.did }, "PROXY_AUTH_FORBIDDEN"],
  ];
  for (const [parts, code] of cases) await refused(await w.message(c.paired, c.alone, parts), code);
});

Deno.test("a refusal before check 5 leaves the nonce unused; a later refusal uses it", async (t) => {
  const cases: [name: string, free: boolean, broken: (c: Cast, nonce: string) => Promise<Response>][] = [
    ["AIT signature", true, ({ w, paired }, nonce) => {
      const broken = withAit(paired, `${paired.identity.ait.slice(0, -4)}AAAA`);
      return w.message(broken, paired, { nonce });
    }],
    ["timestamp", true, ({ w, paired }, nonce) => w.message(paired, paired, { nonce, timestamp: "1" })],
    [
      "proof",
      true,
      ({ w, paired }, nonce) => w.message(paired, paired, { nonce, headers: { "X-Svc-Proof": OTHER_PROOF } }),
    ],
    ["body", true, ({ w, paired }, nonce) => w.message(paired, paired, { nonce, signed: { bodySha256: "x" } })],
    ["revocation", false, ({ w, revoked }, nonce) => w.message(revoked, revoked, { nonce })],
    ["trust", false, ({ w, alone }, nonce) => w.message(alone, alone, { nonce })],
    ["access token", false, ({ w, paired }, nonce) => w.message(withAccess(paired, "x"), paired, { nonce })],
    ["the pair", false, ({ w, paired }, nonce) => w.message(paired, paired, { nonce })],
    ["JSON", false, ({ w, paired }, nonce) => w.message(paired, paired, { nonce, body: "{" })],
  ];
  const c = await cast();
  await using w = c.w;
  for (const [name, free, broken] of cases) {
    await t.step(name, async () => {
      w.clock.step(WINDOW_MS);
      const nonce = `nonce-broken-at-${name.replaceAll(" ", "-")}`;
      const first = await broken(c, nonce);
      assert(first.status >= 400, name);
      await restart(w);
      const agent = name === "trust" || name === "revocation" ? c.alone : c.paired;
      const again = await w.fetch(await w.signed(agent, { method: "GET", target: "/pair/peers", nonce }));
      assertEquals(await outcome(again), free ? "200" : "401 PROXY_AUTH_REPLAY");
    });
  }
});

Deno.test("a request over the rate limit uses its nonce", async () => {
  const c = await cast();
  await using w = c.w;
  const request = { method: "GET", target: "/pair/peers", nonce: "nonce-over-the-limit" };
  await refused(await w.fetch(await w.signed(c.paired, request)), "PROXY_RATE_LIMIT_EXCEEDED");
  await refused(await w.fetch(await w.signed(c.paired, request)), "PROXY_AUTH_REPLAY");
});

Deno.test("an AIT with an invalid signature changes nothing for the agent that it names", async () => {
  await using w = await openProxy({ proxy: { agentRequests: 5 } });
  const { a, b } = await w.story();
  w.clock.step(60_000);
  const forged = withAit(a, `${a.identity.ait.slice(0, -4)}AAAA`);
  for (let i = 0; i < 8; i++) {
    await refused(await w.message(forged, b, { nonce: `nonce-of-the-victim-${i}` }), "PROXY_AUTH_INVALID_AIT");
  }
  for (let i = 0; i < 5; i++) {
    const { status, headers } = await w.message(a, b, { nonce: `nonce-of-the-victim-${i}` });
    assertEquals([status, headers.get("ratelimit")], [202, `"agent";r=${4 - i};t=60`]);
  }
});
