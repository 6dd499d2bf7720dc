/**
 * A store that answers every read and never a commit: each wait for a commit ends, so a sender gets its 503 while it
 * still waits, and the service works again as soon as the store does.
 */
import { assert, assertEquals } from "@std/assert";
import { FaultyKv } from "../support/faulty_kv.ts";
import { ManualClock } from "../support/manual_clock.ts";
import { outcome, refresh } from "../support/registry_world.ts";
import { MAX_CHECKS } from "../support/test_store.ts";
import type { TestAgent, World } from "../support/world.ts";
import { get, openProxy, post, PROFILE, receiptOf } from "./proxy_world.ts";

const MESSAGES = 3;
/** A commit gets 10 s; what is tried after it gets 1 s, because the store has not answered. */
const ANSWERED_S = 15;
const UNAVAILABLE = "503 PROXY_AUTH_DEPENDENCY_UNAVAILABLE";

/** Commits, or all calls, are never answered after `hang` until `heal`. */
async function openLate(options: { maxChecks?: number; sharedProcess?: boolean } = {}) {
  const clock = new ManualClock();
  const store = await FaultyKv.open({}, 1, clock);
  const w = await openProxy({ kv: store.kv, clock, ...options });
  const hang = (what: "writes" | "all" = "writes") => {
    store.faults.before = ({ method }) =>
      what === "all" || method === "commit" || method === "set" || method === "delete"
        ? new Promise<void>(() => {})
        : undefined;
  };
  return { store, w, hang, heal: () => delete store.faults.before };
}

/** Moves the clock until every answer is there. Returns the answers, each with the seconds it took. */
async function answers(w: World, requests: readonly Promise<Response>[], withinS: number) {
  const done: [outcome: string, seconds: number][] = [];
  const began = w.clock.now();
  for (const request of requests) {
    void request.then(async (answer) => done.push([await outcome(answer), (w.clock.now() - began) / 1000]));
  }
  for (let s = 0; s < withinS && done.length < requests.length; s++) await w.clock.advance(1_000);
  return done;
}

async function pairs(w: World, count: number): Promise<[TestAgent, TestAgent][]> {
  const made: [TestAgent, TestAgent][] = [];
  for (let i = 0; i < count; i++) {
    const { a, b } = await w.pairedAgents();
    w.connect(b);
    made.push([a, b]);
  }
  await w.connected();
  return made;
}

Deno.test("messages are 503 within 15 s while the store commits nothing, and 202 after it commits again", async (t) => {
  for (const senders of [1, MESSAGES]) {
    for (const network of [false, true]) {
      await t.step(`${senders} senders, store ${network ? "over a network" : "in this process"}`, async () => {
        const { store, w, hang, heal } = await openLate(network ? { maxChecks: 10 } : { maxChecks: MAX_CHECKS });
        using _ = store;
        await using __ = w;
        const agents = await pairs(w, senders);
        const send = (i: number) => {
          const [a, b] = agents[i % senders] as [TestAgent, TestAgent];
          return w.message(a, b);
        };
        for (let i = 0; i < senders; i++) assertEquals(await outcome(await send(i)), "202");
        hang();
        const done = await answers(w, Array.from({ length: MESSAGES }, (_, i) => send(i)), 120);
        assertEquals(done.map(([what]) => what), Array(MESSAGES).fill(UNAVAILABLE));
        const slowest = Math.max(...done.map(([, seconds]) => seconds));
        assert(slowest <= ANSWERED_S, `the slowest took ${slowest} s`);
        heal();
        // The first one waits for the last call that has no answer.
        for (let i = 0; i < senders; i++) assertEquals((await answers(w, [send(i)], 2))[0]?.[0], "202");
      });
    }
  }
});

Deno.test("each message is 503 within 15 s while the store answers nothing, and the later ones within 2 s", async (t) => {
  for (const network of [false, true]) {
    await t.step(`store ${network ? "over a network" : "in this process"}`, async () => {
      const { store, w, hang, heal } = await openLate({ sharedProcess: true, maxChecks: network ? 10 : MAX_CHECKS });
      using _ = store;
      await using __ = w;
      const [[a, b]] = await pairs(w, 1) as [[TestAgent, TestAgent]];
      assertEquals(await outcome(await w.message(a, b)), "202");
      hang("all");
      const done: [outcome: string, seconds: number][] = [];
      for (let i = 0; i < 3; i++) done.push(...await answers(w, [w.message(a, b)], 120));
      heal();
      const [first = Infinity, second = Infinity, third = Infinity] = done.map(([, seconds]) => seconds);
      assertEquals(done.map(([what]) => what), Array(3).fill(UNAVAILABLE));
      assert(Math.max(first, second) <= ANSWERED_S && third <= 2, `answers after ${first}, ${second} and ${third} s`);
      assertEquals((await answers(w, [w.message(a, b)], 2))[0]?.[0], "202");
    });
  }
});

Deno.test("every other request that commits ends within 15 s while the store commits nothing", async (t) => {
  const requests: [name: string, send: (w: World, a: TestAgent, b: TestAgent) => Promise<Response>][] = [
    ["pair start", (w, a) => post(w, a, "/pair/start", { initiatorProfile: PROFILE })],
    ["pair removal", (w, a, b) => post(w, a, "/pair/remove", { peerAgentDid: b.agent.did })],
    ["peers", (w, a) => get(w, a, "/pair/peers")],
    [
      "receipt",
      (w, a, b) =>
        post(w, b, "/v1/relay/delivery-receipts", {
          ...receiptOf(w, b, "request-0001"),
          senderAgentDid: a.agent.did,
        }),
    ],
    ["queued message", (w, a, b) => w.message(a, b, { headers: { Prefer: "respond-async" } })],
    ["refresh", (w, a) => refresh(w, a, a.agentAuth.refreshToken)],
    ["reissue", (w, a) => w.ask("POST", `/v1/agents/${a.agent.id}/reissue`, { apiKey: a.owner.apiKey })],
    ["end of a session", (w, a) => w.ask("DELETE", `/v1/agents/${a.agent.id}/auth/revoke`, { apiKey: a.owner.apiKey })],
  ];
  for (const [name, send] of requests) {
    await t.step(name, async () => {
      const { store, w, hang, heal } = await openLate();
      using _ = store;
      await using __ = w;
      const [[a, b]] = await pairs(w, 1) as [[TestAgent, TestAgent]];
      hang();
      const [[what, seconds] = ["no answer", Infinity]] = await answers(w, [send(w, a, b)], 120);
      heal();
      assert(what.startsWith("503 ") && seconds <= ANSWERED_S, `${what} after ${seconds} s`);
    });
  }
});
