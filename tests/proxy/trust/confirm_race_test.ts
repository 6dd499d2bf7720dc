/** Many confirmations at once: they take turns, so none is refused because the others change the same records. */
import { assert, assertEquals } from "@std/assert";
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import { fraction } from "../../../shared/random.ts";
import { FaultyKv } from "../../support/faulty_kv.ts";
import { tally, withTime } from "../../support/registry_world.ts";
import { seededRandom } from "../../support/seeded_random.ts";
import { AMPLE_QUOTAS, type TestAgent, type World } from "../../support/world.ts";
import { confirm, openProxy } from "../proxy_world.ts";

const AT_ONCE = 20;
const OF_ONE = 10;
const AMPLE = { quotas: AMPLE_QUOTAS };

async function ticketsOf(initiator: TestAgent, count: number): Promise<string[]> {
  const tickets: string[] = [];
  for (let i = 0; i < count; i++) {
    tickets.push((await initiator.client.pairStart({ agentName: "a", humanName: "A" })).ticket);
  }
  return tickets;
}

async function pairCount(w: World, { agent }: TestAgent): Promise<number> {
  return (await w.kv.get<{ pairs: number }>(KEYS.pairCount(agent.did))).value?.pairs ?? 0;
}

async function agents(w: World, count: number): Promise<TestAgent[]> {
  const owner = await w.person();
  return await Promise.all(Array.from({ length: count }, () => w.agent(owner)));
}

Deno.test("ten agents that confirm the tickets of one agent at once all succeed", async () => {
  await using w = await openProxy();
  const [initiator, ...responders] = await agents(w, OF_ONE + 1) as [TestAgent, ...TestAgent[]];
  const tickets = await ticketsOf(initiator, OF_ONE);
  const calls = responders.map((one, i) => confirm(w, one, tickets[i] ?? ""));
  assertEquals(await withTime(w, tally(calls), 20), { "201": OF_ONE });
  assertEquals(await pairCount(w, initiator), OF_ONE);
});

Deno.test("20 tickets of 20 agents that one agent confirms at once, at two instances, are all confirmed", async () => {
  using store = await FaultyKv.open();
  await using w = await openProxy({ kv: store.kv, registry: AMPLE });
  await using other = await openProxy({ kv: store.kv, clock: w.clock, seed: 2, registry: AMPLE });
  const [responder, ...initiators] = await agents(w, AT_ONCE + 1) as [TestAgent, ...TestAgent[]];
  const tickets = (await Promise.all(initiators.map((one) => ticketsOf(one, 1)))).flat();
  const calls = tickets.map((ticket, i) => confirm(i % 2 ? w : other, responder, ticket));
  assertEquals(await withTime(w, tally(calls), 20), { "201": AT_ONCE });
  assertEquals(await pairCount(w, responder), AT_ONCE);
});

Deno.test("a ticket is confirmed although other instances change the same records, for 5 s", async () => {
  using store = await FaultyKv.open();
  await using w = await openProxy({ kv: store.kv });
  const [initiator, ...responders] = await agents(w, OF_ONE + 1) as [TestAgent, ...TestAgent[]];
  const tickets = await ticketsOf(initiator, OF_ONE);
  const random = seededRandom(3);
  store.faults.conflicts = ({ keys }) => keys.some((key) => key[1] === "pair_count") && fraction(random) < 0.8;
  for (const [i, responder] of responders.entries()) {
    const one = withTime(w, tally([confirm(w, responder, tickets[i] ?? "")]), 50);
    assertEquals(await one, { "201": 1 });
  }
});

Deno.test("a record that stays busy is 503 after 5 s, and is not called unreachable", async () => {
  using store = await FaultyKv.open();
  await using w = await openProxy({ kv: store.kv });
  const [initiator, responder] = await agents(w, 2) as [TestAgent, TestAgent];
  const [ticket = ""] = await ticketsOf(initiator, 1);
  store.faults.conflicts = ({ keys }) => keys.some((key) => key[1] === "pair_count");
  const began = w.clock.now();
  const answer = await withTime(w, confirm(w, responder, ticket), 50);
  const { error } = await answer.json();
  assertEquals([answer.status, error.code, error.message], [
    503,
    "SERVICE_UNAVAILABLE",
    "Too many others change the same records",
  ]);
  assertEquals(answer.headers.get("Retry-After"), "1");
  const seconds = (w.clock.now() - began) / 1000;
  assert(seconds >= 5 && seconds < 6, `${seconds} s`);
  store.faults = {};
  assertEquals((await confirm(w, responder, ticket)).status, 201);
});
