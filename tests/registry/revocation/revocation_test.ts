/**
 * Shows the revocation list (D-21): it holds an entry as soon as the change is answered, when it is signed again, how
 * long it keeps entries, and that it is an error, not an old list, when it cannot be built.
 */
import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { KEYS } from "../../../registry/schema/kv_keys.ts";
import type { ReissueAnswer } from "../../../shared/protocol/api/agents.ts";
import { fromBase64Url } from "../../../shared/protocol/base64url.ts";
import { isUlid } from "../../../shared/protocol/ids.ts";
import { unixSeconds } from "../../../shared/protocol/time.ts";
import { FaultyKv } from "../../support/faulty_kv.ts";
import {
  answered,
  inside,
  openRegistry,
  publishedKeys,
  readCrl,
  refused,
  restart,
  withTime,
  writeRecords,
} from "../../support/registry_world.ts";
import { longTest } from "../../support/trials.ts";
import { REGISTRY_URL, type TestAgent, type World } from "../../support/world.ts";

const DAY_MS = 86_400_000;

const remove = async (w: World, a: TestAgent) => {
  await answered(await w.ask("DELETE", `/v1/agents/${a.agent.id}`, { apiKey: a.owner.apiKey }), 204);
};

async function reissue(w: World, a: TestAgent): Promise<string> {
  const answer = await w.ask("POST", `/v1/agents/${a.agent.id}/reissue`, { apiKey: a.owner.apiKey });
  return (await answered<ReissueAnswer>(answer)).agent.currentJti;
}

async function etagOf(w: World): Promise<string> {
  const answer = await inside(w, "/v1/crl");
  await answer.body?.cancel();
  return answer.headers.get("etag") ?? "";
}

Deno.test("the revocation list is 404 before the first revocation, which the log does not show as a refusal", async () => {
  await using w = await openRegistry();
  await w.agent();
  await refused(await w.ask("GET", "/v1/crl"), "CRL_NOT_FOUND");
  await restart(w);
  await refused(await w.ask("GET", "/v1/crl"), "CRL_NOT_FOUND");
  assertEquals(w.log, []);
});

Deno.test("a deleted agent's token is on a signed list of the stated form once the deletion is answered", async () => {
  await using w = await openRegistry();
  const a = await w.agent();
  await remove(w, a);
  const body = await answered<{ crl: string }>(await w.ask("GET", "/v1/crl"));
  assertEquals(Object.keys(body), ["crl"]);
  const parts = body.crl.split(".");
  assertEquals(parts.length, 3);
  const [header, claims] = parts.slice(0, 2).map((part) =>
    JSON.parse(new TextDecoder().decode(fromBase64Url(part) ?? undefined))
  );
  const kid = [...(await publishedKeys(w)).keys()][0];
  assertEquals(header, { alg: "EdDSA", typ: "CRL", kid });
  const now = unixSeconds(w.clock.now());
  assert(isUlid(claims.jti));
  assertEquals(claims, {
    iss: REGISTRY_URL,
    jti: claims.jti,
    iat: now,
    exp: now + 900,
    seq: 1,
    revocations: [{ jti: a.agent.currentJti, agentDid: a.agent.did, reason: "agent_deleted", revokedAt: now }],
  });
  assertEquals((await readCrl(w)).seq, 1);
});

Deno.test("the list names both old tokens as reissued, newest first, after two reissues", async () => {
  await using w = await openRegistry();
  const a = await w.agent();
  const first = a.agent.currentJti;
  const second = await reissue(w, a);
  await w.clock.advance(1000);
  const third = await reissue(w, a);
  const entries = (await readCrl(w)).revocations;
  assertEquals(entries.map(({ jti, reason }) => [jti, reason]), [[second, "reissued"], [first, "reissued"]]);
  await w.clock.advance(1000);
  await remove(w, a);
  const [newest] = (await readCrl(w)).revocations;
  assertEquals([newest?.jti, newest?.reason], [third, "agent_deleted"]);
});

Deno.test("the sequence number rises by one with each revocation only, over restarts and instances", async () => {
  await using w = await openRegistry();
  const agents = [await w.agent(), await w.agent(), await w.agent()];
  await using other = await openRegistry({ kv: w.kv, seed: 2 });
  for (const [i, a] of agents.entries()) {
    await reissue(i === 1 ? other : w, a);
    assertEquals((await readCrl(w)).seq, 2 * i + 1);
    await remove(i === 1 ? w : other, a);
    assertEquals([(await readCrl(w)).seq, (await readCrl(other)).seq], [2 * i + 2, 2 * i + 2]);
    await w.clock.advance(500_000);
    await other.clock.advance(500_000);
    await restart(w);
    assertEquals((await readCrl(w)).seq, 2 * i + 2);
  }
});

Deno.test("each of many concurrent deletions is on the list that is fetched after its answer", async () => {
  await using w = await openRegistry();
  const agents = await w.agents(12, await w.person());
  const seqs = await withTime(
    w,
    Promise.all(agents.map(async (a) => {
      await remove(w, a);
      const { seq, revocations } = await readCrl(w);
      assert(revocations.some(({ jti }) => jti === a.agent.currentJti), "acknowledged but not listed");
      assert(revocations.length >= seq, "the list lacks entries that its sequence number counts");
      return seq;
    })),
    20,
  );
  assert(Math.max(...seqs) === 12);
});

Deno.test("the list has an ETag, is answered 304 when it is unchanged, and is checked each time", async (t) => {
  await using w = await openRegistry();
  await remove(w, await w.agent());
  const answer = await w.ask("GET", "/v1/crl");
  const etag = answer.headers.get("etag") ?? "";
  assertEquals(answer.headers.get("cache-control"), "no-cache");
  await answer.body?.cancel();
  for (const tag of [etag, `W/${etag}`, `"x", ${etag}`, "*"]) {
    await t.step(`304 for ${tag === etag ? "its tag" : tag.slice(0, 4)}`, async () => {
      const same = await w.ask("GET", "/v1/crl", { headers: { "If-None-Match": tag } });
      assertEquals([same.status, same.headers.get("etag"), same.headers.get("cache-control")], [304, etag, "no-cache"]);
    });
  }
  await t.step("200 for another", async () => {
    await answered(await w.ask("GET", "/v1/crl", { headers: { "If-None-Match": `"x"` } }));
  });
  await t.step("200 once it has changed", async () => {
    await remove(w, await w.agent());
    const changed = await w.ask("GET", "/v1/crl", { headers: { "If-None-Match": etag } });
    assertNotEquals(changed.headers.get("etag"), etag);
    await answered(changed);
  });
});

Deno.test("the list is signed once for each change, and again after half its lifetime", async () => {
  await using w = await openRegistry();
  await remove(w, await w.agent());
  const tags = await Promise.all(Array.from({ length: 20 }, () => etagOf(w)));
  assertEquals(new Set(tags).size, 1);
  const first = await readCrl(w);
  await w.clock.advance(449_000);
  assertEquals((await readCrl(w)).jti, first.jti);
  await w.clock.advance(1000);
  const second = await readCrl(w);
  assertNotEquals(second.jti, first.jti);
  assertEquals([second.iat, second.exp, second.seq], [first.iat + 450, first.exp + 450, first.seq]);
  assertEquals(second.revocations, first.revocations);
});

Deno.test("an answer with a list that was built before costs one read of the store", async () => {
  using faulty = await FaultyKv.open();
  await using w = await openRegistry({ kv: faulty.kv });
  await remove(w, await w.agent());
  await etagOf(w);
  let reads = 0;
  faulty.faults.before = ({ method }) => {
    if (method !== "commit") reads++;
  };
  await etagOf(w);
  assertEquals(reads, 1);
});

Deno.test("a list from the future is not served after the clock was set back", async () => {
  await using w = await openRegistry();
  await remove(w, await w.agent());
  await readCrl(w);
  w.clock.step(-600_000);
  assertEquals((await readCrl(w)).iat, unixSeconds(w.clock.now()));
});

Deno.test("an entry stays until one hour after its token's expiry, and the list stays after its last entry", async () => {
  await using w = await openRegistry();
  await remove(w, await w.agent(undefined, "alpha", undefined, { ttlDays: 1 }));
  const listed = async () => (await readCrl(w)).revocations.length;
  for (const ms of [DAY_MS - 1, 1, 3_599_000]) {
    await w.clock.advance(ms);
    await restart(w);
    assertEquals(await listed(), 1);
  }
  await w.clock.advance(1000);
  await restart(w);
  for (let i = 0; i < 3; i++) {
    assertEquals([await listed(), (await readCrl(w)).seq], [0, 1]);
    await w.clock.advance(DAY_MS);
  }
  await remove(w, await w.agent());
  assertEquals([await listed(), (await readCrl(w)).seq], [1, 2]);
});

Deno.test("an agent that is deleted after its token has expired is listed for an hour, because a proxy then ends its pairs", async () => {
  await using w = await openRegistry();
  const a = await w.agent(undefined, "alpha", undefined, { ttlDays: 1 });
  await w.clock.advance(3 * DAY_MS);
  await remove(w, a);
  const listed = async () => (await readCrl(w)).revocations.map(({ agentDid }) => agentDid);
  await w.clock.advance(3_599_000);
  assertEquals(await listed(), [a.agent.did]);
  await w.clock.advance(1_000);
  await restart(w);
  assertEquals(await listed(), []);
});

Deno.test("each token of one agent is listed until one hour after its own expiry", async () => {
  await using w = await openRegistry();
  const a = await w.agent(undefined, "alpha", undefined, { ttlDays: 1 });
  await w.clock.advance(DAY_MS / 2);
  const next = await reissue(w, a);
  await remove(w, a);
  const jtis = async () => (await readCrl(w)).revocations.map(({ jti }) => jti);
  assertEquals((await jtis()).sort(), [a.agent.currentJti, next].sort());
  await w.clock.advance(DAY_MS / 2 + 3_600_000);
  assertEquals(await jtis(), [next]);
  await w.clock.advance(DAY_MS / 2);
  assertEquals(await jtis(), []);
});

Deno.test("the list is 500 when a record does not parse, also with an older list in memory", async (t) => {
  const corruptions: [what: string, record: unknown][] = [
    ["a bad date", { revokedAt: "yesterday" }],
    ["a negative date", { revokedAt: -1 }],
    ["no end", { keptUntil: undefined }],
    ["another reason", { reason: "because" }],
    ["no jti", { jti: undefined }],
    ["a human's DID", { agentDid: "did:svc:registry.example.test:human:01KHYQ5H00AAAAAAAAAAAAAAAA" }],
  ];
  await using w = await openRegistry();
  const a = await w.agent(), b = await w.agent();
  await remove(w, a);
  const key = KEYS.revocation(a.agent.currentJti);
  const { value: record } = await w.kv.get<Record<string, unknown>>(key);
  for (const [i, [what, changes]] of [...corruptions, ["no object", null] as const].entries()) {
    await t.step(what, async () => {
      await readCrl(w);
      await w.kv.set(key, changes && { ...record, ...changes });
      await reissue(w, b);
      for (let start = 0; start < 2; start++) {
        const text = await refused(await w.ask("GET", "/v1/crl"), "CRL_BUILD_FAILED");
        assert(!/zod|stack|\.ts|yesterday|\bat\b/i.test(text), text);
        await restart(w);
      }
      await w.kv.set(key, record);
      assertEquals((await readCrl(w)).revocations.length, i + 2);
    });
  }
});

Deno.test("the list is 500, not 404, when its head does not parse", async (t) => {
  await using w = await openRegistry();
  await remove(w, await w.agent());
  for (const head of [{}, { seq: "1" }, { seq: -1 }, { seq: 1.5 }, { seq: null }, "1"]) {
    await t.step(JSON.stringify(head), async () => {
      await w.kv.set(KEYS.crlHead(), head);
      await refused(await w.ask("GET", "/v1/crl"), "CRL_BUILD_FAILED");
    });
  }
});

Deno.test("the list is 500 while store or key fail, and is served again afterwards", async (t) => {
  const faults: [what: string, fails: (name: unknown) => boolean][] = [
    ["the head", (name) => name === "crl_head"],
    ["the records", (name) => name === "revocation"],
    ["the key", (name) => name === "signing_keys"],
  ];
  for (const [what, fails] of faults) {
    await t.step(what, async () => {
      using faulty = await FaultyKv.open();
      await using w = await openRegistry({ kv: faulty.kv });
      await remove(w, await w.agent());
      faulty.faults = { fails: ({ keys }) => keys.some((key) => fails(key[1])) };
      await refused(await w.ask("GET", "/v1/crl"), "CRL_BUILD_FAILED");
      faulty.faults = {};
      await answered(await w.ask("GET", "/v1/crl"));
      faulty.faults = { fails: ({ keys }) => keys.some((key) => fails(key[1])) };
      await w.clock.advance(450_000);
      await refused(await w.ask("GET", "/v1/crl"), "CRL_BUILD_FAILED");
    });
  }
});

Deno.test("a list of 1,500 entries is signed and verified, newest first", () => longList(1_500));
longTest("a list of 10,000 entries is signed and verified, newest first", () => longList(10_000));

/** Fills the list with entries of agents that do not exist. */
async function writeRevocations(w: World, count: number, at: (jti: string, i: number) => number): Promise<void> {
  const keptUntil = unixSeconds(w.clock.now()) + 3600;
  await writeRecords(w, count, (operation, i) => {
    const jti = w.newId();
    const agentDid = `did:svc:registry.example.test:agent:${w.newId()}`;
    operation.set(KEYS.revocation(jti), { jti, agentDid, reason: "reissued", revokedAt: at(jti, i), keptUntil });
  });
  await w.kv.set(KEYS.crlHead(), { seq: count });
}

async function longList(count: number): Promise<void> {
  await using w = await openRegistry();
  const now = unixSeconds(w.clock.now());
  const jtis: string[] = [];
  await writeRevocations(w, count, (jti, i) => {
    jtis.push(jti);
    return now - count + i;
  });
  const { seq, revocations } = await readCrl(w);
  assertEquals(seq, count);
  assertEquals(revocations.map(({ jti }) => jti), jtis.toReversed());
  const a = await w.agent();
  await remove(w, a);
  const after = await withTime(w, readCrl(w), 100);
  assertEquals([after.seq, after.revocations.length, after.revocations[0]?.jti], [
    count + 1,
    count + 1,
    a.agent.currentJti,
  ]);
}

Deno.test("a long list is built at most once a second and never lacks an acknowledged revocation", async () => {
  await using w = await openRegistry();
  const now = unixSeconds(w.clock.now());
  await writeRevocations(w, 600, () => now);
  const agents = await w.agents(8, await w.person());
  const first = await etagOf(w);
  const started = w.clock.now();
  const builds = new Map<string, number>();
  const work = agents.map(async (a) => {
    await remove(w, a);
    const removedAt = w.clock.now();
    const { jti, revocations } = await readCrl(w);
    assert(revocations.some((one) => one.jti === a.agent.currentJti), "acknowledged but not listed");
    assert(w.clock.now() - removedAt <= 1_100, `visible after ${w.clock.now() - removedAt} ms`);
    builds.set(jti, w.clock.now());
  });
  await withTime(w, Promise.all(work), 50);
  assert(builds.size <= Math.ceil((w.clock.now() - started) / 1000), `${builds.size} builds`);
  assertNotEquals(await withTime(w, etagOf(w), 100), first);
});
