/** Two proxies over one store, of which one does the same as the other at any of its calls to the store. */
import { assert, assertEquals } from "@std/assert";
import { KEYS } from "../../proxy/schema/kv_keys.ts";
import { FaultyKv } from "../support/faulty_kv.ts";
import { countOf, outcome, withTime } from "../support/registry_world.ts";
import type { TestAgent, World } from "../support/world.ts";
import { confirm, openProxy, post, PROFILE, receiptOf, ticketOf } from "./proxy_world.ts";

interface Race {
  name: string;
  /** Returns the requests that two instances get at once. */
  prepare(w: World): Promise<(at: World, isFirst: boolean) => Promise<Response>>;
  /** The sorted outcomes that are allowed. */
  allowed: readonly string[];
  /** A kind of records, and how many there are more afterwards. */
  grows: readonly [key: Deno.KvKey, by: number];
}

const DONE = "201", TAKEN = "409 PROXY_PAIR_TICKET_ALREADY_CONFIRMED";

/** Three agents of one person, whose ownership is asked for without the store of the world. */
async function three(w: World): Promise<[TestAgent, TestAgent, TestAgent]> {
  const owner = await w.person();
  return [await w.agent(owner), await w.agent(owner), await w.agent(owner)];
}

const RACES: readonly Race[] = [
  {
    name: "of two agents that confirm one ticket, one is paired",
    async prepare(w) {
      const [a, b, c] = await three(w), ticket = await ticketOf(w, a);
      return (at, isFirst) => confirm(at, isFirst ? b : c, ticket);
    },
    allowed: [`${DONE}, ${TAKEN}`],
    grows: [KEYS.pairs("x"), 2],
  },
  {
    name: "two confirmations of one agent have one answer and make one pair",
    async prepare(w) {
      const [a, b] = await three(w), ticket = await ticketOf(w, a);
      return (at) => confirm(at, b, ticket);
    },
    allowed: [`${DONE}, ${DONE}`],
    grows: [KEYS.pairs("x"), 2],
  },
  {
    name: "of two tickets over the bound of open ones, one is made",
    async prepare(w) {
      const [a] = await three(w);
      for (let i = 0; i < 19; i++) await ticketOf(w, a);
      return (at) => post(at, a, "/pair/start", { initiatorProfile: PROFILE });
    },
    allowed: ["200, 429 PROXY_RATE_LIMIT_EXCEEDED"],
    grows: [KEYS.ticket("x"), 1],
  },
  {
    name: "two ends of one pair end it once",
    async prepare(w) {
      const [a, b] = await three(w);
      await w.pair(a, b);
      return (at, isFirst) => {
        const [own, peer] = isFirst ? [a, b] : [b, a];
        return post(at, own, "/pair/remove", { peerAgentDid: peer.agent.did });
      };
    },
    allowed: ["204, 204"],
    grows: [KEYS.pairCount("x"), -2],
  },
  {
    name: "a receipt that is sent twice is stored once",
    async prepare(w) {
      const [a, b] = await three(w);
      await w.pair(a, b);
      const requestId = "01KHYQ5H00AAAAAAAAAAAAAAAA";
      const sent = await w.message(a, b, { headers: { Prefer: "respond-async", "X-Request-Id": requestId } });
      assertEquals(await outcome(sent), "202");
      return (at) =>
        post(at, b, "/v1/relay/delivery-receipts", { ...receiptOf(w, b, requestId), senderAgentDid: a.agent.did });
    },
    allowed: ["201, 201"],
    grows: [KEYS.receipts("x", "x"), 1],
  },
];

for (const { name, prepare, allowed, grows: [kind, by] } of RACES) {
  Deno.test(`${name}, at whichever call to the store another instance does the same`, async () => {
    using faulty = await FaultyKv.open();
    await using w = await openProxy({ kv: faulty.kv });
    await using other = await openProxy({ kv: faulty.kv, clock: w.clock, seed: 2 });
    for (let at = 1, isOver = false; !isOver; at++) {
      const request = await prepare(w), before = await countOf(w, kind);
      let calls = 0, second = "";
      faulty.faults.before = async () => {
        if (++calls !== at) return;
        faulty.faults = {};
        second = await outcome(await request(other, false));
      };
      const first = await outcome(await withTime(w, request(w, true)));
      faulty.faults = {};
      isOver = second === "";
      if (isOver) second = await outcome(await request(other, false));
      const outcomes = [first, second].sort().join(", ");
      assert(allowed.includes(outcomes), `at call ${at}: ${outcomes}`);
      assertEquals(await countOf(w, kind) - before, by, `at call ${at}`);
    }
  });
}
