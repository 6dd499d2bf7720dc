/** The agent's peers: a large number, in pages, and a file that can always be read again. */
import { assertEquals, assertRejects } from "@std/assert";
import {
  findPeer,
  findPeerEver,
  LISTED_PAIRS,
  mergePeers,
  presentPeers,
  readPeers,
  renamePeer,
  writePeers,
} from "../../../cli/connector/peers/peers.ts";
import { CONNECTOR_LIMITS } from "../../../cli/connector/limits.ts";
import { CliError } from "../../../cli/errors.ts";
import type { DeliverFrame } from "../../../shared/protocol/frames.ts";
import type { PeerList } from "../../../shared/protocol/api/pairing.ts";
import { toIso } from "../../../shared/protocol/time.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import { until } from "../../support/until.ts";
import { World } from "../../support/world.ts";
import { story } from "./bench.ts";
import { folderOf, machineWithAlpha } from "./local_machine.ts";
import { didOf, ofTicket, ofTickets } from "./some_peers.ts";
import { held } from "./two_connectors.ts";

const peer = (n: number, agentName = `agent ${n}`): PeerList["peers"][number] => ({
  agentDid: didOf(n),
  profile: { agentName, humanName: "h".repeat(64) },
  pairedAt: toIso(Date.UTC(2026, 0) + n * 1_000),
  online: false,
  lastSeenAt: null,
});
const many = (count: number, name?: string) => ({ peers: Array.from({ length: count }, (_, n) => peer(n, name)) });

Deno.test("10,000 peers are written and read again with unique aliases, also when all have one name", async () => {
  await using machine = await machineWithAlpha();
  const folder = await folderOf(machine, "alpha");
  const merged = mergePeers({}, many(10_000, "same"));
  assertEquals([Object.keys(merged).length, merged["contact-same-10000"]?.did], [10_000, peer(9_999).agentDid]);
  await writePeers(folder, merged);
  assertEquals(readPeers(folder), merged);
  const tooMany = Object.fromEntries(
    Array.from(
      { length: 4_000 },
      (_, n) => [`${n}`, { did: peer(n).agentDid, agentName: "x".repeat(5_000), humanName: "" }],
    ),
  );
  await assertRejects(() => writePeers(folder, tooMany), CliError, "would be larger than 16777216 bytes");
  assertEquals(readPeers(folder), merged, "the previous file stays");
});

Deno.test("a name that a reader could take for a person or a program becomes an alias with a prefix", () => {
  const names = ["user", "system", "assistant", "human", "admin", "svc", "System", "  svc! ", "systems"];
  const merged = ofTickets(...names);
  const prefixed = ["user", "system", "assistant", "human", "admin", "svc", "System-2"].map((name) => `peer-${name}`);
  assertEquals(Object.keys(merged).sort(), [...prefixed, "peer-svc-2", "systems"].sort());
});

Deno.test("a peer whose ticket proved its key is not called a contact, and can be renamed", () => {
  const merged = ofTickets("contact-form", "Contact-1");
  assertEquals(Object.keys(merged).sort(), ["peer-Contact-1", "peer-contact-form"]);
  const renamed = renamePeer(merged, peer(0).agentDid, "form");
  assertEquals(Object.keys(renamed).sort(), ["form", "peer-Contact-1"]);
});

Deno.test("a list of the proxy does not change the names that a ticket proved", () => {
  const known = ofTickets("beta"), merged = mergePeers(known, { peers: [peer(0, "admin"), peer(1)] });
  assertEquals(merged.beta, known.beta);
  const [contact = ""] = Object.keys(merged).filter((alias) => alias.startsWith("contact-"));
  assertEquals(mergePeers(merged, { peers: [peer(0), peer(1, "new")] })[contact]?.agentName, "new");
});

Deno.test("names that look alike get aliases that do not", () => {
  const names = ["beta", "Beta", "BETA", "paul", "pauI", "pau1", "PAUL", "bob", "b0b", "admin", "adm1n", "beta-2"];
  const merged = ofTickets(...names);
  const aliasOf = new Map(Object.entries(merged).map(([alias, { did }]) => [did, alias]));
  const aliases = names.map((_, n) => aliasOf.get(peer(n).agentDid) ?? "");
  assertEquals(aliases, [
    ...["beta", "Beta-2", "BETA-3", "paul", "pauI-2", "pau1-3", "PAUL-4", "bob", "b0b-2"],
    ...["peer-admin", "peer-adm1n-2", "beta-2-2"],
  ]);
});

Deno.test("an alias that a peer has stays, also beside one that looks like it", () => {
  const known = ofTickets("", "beta");
  const merged = mergePeers({ ...known, Beta: { did: peer(2).agentDid, agentName: "Beta", humanName: "" } }, {
    peers: [peer(1, "beta"), peer(2, "Beta"), peer(3, "BETA")],
  });
  assertEquals(Object.keys(merged).sort(), ["Beta", "beta", "contact-BETA", "peer"]);
});

Deno.test("a hundred pairings at once read the list of peers twice", async () => {
  await using world = await World.open();
  let lists = 0;
  const { bench } = await story(world, {
    fetch: (input, init) => {
      if (String(input).includes("/pair/peers")) lists++;
      return world.fetch(input, init);
    },
  });
  await until(() => lists === 1);
  await bench.connector.updatePeers();
  lists = 0;
  const late = await world.agent();
  await Promise.all(Array.from({ length: 100 }, () => bench.connector.updatePeers()));
  assertEquals(lists, 2);
  await world.pair(late, bench.agent);
  await bench.connector.updatePeers();
  assertEquals(findPeer(bench.peers, `contact-${late.agent.name}`), late.agent.did);
});

Deno.test("the alias of an ended pair leads to no agent, and stays for its messages", () => {
  const first = mergePeers({}, { peers: [peer(1, "beta")] });
  const ended = mergePeers(first, { peers: [peer(2, "beta")] });
  assertEquals([findPeer(ended, "contact-beta"), findPeerEver(ended, "contact-beta")], [null, peer(1).agentDid]);
  assertEquals([findPeer(ended, "contact-beta-2"), findPeer(ended, peer(1).agentDid)], [
    peer(2).agentDid,
    peer(1).agentDid,
  ]);
  assertEquals(Object.keys(presentPeers(ended)), ["contact-beta-2"]);
  assertEquals([findPeer(ended, "toString"), findPeerEver(ended, "__proto__")], [null, null]);
});

Deno.test("the aliases of more ended pairs than are kept fit into the file with 10,000 peers", async () => {
  await using machine = await machineWithAlpha();
  const folder = await folderOf(machine, "alpha");
  const long = (n: number) => ({
    ...peer(n),
    profile: { agentName: `${n} ${"😀".repeat(50)}`, humanName: "😀".repeat(64) },
  });
  const ended = mergePeers({}, { peers: Array.from({ length: 5_100 }, (_, n) => long(n)) });
  const merged = mergePeers(ended, { peers: Array.from({ length: 10_000 }, (_, n) => long(n + 5_100)) });
  await writePeers(folder, merged);
  assertEquals([Object.keys(merged).length, Object.keys(presentPeers(readPeers(folder))).length], [15_000, 10_000]);
});

Deno.test("the pairs that ended last keep their aliases when more have ended than are kept", () => {
  const named = (n: number) => peer(n, `${n < 5_000 ? "z" : "a"}-${n}`);
  const range = (from: number, to: number) => Array.from({ length: to - from }, (_, n) => named(from + n));
  const all = mergePeers({}, { peers: range(0, 5_004) });
  const oldest = mergePeers(all, { peers: range(1, 5_004) });
  const first = mergePeers(oldest, { peers: range(5, 5_004) });
  assertEquals(Object.keys(first).filter((alias) => first[alias]?.gone), [0, 1, 2, 3, 4].map((n) => `contact-z-${n}`));
  const second = mergePeers(first, { peers: range(5, 8) });
  assertEquals(Object.keys(second).length, 5_003);
  const kept = ["z-0", "z-1", "z-4", "z-8", "a-5003"].map((name) => findPeerEver(second, `contact-${name}`) !== null);
  assertEquals(kept, [false, true, true, true, true]);
  const third = mergePeers(second, { peers: [] });
  const leadsTo = ["z-1", "z-5", "z-7", "a-5003"].map((name) => findPeer(third, `contact-${name}`));
  assertEquals(leadsTo, Array(4).fill(null));
  const left = ["z-2", "z-3", "z-4", "z-5", "z-7"].filter((name) => `contact-${name}` in third);
  assertEquals(left.slice(-2), ["z-5", "z-7"]);
  assertEquals(Object.keys(third).length, 5_000);
  // A pair that begins again has its alias, and no mark of its end.
  assertEquals(mergePeers(third, { peers: [named(5)] })["contact-z-5"], {
    did: named(5).agentDid,
    ...named(5).profile,
  });
});

Deno.test("a connector that stops waits at most 500 ms for the peers that it writes", async (t) => {
  for (const ends of [true, false]) {
    await t.step(ends ? "a write that ends" : "a write that hangs", async () => {
      await using world = await World.open();
      const { bench } = await story(world);
      const begun = Promise.withResolvers<void>(), written = Promise.withResolvers<void>();
      bench.connector.deps.writePeers = () => {
        begun.resolve();
        return written.promise;
      };
      void bench.connector.updatePeers();
      await begun.promise;
      let isOver = false;
      void bench.ended.then(() => isOver = true);
      void bench.connector.stop();
      await flushTasks();
      assertEquals(isOver, false);
      if (ends) written.resolve();
      else await world.clock.advance(CONNECTOR_LIMITS.closeMs);
      assertEquals(await bench.ended, null);
    });
  }
});

Deno.test("a connector that has ended does not write the peers that it was reading", async () => {
  await using world = await World.open();
  const list = held(world, "/pair/peers");
  const { bench } = await story(world, { fetch: list.fetch });
  const update = bench.connector.updatePeers();
  await list.asked;
  let writes = 0;
  bench.connector.deps.writePeers = () => Promise.resolve(void writes++);
  await bench.connector.stop();
  list.release();
  await update;
  assertEquals([writes, bench.eventsOf("peers_failed")], [0, []]);
});

Deno.test("a connector that has ended pins no key of a message that it still had", async () => {
  await using world = await World.open();
  const held = Promise.withResolvers<DeliverFrame>();
  const { a, b, bench } = await story(world, {
    tamper: (frame) => {
      held.resolve(frame);
      return new Promise(() => {});
    },
  });
  void world.message(a, b);
  const frame = await held.promise;
  let writes = 0;
  bench.connector.deps.writePeers = () => Promise.resolve(void writes++);
  await bench.connector.stop();
  assertEquals([await bench.redeliver(frame), writes], [{ accepted: false, reason: "store_failed" }, 0]);
});

Deno.test("a relay that lists more than 10,000 peers leaves a file that can be written, and takes the room of no ticket", async () => {
  await using machine = await machineWithAlpha();
  const folder = await folderOf(machine, "alpha");
  const long = ({ agentDid, pairedAt, ...rest }: PeerList["peers"][number], of: string) => ({
    ...rest,
    pairedAt,
    agentDid: agentDid.replace("localhost", of),
    profile: { agentName: "\u{1F600}".repeat(32), humanName: "\u{1F600}".repeat(32) },
  });
  const listed = (of: string) => ({ peers: many(LISTED_PAIRS + 100).peers.map((one) => long(one, of)) });
  const host = (letter: string) => `${`${letter.repeat(55)}.`.repeat(2)}example`;
  const known = ofTickets("beta");
  const first = mergePeers(known, listed(host("a"))), second = mergePeers(first, listed(host("b")));
  for (const peers of [first, second]) {
    await writePeers(folder, peers);
    assertEquals([readPeers(folder).beta?.how, Object.keys(presentPeers(peers)).length], ["ticket", LISTED_PAIRS]);
  }
  // The peer of a ticket is known before the list is read.
  const later = ofTicket(second, 20_001, "gamma");
  const all = listed(host("b")).peers;
  assertEquals(
    findPeer(mergePeers(later, { peers: [...all, peer(20_001, "gamma")] }), "gamma"),
    peer(20_001).agentDid,
  );
});
