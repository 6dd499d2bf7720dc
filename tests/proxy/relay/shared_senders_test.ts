/**
 * Requests of one sender that a balancer spreads over two instances: each request is accepted once, and the instances
 * tell each other what they have stored, so their commits do not conflict.
 */
import { assert, assertEquals } from "@std/assert";
import { setImmediate } from "node:timers/promises";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { aroundCommits } from "../../support/kv_hooks.ts";
import { LinkNetwork } from "../../support/link_network.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import { IS_REMOTE } from "../../support/test_store.ts";
import { IS_LONG } from "../../support/trials.ts";
import type { TestAgent, World } from "../../support/world.ts";
import { connected, sharedStore, two } from "./two_instances.ts";

interface Linked {
  worlds: [World, World];
  a: TestAgent;
  b: TestAgent;
  network: LinkNetwork;
  /** Commits that met another version than they checked. */
  conflicts: () => number;
}

/** Two instances with a link, and a recipient at the first. */
async function linked(run: (linked: Linked) => Promise<void>): Promise<void> {
  const network = new LinkNetwork();
  await two(() => sharedStore(network), async (w1, w2, a, b) => {
    await connected(w1, b);
    await flushTasks();
    let conflicts = 0;
    aroundCommits(w1.kv, async (commit) => {
      const result = await commit();
      if (!result.ok) conflicts++;
      return result;
    });
    await run({ worlds: [w1, w2], a, b, network, conflicts: () => conflicts });
  }, { proxy: { agentRequests: 10_000 } });
}

/** Sends messages to the instances in turns. */
async function inTurns({ worlds, a, b }: Linked, count: number): Promise<void> {
  for (let n = 0; n < count; n++) {
    const answer = await worlds[n % 2]!.message(a, b);
    assertEquals([answer.status, (await answer.json()).delivered], [202, true], `message ${n}`);
    await flushTasks();
  }
}

/** Returns the statuses of one signed request that both instances get. The second gets it `turns` turns later. */
async function atBoth({ worlds: [w1, w2], a, b }: Linked, turns: number): Promise<number[]> {
  const request = await w1.signed(a, { recipient: b.agent.did, body: "{}" });
  const [one, other] = turns % 2 ? [w1, w2] : [w2, w1];
  const first = one.fetch(request.clone());
  for (let i = 0; i < turns; i++) await setImmediate();
  const answers = await Promise.all([first, other.fetch(request)]);
  await Promise.all(answers.map((answer) => answer.body?.cancel()));
  return answers.map(({ status }) => status).sort();
}

Deno.test("requests of one sender at two instances in turns cause one conflict, and none is refused", () =>
  linked(async (all) => {
    await inTurns(all, 20);
    assert(all.conflicts() <= 1, `${all.conflicts()} conflicts`);
  }));

Deno.test("a request that one instance has accepted is a replay at the other, and causes no conflict", () =>
  linked(async (all) => {
    const { worlds, a, b } = all;
    await inTurns(all, 4);
    const before = all.conflicts();
    for (let n = 0; n < 10; n++) {
      const [one, other] = [worlds[n % 2]!, worlds[(n + 1) % 2]!];
      const request = await one.signed(a, { recipient: b.agent.did, body: "{}" });
      const copies = [one, other, one, other].map((w) => [w, request.clone()] as const);
      const statuses: number[] = [];
      for (const [w, copy] of copies) {
        statuses.push((await w.fetch(copy)).status);
        await flushTasks();
      }
      assertEquals(statuses, [202, 401, 401, 401]);
    }
    assertEquals(all.conflicts(), before, "each instance knew the newest version");
  }));

Deno.test("a request that both instances get at the same time is accepted once, in any order", () =>
  linked(async (all) => {
    await inTurns(all, 2);
    // After 200 replays in ten seconds an instance refuses the sender without looking at its nonce.
    const rounds = IS_LONG ? 200 : IS_REMOTE ? 20 : 80;
    for (let n = 0; n < rounds; n++) {
      const others = n % 3 === 0 ? all.worlds.map((w) => w.message(all.a, all.b)) : [];
      assertEquals(await atBoth(all, n % 16), [202, 401], `round ${n}`);
      for (const answer of await Promise.all(others)) assertEquals(answer.status, 202);
    }
  }));

Deno.test("many requests of one sender that both instances get together are all accepted", () =>
  linked(async ({ worlds, a, b }) => {
    for (let round = 0; round < 5; round++) {
      const answers = await Promise.all(Array.from({ length: 40 }, (_, n) => worlds[n % 2]!.message(a, b)));
      assertEquals(answers.map(({ status }) => status).filter((status) => status !== 202), []);
    }
  }));

Deno.test("without the link each request of a shared sender is still accepted once", () =>
  linked(async (all) => {
    const { worlds, a, b, network } = all;
    await inTurns(all, 4);
    const before = all.conflicts();
    // What is told is lost, and no instance knows it.
    for (const w of worlds) w.proxy.deps.links.hint = () => {};
    await inTurns(all, 6);
    assert(all.conflicts() > before);
    network.isDown = true;
    network.cut();
    await flushTasks();
    for (let n = 0; n < 6; n++) {
      const [one, other] = [worlds[n % 2]!, worlds[(n + 1) % 2]!];
      // The recipient is at the first instance, and a note to it would need the clock.
      const request = await one.signed(a, { recipient: b.agent.did, body: "{}", headers: { Prefer: "respond-async" } });
      const first = one.fetch(request.clone());
      await flushTasks();
      await all.worlds[0].clock.advance(1_000);
      assertEquals([(await first).status, (await other.fetch(request)).status], [202, 401], `request ${n}`);
    }
    network.isDown = false;
    await worlds[0].clock.advance(60_000);
  }));

Deno.test("a link that has more than 1 MiB to send carries no stored senders", () =>
  linked(async (all) => {
    await inTurns(all, 4);
    const before = all.conflicts();
    all.network.fill(LIMITS.frameBytes + 1);
    await inTurns(all, 6);
    const full = all.conflicts();
    assert(full > before, "each request meets another version");
    all.network.fill(0);
    await inTurns(all, 6);
    assert(all.conflicts() <= full + 1, `${all.conflicts() - full} conflicts`);
  }));

Deno.test("of two senders in one commit each is told with its own record", () =>
  linked(async (all) => {
    const { worlds: [w1, w2], a, b } = all, c = await w1.agent();
    await w1.pair(c, b);
    const together: number[] = [];
    const { links } = w1.proxy.deps, hint = links.hint.bind(links);
    links.hint = (body, bytes) => {
      together.push((body as { senders: unknown[] }).senders.length);
      hint(body, bytes);
    };
    const signed = (from: TestAgent) => w1.signed(from, { recipient: b.agent.did, body: "{}" });
    for (let n = 0; n < 3; n++) {
      const requests = [await signed(a), await signed(c)];
      const send = (w: World) => Promise.all(requests.map(async (one) => (await w.fetch(one.clone())).status));
      for (const w of [w2, w1]) {
        assertEquals((await Promise.all([w.message(a, b), w.message(c, b)])).map(({ status }) => status), [202, 202]);
        await flushTasks();
      }
      assertEquals(await send(w1), [202, 202]);
      await flushTasks();
      assertEquals(await send(w2), [401, 401]);
    }
    assert(together.includes(2), "one frame carried both");
    assert(all.conflicts() <= 2, `${all.conflicts()} conflicts`);
  }));

Deno.test("a malformed version of a sender from another instance is logged, and the next request is accepted", () =>
  linked(async (all) => {
    const { worlds: [w1, w2], a } = all;
    await inTurns(all, 2);
    const note = { kind: "senders", senders: [{ agentDid: a.agent.did, versionstamp: "f".repeat(20), bytes: 40 }] };
    for (const bytes of [new Uint8Array(), new Uint8Array(40)]) w1.proxy.deps.links.hint(note, bytes);
    await flushTasks();
    await inTurns(all, 4);
    const lost = w2.log.filter(({ event }) => event === "note_lost");
    assertEquals(lost.map(({ fields }) => fields.kind), ["senders", "senders"]);
  }));
