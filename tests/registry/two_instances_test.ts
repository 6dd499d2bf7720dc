/** Two registries over one store, which get the same single-use thing at once: the turns of one process do not help. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { recoverAdmin } from "../../registry/accounts/store.ts";
import { KEYS } from "../../registry/schema/kv_keys.ts";
import type { QuotaRecord } from "../../registry/schema/records.ts";
import type { Challenge } from "../../shared/protocol/api/agents.ts";
import { utf8Bytes } from "../../shared/protocol/base64url.ts";
import { keyPairFromSeed, sign } from "../../shared/protocol/ed25519.ts";
import { registrationMessage } from "../../shared/protocol/registration.ts";
import { ConfigError } from "../../shared/server/config_reader.ts";
import { FaultyKv } from "../support/faulty_kv.ts";
import {
  answered,
  auditEvents,
  countOf,
  openRegistry,
  outcome,
  publishedKeys,
  refresh,
  tally,
  validate,
  withTime,
} from "../support/registry_world.ts";
import { MAX_CHECKS } from "../support/test_store.ts";
import { BOOTSTRAP_SECRET, PROXY_URL, REGISTRY_URL, type World } from "../support/world.ts";

const COPIES = 20;

/** Sends one request to two instances in turns, and counts the answers. */
async function atBoth(w: World, ask: (w: World) => Promise<Response>): Promise<Record<string, number>> {
  await using other = await openRegistry({ kv: w.kv, clock: w.clock, seed: 2 });
  return await withTime(w, tally(Array.from({ length: COPIES }, (_, i) => ask(i % 2 ? other : w))));
}

async function createInvite(w: World, apiKey: string): Promise<{ invite: { id: string; code: string } }> {
  return await answered(await w.ask("POST", "/v1/invites", { apiKey, body: {} }), 201);
}

async function prepareInvite(w: World) {
  const { invite: { code } } = await createInvite(w, (await w.admin()).apiKey);
  return (at: World) => at.ask("POST", "/v1/invites/redeem", { body: { code } });
}

async function prepareChallenge(w: World) {
  const owner = await w.person(), { apiKey } = owner;
  const { publicKey, privateKey } = await keyPairFromSeed(w.random.bytes(32));
  const asked = await w.ask("POST", "/v1/agents/challenge", { apiKey, body: { publicKey } });
  const { challengeId, nonce, ownerDid } = await answered<Challenge>(asked, 201);
  let made = 0;
  return async (at: World) => {
    const name = `agent-${++made}`;
    const message = registrationMessage({ challengeId, nonce, ownerDid, publicKey, name });
    const challengeSignature = await sign(privateKey, utf8Bytes(message));
    return await at.ask("POST", "/v1/agents", { apiKey, body: { name, publicKey, challengeId, challengeSignature } });
  };
}

/** What only one request may do. Returns what makes and sends such a request. */
type Once = (w: World) => Promise<(at: World) => Promise<Response>>;

const ONCE: readonly (readonly [name: string, prepare: Once, done: string, refused: readonly string[]])[] = [
  [
    "bootstrap",
    () => {
      const headers = { "x-bootstrap-secret": BOOTSTRAP_SECRET };
      return Promise.resolve((at) => at.ask("POST", "/v1/admin/bootstrap", { headers }));
    },
    "201",
    ["409 ADMIN_BOOTSTRAP_ALREADY_COMPLETED"],
  ],
  ["invite", prepareInvite, "201", ["409 INVITE_REDEEM_ALREADY_USED"]],
  ["challenge", prepareChallenge, "201", ["400 AGENT_REGISTRATION_CHALLENGE_REPLAYED"]],
  [
    "refresh",
    async (w) => {
      const a = await w.agent();
      return (at) => refresh(at, a, a.agentAuth.refreshToken);
    },
    "200",
    ["401 AGENT_AUTH_REFRESH_INVALID", "409 AGENT_AUTH_REFRESH_CONFLICT"],
  ],
  [
    "deletion of an agent",
    async (w) => {
      const { owner: { apiKey }, agent: { id } } = await w.agent();
      return (at) => at.ask("DELETE", `/v1/agents/${id}`, { apiKey });
    },
    "204",
    ["409 AGENT_REVOKE_INVALID_STATE"],
  ],
  [
    "deletion of an invite",
    async (w) => {
      const { apiKey } = await w.admin();
      const { invite: { id } } = await createInvite(w, apiKey);
      return (at) => at.ask("DELETE", `/v1/invites/${id}`, { apiKey });
    },
    "204",
    ["404 INVITE_NOT_FOUND"],
  ],
  [
    "name of a service",
    async (w) => {
      const { apiKey } = await w.admin(), body = { name: "one", scopes: ["crl.read"] };
      return (at) => at.ask("POST", "/v1/admin/internal-services", { apiKey, body });
    },
    "201",
    ["409 INTERNAL_SERVICE_ALREADY_EXISTS"],
  ],
];

for (const [name, prepare, done, refusals] of ONCE) {
  Deno.test(`${name}: one request succeeds, at whichever call to the store another instance completes the same one`, async () => {
    for (let at = 1, isOver = false; !isOver; at++) {
      using faulty = await FaultyKv.open();
      await using w = await openRegistry({ kv: faulty.kv });
      await using other = await openRegistry({ kv: faulty.kv, clock: w.clock, seed: 2 });
      const request = await prepare(w);
      let calls = 0, second = "";
      faulty.faults.before = async () => {
        if (++calls !== at) return;
        faulty.faults = {};
        second = await outcome(await request(other));
      };
      const first = await outcome(await withTime(w, request(w)));
      isOver = second === "";
      faulty.faults = {};
      if (isOver) second = await outcome(await request(other));
      assert(
        first === done && refusals.includes(second) || second === done && refusals.includes(first),
        `at call ${at}: ${first}, and at the other instance ${second}`,
      );
    }
  });
}

Deno.test("of bootstraps at two instances at once one creates the admin", async () => {
  await using w = await openRegistry();
  const headers = { "x-bootstrap-secret": BOOTSTRAP_SECRET };
  const counts = await atBoth(w, (at) => at.ask("POST", "/v1/admin/bootstrap", { headers }));
  assertEquals(counts, { "201": 1, "409 ADMIN_BOOTSTRAP_ALREADY_COMPLETED": COPIES - 1 });
  assertEquals([await countOf(w, KEYS.human("x")), await countOf(w, KEYS.apiKey("x"))], [1, 1]);
});

Deno.test("of redemptions of one invite at two instances at once one creates a person", async () => {
  await using w = await openRegistry();
  const counts = await atBoth(w, await prepareInvite(w));
  assertEquals(counts, { "201": 1, "409 INVITE_REDEEM_ALREADY_USED": COPIES - 1 });
  assertEquals([await countOf(w, KEYS.human("x")), await countOf(w, KEYS.apiKey("x"))], [2, 2]);
});

Deno.test("of registrations with one challenge at two instances at once one makes an agent", async () => {
  await using w = await openRegistry();
  const counts = await atBoth(w, await prepareChallenge(w));
  assertEquals(counts, { "201": 1, "400 AGENT_REGISTRATION_CHALLENGE_REPLAYED": COPIES - 1 });
  assertEquals([await countOf(w, KEYS.agent("x")), await countOf(w, KEYS.session("x"))], [1, 1]);
});

Deno.test("each of many recoveries at once gives a key that works, counts and is audited", async () => {
  await using w = await openRegistry();
  const admin = await w.admin();
  const work = Array.from({ length: COPIES }, () => recoverAdmin({ ...w, maxChecks: MAX_CHECKS }));
  const recovered = await withTime(w, Promise.all(work));
  const tokens = new Set(recovered.map((one) => one?.key.token ?? ""));
  assertEquals(tokens.size, COPIES);
  for (const apiKey of tokens) assertEquals(await outcome(await w.ask("GET", "/v1/me", { apiKey })), "200");
  const { value: quota } = await w.kv.get<QuotaRecord>(KEYS.quota(admin.id));
  assertEquals([quota?.apiKeys, await countOf(w, KEYS.apiKey("x"))], [1 + COPIES, 1 + COPIES]);
  const events = await auditEvents(w, "limit=100");
  assertEquals(events.filter(({ event }) => event === "admin.recovered").length, COPIES);
});

/** Starts a registry on a new store. Another one with the address `other` starts before its first write of `key`. */
async function startAfterRead(key: Deno.KvKey, other: string) {
  const faulty = await FaultyKv.open();
  const first = Promise.withResolvers<World>();
  faulty.faults.before = async ({ method, keys }) => {
    if (method !== "commit" || !keys.some((one) => String(one) === String(key))) return;
    faulty.faults = {};
    first.resolve(openRegistry({ kv: faulty.kv, at: { registryUrl: other, proxyUrl: PROXY_URL } }));
    await first.promise;
  };
  const second = await openRegistry({ kv: faulty.kv, seed: 2 }).catch((error) => error as Error);
  return { faulty, first: await first.promise, second };
}

Deno.test("of two registries with different addresses that start at once on a new store, the later write is refused", async () => {
  const other = "https://other.example.test", { faulty, first, second } = await startAfterRead(KEYS.issuer(), other);
  assert(second instanceof ConfigError);
  assertStringIncludes(second.message, `the store belongs to ${other}`);
  assertEquals((await faulty.kv.get(KEYS.issuer())).value, other);
  await first[Symbol.asyncDispose]();
  faulty[Symbol.dispose]();
});

Deno.test("a registry that starts while another one stores its signing key signs with the key of that one", async () => {
  const { faulty, first, second } = await startAfterRead(KEYS.signingKeys(), REGISTRY_URL);
  assert(!(second instanceof Error));
  assertEquals([...(await publishedKeys(second)).keys()], [...(await publishedKeys(first)).keys()]);
  const { agent, agentAuth } = await second.agent();
  await answered(await validate(first, { agent }, agentAuth.accessToken), 204);
  for (const w of [first, second]) await w[Symbol.asyncDispose]();
  faulty[Symbol.dispose]();
});
