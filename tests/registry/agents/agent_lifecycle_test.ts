/**
 * Shows the life of registered agents: listed in pages, resolved, reissued and deleted, by their owner only, and with
 * one result when requests are concurrent.
 */
import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { verifyAit } from "../../../shared/protocol/signed/ait.ts";
import type { Agent, AgentList, ReissueAnswer } from "../../../shared/protocol/api/agents.ts";
import { keyPairFromSeed } from "../../../shared/protocol/ed25519.ts";
import type { ErrorCode } from "../../../shared/protocol/errors.ts";
import { unixSeconds } from "../../../shared/protocol/time.ts";
import { FaultyKv } from "../../support/faulty_kv.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import {
  answered,
  moveTo,
  openRegistry,
  outcome,
  publishedKeys,
  readCrl,
  refused,
  tally,
  validate,
  withTime,
} from "../../support/registry_world.ts";
import { trials } from "../../support/trials.ts";
import { AMPLE_QUOTAS, type Person, REGISTRY_URL, type TestAgent, type World } from "../../support/world.ts";
import { owned } from "../steps.ts";

const UNKNOWN = "01KHYQ5H00AAAAAAAAAAAAAAAA";

async function page(w: World, owner: Person, query: string): Promise<AgentList> {
  return await answered<AgentList>(await w.ask("GET", `/v1/agents?${query}`, { apiKey: owner.apiKey }));
}

const revokedJtis = async (w: World) => (await readCrl(w)).revocations.map(({ jti }) => jti);

Deno.test("the agent list accepts limit 1 to 100, a known status, a framework and a ULID cursor only", async (t) => {
  await using w = await openRegistry();
  const { owner, agent } = await w.agent();
  const good: [query: string, limit: number, count: number][] = [
    ["", 20, 1],
    ["limit=1", 1, 1],
    ["limit=100", 100, 1],
    ["status=active", 20, 1],
    ["status=revoked", 20, 0],
    ["framework=generic", 20, 1],
    ["framework=%20generic%20", 20, 1],
    [`framework=${"x".repeat(32)}`, 20, 0],
    [`cursor=${UNKNOWN}`, 20, 0],
    ["cursor=7ZZZZZZZZZZZZZZZZZZZZZZZZZ", 20, 1],
    [`cursor=${agent.id}`, 20, 0],
  ];
  for (const [query, limit, count] of good) {
    await t.step(`taken: ${query}`, async () => {
      const { agents, pagination } = await page(w, owner, query);
      assertEquals([agents.length, pagination], [count, { limit, nextCursor: null }]);
    });
  }
  const limits = ["0", "101", "abc", "1.5", "", "1e1", "-1", "+1", "01", "%201", "1%20", "0x10", "１", "1&limit=2"];
  const bad = [
    "limt=1",
    ...limits.map((limit) => `limit=${limit}`),
    ...["foo", "", "Active", "active,revoked", "active&status=active"].map((status) => `status=${status}`),
    ...["x".repeat(33), "", "%20", "a%00", "a%0Ab"].map((framework) => `framework=${framework}`),
    ...["abc", "", agent.id.toLowerCase(), `${agent.id}A`, `${agent.id}&cursor=${agent.id}`].map((id) =>
      `cursor=${id}`
    ),
  ];
  for (const query of bad) {
    await t.step(`refused: ${query}`, async () => {
      const answer = await w.ask("GET", `/v1/agents?${query}`, { apiKey: owner.apiKey });
      await refused(answer, "AGENT_LIST_INVALID_QUERY");
    });
  }
});

Deno.test("the agent list holds the caller's agents, newest first, filtered, with the expiry of the AIT", async () => {
  await using w = await openRegistry();
  const one = await w.agent();
  const { owner } = one;
  await w.agent();
  await w.clock.advance(1000);
  const two = await w.agent(owner);
  const three = await w.agent(owner);
  await answered(await owned(w, "DELETE", two), 204);
  const { agents } = await page(w, owner, "");
  assertEquals(
    agents,
    [three, two, one].map(({ agent: { id, did, name, expiresAt } }) => {
      return {
        id,
        did,
        name,
        status: id === two.agent.id ? "revoked" as const : "active" as const,
        expires: expiresAt,
      };
    }),
  );
  const names = async (query: string) => (await page(w, owner, query)).agents.map(({ name }) => name);
  assertEquals(await names("status=active"), [three.agent.name, one.agent.name]);
  assertEquals(await names("status=revoked"), [two.agent.name]);
  assertEquals(await names("framework=other"), []);
  const first = await page(w, owner, "status=active&limit=1");
  assertEquals(first.pagination.nextCursor, three.agent.id);
  const second = await page(w, owner, `status=active&limit=1&cursor=${three.agent.id}`);
  assertEquals([second.agents.length, second.pagination.nextCursor], [1, null]);
});

Deno.test("agent list pagination returns each agent once while agents are added and deleted", async (t) => {
  await using w = await openRegistry({ registry: { quotas: AMPLE_QUOTAS } });
  const owner = await w.person();
  const keys = await keyPairFromSeed(w.random.bytes(32));
  const make = () => w.agent(owner, undefined, keys);
  const agents: TestAgent[] = [];
  for (let i = 0; i < 50; i++) {
    agents.push(await make());
    w.clock.step(250);
  }
  const foreign = await w.agent();
  for (const filter of ["", "status=active&"]) {
    await t.step(`limit=7&${filter}`, async () => {
      const doomed = agents.splice(15, 5);
      const came: TestAgent[] = [];
      const seen: string[] = [];
      let cursor: string | null = "";
      while (cursor !== null) {
        const query: string = `${filter}limit=7${cursor && `&cursor=${cursor}`}`;
        const victim = doomed.pop();
        const [{ agents: items, pagination }] = await withTime(
          w,
          Promise.all([
            page(w, owner, query),
            came.length < 5 ? make().then((agent) => came.push(agent)) : null,
            victim ? owned(w, "DELETE", victim).then((answer) => answered(answer, 204)) : null,
          ]),
          500,
        );
        assert(items.length === 7 || pagination.nextCursor === null, "only the last page is short");
        seen.push(...items.map(({ id }) => id));
        cursor = pagination.nextCursor;
      }
      assertEquals(seen, [...new Set(seen)].sort().reverse(), "strictly descending, none twice");
      const all = new Set(seen);
      for (const { agent } of agents) assert(all.has(agent.id), agent.name);
      assert(!all.has(foreign.agent.id));
      assertEquals([came.length, doomed.length], [5, 0]);
      agents.push(...came);
    });
  }
});

Deno.test("every route answers alike for an agent of another owner and an unknown agent", async (t) => {
  await using w = await openRegistry();
  const { agent } = await w.agent();
  const stranger = await w.person();
  for (
    const [method, what] of [["GET", ""], ["POST", "/reissue"], ["DELETE", "/auth/revoke"], ["DELETE", ""]] as const
  ) {
    await t.step(`${method} ${what}`, async () => {
      const bodies = [];
      for (const { apiKey } of [stranger, await w.admin()]) {
        for (const id of [agent.id, UNKNOWN]) {
          bodies.push(await refused(await w.ask(method, `/v1/agents/${id}${what}`, { apiKey }), "AGENT_NOT_FOUND"));
        }
      }
      assertEquals(new Set(bodies).size, 1);
    });
  }
  assertEquals((await answered<{ status: string }>(await w.ask("GET", `/v1/resolve/${agent.id}`))).status, "active");
});

Deno.test("a reissue returns a new AIT for the stored days from now, and revokes the previous one", async () => {
  await using w = await openRegistry();
  const a = await w.agent(undefined, "alpha", undefined, { ttlDays: 7, framework: "x" });
  const { agent, agentAuth } = a;
  await w.clock.advance(3 * 86_400_000);
  const { agent: next, ait, ...rest } = await answered<ReissueAnswer>(await owned(w, "POST", a, "/reissue"));
  assertEquals(rest, {}, "no new session while the old one lives");
  const now = unixSeconds(w.clock.now());
  const claims = await verifyAit(ait, { issuer: REGISTRY_URL, keys: await publishedKeys(w) }, now);
  assertEquals([claims.jti, claims.iat, claims.exp], [next.currentJti, now, now + 7 * 86_400]);
  assertNotEquals(next.currentJti, agent.currentJti);
  const updatedAt = new Date(w.clock.now()).toISOString();
  assertEquals(next, {
    ...agent,
    currentJti: claims.jti,
    expiresAt: new Date(claims.exp * 1000).toISOString(),
    updatedAt,
  });
  assertEquals(await revokedJtis(w), [agent.currentJti]);
  assertEquals(agentAuth.tokenType, "Bearer");
});

Deno.test("a deleted agent cannot be deleted or reissued again, and resolves as revoked", async () => {
  await using w = await openRegistry();
  const a = await w.agent();
  await w.clock.advance(1000);
  await answered(await owned(w, "DELETE", a), 204);
  await refused(await owned(w, "DELETE", a), "AGENT_REVOKE_INVALID_STATE");
  await refused(await owned(w, "POST", a, "/reissue"), "AGENT_REISSUE_INVALID_STATE");
  const { agent } = await answered<{ agent: Agent }>(await owned(w, "GET", a));
  assertEquals(agent, { ...a.agent, status: "revoked", updatedAt: new Date(w.clock.now()).toISOString() });
  await refused(await validate(w, a, a.agentAuth.accessToken), "AGENT_AUTH_VALIDATE_UNAUTHORIZED");
  await answered(await owned(w, "DELETE", a, "/auth/revoke"), 204);
  assertEquals(await revokedJtis(w), [a.agent.currentJti]);
});

Deno.test("resolving an agent needs no credential, returns five fields, and is 429 from the 11th in a minute", async () => {
  await using w = await openRegistry();
  const { agent, owner } = await w.agent();
  const path = `/v1/resolve/${agent.id}`;
  const record = { did: agent.did, name: agent.name, framework: "generic", status: "active", ownerDid: owner.did };
  assertEquals(await answered(await w.ask("GET", path)), record);
  await answered(await owned(w, "DELETE", { agent, owner }), 204);
  assertEquals(await answered(await w.ask("GET", path)), { ...record, status: "revoked" });
  const unknown = await refused(await w.ask("GET", `/v1/resolve/${UNKNOWN}`), "AGENT_NOT_FOUND");
  assertEquals(JSON.parse(unknown).error.message, "no such agent");
  for (let i = 3; i < 10; i++) await answered(await w.ask("GET", path));
  await refused(await w.ask("GET", path), "RATE_LIMIT_EXCEEDED");
  moveTo(w, 1);
  await answered(await w.ask("GET", path));
});

Deno.test("the agent ends revoked with every token on the list when deletion and reissue are concurrent", async () => {
  await using w = await openRegistry({ registry: { quotas: AMPLE_QUOTAS } });
  const owner = await w.person();
  const keys = await keyPairFromSeed(w.random.bytes(32));
  const jtis: string[] = [];
  const reissues: Record<string, number> = {};
  for (let round = 0; round < trials(8); round++) {
    const a = await w.agent(owner, undefined, keys);
    jtis.push(a.agent.currentJti);
    const calls = [() => owned(w, "DELETE", a), () => owned(w, "POST", a, "/reissue")];
    if (round % 2) calls.reverse();
    const first = calls[0]?.();
    // The first request starts earlier in every other pair of rounds.
    if (round % 4 > 1) await flushTasks();
    const answers = await withTime(w, Promise.all([first, calls[1]?.()]), 100);
    const [deleted, reissue] = round % 2 ? answers.reverse() : answers;
    assertEquals(deleted?.status, 204);
    if (reissue?.status === 200) jtis.push((await answered<ReissueAnswer>(reissue)).agent.currentJti);
    else await refused(reissue as Response, "AGENT_REISSUE_INVALID_STATE");
    reissues[reissue?.status ?? 0] = (reissues[reissue?.status ?? 0] ?? 0) + 1;
    const { agent } = await answered<{ agent: Agent }>(await owned(w, "GET", a));
    assertEquals(agent.status, "revoked");
    w.clock.step(600);
  }
  assertEquals((await revokedJtis(w)).sort(), jtis.sort());
  assertEquals((await readCrl(w)).seq, jtis.length);
  assert(Object.keys(reissues).length === 2, `both ends were seen: ${JSON.stringify(reissues)}`);
});

Deno.test("one of 20 concurrent deletions of an agent is 204, and each of 10 reissues returns its own AIT", async () => {
  await using w = await openRegistry();
  const a = await w.agent();
  const answers = await withTime(w, Promise.all(Array.from({ length: 10 }, () => owned(w, "POST", a, "/reissue"))));
  const jtis = [a.agent.currentJti];
  for (const answer of answers) {
    if (answer.status === 200) jtis.push((await answered<ReissueAnswer>(answer)).agent.currentJti);
    else await refused(answer, "AGENT_REISSUE_INVALID_STATE");
  }
  assert(jtis.length >= 2 && new Set(jtis).size === jtis.length);
  const { agent } = await answered<{ agent: Agent }>(await owned(w, "GET", a));
  assert(jtis.includes(agent.currentJti));
  assertEquals((await revokedJtis(w)).sort(), jtis.filter((jti) => jti !== agent.currentJti).sort());
  const work = Array.from({ length: 20 }, () => owned(w, "DELETE", a));
  assertEquals(await withTime(w, tally(work)), { "204": 1, "409 AGENT_REVOKE_INVALID_STATE": 19 });
});

Deno.test("a reissue is 200 or 409, never 503, when it meets the end of an expired session", async (t) => {
  const rows: [what: string, meanwhile: (w: World, a: TestAgent) => Promise<Response>, codes: (ErrorCode | null)[]][] =
    [
      ["another reissue", (w, a) => owned(w, "POST", a, "/reissue"), ["AGENT_REISSUE_INVALID_STATE"]],
      ["a deletion", (w, a) => owned(w, "DELETE", a), ["AGENT_REISSUE_INVALID_STATE"]],
      ["a revocation of the session", (w, a) => owned(w, "DELETE", a, "/auth/revoke"), [
        null,
        "AGENT_REISSUE_INVALID_STATE",
      ]],
    ];
  for (const [what, meanwhile, codes] of rows) {
    await t.step(what, async () => {
      using faulty = await FaultyKv.open();
      await using w = await openRegistry({ kv: faulty.kv, registry: { refreshTokenTtlSeconds: 60 } });
      await using other = await openRegistry({ kv: faulty.kv, clock: w.clock, seed: 2 });
      const a = await w.agent();
      await w.clock.advance(60_000);
      faulty.faults = {
        async before({ method, keys }) {
          if (method !== "commit" || !keys.some((key) => key[1] === "revocation")) return;
          faulty.faults = {};
          assert((await meanwhile(other, a)).status < 300);
        },
      };
      const result = await withTime(w, owned(w, "POST", a, "/reissue").then(outcome), 500);
      assert(codes.some((code) => result === (code ? `409 ${code}` : "200")), result);
    });
  }
});
