/**
 * Shows the order in which a confirmation is checked, which agents the registry allows to pair, and the routes
 * that manage trust.
 */
import { assert, assertEquals } from "@std/assert";
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import type { Seen } from "../../../proxy/schema/records.ts";
import type { ErrorCode } from "../../../shared/protocol/errors.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import { answered, countOf, outcome, refused, tally, withTime } from "../../support/registry_world.ts";
import type { TestAgent, World } from "../../support/world.ts";
import { confirm, endsAfter, get, openProxy, post, PROFILE, restart, ticketOf } from "../proxy_world.ts";
import { inWorld } from "../cast.ts";
import { keyOf } from "../federation/visitor_cast.ts";

const FORBIDDEN = "403 PROXY_PAIR_OWNERSHIP_FORBIDDEN";
const UNAVAILABLE = "503 PROXY_PAIR_OWNERSHIP_UNAVAILABLE";
const OWNERSHIP = "/internal/v1/identity/agent-ownership";

interface Cast {
  w: World;
  a: TestAgent;
  b: TestAgent;
  c: TestAgent;
  /** IDs of the agents whose ownership was requested. */
  asked: string[];
  /** Replaces the registry's answer about ownership. */
  answer: ((agentDid: string) => Response | Promise<Response> | null) | null;
}

async function cast(): Promise<Cast> {
  const w = await openProxy();
  const all: Cast = { w, a: await w.agent(), b: await w.agent(), c: await w.agent(), asked: [], answer: null };
  w.registryAnswer = async (request) => {
    const own = () => w.registry.fetch(request, { from: "process" });
    if (new URL(request.url).pathname !== OWNERSHIP) return await own();
    const { agentDid } = await request.clone().json();
    all.asked.push(agentDid);
    return await all.answer?.(agentDid) ?? await own();
  };
  return all;
}

const pairs = (w: World) => countOf(w, KEYS.pairs("x"));

type Run = (all: Awaited<ReturnType<typeof cast>>, t: Deno.TestContext) => Promise<void>;
const test = (name: string, run: Run) => Deno.test(name, inWorld(cast, run));

test("a confirmation with several faults is refused for the first of them", async (all) => {
  const { w, a, b, c } = all;
  // The registry allows no agent to pair, and each ticket has expired unless the case needs a valid one.
  const taken = await ticketOf(w, a, { ttlSeconds: 1 });
  const forC = await ticketOf(w, a, { ttlSeconds: 1, allowResponderAgentDid: c.agent.did });
  const open = await ticketOf(w, a, { ttlSeconds: 900 });
  const openForC = await ticketOf(w, a, { ttlSeconds: 900, allowResponderAgentDid: c.agent.did });
  await answered(await confirm(w, b, taken), 201);
  w.clock.step(1000);
  all.answer = () => Response.json({ ownsAgent: false, agentStatus: null, session: null });
  all.asked.length = 0;
  const cases: [name: string, agent: TestAgent, ticket: unknown, profile: unknown, code: ErrorCode][] = [
    ["body before ticket", c, "junk", {}, "PROXY_PAIR_INVALID_BODY"],
    ["body before anything about the ticket", a, forC, {}, "PROXY_PAIR_INVALID_BODY"],
    ["unknown", c, "junk", PROFILE, "PROXY_PAIR_TICKET_NOT_FOUND"],
    ["confirmed by another, past its time", c, taken, PROFILE, "PROXY_PAIR_TICKET_ALREADY_CONFIRMED"],
    ["confirmed by another, own", a, taken, PROFILE, "PROXY_PAIR_TICKET_ALREADY_CONFIRMED"],
    ["expired, own, for another", a, forC, PROFILE, "PROXY_PAIR_TICKET_EXPIRED"],
    ["expired, for another", b, forC, PROFILE, "PROXY_PAIR_TICKET_EXPIRED"],
    ["own, for another", a, openForC, PROFILE, "PROXY_PAIR_INVALID_BODY"],
    ["own", a, open, PROFILE, "PROXY_PAIR_INVALID_BODY"],
    ["for another, not owned", b, openForC, PROFILE, "PROXY_PAIR_RESPONDER_FORBIDDEN"],
    ["the same responder, past its time, not owned", b, taken, PROFILE, "PROXY_PAIR_OWNERSHIP_FORBIDDEN"],
    ["not owned", c, openForC, PROFILE, "PROXY_PAIR_OWNERSHIP_FORBIDDEN"],
  ];
  for (const [name, agent, ticket, profile, code] of cases) {
    await refused(await confirm(w, agent, ticket, profile), code);
    assertEquals(all.asked.splice(0), code === "PROXY_PAIR_OWNERSHIP_FORBIDDEN" ? [agent.agent.did] : [], name);
  }
  assertEquals(await pairs(w), 2);
  all.answer = null;
  assertEquals(await outcome(await confirm(w, c, openForC)), "201");
});

Deno.test("only an active agent with an active session and the owner of its AIT makes or confirms a ticket", async (t) => {
  const states: [name: string, ownership: Record<string, unknown>][] = [
    ["not owned", { ownsAgent: false, agentStatus: "active", session: "active" }],
    ["revoked", { ownsAgent: true, agentStatus: "revoked", session: "active" }],
    ["unknown", { ownsAgent: false, agentStatus: null, session: null }],
    ["session revoked", { ownsAgent: true, agentStatus: "active", session: "revoked" }],
    ["session expired", { ownsAgent: true, agentStatus: "active", session: "expired" }],
    ["no session", { ownsAgent: true, agentStatus: "active", session: null }],
  ];
  const all = await cast();
  const { w, a, b } = all;
  await using _ = w;
  const peerAgentDid = "did:svc:b.example:agent:01KHYQ5H00AAAAAAAAAAAAAAAA", peerProxy = "https://relay.b.example";
  const peerKey = await keyOf(a, "initiator", peerAgentDid);
  const abroad = { peerAgentDid, peerProxy, peerProfile: PROFILE, peerKey };
  for (const [name, ownership] of states) {
    await t.step(name, async () => {
      const ticket = await ticketOf(w, a);
      const answer = (about: TestAgent) => {
        all.answer = (did) => did === about.agent.did ? Response.json(ownership) : null;
      };
      answer(a);
      assertEquals(await outcome(await post(w, a, "/pair/start", { initiatorProfile: PROFILE })), FORBIDDEN);
      answer(b);
      assertEquals(await outcome(await confirm(w, b, ticket)), FORBIDDEN);
      answer(a);
      assertEquals(await outcome(await confirm(w, b, ticket)), FORBIDDEN);
      assertEquals(await pairs(w), 0);
      all.answer = null;
      assertEquals(await outcome(await confirm(w, b, ticket)), "201");
      const routes: [name: string, ask: () => Promise<Response>][] = [
        ["start", () => post(w, b, "/pair/start", { initiatorProfile: PROFILE })],
        ["confirm", () => confirm(w, b, ticket)],
        ["accept", () => post(w, b, "/pair/accept", abroad)],
        ["status", () => post(w, b, "/pair/status", { ticket })],
        ["peers", () => get(w, b, "/pair/peers")],
        ["remove", () => post(w, b, "/pair/remove", { peerAgentDid: a.agent.did })],
      ];
      answer(b);
      for (const [route, ask] of routes) assertEquals(await outcome(await ask()), FORBIDDEN, route);
      assertEquals(await pairs(w), 2);
      all.answer = null;
      assertEquals(await outcome(await post(w, a, "/pair/remove", { peerAgentDid: b.agent.did })), "204");
    });
  }
});

Deno.test("start and confirm are 503 without an answer about ownership, and no pair is made", async (t) => {
  const good = { ownsAgent: true, agentStatus: "active", session: "active" };
  const answers: [name: string, answer: () => Response | Promise<Response>][] = [
    ["no connection", () => Promise.reject(new TypeError("connection refused"))],
    ["500", () => Response.json({}, { status: 500 })],
    [
      "401 bad service secret",
      () => Response.json({ error: { code: "INTERNAL_SERVICE_UNAUTHORIZED" } }, { status: 401 }),
    ],
    ["403 scope", () => Response.json({ error: { code: "INTERNAL_SERVICE_FORBIDDEN" } }, { status: 403 })],
    ["429", () => Response.json({}, { status: 429 })],
    ["400", () => Response.json({}, { status: 400 })],
    ["302", () => new Response(null, { status: 302, headers: { Location: "/" } })],
    ["201 with the right body", () => Response.json(good, { status: 201 })],
    ["200 without a body", () => new Response(null)],
    ["200 that is HTML", () => new Response("<html>")],
    ["200 without a member", () => Response.json({ ownsAgent: true, agentStatus: "active" })],
    ["200 with another word", () => Response.json({ ...good, session: "fine" })],
    ["200 with a text for a boolean", () => Response.json({ ...good, ownsAgent: "true" })],
  ];
  const all = await cast();
  const { w, a, b } = all;
  await using _ = w;
  const ticket = await ticketOf(w, a);
  for (const [name, answer] of answers) {
    await t.step(name, async () => {
      all.answer = answer;
      const startAnswer = await post(w, a, "/pair/start", { initiatorProfile: PROFILE });
      assert(startAnswer.headers.get("retry-after"));
      assertEquals(await outcome(startAnswer), UNAVAILABLE);
      assertEquals(await outcome(await confirm(w, b, ticket)), UNAVAILABLE);
      all.answer = (did) => did === a.agent.did ? answer() : null;
      assertEquals(await outcome(await confirm(w, b, ticket)), UNAVAILABLE);
    });
  }
  assertEquals(await pairs(w), 0);
  all.answer = null;
  assertEquals(await outcome(await confirm(w, b, ticket)), "201");
});

test("a registry that gives no answer after a ticket was confirmed changes nothing of it", async (all) => {
  const { w, a, b } = all, ticket = await ticketOf(w, a);
  all.asked.length = 0;
  // Each agent is asked about before the change and after it.
  all.answer = () => all.asked.length > 2 ? new Response(null, { status: 500 }) : null;
  assertEquals(await outcome(await confirm(w, b, ticket)), "201");
  assertEquals([all.asked.length > 2, await pairs(w)], [true, 2]);
});

test("an ownership request that hangs causes 503 within 5 s of the clock", async (all) => {
  const { w, a } = all;
  all.answer = () => new Promise(() => {});
  const asking = post(w, a, "/pair/start", { initiatorProfile: PROFILE }).then(outcome);
  for (let i = 0; i < 3; i++) await flushTasks();
  assertEquals(await endsAfter(w, 5_000, asking), UNAVAILABLE);
});

test("an agent gets 20 of 30 tickets that it requests at once", async ({ w, a }) => {
  const asking = tally(Array.from({ length: 30 }, () => post(w, a, "/pair/start", { initiatorProfile: PROFILE })));
  assertEquals(await withTime(w, asking), { "200": 20, "429 PROXY_RATE_LIMIT_EXCEEDED": 10 });
});

test("peers are listed with their names, and removing a pair ends both directions", async ({ w, a, b, c }) => {
  for (const agent of [a, b, c]) w.connect(agent);
  const names = { agentName: "beta", humanName: "Bob" };
  await answered(await confirm(w, b, await ticketOf(w, a), names), 201);
  const at = new Date(w.clock.now()).toISOString();
  // The clock of the world stands at a full minute.
  const seen = { online: true, lastSeenAt: at };
  w.clock.step(1000);
  await answered(await confirm(w, c, await ticketOf(w, a)), 201);
  const peersOf = async (agent: TestAgent) =>
    (await answered<{ peers: { agentDid: string; online: boolean }[] }>(await get(w, agent, "/pair/peers"))).peers;
  assertEquals((await peersOf(a)).map((peer) => peer.agentDid).toSorted(), [b.agent.did, c.agent.did].toSorted());
  assertEquals((await peersOf(a)).find((peer) => peer.agentDid === b.agent.did) as unknown, {
    agentDid: b.agent.did,
    profile: names,
    pairedAt: at,
    ...seen,
  });
  assertEquals(await peersOf(b) as unknown, [{ agentDid: a.agent.did, profile: PROFILE, pairedAt: at, ...seen }]);
  // As the end of its connection leaves it, while the instance goes on with those of others.
  const { key, value } = await w.kv.get<Seen>(KEYS.seen(b.agent.did));
  await w.kv.set(key, { ...value, disconnectedAt: w.clock.now() });
  const online = (await peersOf(a)).map(({ agentDid, online }) => [agentDid === c.agent.did, online]);
  assertEquals(online.toSorted(), [[false, false], [true, true]]);

  const remove = (agent: TestAgent, peerAgentDid: unknown) => post(w, agent, "/pair/remove", { peerAgentDid });
  for (const bad of [undefined, null, "", "nobody", a.owner.did, 7]) {
    await refused(await remove(a, bad), "PROXY_PAIR_INVALID_BODY");
  }
  assertEquals(await outcome(await remove(b, c.agent.did)), "204");
  assertEquals((await peersOf(a)).length, 2, "removing a pair that does not exist changed no other");
  assertEquals(await outcome(await remove(b, a.agent.did)), "204");
  assertEquals([await peersOf(b), (await peersOf(a)).map((peer) => peer.agentDid)], [[], [c.agent.did]]);
  assertEquals(await outcome(await remove(b, a.agent.did)), "204");
  for (const [from, to] of [[a, b], [b, a]] as const) {
    assertEquals(await outcome(await w.message(from, to)), "403 PROXY_AUTH_FORBIDDEN");
  }
  assertEquals(await outcome(await w.message(a, c)), "202");
  await restart(w);
  assertEquals((await peersOf(a)).length, 1);
  await answered(await confirm(w, b, await ticketOf(w, a)), 201);
  assertEquals((await peersOf(b)).length, 1);
});

Deno.test("a list of many peers counts as several requests of its owner", async () => {
  await using w = await openProxy({ proxy: { ownerRequests: 10 } });
  const a = await w.agent();
  for (let n = 0; n < 100; n++) {
    const peer = `did:svc:b.example:agent:01KHYQ5H00${String(n).padStart(16, "0")}`;
    const pair = {
      peerProfile: PROFILE,
      peerOwnerDid: "b.example",
      proxy: "https://relay.b.example",
      pairedAt: w.clock.now(),
    };
    await w.kv.set(KEYS.pair(a.agent.did, peer), { ...pair, ticketId: "t" });
  }
  const list = async (limit: number) => await outcome(await get(w, a, `/pair/peers?limit=${limit}`));
  assertEquals([await list(49), await list(50), await list(100), await list(100)], ["200", "200", "200", "200"]);
  assertEquals([await list(50), await list(49)], ["429 PROXY_RATE_LIMIT_EXCEEDED", "429 PROXY_RATE_LIMIT_EXCEEDED"]);
});

test("a deleted agent cannot send, and a new agent of its owner inherits no pairs", async ({ w, a, b }) => {
  w.connect(a);
  await answered(await confirm(w, b, await ticketOf(w, a)), 201);
  await w.client.deleteAgent(b.owner.apiKey, b.agent.id);
  await w.proxy.deps.crl.refresh();
  assertEquals(await outcome(await w.message(b, a)), "401 PROXY_AUTH_REVOKED");
  assertEquals(await outcome(await w.message(a, b)), "403 PROXY_AUTH_FORBIDDEN");
  const next = await w.agent(b.owner, b.agent.name, b.keys);
  assertEquals(await outcome(await w.message(next, a)), "403 PROXY_AUTH_FORBIDDEN");
  assertEquals(await outcome(await w.message(a, next)), "403 PROXY_AUTH_FORBIDDEN");
});
