/** Shows who gets a visit token (D-282): an active agent with an active session, for the origin of one proxy. */
import { assertEquals } from "@std/assert";
import { readKeyDocument } from "../../../shared/protocol/signed/key_document.ts";
import { parseShortToken, verifyShortToken, VIS } from "../../../shared/protocol/signed/short_token.ts";
import { HEADERS } from "../../../shared/protocol/proof.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { unixSeconds } from "../../../shared/protocol/time.ts";
import { KEYS } from "../../../registry/schema/kv_keys.ts";
import { answered, countOf, openRegistry, outcome } from "../../support/registry_world.ts";
import { PROXY_URL, REGISTRY_URL, type RequestParts, type TestAgent, type World } from "../../support/world.ts";

const AUDIENCE = "https://b.example";

async function visit(w: World, agent: TestAgent, body: unknown = { audience: AUDIENCE }, parts: RequestParts = {}) {
  return await w.fetch(
    await w.signed(agent, {
      base: REGISTRY_URL,
      target: "/v1/agents/auth/visit",
      body: JSON.stringify(body),
      ...parts,
    }),
  );
}

Deno.test("an agent gets a token for the origin that it names, which its registry's keys verify", async () => {
  await using w = await openRegistry();
  const a = await w.agent();
  const { token, expiresAt } = await answered<{ token: string; expiresAt: string }>(await visit(w, a), 201);
  const keys = await readKeyDocument(await answered(await w.ask("GET", "/.well-known/svc-keys.json")));
  const now = unixSeconds(w.clock.now());
  const claims = await verifyShortToken(
    VIS,
    parseShortToken(VIS, token),
    { issuer: REGISTRY_URL, audience: AUDIENCE, keys: keys ?? new Map() },
    now,
  );
  assertEquals([claims.sub, claims.aitJti, claims.proxy, claims.exp], [
    a.agent.did,
    a.agent.currentJti,
    PROXY_URL,
    now + 300,
  ]);
  assertEquals(Date.parse(expiresAt) / 1000, claims.exp);
});

Deno.test("no token for a text that is not the origin of another server, in its one spelling", async () => {
  await using w = await openRegistry();
  const a = await w.agent();
  const bad = [
    "https://b.example/",
    "https://b.example:443",
    "https://B.example",
    "http://b.example",
    "b.example",
    "",
    1,
  ];
  for (const audience of [...bad, "http://127.0.0.1:8787", `https://${"b".repeat(70_000)}.example`.slice(0, 60_000)]) {
    assertEquals(
      await outcome(await visit(w, a, { audience })),
      "400 AGENT_AUTH_VALIDATE_INVALID",
      String(audience).slice(0, 50),
    );
  }
  assertEquals(await outcome(await visit(w, a, {})), "400 AGENT_AUTH_VALIDATE_INVALID");
});

Deno.test("no token without the access token of an active session", async () => {
  await using w = await openRegistry();
  const a = await w.agent(), b = await w.agent();
  const without = await visit(w, a, undefined, { headers: { [HEADERS.access]: null } });
  assertEquals(await outcome(without), "400 AGENT_AUTH_VALIDATE_INVALID");
  const foreign = await visit(w, a, undefined, { headers: { [HEADERS.access]: b.identity.accessToken } });
  assertEquals(await outcome(foreign), "401 AGENT_AUTH_VALIDATE_UNAUTHORIZED");
  w.clock.step(16 * 60_000);
  assertEquals(await outcome(await visit(w, a)), "401 AGENT_AUTH_VALIDATE_EXPIRED");
  await w.ask("DELETE", `/v1/agents/${b.agent.id}/auth/revoke`, { apiKey: b.owner.apiKey });
  assertEquals((await visit(w, b)).status, 401);
});

Deno.test("an agent whose owner is suspended gets no token", async () => {
  await using w = await openRegistry();
  const a = await w.agent(), { apiKey } = await w.admin();
  assertEquals((await visit(w, a)).status, 201);
  const suspended = await w.ask("POST", `/v1/admin/people/${a.owner.id}/suspend`, { apiKey, body: {} });
  assertEquals(suspended.status < 300, true, await suspended.text());
  assertEquals((await visit(w, a)).status, 401);
});

Deno.test("an agent gets 30 tokens a minute, and another one is not held up", async () => {
  await using w = await openRegistry();
  const a = await w.agent(), b = await w.agent();
  for (let i = 0; i < 30; i++) assertEquals((await visit(w, a)).status, 201);
  assertEquals(await outcome(await visit(w, a)), "429 RATE_LIMIT_EXCEEDED");
  assertEquals((await visit(w, b)).status, 201);
});

Deno.test("an agent that goes on over its limit is soon refused before its proof is checked and its nonce is stored", async () => {
  await using w = await openRegistry();
  const a = await w.agent();
  for (let i = 0; i < LIMITS.visitRequests; i++) await visit(w, a);
  for (let i = 0; i < 2 * LIMITS.refreshRequests; i++) {
    assertEquals(await outcome(await visit(w, a)), "429 RATE_LIMIT_EXCEEDED");
  }
  assertEquals(await countOf(w, KEYS.nonce(a.agent.did, "")), LIMITS.visitRequests + LIMITS.refreshRequests);
  w.clock.step(LIMITS.limitWindowMs);
  assertEquals((await visit(w, a)).status, 201);
});

Deno.test("requests without a good access token count too, so an agent without a session cannot ask without limit", async () => {
  await using w = await openRegistry();
  const a = await w.agent();
  w.clock.step(16 * 60_000);
  for (let i = 0; i < 30; i++) assertEquals(await outcome(await visit(w, a)), "401 AGENT_AUTH_VALIDATE_EXPIRED");
  assertEquals(await outcome(await visit(w, a)), "429 RATE_LIMIT_EXCEEDED");
});

Deno.test("requests with an audience that is none count per address, because each costs a check of a proof", async () => {
  await using w = await openRegistry();
  const a = await w.agent();
  const bad = async () => await outcome(await visit(w, a, { audience: "b.example" }));
  for (let i = 0; i < LIMITS.refreshRequests; i++) assertEquals(await bad(), "400 AGENT_AUTH_VALIDATE_INVALID");
  assertEquals(await bad(), "429 RATE_LIMIT_EXCEEDED");
  w.clock.step(LIMITS.limitWindowMs);
  assertEquals((await visit(w, a)).status, 201);
});
