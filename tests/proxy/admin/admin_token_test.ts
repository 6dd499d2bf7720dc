/**
 * Who may use the proxy's admin routes (D-172): the vectors, tokens of other kinds, key rotation, a registry that does not
 * answer, and the limits. A refused credential is in no answer and in no log line.
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import { BAD_PROOFS_MAX } from "../../../proxy/admission/bad_proof_limiter.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import {
  ADM,
  type AdminTokenClaims,
  parseShortToken,
  signShortToken,
} from "../../../shared/protocol/signed/short_token.ts";
import { unixSeconds } from "../../../shared/protocol/time.ts";
import { answered, refused, tally } from "../../support/registry_world.ts";
import { signedToken } from "../../support/tokens.ts";
import { vectors } from "../../support/vectors.ts";
import { PROXY_URL, REGISTRY_URL, type World } from "../../support/world.ts";
import { get, openProxy, registryKey, restart } from "../proxy_world.ts";
import { look, refusalsOf, tokenOf } from "./admin_world.ts";

const PATHS = ["overview", "connections", "queues", "issuers", "deliveries?requestId=request-1", "refusals"];
const INVALID = "PROXY_ADMIN_TOKEN_INVALID";

async function tokenFor(w: World, change: { audience?: string; issuer?: string; at?: number } = {}): Promise<string> {
  const { did } = await w.admin();
  const { audience = PROXY_URL, issuer = REGISTRY_URL, at = w.clock.now() } = change;
  const scope: AdminTokenClaims["scope"] = ["relay.read"];
  const claims = { iss: issuer, sub: did, aud: audience, scope, iat: unixSeconds(at), jti: w.newId() };
  return await signShortToken(ADM, claims, await registryKey(w));
}

Deno.test("an admin token of the registry opens each admin route for five minutes", async () => {
  await using w = await openProxy();
  const admin = await w.admin();
  const issued = await answered<Record<string, unknown>>(
    await w.ask("POST", "/v1/admin/tokens", { apiKey: admin.apiKey }),
    201,
  );
  const { token, ...rest } = issued;
  const expiresAt = new Date(unixSeconds(w.clock.now()) * 1000 + 300_000).toISOString();
  assertEquals(rest, { expiresAt, audience: PROXY_URL, scope: ["relay.read"] });
  for (const path of PATHS) await answered(await look(w, path, String(token)));
  await w.clock.advance(299_000);
  for (const path of PATHS) await answered(await look(w, path, String(token)));
  await w.clock.advance(1_000);
  for (const path of PATHS) await refused(await look(w, path, String(token)), INVALID);
});

Deno.test("each admin route is refused when the credential is missing or of another kind", async () => {
  await using w = await openProxy();
  const a = await w.agent();
  const { apiKey } = await w.admin();
  const token = await tokenOf(w);
  const { kid, privateKey } = await registryKey(w);
  const claims = JSON.parse(parseShortToken(ADM, token).payloadJson);
  const forged = (header: unknown, body: unknown = claims) => signedToken(header, body, privateKey);
  const header = { alg: "EdDSA", typ: "ADM", kid };
  const wrong: (string | null)[] = [
    null,
    "",
    "x",
    apiKey,
    a.owner.apiKey,
    a.identity.ait,
    a.identity.accessToken,
    `${token} ${token}`,
    `${token},${token}`,
    token.slice(0, -1),
    await tokenFor(w, { audience: "https://other.example.test" }),
    await tokenFor(w, { audience: REGISTRY_URL }),
    await tokenFor(w, { issuer: PROXY_URL }),
    await tokenFor(w, { at: w.clock.now() - 300_000 }),
    await tokenFor(w, { at: w.clock.now() + 62_000 }),
    await forged({ ...header, typ: "AIT" }),
    await forged({ ...header, alg: "none" }),
    await forged({ ...header, jwk: {} }),
    await forged({ ...header, kid: "other" }),
    await forged({ ...header, kid: "constructor" }),
    await forged(header, { ...claims, role: "admin" }),
    await forged(header, { ...claims, scope: [] }),
    await forged(header, { ...claims, scope: undefined }),
    await forged(header, { ...claims, jti: "x".repeat(2_000) }),
  ];
  for (const one of wrong) await refused(await look(w, "queues", one), INVALID);
  for (const path of PATHS) {
    for (const one of wrong.slice(0, 7)) await refused(await look(w, path, one), INVALID);
    for (const scheme of ["Svc", "Basic", "bearer x"]) {
      await refused(await look(w, path, null, { Authorization: `${scheme} ${token}` }), INVALID);
    }
    await answered(await look(w, path, null, { Authorization: `bearer ${token}` }));
  }
  const text = JSON.stringify([w.log, await refusalsOf(w, "?limit=100")]);
  for (const secret of [apiKey, a.owner.apiKey, a.identity.ait, a.identity.accessToken, token]) {
    assert(!text.includes(secret.slice(8)), "a credential is in the log or in the refusals");
  }
});

Deno.test("each invalid vector is refused by the proxy, with a code and without the token", async () => {
  await using w = await openProxy();
  await w.admin();
  for (const { name, token } of vectors("admin-token").invalid) {
    const answer = await look(w, "refusals", token);
    const text = await refused(answer, INVALID);
    assert(!text.includes(token.slice(0, 20)), name);
  }
});

Deno.test("an admin token does not pass as the identity token of an agent", async () => {
  await using w = await openProxy();
  const a = await w.agent();
  const token = await tokenOf(w);
  const as = { ...a, identity: { ...a.identity, ait: token } };
  await refused(await get(w, as, "/pair/peers"), "PROXY_AUTH_INVALID_AIT");
  await refused(await w.ask("GET", "/v1/admin/audit", { apiKey: token }), "API_KEY_INVALID");
});

Deno.test("a token of a retired key is refused, and one of the new key is accepted", async () => {
  await using w = await openProxy({ sharedProcess: true });
  const { apiKey } = await w.admin();
  const before = await tokenOf(w);
  await answered(await look(w, "queues", before));
  await answered(await w.ask("POST", "/v1/admin/keys/rotate", { apiKey }));
  // The first signature of the new key makes the proxy read the keys again.
  await answered(await look(w, "queues", await tokenOf(w)));
  await refused(await look(w, "queues", before), INVALID);
});

Deno.test("the admin routes answer 503 without registry keys, and 401 when the credential is not a token", async () => {
  await using w = await openProxy();
  const token = await tokenOf(w);
  await restart(w);
  w.registryAnswer = () => new Response("{}", { status: 500 });
  const answer = await look(w, "queues", token);
  assertEquals(answer.headers.get("retry-after"), "1");
  await refused(answer, "PROXY_AUTH_DEPENDENCY_UNAVAILABLE");
  await refused(await look(w, "queues", "junk"), INVALID);
});

Deno.test("an admin has 600 requests a minute over all tokens and routes", async () => {
  await using w = await openProxy();
  const tokens = [await tokenOf(w), await tokenOf(w)];
  const paths = ["queues", "refusals?limit=1"];
  const send = (i: number) => look(w, paths[i % 2] ?? "", tokens[i % 2] ?? "");
  await w.kv.set(KEYS.window("admin", (await w.admin()).did), [[w.clock.now(), 598]]);
  assertEquals(await tally([send(0), send(1)]), { 200: 2 });
  const over = await send(0);
  assertMatch(over.headers.get("ratelimit-policy") ?? "", /;q=600;w=60$/);
  await refused(over, "RATE_LIMIT_EXCEEDED");
  await w.clock.advance(LIMITS.limitWindowMs);
  await answered(await send(1));
});

Deno.test("a refused token is rejected unread after too many uses from one address, and no other token is", async () => {
  await using w = await openProxy();
  const bad = await tokenFor(w, { audience: REGISTRY_URL });
  const tries = Array.from({ length: BAD_PROOFS_MAX }, () => look(w, "queues", bad));
  assertEquals(await tally(tries), { [`401 ${INVALID}`]: BAD_PROOFS_MAX });
  await refused(await look(w, "queues", bad), "PROXY_RATE_LIMIT_EXCEEDED");
  await answered(await look(w, "queues", await tokenOf(w)));
  w.peer = { from: "socket", address: "198.51.100.7" };
  await refused(await look(w, "queues", bad), INVALID);
});

Deno.test("a call of the same process needs a token too", async () => {
  await using w = await openProxy({ sharedProcess: true });
  w.peer = { from: "process" };
  await refused(await look(w, "connections", null), INVALID);
});
