/**
 * Pairs, sessions, agents and owners end while 64 agents send at once: no message that begins after the 2xx of such an end is
 * accepted, although each sender's standing saves its checks until then (D-101).
 */
import { assert, assertEquals } from "@std/assert";
import { outcome } from "../support/registry_world.ts";
import { numbersFrom } from "../support/seeded_random.ts";
import { printedSeed } from "../support/trials.ts";
import type { TestAgent, World } from "../support/world.ts";
import { openProxy, post } from "../proxy/proxy_world.ts";

const SENDERS = 64;
const MESSAGES = 10_000;
/** Messages of a sender before its end, at most, and after it. */
const BEFORE = 40;
const AFTER = 10;

type End = (w: World, a: TestAgent, b: TestAgent) => Promise<Response>;

const ENDS: Readonly<Record<string, End>> = {
  pair: (w, a, b) => post(w, b, "/pair/remove", { peerAgentDid: a.agent.did }),
  session: (w, a) => w.ask("DELETE", `/v1/agents/${a.agent.id}/auth/revoke`, { apiKey: a.owner.apiKey }),
  agent: (w, a) => w.ask("DELETE", `/v1/agents/${a.agent.id}`, { apiKey: a.owner.apiKey }),
  owner: async (w, a) => {
    const { apiKey } = await w.admin();
    return await w.ask("POST", `/v1/admin/people/${a.owner.id}/suspend`, { apiKey, body: { reason: "a test" } });
  },
};

Deno.test("of 10,000 messages none is accepted that begins after the end of its pair, session, agent or owner", async () => {
  const chance = numbersFrom(printedSeed());
  const kinds = Object.keys(ENDS);
  const counts = { before: 0, after: 0, late: 0 };
  while (counts.before + counts.after < MESSAGES) {
    await using w = await openProxy({
      sharedProcess: true,
      proxy: { agentRequests: 1_000_000, ownerRequests: 1_000_000 },
    });
    const pairs: [TestAgent, TestAgent][] = [];
    for (let i = 0; i < SENDERS; i++) {
      const a = await w.agent(), b = await w.agent();
      await w.pair(a, b);
      w.connect(b);
      pairs.push([a, b]);
    }
    await w.connected();
    await Promise.all(pairs.map(async ([a, b], i) => {
      const kind = kinds[i % kinds.length] ?? "pair", until = 1 + Math.floor(chance() * BEFORE);
      let hasEnded = false;
      const end = async () => {
        const { status } = await ENDS[kind]?.(w, a, b) ?? { status: 0 };
        assert(status >= 200 && status < 300, `${kind}: ${status}`);
        hasEnded = true;
      };
      let ending: Promise<void> | null = null;
      for (let sent = 0, after = 0; after < AFTER; sent++) {
        if (sent === until) ending = end();
        const beganAfter = hasEnded;
        const answer = await outcome(await w.message(a, b));
        if (beganAfter) after++;
        counts[beganAfter ? "after" : "before"]++;
        if (beganAfter && answer === "202") counts.late++;
      }
      await ending;
    }));
  }
  console.log(JSON.stringify(counts));
  assertEquals(counts.late, 0);
  assert(counts.before > 0 && counts.after > 0);
});
