/**
 * Shows how many pairs an agent may have, how they are counted, listed in pages and removed, and how a used ticket is
 * answered after its pair was removed.
 */
import { assertEquals } from "@std/assert";
import { KEYS } from "../../proxy/schema/kv_keys.ts";
import type { PairCount } from "../../proxy/schema/records.ts";
import type { PeerList } from "../../shared/protocol/api/pairing.ts";
import { formatDid } from "../../shared/protocol/did.ts";
import { stampsOf } from "../support/each_fault.ts";
import { answered, outcome, refused, tally, withTime } from "../support/registry_world.ts";
import type { TestAgent, World } from "../support/world.ts";
import { confirm, get, openProxy, post, PROFILE, ticketOf } from "./proxy_world.ts";

const FULL = "409 QUOTA_EXCEEDED";
const NOT_FOUND = "404 PROXY_PAIR_TICKET_NOT_FOUND";

const remove = (w: World, agent: TestAgent, peer: TestAgent) =>
  post(w, agent, "/pair/remove", { peerAgentDid: peer.agent.did });

async function count(w: World, { agent }: TestAgent): Promise<number | undefined> {
  return (await w.kv.get<PairCount>(KEYS.pairCount(agent.did))).value?.pairs;
}

/** Pairs of an agent with agents that do not exist. */
async function manyPairs(w: World, { agent }: TestAgent, pairs: number): Promise<string[]> {
  const dids: string[] = [];
  for (let i = 0; i < pairs; i++) {
    const did = formatDid({ authority: "registry.example.test", kind: "agent", id: w.newId() });
    const record = { peerProfile: PROFILE, pairedAt: w.clock.now(), ticketId: "t" };
    await w.kv.atomic().set(KEYS.pair(agent.did, did), record).set(KEYS.pair(did, agent.did), record).commit();
    dids.push(did);
  }
  await w.kv.set(KEYS.pairCount(agent.did), { pairs } satisfies PairCount);
  return dids;
}

async function cast(pairQuota: number) {
  const w = await openProxy({ proxy: { pairQuota } });
  const owner = await w.person();
  return { w, a: await w.agent(owner), b: await w.agent(owner), c: await w.agent(owner), d: await w.agent(owner) };
}

Deno.test("a confirmation is refused when either agent has its quota of pairs", async () => {
  const { w, a, b, c, d } = await cast(2);
  await using _ = w;
  assertEquals(await outcome(await confirm(w, b, await ticketOf(w, a))), "201");
  assertEquals(await outcome(await confirm(w, c, await ticketOf(w, a))), "201");
  const ticket = await ticketOf(w, a);
  await refused(await confirm(w, d, ticket), "QUOTA_EXCEEDED");
  assertEquals(await outcome(await confirm(w, a, await ticketOf(w, d))), FULL);
  assertEquals(await outcome(await confirm(w, b, await ticketOf(w, a))), "201", "an existing pair is renewed");
  assertEquals([await count(w, a), await count(w, b), await count(w, d)], [2, 1, undefined]);
  assertEquals(await outcome(await remove(w, a, b)), "204");
  assertEquals([await count(w, a), await count(w, b)], [1, undefined]);
  assertEquals(await outcome(await confirm(w, d, ticket)), "201");
});

Deno.test("pairs that others make with an agent of another server use up their own quotas, and not its quota", async () => {
  const { w, a, b, c } = await cast(2);
  await using _ = w;
  const peerKey = { publicKey: "A".repeat(43), mac: "A".repeat(43) };
  const far = [1, 2, 3].map(() => `did:svc:b.example:agent:${w.newId()}`);
  const accept = async (agent: TestAgent, peerAgentDid?: string) => {
    const body = { peerAgentDid, peerProxy: "https://b.example", peerProfile: PROFILE, peerKey };
    return await outcome(await post(w, agent, "/pair/accept", body));
  };
  for (const agent of [a, b, c]) assertEquals(await accept(agent, far[0]), "201");
  assertEquals([await accept(a, far[1]), await accept(a, far[2])], ["201", FULL]);
});

Deno.test("one pair is made when many confirm at once and one place is left", async () => {
  await using w = await openProxy({ proxy: { pairQuota: 1 } });
  const a = await w.agent();
  const owner = await w.person();
  const tickets: string[] = [];
  const others: TestAgent[] = [];
  for (let i = 0; i < 6; i++) {
    tickets.push(await ticketOf(w, a));
    others.push(await w.agent(owner));
  }
  const counts = await withTime(w, tally(others.map((agent, i) => confirm(w, agent, tickets[i] ?? ""))));
  assertEquals(counts, { "201": 1, [FULL]: 5 });
  assertEquals(await count(w, a), 1);
});

Deno.test("removing a pair that does not exist writes nothing, and removing one announces nothing", async () => {
  const { w, a, b, c } = await cast(10);
  await using _ = w;
  await confirm(w, b, await ticketOf(w, a));
  const all = () => stampsOf(w, "sender", "commit_mark");
  const before = await all();
  assertEquals(await outcome(await remove(w, a, c)), "204");
  assertEquals(await outcome(await remove(w, a, a)), "204");
  assertEquals(await all(), before);
  assertEquals(await outcome(await remove(w, a, b)), "204");
  assertEquals(await Array.fromAsync(w.kv.list({ prefix: ["bell", "trust"] })), []);
});

Deno.test("peers are listed once each, page by page, when pairs are removed in between", async () => {
  const { w, a } = await cast(1_000);
  await using _ = w;
  const dids = (await manyPairs(w, a, 25)).toSorted();
  const read = async (query: string) => await answered<PeerList>(await get(w, a, `/pair/peers${query}`));
  const whole = await read("");
  assertEquals(whole.peers.map((peer) => peer.agentDid), dids);
  assertEquals(whole.pagination, { limit: 100, nextCursor: null });
  const first = await read("?limit=10");
  assertEquals(first.pagination, { limit: 10, nextCursor: dids[9] ?? "" });
  // The peer that the cursor names is gone when the next page is requested.
  await post(w, a, "/pair/remove", { peerAgentDid: dids[9] });
  const second = await read(`?limit=10&cursor=${first.pagination.nextCursor}`);
  const third = await read(`?limit=10&cursor=${second.pagination.nextCursor}`);
  assertEquals([...first.peers, ...second.peers, ...third.peers].map((peer) => peer.agentDid), dids);
  assertEquals(third.pagination.nextCursor, null);
  const exact = await read("?limit=24");
  assertEquals([exact.peers.length, exact.pagination.nextCursor], [24, null]);
  for (const bad of ["?limit=0", "?limit=501", "?limit=x", "?cursor=x", "?limit=1&limit=2", `?cursor=${a.owner.did}`]) {
    await refused(await get(w, a, `/pair/peers${bad}`), "PROXY_PAIR_INVALID_BODY");
  }
});

Deno.test("a used ticket is not found when the pair that it made was removed", async () => {
  const { w, a, b } = await cast(10);
  await using _ = w;
  const ticket = await ticketOf(w, a);
  assertEquals(await outcome(await confirm(w, b, ticket)), "201");
  assertEquals(await outcome(await confirm(w, b, ticket)), "201");
  await remove(w, b, a);
  assertEquals(await outcome(await confirm(w, b, ticket)), NOT_FOUND);
  const later = await ticketOf(w, a);
  assertEquals(await outcome(await confirm(w, b, later)), "201");
  assertEquals(await outcome(await confirm(w, b, ticket)), NOT_FOUND, "another ticket made the existing pair");
  assertEquals(await outcome(await confirm(w, b, later)), "201");
});
