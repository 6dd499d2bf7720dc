/**
 * Pairs, sessions, agents and owners end while 64 agents send at once: no message that begins after the 2xx of such an end is
 * accepted, although each sender's standing saves its checks until then (D-101).
 */
import { assert, assertEquals } from "@std/assert";
import { outcome } from "../support/registry_world.ts";
import { numbersFrom } from "../support/seeded_random.ts";
import { printedSeed } from "../support/trials.ts";
import { type TestAgent, World } from "../support/world.ts";
import { FaultyKv } from "../support/faulty_kv.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { RELIED_MS } from "../../shared/server/store/open_store.ts";
import { openProxy, post } from "../proxy/proxy_world.ts";

const SENDERS = 64;
const MESSAGES = 10_000;
/** Messages of a sender before its end, at most, and after it. */
const BEFORE = 40;
const AFTER = 10;
const CLOCK_STEP_MS = 100;
const TICK_MS = 20;
const UNLIMITED = { agentRequests: 1_000_000, ownerRequests: 1_000_000 };

type End = (w: World, a: TestAgent, b: TestAgent, adminKey: string) => Promise<Response>;

const ENDS: Readonly<Record<string, End>> = {
  pair: (w, a, b) => post(w, b, "/pair/remove", { peerAgentDid: a.agent.did }),
  session: (w, a) => w.ask("DELETE", `/v1/agents/${a.agent.id}/auth/revoke`, { apiKey: a.owner.apiKey }),
  agent: (w, a) => w.ask("DELETE", `/v1/agents/${a.agent.id}`, { apiKey: a.owner.apiKey }),
  owner: (w, a, _b, apiKey) =>
    w.ask("POST", `/v1/admin/people/${a.owner.id}/suspend`, { apiKey, body: { reason: "a test" } }),
};

/** What a run has counted: messages that began before and after the end, and those of the latter that were accepted. */
interface Counts {
  before: number;
  after: number;
  late: number;
}

const chance = numbersFrom(printedSeed());

/**
 * Ends each of 64 senders' trust at `ending` while it sends at `sending` to a recipient that is connected there. `graceMs` after
 * the 2xx of the end, by the clock of both, a message counts as one after it.
 */
async function endUnderLoad(sending: World, ending: World, counts: Counts, graceMs = 0): Promise<void> {
  const kinds = Object.keys(ENDS), { clock } = sending, { apiKey: adminKey } = await sending.admin();
  const pairs: [TestAgent, TestAgent][] = [];
  for (let i = 0; i < SENDERS; i++) {
    const a = await sending.agent(), b = await sending.agent();
    await sending.pair(a, b);
    ending.connect(b);
    pairs.push([a, b]);
  }
  await ending.connected();
  let answered = 0;
  // The time passes with the work, and never stands still while messages wait for it.
  const ticking = setInterval(() => void clock.advance(TICK_MS), TICK_MS);
  await Promise.all(pairs.map(async ([a, b], i) => {
    const kind = kinds[i % kinds.length] ?? "pair", until = 1 + Math.floor(chance() * BEFORE);
    let endedAt = Infinity;
    const end = async () => {
      const { status } = await ENDS[kind]?.(ending, a, b, adminKey) ?? { status: 0 };
      assert(status >= 200 && status < 300, `${kind}: ${status}`);
      endedAt = clock.now();
    };
    let ended: Promise<void> | null = null;
    for (let sent = 0, after = 0; after < AFTER; sent++) {
      if (sent === until) ended = end();
      const beganAfter = clock.now() >= endedAt + graceMs;
      const answer = await outcome(await sending.message(a, b));
      if (beganAfter) after++;
      counts[beganAfter ? "after" : "before"]++;
      if (beganAfter && answer === "202") counts.late++;
      if (graceMs > 0 && ++answered % SENDERS === 0) await clock.advance(CLOCK_STEP_MS);
    }
    await ended;
  })).finally(() => clearInterval(ticking));
}

function assertNoneLate(counts: Counts): void {
  console.log(JSON.stringify(counts));
  assertEquals(counts.late, 0);
  assert(counts.before > 0 && counts.after > 0);
}

Deno.test("of 10,000 messages none is accepted that begins after the end of its pair, session, agent or owner", async () => {
  const counts = { before: 0, after: 0, late: 0 };
  while (counts.before + counts.after < MESSAGES) {
    await using w = await openProxy({ sharedProcess: true, proxy: UNLIMITED });
    await endUnderLoad(w, w, counts);
  }
  assertNoneLate(counts);
});

Deno.test("of 10,000 messages between instances none is accepted that begins a second after the end at the other one", async () => {
  const counts = { before: 0, after: 0, late: 0 }, maxChecks = LIMITS.commitChecksConnect;
  while (counts.before + counts.after < MESSAGES) {
    using store = await FaultyKv.open({ maxChecks });
    await using w1 = await World.open({ kv: store.kv, maxChecks, seed: 1, proxy: UNLIMITED });
    await using w2 = await World.open({ kv: store.kv, maxChecks, seed: 2, clock: w1.clock, proxy: UNLIMITED });
    await Promise.all([w1.proxy.start(), w2.proxy.start()]);
    await endUnderLoad(w1, w2, counts, RELIED_MS + 1);
  }
  assertNoneLate(counts);
});
