/**
 * Shows the registration of an agent (D-20): the challenge, the proof over exactly the values sent, the order of the
 * checks, and the single record that results.
 */
import { assertEquals, assertNotEquals, assertStringIncludes } from "@std/assert";
import { KEYS } from "../../../registry/schema/kv_keys.ts";
import { verifyAit } from "../../../shared/protocol/signed/ait.ts";
import type { Challenge, RegisterAnswer } from "../../../shared/protocol/api/agents.ts";
import { fromBase64Url, toBase64Url, utf8Bytes } from "../../../shared/protocol/base64url.ts";
import { type KeyPair, keyPairFromSeed, sign } from "../../../shared/protocol/ed25519.ts";
import { REGISTRATION_TEMPLATE, registrationMessage } from "../../../shared/protocol/registration.ts";
import { unixSeconds } from "../../../shared/protocol/time.ts";
import {
  answered,
  countOf,
  openRegistry,
  publishedKeys,
  refused,
  tally,
  validate,
  withTime,
} from "../../support/registry_world.ts";
import { type Person, REGISTRY_URL, type World } from "../../support/world.ts";

const keyPair = (w: World): Promise<KeyPair> => keyPairFromSeed(w.random.bytes(32));

async function challenge(w: World, owner: Person, publicKey: string): Promise<Challenge> {
  const { apiKey } = owner;
  return await answered<Challenge>(await w.ask("POST", "/v1/agents/challenge", { apiKey, body: { publicKey } }), 201);
}

interface Wanted {
  name: string;
  framework?: string;
  ttlDays?: number;
}

/** The body of a registration. `sent` replaces the values that are sent, not those that are signed. */
async function registration(
  { challengeId, nonce, ownerDid }: Challenge,
  keys: KeyPair,
  wanted: Wanted = { name: "alpha" },
  sent: Record<string, unknown> = {},
): Promise<Record<string, unknown>> {
  const { publicKey, privateKey } = keys;
  const message = registrationMessage({ challengeId, nonce, ownerDid, publicKey, ...wanted });
  return { ...wanted, publicKey, challengeId, challengeSignature: await sign(privateKey, utf8Bytes(message)), ...sent };
}

const register = (w: World, owner: Person, body: unknown) =>
  w.ask("POST", "/v1/agents", { apiKey: owner.apiKey, body });

/** Requests a challenge and registers an agent with a new key. */
async function registered(
  w: World,
  owner: Person,
  wanted: Wanted,
  sent: Record<string, unknown> = {},
): Promise<Response> {
  const keys = await keyPair(w);
  return await register(w, owner, await registration(await challenge(w, owner, keys.publicKey), keys, wanted, sent));
}

Deno.test("a challenge has six fields, a nonce of 24 bytes and a lifetime of five minutes", async () => {
  await using w = await openRegistry();
  const owner = await w.person();
  const { publicKey } = await keyPair(w);
  const one = await challenge(w, owner, publicKey);
  const wanted = ["algorithm", "challengeId", "expiresAt", "messageTemplate", "nonce", "ownerDid"];
  assertEquals(Object.keys(one).sort(), wanted);
  assertEquals([one.algorithm, one.ownerDid, one.messageTemplate], ["Ed25519", owner.did, REGISTRATION_TEMPLATE]);
  assertEquals(one.messageTemplate.split("\n").length, 8);
  assertEquals(fromBase64Url(one.nonce)?.length, 24);
  assertEquals(Date.parse(one.expiresAt), w.clock.now() + 300_000);
  const two = await challenge(w, owner, publicKey);
  assertNotEquals([one.challengeId, one.nonce], [two.challengeId, two.nonce]);
});

Deno.test("a challenge is refused when the public key is not a usable Ed25519 key", async (t) => {
  await using w = await openRegistry();
  const { apiKey } = await w.person();
  const { publicKey } = await keyPair(w);
  const rows: [what: string, publicKey: unknown][] = [
    ["missing", undefined],
    ["a number", 1],
    ["31 bytes", toBase64Url(new Uint8Array(31).fill(9))],
    ["padded", `${publicKey}=`],
    ["not a point", `Ag${"A".repeat(41)}`],
    ["of small order", "xxdqcD1N2E-6PAt2DRBnDyogU_osOczGTsf9d5KsA3o"],
  ];
  for (const [what, key] of rows) {
    await t.step(what, async () => {
      const answer = await w.ask("POST", "/v1/agents/challenge", { apiKey, body: { publicKey: key } });
      await refused(answer, "AGENT_REGISTRATION_CHALLENGE_INVALID");
      const body = { name: "alpha", publicKey: key, challengeId: w.newId(), challengeSignature: "A".repeat(86) };
      await refused(await w.ask("POST", "/v1/agents", { apiKey, body }), "AGENT_REGISTRATION_INVALID");
    });
  }
});

Deno.test("the refusal of an expired challenge names no lifetime, because a setting changes it", async () => {
  await using w = await openRegistry({ registry: { challengeTtlSeconds: 60 } });
  const owner = await w.person(), keys = await keyPair(w);
  const body = await registration(await challenge(w, owner, keys.publicKey), keys);
  await w.clock.advance(60_000);
  const { error } = await (await register(w, owner, body)).json();
  assertEquals([error.code, error.message], [
    "AGENT_REGISTRATION_CHALLENGE_EXPIRED",
    "The challenge has expired",
  ]);
});

Deno.test("registration checks a challenge in the order found, replayed, expired, key mismatch, proof; a failure uses nothing up", async () => {
  await using w = await openRegistry();
  const owner = await w.person();
  const other = await w.person();
  const keys = await keyPair(w);
  const stranger = await keyPair(w);
  const used = await challenge(w, owner, keys.publicKey);
  await answered(await register(w, owner, await registration(used, keys)), 201);
  const open = await challenge(w, owner, keys.publicKey), stillOpen = await challenge(w, owner, keys.publicKey);
  const edited = await registration(stillOpen, keys, { name: "alpha" }, { name: "beta" });
  await refused(await register(w, owner, edited), "AGENT_REGISTRATION_PROOF_INVALID");
  const bad = async (c: Challenge) =>
    await registration(c, stranger, { name: "alpha" }, { challengeSignature: "A".repeat(86) });
  // The right key, over a message with another challenge's nonce.
  const { nonce } = await challenge(w, owner, keys.publicKey);
  const swapped = await registration({ ...open, nonce }, keys);
  await refused(await register(w, owner, swapped), "AGENT_REGISTRATION_PROOF_INVALID");
  await refused(await register(w, owner, await bad(open)), "AGENT_REGISTRATION_PROOF_MISMATCH");
  await w.clock.advance(299_999);
  await refused(await register(w, owner, await bad(open)), "AGENT_REGISTRATION_PROOF_MISMATCH");
  await answered(await register(w, owner, await registration(stillOpen, keys)), 201);
  await w.clock.advance(1);
  await refused(await register(w, owner, await bad(open)), "AGENT_REGISTRATION_CHALLENGE_EXPIRED");
  await refused(await register(w, owner, await bad(used)), "AGENT_REGISTRATION_CHALLENGE_REPLAYED");
  await refused(await register(w, other, await bad(used)), "AGENT_REGISTRATION_CHALLENGE_NOT_FOUND");
  const unknown = { ...used, challengeId: w.newId() };
  await refused(await register(w, owner, await bad(unknown)), "AGENT_REGISTRATION_CHALLENGE_NOT_FOUND");
  await refused(await register(w, other, { ...await bad(used), name: "" }), "AGENT_REGISTRATION_INVALID");
});

Deno.test("registration requires the signed name, framework and lifetime, also when they are left out", async (t) => {
  await using w = await openRegistry();
  const owner = await w.person();
  const rows: [what: string, signed: Wanted, sent: Record<string, unknown>][] = [
    ["another name", { name: "alpha" }, { name: "beta" }],
    ["another framework", { name: "alpha", framework: "one" }, { framework: "two" }],
    ["a framework that was not signed", { name: "alpha" }, { framework: "generic" }],
    ["a framework left out", { name: "alpha", framework: "generic" }, { framework: undefined }],
    ["a framework with a blank", { name: "alpha", framework: "one" }, { framework: "one " }],
    ["other days", { name: "alpha", ttlDays: 30 }, { ttlDays: 31 }],
    ["days that were not signed", { name: "alpha" }, { ttlDays: 30 }],
    ["days left out", { name: "alpha", ttlDays: 30 }, { ttlDays: undefined }],
  ];
  for (const [what, signed, sent] of rows) {
    await t.step(what, async () => {
      await refused(await registered(w, owner, signed, sent), "AGENT_REGISTRATION_PROOF_INVALID");
    });
  }
  await t.step("a framework with blanks, signed as sent, is stored trimmed", async () => {
    const { agent } = await answered<RegisterAnswer>(
      await registered(w, owner, { name: "alpha", framework: " one " }),
      201,
    );
    assertEquals(agent.framework, "one");
  });
});

Deno.test("an agent name is accepted only when it can name a directory", async (t) => {
  await using w = await openRegistry();
  const owner = await w.person();
  for (const name of ["a", "a".repeat(64), "A.b_c-9", "console"]) {
    await t.step(name, async () => {
      const { agent } = await answered<RegisterAnswer>(await registered(w, owner, { name }), 201);
      assertEquals(agent.name, name);
    });
  }
  for (const name of ["a".repeat(65), "", "../x", "con", "a ", "👋", "x".repeat(60_000), null, 1, undefined]) {
    await t.step(`refused: ${JSON.stringify(name)?.slice(0, 20)}`, async () => {
      await refused(await registered(w, owner, { name: "alpha" }, { name }), "AGENT_REGISTRATION_INVALID");
    });
  }
  await t.step("the refusal says that Windows reserves a name", async () => {
    const { error } = await (await registered(w, owner, { name: "alpha" }, { name: "aux" })).json();
    assertStringIncludes(error.message, "no name that Windows reserves");
  });
});

Deno.test("a lifetime is an integer from 1 to 90, and a framework 1 to 32 code points of text", async (t) => {
  await using w = await openRegistry();
  const owner = await w.person();
  const good: Omit<Wanted, "name">[] = [{ ttlDays: 1 }, { ttlDays: 90 }, { framework: "x".repeat(32) }, {
    framework: "👋".repeat(32),
  }, {}];
  for (const wanted of good) {
    await t.step(JSON.stringify(wanted).slice(0, 40), async () => {
      const { agent } = await answered<RegisterAnswer>(await registered(w, owner, { name: "alpha", ...wanted }), 201);
      assertEquals([agent.ttlDays, agent.framework], [wanted.ttlDays ?? 30, wanted.framework ?? "generic"]);
    });
  }
  const frameworks = ["x".repeat(33), "", "a\u0000", null, 1].map((framework) => ({
    framework,
  }));
  const days = [0, 91, 1.5, "30", null].map((ttlDays) => ({ ttlDays }));
  for (const sent of [...frameworks, ...days]) {
    await t.step(`refused: ${JSON.stringify(sent).slice(0, 40)}`, async () => {
      await refused(await registered(w, owner, { name: "alpha" }, sent), "AGENT_REGISTRATION_INVALID");
    });
  }
});

Deno.test("the AIT states the agent's record, lasts for its exact lifetime and has a published key", async (t) => {
  await using w = await openRegistry();
  const owner = await w.person();
  for (const [wanted, ttlDays] of [[{}, 30], [{ ttlDays: 1 }, 1], [{ ttlDays: 90, framework: "x" }, 90]] as const) {
    await t.step(`${ttlDays} days`, async () => {
      await w.clock.advance(1234);
      const answer = await registered(w, owner, { name: "alpha", ...wanted });
      const { agent, ait, agentAuth } = await answered<RegisterAnswer>(answer, 201);
      const now = unixSeconds(w.clock.now());
      const claims = await verifyAit(ait, { issuer: REGISTRY_URL, keys: await publishedKeys(w) }, now);
      assertEquals(claims, {
        iss: REGISTRY_URL,
        sub: agent.did,
        ownerDid: owner.did,
        name: "alpha",
        framework: agent.framework,
        cnf: { jwk: { kty: "OKP", crv: "Ed25519", x: agent.publicKey } },
        iat: now,
        nbf: now,
        exp: now + ttlDays * 86_400,
        jti: agent.currentJti,
      });
      const iso = new Date(w.clock.now()).toISOString();
      assertEquals(agent.did, `did:svc:registry.example.test:agent:${agent.id}`);
      assertEquals([agent.ownerDid, agent.status, agent.ttlDays], [owner.did, "active", ttlDays]);
      assertEquals([Date.parse(agent.expiresAt), agent.createdAt, agent.updatedAt], [claims.exp * 1000, iso, iso]);
      assertEquals(await (await validate(w, { agent }, agentAuth.accessToken)).text(), "");
    });
  }
});

Deno.test("one of 20 concurrent registrations with one challenge succeeds, the others are refused as replayed", async () => {
  await using w = await openRegistry();
  const owner = await w.person();
  const keys = await keyPair(w);
  const c = await challenge(w, owner, keys.publicKey);
  const bodies = await Promise.all(
    Array.from({ length: 20 }, (_, i) => registration(c, keys, { name: `agent-${i}` })),
  );
  const counts = await withTime(w, tally(bodies.map((body) => register(w, owner, body))));
  assertEquals(counts, { "201": 1, "400 AGENT_REGISTRATION_CHALLENGE_REPLAYED": 19 });
  for (const key of [KEYS.agent("x"), KEYS.agentOf("x", "y"), KEYS.session("x")]) {
    assertEquals(await countOf(w, key), 1, String(key));
  }
});
