/** Peers that are renamed, blocked and removed: names that lead to no other agent, and nothing of a blocked peer. */
import { assert, assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import fc from "fast-check";
import { ALIAS } from "../../../cli/connector/peers/aliases.ts";
import { PeerBook } from "../../../cli/connector/peers/peer_book.ts";
import {
  aliasesOf,
  blockPeer,
  findPeer,
  findPeerEver,
  mergePeers,
  peerIn,
  type Peers,
  perhapsReplaced,
  pinTicket,
  presentPeers,
  readPeers,
  removePeer,
  renamePeer,
  replacePeer,
  writePeers,
} from "../../../cli/connector/peers/peers.ts";
import { didOf as peerDid } from "../../../cli/connector/local_api/inbox_handlers.ts";
import { LocalError } from "../../../cli/local_errors.ts";
import type { DeliverFrame } from "../../../shared/protocol/frames.ts";
import { type TestAgent, World } from "../../support/world.ts";
import type { Machine } from "../cli_world.ts";
import { until, untilLater } from "../../support/until.ts";
import { passing, story } from "./bench.ts";
import { holdConnectorLock } from "./held_lock.ts";
import { clientOf, connectorOfAlpha, folderOf, machineWithAlpha, pairAlpha } from "./local_machine.ts";
import { asker, post } from "./local_api/local_caller.ts";
import { AT, didOf, KEY, ofTicket, ofTickets } from "./some_peers.ts";

const listed = (n: number, agentName: string) => ({
  agentDid: didOf(n),
  profile: { agentName, humanName: "h" },
  pairedAt: AT,
});
const contacts = (...names: string[]) => mergePeers({}, { peers: names.map((name, n) => listed(n, name)) });
/** Peers after their pairs have ended, and then as many other ones. */
function afterEnds(peers: Peers, count: number): Peers {
  const gone = mergePeers(peers, { peers: [] });
  const crowd = Array.from({ length: count }, (_, n) => listed(n + 1, `n${n}`));
  return mergePeers(mergePeers(gone, { peers: crowd }), { peers: [] });
}

Deno.test("a new alias leads to the peer, and so do all that it had", () => {
  const peers = renamePeer(renamePeer(ofTickets("beta", "gamma"), didOf(0), "bob"), didOf(0), "robert");
  assertEquals(Object.keys(peers), ["gamma", "robert"]);
  assertEquals(["beta", "bob", "robert", "gamma"].map((alias) => findPeer(peers, alias)), [
    ...[didOf(0), didOf(0), didOf(0)],
    didOf(1),
  ]);
  const back = renamePeer(peers, didOf(0), "bob");
  assertEquals([Object.keys(back), back.bob?.former], [["bob", "gamma"], ["beta", "robert"]]);
  assertEquals(renamePeer(back, didOf(0), "bob"), back);
  const ended = mergePeers(back, { peers: [] });
  assertEquals([findPeer(ended, "beta"), findPeerEver(ended, "beta")], [null, didOf(0)]);
});

Deno.test("an alias that could be taken for another peer, a person or a program is refused", () => {
  const peers = renamePeer(ofTickets("beta", "gamma", "paul"), didOf(1), "greta");
  const ofOthers = ["gamma", "Gamma", "greta", "GRETA", "pau1", "PauI"];
  for (const alias of [...ofOthers, "svc", "Admin", "contact-x", "", "-x", "a b", "ü", "x".repeat(33)]) {
    assertThrows(() => renamePeer(peers, didOf(0), alias), LocalError, undefined, alias);
  }
  assertEquals(findPeer(renamePeer(peers, didOf(0), "Beta"), "beta"), didOf(0));
});

Deno.test("no other peer gets an alias that a peer had", () => {
  const renamed = renamePeer(ofTickets("beta"), didOf(0), "bob");
  const pinned = ofTicket(renamed, 1, "beta");
  assertEquals([findPeer(pinned, "beta"), findPeer(pinned, "beta-2")], [didOf(0), didOf(1)]);
  const contact = renamePeer(contacts("beta"), didOf(0), "bob");
  const merged = mergePeers(contact, { peers: [0, 1].map((n) => listed(n, "beta")) });
  assertEquals(Object.keys(merged), ["contact-beta-2", "contact-bob"]);
});

Deno.test("a contact keeps its prefix until a ticket pins it, and then keeps the name that the person gave", () => {
  const contact = renamePeer(contacts("beta"), didOf(0), "bob");
  assertEquals(Object.keys(contact), ["contact-bob"]);
  const pinned = ofTicket(contact, 0, "beta");
  assertEquals([Object.keys(pinned), pinned.bob?.former], [["bob"], ["contact-beta", "contact-bob"]]);
  assertEquals(["contact-beta", "contact-bob"].map((alias) => findPeer(pinned, alias)), [didOf(0), didOf(0)]);
});

Deno.test("the new agent of a person takes all names of the old one, which is removed and can still be read", () => {
  const old = renamePeer(ofTickets("beta", "gamma"), didOf(0), "bob");
  const paired = ofTicket(old, 2, "beta");
  assertEquals([Object.keys(paired), perhapsReplaced(paired, didOf(2))], [["beta-2", "bob", "gamma"], "bob"]);
  assertEquals(["gamma", "bob"].map((alias) => perhapsReplaced(paired, paired[alias]?.did ?? "")), [null, null]);
  const ofAnother = ofTicket(old, 2, "beta", "Eve");
  assertEquals(perhapsReplaced(ofAnother, didOf(2)), null);
  const replaced = replacePeer(paired, didOf(2), "beta");
  assertEquals(Object.keys(replaced), ["bob", "bob-old", "gamma"]);
  assertEquals(["bob", "beta", "beta-2"].map((alias) => findPeer(replaced, alias)), Array(3).fill(didOf(2)));
  assertEquals([findPeer(replaced, "bob-old"), findPeerEver(replaced, "bob-old")], [null, didOf(0)]);
  assertEquals(replaced["bob-old"]?.key, KEY);
  assertEquals(perhapsReplaced(replaced, didOf(2)), null);
  for (const [did, alias] of [[didOf(2), "another"], [didOf(2), "bob"], [didOf(0), "gamma"]] as const) {
    assertThrows(() => replacePeer(replaced, did, alias), LocalError);
  }
});

Deno.test("a contact takes no place of a peer, under any name that a relay lists", () => {
  const peers = { ...ofTickets("beta"), ...contacts("x", "beta") };
  assertEquals([Object.keys(peers).includes("contact-beta"), perhapsReplaced(peers, didOf(1))], [true, null]);
  assertThrows(() => replacePeer(peers, didOf(1), "beta"), LocalError, "has not paired by a ticket of yours");
});

Deno.test("a peer whose pair has ended, by either side, takes no place of another one", () => {
  const peers = ofTickets("beta", "gamma");
  const there = { agentDid: didOf(0), profile: { agentName: "beta", humanName: "h" }, pairedAt: AT };
  for (const ended of [mergePeers(peers, { peers: [there] }), removePeer(peers, didOf(1))]) {
    assertThrows(() => replacePeer(ended, didOf(1), "beta"), LocalError, "has not paired by a ticket of yours");
  }
  assertEquals(findPeer(replacePeer(peers, didOf(1), "beta"), "beta"), didOf(1));
});

Deno.test("a peer has at most eight other names, which stay its own", () => {
  let peers = ofTickets("beta");
  for (let n = 0; n < 8; n++) peers = renamePeer(peers, didOf(0), `name${"abcdefgh"[n]}`);
  assertThrows(() => renamePeer(peers, didOf(0), "one-more"), LocalError, "8 other names");
  assertEquals(findPeer(renamePeer(peers, didOf(0), "beta"), "nameh"), didOf(0));
});

Deno.test("the names of a contact end when 5,000 pairs have ended after its own, and those of a ticket never", () => {
  const of = (peers: Peers) => {
    const later = afterEnds(renamePeer(peers, didOf(0), "bob"), 5_001);
    return ["beta", "bob", "contact-beta", "contact-bob"].map((alias) => findPeerEver(later, alias));
  };
  assertEquals(of(ofTickets("beta")), [didOf(0), didOf(0), null, null]);
  assertEquals(of(contacts("beta")), [null, null, null, null]);
});

Deno.test("a block stays through lists, tickets and more ended pairs than are kept", () => {
  const blocked = blockPeer(ofTickets("beta"), didOf(0), true);
  assertEquals(pinTicket(removePeer(blocked, didOf(0)), { did: didOf(0), agentName: "b", humanName: "" }, KEY, AT), {
    beta: { blocked: true, did: didOf(0), agentName: "b", humanName: "", key: KEY, how: "ticket", since: AT },
  });
  const contact = blockPeer(contacts("beta"), didOf(0), true);
  const later = afterEnds(contact, 6_000);
  assertEquals(peerIn(later, didOf(0))?.blocked, true);
  assertEquals(peerIn(blockPeer(later, didOf(0), false), didOf(0))?.blocked, false);
});

Deno.test("a contact that was removed stays removed, also when more pairs have ended than are kept", () => {
  const removed = removePeer(contacts("beta"), didOf(0)), later = afterEnds(removed, 5_001);
  const back = mergePeers(later, { peers: [listed(0, "beta")] });
  assertEquals(aliasesOf(presentPeers(back)).has(didOf(0)), false);
});

Deno.test("peers that could not be written are not known, and do not keep others from it", async () => {
  let isFull = true;
  const book = new PeerBook({}, () => isFull ? Promise.reject(new Error("The disk is full")) : Promise.resolve());
  await assertRejects(() => book.change(() => ofTickets("beta")), Error, "full");
  assertEquals([book.all, book.sealTo(didOf(0))], [{}, null]);
  isFull = false;
  await book.change(() => ofTickets("beta"));
  assertEquals([Object.keys(book.all), book.sealTo(didOf(0))], [["beta"], KEY]);
  // The connector of a contact takes nothing that is sealed.
  await book.change((peers) => ({
    ...peers,
    contact: { did: didOf(1), agentName: "x", humanName: "y", key: KEY, how: "contact" },
  }));
  assertEquals(book.sealTo(didOf(1)), null);
});

Deno.test("any sequence of names leaves each name with one peer, and looks like no other", () => {
  const name = fc.stringMatching(/^[a-cIl1oO0.]{1,3}$/);
  const step = fc.tuple(fc.constantFrom(0, 1, 2), name);
  fc.assert(fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
    let peers = ofTickets("alpha", "beta", "gamma");
    const given = new Map([["alpha", 0], ["beta", 1], ["gamma", 2]]);
    for (const [n, alias] of steps) {
      try {
        peers = renamePeer(peers, didOf(n), alias);
        given.set(alias, n);
      } catch (error) {
        assert(error instanceof LocalError);
      }
    }
    for (const [alias, n] of given) assertEquals(findPeer(peers, alias), didOf(n), alias);
  }));
});

Deno.test("the form of an alias takes no longer with a long text", () => {
  assertEquals([ALIAS.test("a".repeat(32)), ALIAS.test("a".repeat(1_000_000))], [true, false]);
});

Deno.test("of 10,000 messages of a blocked peer no row is left, and its sender reads why", async () => {
  await using world = await World.open();
  const frames: DeliverFrame[] = [];
  const { a, b, bench } = await story(world, { platform: "inbox", tamper: (frame) => (frames.push(frame), frame) });
  const ask = asker(bench);
  const [alias = ""] = Object.keys(bench.peers);
  assertEquals((await ask("/v1/peers/block", post({ peer: alias }))).body.blocked, true);
  const { delivered, reason } = await (await world.message(a, b)).json();
  assertEquals([delivered, reason], [false, "blocked"]);
  const [frame] = frames;
  assert(frame);
  for (let n = 1; n < 10_000; n++) {
    const ack = await bench.redeliver({ ...frame, requestId: `request-${n}` });
    assertEquals(ack, { accepted: false, reason: "blocked" });
  }
  for (const table of ["messages", "seen_proofs", "receipts"]) {
    assertEquals(bench.database.get(`SELECT count(*) AS n FROM ${table}`)?.n, 0, table);
  }
  assertEquals([bench.connector.status().refused, bench.eventsOf("proof_refused").length], [10_000, 0]);
  await ask("/v1/peers/unblock", post({ peer: alias }));
  assertEquals((await (await world.message(a, b)).json()).delivered, true);
});

Deno.test("a blocked peer gets no message, no kept message and no receipt", async () => {
  await using world = await World.open();
  const { a, b, bench } = await story(world, { platform: "inbox" });
  const ask = asker(bench);
  await world.message(a, b);
  const { body: { messages: [message] } } = await ask("/v1/inbox");
  let isDown = true;
  const requests: string[] = [];
  const { fetch } = bench.connector.deps;
  bench.connector.proxy.deps.fetch = (async (input: string, init?: RequestInit) => {
    requests.push(String(input));
    if (isDown) throw new TypeError("no network");
    return await fetch(input, init);
  }) as typeof globalThis.fetch;
  const kept = { to: a.agent.did, text: "later", prefer: "respond-async", keep: true, requestId: "request-1" };
  assertEquals((await ask("/v1/outbound?wait=0", post(kept))).body.state, "kept");
  await ask("/v1/peers/block", post({ peer: a.agent.did }));
  await ask("/v1/inbox/read", post({ ids: [message.id] }));
  requests.length = 0;
  const refused = await ask("/v1/outbound?wait=0", post({ ...kept, text: "now", requestId: "request-2" }));
  assertEquals([refused.status, refused.body.error.code], [409, "CONNECTOR_PEER_BLOCKED"]);
  assertEquals(bench.connector.store.sent.find("request-2"), null);
  isDown = false;
  const ended = () => bench.connector.store.sent.find("request-1")?.state !== "kept";
  await passing(world, 120, () => ended() && bench.connector.store.receipts.size === 0);
  assertEquals(requests.filter((url) => /hooks|receipts/.test(url)), []);
  assertEquals(bench.connector.store.sent.find("request-1")?.problem, "you have blocked this peer");
});

/** Runs a body with alpha's connector, and without one. */
async function bothWays(
  t: Deno.TestContext,
  body: (parts: { machine: Machine; beta: TestAgent }) => Promise<void>,
): Promise<void> {
  for (const runs of [true, false]) {
    await t.step(runs ? "with a connector" : "without one", async () => {
      await using machine = await machineWithAlpha();
      const beta = await pairAlpha(machine.world, machine, "beta");
      await using stack = new AsyncDisposableStack();
      if (runs) stack.use(await connectorOfAlpha(machine.world, machine));
      await body({ machine, beta });
    });
  }
}

Deno.test("svc peers rename, block, unblock and remove change the peer", async (t) => {
  await bothWays(t, async ({ machine, beta }) => {
    const renamed = await machine.json("peers", "rename", "beta", "bob");
    assertEquals(renamed, {
      agent: "alpha",
      peer: { alias: "bob", agentDid: beta.agent.did, agentName: "beta", humanName: "Bob", blocked: false },
    });
    for (const alias of ["svc", "bob b", "x".repeat(33)]) {
      const { exit } = await machine.failure("peers", "rename", "beta", alias);
      assertEquals(exit, alias === "svc" ? 1 : 2, alias);
    }
    assertEquals((await machine.json("peers", "block", "beta")).peer.blocked, true);
    const sent = await machine.failure("send", "bob", "hi");
    assertEquals([sent.code, sent.exit], ["CONNECTOR_PEER_BLOCKED", 1]);
    const { stderr } = await machine.svc("send", "bob", "hi", "--profile", "default");
    const [, fix = ""] = /To end that: svc (.+)/.exec(stderr) ?? [];
    const { stdout } = await machine.svc(...fix.split(" "));
    assertStringIncludes(stdout, "bob is not blocked");
    assertEquals((await machine.json("peers")).peers.map(({ alias }: { alias: string }) => alias), ["bob"]);
    const back = await machine.svc("peers", "rename", "beta", "beta");
    assertEquals(back.stdout, "beta of Bob is called beta here. bob goes on working.\n");
    assertEquals((await machine.json("peers", "rename", "beta", "bob")).peer.alias, "bob");
    const { exit, code } = await machine.failure("peers", "remove", "bob");
    assertEquals([exit, code], [2, "CLI_USAGE"]);
    machine.answers = false;
    assertEquals((await machine.svc("peers", "remove", "bob")).code, 1);
    const misspelt = await machine.svc("peers", "remove", "bbo");
    assertEquals([misspelt.code, misspelt.stdout], [4, ""]);
    assertStringIncludes(misspelt.stderr, "Did you mean bob?");
    machine.answers = true;
    assertEquals((await machine.svc("peers", "remove", "bob")).stdout, "The pair with bob of Bob has ended.\n");
    assertEquals((await machine.json("peers")).peers, []);
    const unknown = await machine.failure("peers", "block", "nobody");
    assertEquals([unknown.exit, unknown.code], [4, "CONNECTOR_PEER_UNKNOWN"]);
  });
});

Deno.test("a change of a peer waits for another command that changes one, or for a connector that starts", async () => {
  await using machine = await machineWithAlpha();
  await pairAlpha(machine.world, machine, "beta");
  const { clock } = machine.world, before = clock.pending();
  const held = await holdConnectorLock(machine.path("agents/alpha"));
  let isOver = false;
  const blocking = machine.svc("peers", "block", "beta").finally(() => isOver = true);
  await until(() => isOver || clock.pending() !== before);
  held[Symbol.dispose]();
  await untilLater(clock, () => isOver, 100);
  assertEquals((await blocking).code, 0);
});

Deno.test("without a connector a peer that only the proxy knows gets its name and its alias, under the lock", async () => {
  await using machine = await machineWithAlpha();
  const gamma = await machine.world.agent(undefined, "gamma");
  const { ticket } = await gamma.client.pairStart({ agentName: "gamma", humanName: "Gus" });
  await (await clientOf(machine.world, machine, "alpha")).pairConfirm(ticket, { agentName: "alpha", humanName: "Ada" });
  assertEquals((await machine.json("peers", "rename", "contact-gamma", "gus")).peer.alias, "contact-gus");
  const folder = await folderOf(machine, "alpha");
  assertEquals(findPeer(readPeers(folder), "contact-gamma"), gamma.agent.did);
  await using connector = await connectorOfAlpha(machine.world, machine);
  await until(() => connector.connector.peers.of(gamma.agent.did) !== null);
  assertEquals(await peerDid(connector.connector, "contact-gus"), gamma.agent.did);
});

Deno.test("without a connector the end of a pair names a server that refuses to end its half", async () => {
  for (const [status, isLeft] of [[503, true], [401, false], [204, false]] as const) {
    await using machine = await machineWithAlpha();
    const { fetch } = machine;
    machine.fetch = ((input: string, init?: RequestInit) =>
      new URL(input).host === "b.example"
        ? Promise.resolve(new Response(null, { status }))
        : fetch(input, init)) as typeof globalThis.fetch;
    const folder = await folderOf(machine, "alpha");
    const beta = { did: didOf(0).replace("localhost", "b.example"), agentName: "beta", humanName: "Bob" };
    await writePeers(folder, pinTicket({}, { ...beta, proxy: "https://b.example" }, KEY, AT));
    const { code, stderr } = await machine.svc("peers", "remove", "beta@b.example", "--yes");
    assertEquals([code, stderr.includes("https://b.example still has its half")], [0, isLeft], `${status} ${stderr}`);
  }
});
