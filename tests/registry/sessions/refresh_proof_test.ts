/**
 * Shows what a refresh must prove (D-20, D-24, D-25, D-42): a genuine current AIT and its key, over this request, once.
 * Every refusal here is 401 AGENT_AUTH_REFRESH_UNAUTHORIZED, but for the last test, and leaves the token unused.
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { KEYS } from "../../../registry/schema/kv_keys.ts";
import type { ReissueAnswer } from "../../../shared/protocol/api/agents.ts";
import { parseAit, signAit } from "../../../shared/protocol/signed/ait.ts";
import { sha256 } from "../../../shared/protocol/base64url.ts";
import { keyPairFromSeed } from "../../../shared/protocol/ed25519.ts";
import type { SigningKey } from "../../../shared/protocol/signed/jws.ts";
import { unixSeconds } from "../../../shared/protocol/time.ts";
import {
  answered,
  moveTo,
  openRegistry,
  outcome,
  refresh,
  refreshed,
  refused,
  restart,
  tally,
} from "../../support/registry_world.ts";
import { signedToken } from "../../support/tokens.ts";
import { trials } from "../../support/trials.ts";
import { PROXY_URL, REGISTRY_URL, type RequestParts, type TestAgent, type World } from "../../support/world.ts";

const UNAUTHORIZED = "AGENT_AUTH_REFRESH_UNAUTHORIZED";
const TARGET = "/v1/agents/auth/refresh";

/** Runs each row from its own address, because the limit is 20 a minute. */
async function eachRefused(
  t: Deno.TestContext,
  w: World,
  a: TestAgent,
  rows: [what: string, parts: RequestParts | Promise<RequestParts>][],
): Promise<void> {
  for (const [i, [what, parts]] of rows.entries()) {
    await t.step(what, async () => {
      moveTo(w, i);
      const answer = await refresh(w, a, a.agentAuth.refreshToken, await parts);
      assertEquals(answer.headers.get("www-authenticate"), "Svc");
      await refused(answer, UNAUTHORIZED);
    });
  }
  await t.step("the token still works", async () => {
    await answered(await refresh(w, a, a.agentAuth.refreshToken));
  });
}

const withAit = (ait: string): RequestParts => ({ headers: { Authorization: `Svc ${ait}` } });

Deno.test("a refresh is refused when a header is missing or malformed", async (t) => {
  await using w = await openRegistry();
  const a = await w.agent();
  const { ait } = a.identity;
  const header = (name: string, ...values: (string | null)[]) =>
    values.map((value): [string, RequestParts] => [`${name}: ${value?.slice(0, 30)}`, { headers: { [name]: value } }]);
  const nonce = "A".repeat(16);
  const now = unixSeconds(w.clock.now());
  await eachRefused(t, w, a, [
    ...header("Authorization", null, "Svc", ait, `Bearer ${ait}`, `Svc ${ait}, Svc ${ait}`),
    ...header("X-Svc-Timestamp", null, "abc", `0${now}`, `${now}, ${now}`, String(w.clock.now())),
    ...header("X-Svc-Nonce", null, "A".repeat(15), `${nonce}=`, `${nonce}, ${nonce}`),
    ...header("X-Svc-Body-SHA256", null, "A".repeat(43), `${await sha256("x")}`),
    ...header("X-Svc-Proof", null, "", "A".repeat(86), "A".repeat(85)),
  ]);
});

Deno.test("a proof is valid for exactly one method, origin, path, time, nonce, body, recipient and AIT", async (t) => {
  await using w = await openRegistry();
  const a = await w.agent();
  const other = await w.agent();
  const signed = (fields: RequestParts["signed"]): RequestParts => ({ signed: fields ?? {} });
  await eachRefused(t, w, a, [
    ["another method", signed({ method: "PUT" })],
    ["the proxy's origin", signed({ origin: PROXY_URL })],
    ["http for https", signed({ origin: REGISTRY_URL.replace("https", "http") })],
    ["origin with a port", signed({ origin: `${REGISTRY_URL}:443` })],
    ["loopback, where that is not the environment", signed({ origin: "http://127.0.0.1:8787" })],
    ["another path", signed({ target: `${TARGET}/` })],
    ["a query", signed({ target: `${TARGET}?x=1` })],
    ["another second", signed({ timestamp: String(unixSeconds(w.clock.now()) - 1) })],
    ["another nonce", signed({ nonce: "B".repeat(24) })],
    ["another body", signed({ bodySha256: await sha256("{}") })],
    ["a recipient", signed({ recipient: other.agent.did })],
    ["an unsigned recipient", { headers: { "X-Svc-Recipient-Agent-Did": other.agent.did } }],
    ["another AIT", signed({ aitSha256: await sha256(other.identity.ait) })],
    ["another agent's AIT", withAit(other.identity.ait)],
  ]);
  await t.step("the refusal names the expected origin", async () => {
    const answer = await refresh(w, other, "x", { signed: { origin: PROXY_URL } });
    assertStringIncludes(await refused(answer, UNAUTHORIZED), REGISTRY_URL);
  });
  await t.step("another agent's own AIT and proof are not valid for this agent's token", async () => {
    await refused(await refresh(w, other, a.agentAuth.refreshToken), "AGENT_AUTH_REFRESH_INVALID", 401);
  });
});

Deno.test("a forged, foreign, expired or superseded AIT is refused with a proof that matches it", async (t) => {
  await using w = await openRegistry();
  const a = await w.agent();
  const genuine = await w.registry.deps.signing.current();
  const stranger = await keyPairFromSeed(w.random.bytes(32));
  const own: SigningKey = { kid: genuine.kid, privateKey: stranger.privateKey };
  const now = unixSeconds(w.clock.now());
  const { agent } = a;
  const grant = {
    issuer: REGISTRY_URL,
    agentDid: agent.did,
    ownerDid: agent.ownerDid,
    name: agent.name,
    framework: agent.framework,
    publicKey: agent.publicKey,
    jti: agent.currentJti,
    issuedAtSeconds: now,
    ttlDays: 1,
  };
  const { payloadJson } = parseAit(a.identity.ait);
  const header = { alg: "EdDSA", typ: "AIT", kid: genuine.kid };
  const changed = (changes: Record<string, unknown>, more: Record<string, unknown> = {}) =>
    signedToken({ ...header, ...more }, { ...JSON.parse(payloadJson), ...changes }, genuine.privateKey);
  const aits: [what: string, ait: string | Promise<string>][] = [
    ["signed by another key under the kid of the registry", signAit(grant, own)],
    ["unknown kid", signAit(grant, { ...own, kid: "unknown" })],
    ["typ CRL", changed({}, { typ: "CRL" })],
    ["alg none", changed({}, { alg: "none" })],
    ["another issuer", signAit({ ...grant, issuer: "https://elsewhere.example" }, genuine)],
    ["a human's DID", changed({ sub: agent.ownerDid })],
    ["a DID of another authority", changed({ sub: agent.did.replace("registry.example.test", "elsewhere.example") })],
    ["issued in the future", signAit({ ...grant, issuedAtSeconds: now + 61 }, genuine)],
    ["expired this second", signAit({ ...grant, issuedAtSeconds: now - 86_400 }, genuine)],
    ["never issued", signAit({ ...grant, jti: w.newId() }, genuine)],
  ];
  for (const [i, [what, ait]] of aits.entries()) {
    await t.step(what, async () => {
      moveTo(w, i);
      const forged = { identity: { ...a.identity, ait: await ait } };
      await refused(await refresh(w, forged, a.agentAuth.refreshToken), UNAUTHORIZED);
    });
  }
  await t.step("an AIT with the right jti within its times is accepted", async () => {
    const ait = await signAit({ ...grant, issuedAtSeconds: now + 60 }, genuine);
    await answered(await refresh(w, { identity: { ...a.identity, ait } }, a.agentAuth.refreshToken));
  });
});

Deno.test("a superseded AIT is refused, the new one is accepted, and an AIT expires to the second", async () => {
  await using w = await openRegistry();
  const a = await w.agent();
  const path = `/v1/agents/${a.agent.id}/reissue`;
  const { ait } = await answered<ReissueAnswer>(await w.ask("POST", path, { apiKey: a.owner.apiKey }));
  await refused(await refresh(w, a, a.agentAuth.refreshToken), UNAUTHORIZED);
  const current = { identity: { ...a.identity, ait } };
  const next = await refreshed(w, current, a.agentAuth.refreshToken);
  await w.clock.advance(30 * 86_400_000 - 1);
  const last = await refreshed(w, current, next.refreshToken);
  await w.clock.advance(1);
  await refused(await refresh(w, current, last.refreshToken), UNAUTHORIZED);
});

Deno.test("a refresh checks in the order body, proof, revoked, token ID, token, expired", async () => {
  await using w = await openRegistry({ registry: { refreshTokenTtlSeconds: 60 } });
  const a = await w.agent();
  const owned = (method: string, what: string) =>
    w.ask(method, `/v1/agents/${a.agent.id}${what}`, { apiKey: a.owner.apiKey });
  const bad = { headers: { "X-Svc-Proof": null } };
  await refused(await refresh(w, a, "", { ...bad, body: "{" }), "AGENT_AUTH_REFRESH_INVALID", 400);
  const { ait } = await answered<ReissueAnswer>(await owned("POST", "/reissue"));
  const current = { identity: { ...a.identity, ait } };
  await refused(await refresh(w, a, "unknown"), UNAUTHORIZED);
  await w.clock.advance(60_000);
  await refused(await refresh(w, a, a.agentAuth.refreshToken), UNAUTHORIZED);
  await refused(await refresh(w, current, "unknown"), "AGENT_AUTH_REFRESH_INVALID", 401);
  await refused(await refresh(w, current, a.agentAuth.refreshToken), "AGENT_AUTH_REFRESH_EXPIRED");
  await answered(await owned("DELETE", "/auth/revoke"), 204);
  for (const who of [a, current]) await refused(await refresh(w, who, "unknown"), "AGENT_AUTH_REFRESH_REVOKED");
  await refused(await refresh(w, a, "unknown", bad), UNAUTHORIZED);
});

Deno.test("a timestamp may differ by 300 s in both directions, in whole seconds", async () => {
  await using w = await openRegistry();
  const a = await w.agent();
  w.clock.step(500);
  let token = a.agentAuth.refreshToken;
  for (const offset of [-301, 301, -86_400, 86_400]) {
    const timestamp = String(unixSeconds(w.clock.now()) + offset);
    await refused(await refresh(w, a, token, { timestamp }), UNAUTHORIZED);
  }
  for (const offset of [-300, 300]) {
    const timestamp = String(unixSeconds(w.clock.now()) + offset);
    token = (await refreshed(w, a, token, { timestamp })).refreshToken;
  }
});

Deno.test("an identical request is 401 while its timestamp is fresh, also concurrently and after a restart", async (t) => {
  await using w = await openRegistry();
  const a = await w.agent();
  const body = JSON.stringify({ refreshToken: a.agentAuth.refreshToken });
  const timestamp = String(unixSeconds(w.clock.now()) + 300);
  const request = await w.signed(a, { base: REGISTRY_URL, target: TARGET, body, timestamp });
  await t.step("20 at once: one 200", async () => {
    const counts = await tally(Array.from({ length: 20 }, () => w.fetch(request.clone())));
    assertEquals(counts, { "200": 1, [`401 ${UNAUTHORIZED}`]: 19 });
  });
  const again = async (n: number) => {
    moveTo(w, n);
    await refused(await w.fetch(request.clone()), UNAUTHORIZED);
  };
  await t.step("after a restart", async () => {
    await restart(w);
    await again(1);
  });
  await t.step("as long as its timestamp is accepted", async () => {
    for (let i = 0; i < 12; i++) {
      await again(i + 2);
      await w.clock.advance(50_000);
    }
  });
  await t.step("after the clock was set back", async () => {
    await w.clock.advance(600_000);
    await again(20);
    w.clock.step(-1_200_000);
    await again(21);
  });
});

Deno.test("an identical request at two instances is accepted by one of them", async () => {
  await using w = await openRegistry();
  await using other = await openRegistry({ kv: w.kv, seed: 2 });
  const owner = await w.person();
  for (let round = 0; round < trials(8); round++) {
    const a = await w.agent(owner);
    const body = JSON.stringify({ refreshToken: a.agentAuth.refreshToken });
    const request = await w.signed(a, { base: REGISTRY_URL, target: TARGET, body });
    moveTo(w, round);
    moveTo(other, round + 1000);
    const outcomes = (await Promise.all([w.fetch(request.clone()), other.fetch(request.clone())])).map(outcome);
    assertEquals((await Promise.all(outcomes)).sort(), ["200", `401 ${UNAUTHORIZED}`]);
  }
});

Deno.test("a failed proof leaves its nonce unused, a later refusal uses it, and each agent has its own nonces", async () => {
  await using w = await openRegistry();
  const [a, b] = [await w.agent(), await w.agent()];
  const nonce = "N".repeat(24);
  await refused(await refresh(w, a, a.agentAuth.refreshToken, { nonce, signed: { method: "GET" } }), UNAUTHORIZED);
  await refused(await refresh(w, a, "unknown", { nonce }), "AGENT_AUTH_REFRESH_INVALID", 401);
  await refused(await refresh(w, a, a.agentAuth.refreshToken, { nonce }), UNAUTHORIZED);
  await answered(await refresh(w, b, b.agentAuth.refreshToken, { nonce }));
  await answered(await refresh(w, a, a.agentAuth.refreshToken, { nonce: `${nonce}2` }));
});

Deno.test("a refresh for an agent that the registry lost says so, and only to one that had its identity", async () => {
  await using w = await openRegistry();
  const a = await w.agent();
  await w.kv.delete(KEYS.agent(a.agent.id));
  const text = await refused(await refresh(w, a, a.agentAuth.refreshToken), "AGENT_NOT_FOUND");
  assertStringIncludes(text, "restored from an older backup");
  await refused(await refresh(w, a, a.agentAuth.refreshToken, withAit("x")), UNAUTHORIZED);
});
