/**
 * Shows the registry's signing keys: created once and kept, published without their private half, rotated without
 * invalidating a token, or given by configuration.
 */
import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { readRegistryConfig } from "../../registry/config.ts";
import { KEYS } from "../../registry/schema/kv_keys.ts";
import type { SigningKeySet } from "../../registry/schema/records.ts";
import type { ReissueAnswer } from "../../shared/protocol/api/agents.ts";
import { parseAit } from "../../shared/protocol/signed/ait.ts";
import { parseJws } from "../../shared/protocol/signed/jws.ts";
import { keyPairFromSeed } from "../../shared/protocol/ed25519.ts";
import { readKeyDocument } from "../../shared/protocol/signed/key_document.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { ConfigReader } from "../../shared/server/config_reader.ts";
import {
  answered,
  inside,
  moveTo,
  openRegistry,
  outcome,
  readCrl,
  refresh,
  refreshed,
  refused,
  restart,
  rotateKey,
  withTime,
} from "../support/registry_world.ts";
import { trials } from "../support/trials.ts";
import { PROXY_URL, REGISTRY_URL, type TestAgent, type World } from "../support/world.ts";
import { openTestKv } from "../support/test_store.ts";

interface Published {
  keys: { kid: string; x: string; status: string }[];
}

const DAY_MS = 86_400_000;
const read = async (w: World) => (await answered<Published>(await inside(w, "/.well-known/svc-keys.json"))).keys;
const kidsOf = async (w: World) => (await read(w)).map(({ kid, status }) => [kid, status]);

const remove = async (w: World, { owner, agent }: TestAgent) => await w.client.deleteAgent(owner.apiKey, agent.id);

async function crlKid(w: World): Promise<string> {
  const { crl } = await answered<{ crl: string }>(await inside(w, "/v1/crl"));
  return parseJws(crl, "CRL", LIMITS.crlBytes).kid;
}

/** A world with these configured keys. */
function configured(keys: unknown[], kv?: Deno.Kv): Promise<World> {
  const reader = new ConfigReader((name) => name === "REGISTRY_SIGNING_KEYS" ? JSON.stringify({ keys }) : undefined);
  const place = { environment: "dev", registryUrl: REGISTRY_URL, proxyUrl: PROXY_URL, version: "1" } as const;
  const { signingKeys } = readRegistryConfig(reader, place);
  assertEquals(reader.problems, []);
  return openRegistry({ registry: { signingKeys }, ...(kv ? { kv, seed: 2 } : {}) });
}

const pairOf = (n: number) => keyPairFromSeed(new Uint8Array(32).fill(n));

Deno.test("the signing key is created at the first start and used after restarts", async () => {
  await using w = await openRegistry({ sharedProcess: true });
  const a = await w.agent();
  const before = await read(w);
  assertEquals(before.map(({ status }) => status), ["active"]);
  for (let i = 0; i < 3; i++) {
    await restart(w);
    assertEquals(await read(w), before);
  }
  await answered(await refresh(w, a, a.agentAuth.refreshToken));
});

Deno.test("one of several instances creates the key at their first start on one store", async () => {
  const kv = await openTestKv();
  const worlds = await Promise.all([1, 2, 3, 4].map((seed) => openRegistry({ kv, seed })));
  const documents = await Promise.all(worlds.map(read));
  for (const document of documents) assertEquals(document, documents[0]);
  assertEquals(documents[0]?.length, 1);
  for (const w of worlds) await w[Symbol.asyncDispose]();
  kv.close();
});

Deno.test("the key document has public members only, is cacheable for 300 s and is answered 304", async () => {
  await using w = await openRegistry({ sharedProcess: true });
  await rotateKey(w);
  const answer = await w.ask("GET", "/.well-known/svc-keys.json");
  assertEquals(answer.headers.get("cache-control"), "public, max-age=300");
  const etag = answer.headers.get("etag") ?? "";
  const document = await answered<Published>(answer);
  assertEquals(Object.keys(document), ["keys"]);
  for (const key of document.keys) {
    assertEquals(Object.keys(key).sort(), ["alg", "crv", "kid", "kty", "status", "use", "x"]);
  }
  assert(await readKeyDocument(document));
  const same = await w.ask("GET", "/.well-known/svc-keys.json", { headers: { "If-None-Match": etag } });
  assertEquals([same.status, same.headers.get("etag")], [304, etag]);
  await rotateKey(w);
  const changed = await w.ask("GET", "/.well-known/svc-keys.json", { headers: { "If-None-Match": etag } });
  assertNotEquals(changed.headers.get("etag"), etag);
  await answered(changed);
});

Deno.test("a rotation adds a new active key first, retires the old one, and keeps every token valid", async () => {
  await using w = await openRegistry({ sharedProcess: true });
  const [a, gone] = [await w.agent(), await w.agent()];
  await remove(w, gone);
  const before = await readCrl(w);
  const [old] = await read(w);
  const { kid, retiredKid } = await rotateKey(w);
  assertEquals(retiredKid, old?.kid);
  assertNotEquals(kid, retiredKid);
  assertEquals(await kidsOf(w), [[kid, "active"], [retiredKid, "retired"]]);
  // The list is signed again at once, although only its key has changed.
  assertEquals(await crlKid(w), kid);
  const after = await readCrl(w);
  assertEquals([after.seq, after.revocations], [before.seq, before.revocations]);
  assertNotEquals(after.jti, before.jti);
  // The old AIT stays valid. The new key signs a new AIT.
  assertEquals(parseAit(a.identity.ait).kid, retiredKid);
  const next = await refreshed(w, a, a.agentAuth.refreshToken);
  const path = `/v1/agents/${a.agent.id}/reissue`;
  const { ait } = await answered<ReissueAnswer>(await w.ask("POST", path, { apiKey: a.owner.apiKey }));
  assertEquals(parseAit(ait).kid, kid);
  await restart(w);
  await answered(await refresh(w, { identity: { ...a.identity, ait } }, next.refreshToken));
  assertEquals(await kidsOf(w), [[kid, "active"], [retiredKid, "retired"]]);
});

Deno.test("another instance signs with the new key at its next use after a rotation", async () => {
  await using w = await openRegistry({ sharedProcess: true });
  await using other = await openRegistry({ kv: w.kv, seed: 2, sharedProcess: true });
  await remove(w, await w.agent());
  await readCrl(other);
  const { kid } = await rotateKey(w);
  assertEquals(await crlKid(other), kid);
  assertEquals(await read(other), await read(w));
});

Deno.test("a rotation creates no list before the first revocation", async () => {
  await using w = await openRegistry({ sharedProcess: true });
  await rotateKey(w);
  await refused(await w.ask("GET", "/v1/crl"), "CRL_NOT_FOUND");
});

Deno.test("a retired key is published until the last token that it can have signed has expired", async () => {
  await using w = await openRegistry({ sharedProcess: true });
  const who = await w.agent(undefined, "alpha", undefined, { ttlDays: 90 });
  const { kid, retiredKid } = await rotateKey(w);
  let token = who.agentAuth.refreshToken;
  for (const days of [29, 29, 29]) {
    await w.clock.advance(days * DAY_MS);
    token = (await refreshed(w, who, token)).refreshToken;
  }
  await w.clock.advance(3 * DAY_MS - 1000);
  token = (await refreshed(w, who, token)).refreshToken;
  assertEquals(await kidsOf(w), [[kid, "active"], [retiredKid, "retired"]]);
  await w.clock.advance(1000);
  assertEquals(await kidsOf(w), [[kid, "active"]]);
  await refused(await refresh(w, who, token), "AGENT_AUTH_REFRESH_UNAUTHORIZED");
});

Deno.test("each of several concurrent rotations succeeds or is asked to retry, and one key is active", async () => {
  await using w = await openRegistry({ sharedProcess: true });
  const { apiKey } = await w.admin();
  const work = Array.from({ length: 5 }, () => w.ask("POST", "/v1/admin/keys/rotate", { apiKey }));
  const answers = await withTime(w, Promise.all(work));
  const good = answers.filter((answer) => answer.status === 200);
  assert(good.length >= 1);
  const statuses = (await kidsOf(w)).map(([, status]) => status);
  assertEquals(statuses, ["active", ...good.map(() => "retired")]);
  for (const answer of answers) {
    if (answer.status !== 200) await refused(answer, "SERVICE_UNAVAILABLE");
    else await answer.body?.cancel();
  }
});

Deno.test("the list is complete and signed by the new key when rotation and revocation are concurrent", async () => {
  await using w = await openRegistry({ sharedProcess: true });
  const { apiKey } = await w.admin(), owner = await w.person();
  for (let round = 1; round <= trials(8); round++) {
    const a = await w.agent(owner);
    const work = [w.ask("POST", "/v1/admin/keys/rotate", { apiKey }), remove(w, a), inside(w, "/v1/crl")] as const;
    const [rotated] = await withTime(w, Promise.all(work));
    const { kid } = await answered<{ kid: string }>(rotated);
    assertEquals(await crlKid(w), kid);
    const { seq, revocations } = await readCrl(w);
    assertEquals([seq, revocations.length], [round, round]);
  }
});

Deno.test("the first active configured key signs, the others verify, and none is stored", async () => {
  const [one, two, three] = [await pairOf(1), await pairOf(2), await pairOf(3)];
  const jwk = { kty: "OKP", crv: "Ed25519" };
  await using w = await configured([
    { ...jwk, x: three.publicKey, kid: "old", status: "retired" },
    { ...jwk, x: one.publicKey, d: one.seed, kid: "one" },
    { ...jwk, x: two.publicKey, d: two.seed },
  ]);
  const kids = await kidsOf(w);
  assertEquals(kids.slice(0, 2), [["old", "retired"], ["one", "active"]]);
  assertEquals(kids.length, 3);
  const a = await w.agent();
  assertEquals(parseAit(a.identity.ait).kid, "one");
  await answered(await refresh(w, a, a.agentAuth.refreshToken));
  await remove(w, a);
  assertEquals(await crlKid(w), "one");
  assertEquals((await w.kv.get(KEYS.signingKeys())).value, null);
  const stored = JSON.stringify((await Array.fromAsync(w.kv.list({ prefix: [] }))).map(({ value }) => value));
  for (const { seed } of [one, two, three]) assert(!stored.includes(seed));
});

Deno.test("a configured key that is moved to retired verifies AITs and no longer signs", async () => {
  const [one, two] = [await pairOf(1), await pairOf(2)];
  const jwk = { kty: "OKP", crv: "Ed25519" };
  await using before = await configured([{ ...jwk, x: one.publicKey, d: one.seed, kid: "one" }]);
  const a = await before.agent();
  await remove(before, await before.agent());
  assertEquals(await crlKid(before), "one");
  await using after = await configured([
    { ...jwk, x: two.publicKey, d: two.seed, kid: "two" },
    { ...jwk, x: one.publicKey, kid: "one", status: "retired" },
  ], before.kv);
  await answered(await refresh(after, a, a.agentAuth.refreshToken));
  assertEquals(await crlKid(after), "two");
  assertEquals((await readCrl(after)).seq, 1);
});

Deno.test("a rotation is 409 after 401 and 403 when the keys are configured", async () => {
  const one = await pairOf(1);
  await using w = await configured([{ kty: "OKP", crv: "Ed25519", x: one.publicKey, d: one.seed }]);
  const ask = (apiKey?: string) => w.ask("POST", "/v1/admin/keys/rotate", { apiKey });
  const before = await read(w);
  await refused(await ask(), "API_KEY_MISSING");
  await refused(await ask((await w.person()).apiKey), "ADMIN_REQUIRED");
  await refused(await ask((await w.admin()).apiKey), "SIGNING_KEYS_CONFIGURED");
  assertEquals(await read(w), before);
});

Deno.test("every AIT of the last 90 days still refreshes after many rotations", async () => {
  await using w = await openRegistry({ sharedProcess: true });
  const agents: TestAgent[] = [];
  for (let i = 0; i < 4; i++) {
    agents.push(await w.agent());
    await rotateKey(w);
    await w.clock.advance(DAY_MS);
  }
  for (const [i, a] of agents.entries()) {
    moveTo(w, i);
    assertEquals(await outcome(await refresh(w, a, a.agentAuth.refreshToken)), "200");
  }
  assertEquals((await read(w)).filter(({ status }) => status === "active").length, 1);
});

Deno.test("a rotation is refused when the store holds 64 keys, and works again when one has expired", async () => {
  await using w = await openRegistry({ sharedProcess: true });
  const a = await w.agent();
  const { apiKey } = await w.admin();
  const rotation = () => w.ask("POST", "/v1/admin/keys/rotate", { apiKey });
  for (let i = 1; i < 64; i++) await answered(await rotation());
  const before = await kidsOf(w);
  assertEquals(before.length, 64);
  await refused(await rotation(), "SIGNING_KEYS_TOO_MANY");
  assertEquals(await kidsOf(w), before);
  assert(await readKeyDocument(await answered(await inside(w, "/.well-known/svc-keys.json"))));
  await answered(await refresh(w, a, a.agentAuth.refreshToken));
  await w.clock.advance(90 * DAY_MS);
  await answered(await rotation());
  assertEquals((await kidsOf(w)).length, 2);
});

Deno.test("verification keys are imported once for each key document", async () => {
  await using w = await openRegistry({ sharedProcess: true });
  const { signing } = w.registry.deps;
  const keys = await signing.verificationKeys();
  assert(await signing.verificationKeys() === keys);
  await rotateKey(w);
  assertNotEquals([...(await signing.verificationKeys()).keys()], [...keys.keys()]);
});

Deno.test("a new key signs 60 s after its publication when the proxy runs apart", async () => {
  await using w = await openRegistry();
  const owner = await w.person();
  await remove(w, await w.agent());
  const [old] = await read(w);
  const kidOfNewAgent = async () => parseAit((await w.agent(owner)).identity.ait).kid;
  const { kid, retiredKid, signsFrom } = await rotateKey(w);
  assertEquals([retiredKid, Date.parse(signsFrom)], [old?.kid, w.clock.now() + 60_000]);
  assertEquals(await kidsOf(w), [[retiredKid, "active"], [kid, "active"]]);
  await w.clock.advance(20_000);
  const second = await rotateKey(w);
  await w.clock.advance(39_999);
  assertEquals([await kidOfNewAgent(), await crlKid(w)], [retiredKid, retiredKid]);
  await w.clock.advance(1);
  assertEquals([await kidOfNewAgent(), await crlKid(w)], [kid, kid]);
  assertEquals(await kidsOf(w), [[kid, "active"], [second.kid, "active"], [retiredKid, "retired"]]);
  await w.clock.advance(20_000);
  assertEquals([await kidOfNewAgent(), await crlKid(w)], [second.kid, second.kid]);
  const { value } = await w.kv.get<SigningKeySet>(KEYS.signingKeys());
  assertEquals(value?.keys.map(({ kid, seed }) => [kid, seed !== null]), [[second.kid, true], [kid, false], [
    retiredKid,
    false,
  ]]);
});

Deno.test("a key that was replaced after the clock was set back does not sign again", async () => {
  await using w = await openRegistry();
  await remove(w, await w.agent());
  const leaked = await rotateKey(w);
  await w.clock.advance(60_000);
  assertEquals(await crlKid(w), leaked.kid);
  w.clock.step(-3_600_000);
  const fresh = await rotateKey(w);
  for (const minutes of [1, 30, 60]) {
    await w.clock.advance(minutes * 60_000);
    assertEquals(await crlKid(w), fresh.kid, `${minutes} min later`);
  }
  assertEquals((await kidsOf(w)).slice(0, 2), [[fresh.kid, "active"], [leaked.kid, "retired"]]);
});
