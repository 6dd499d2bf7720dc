/** The agent's peers (D-93, D-241): a large number, in pages, and a file that can always be read again. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { AgentStore } from "../../../cli/agents/agent_store.ts";
import {
  findPeer,
  findPeerEver,
  mergePeers,
  type Peers,
  presentPeers,
  readPeers,
  writePeers,
} from "../../../cli/connector/peers.ts";
import { CONNECTOR_LIMITS } from "../../../cli/connector/limits.ts";
import { CliError } from "../../../cli/errors.ts";
import type { PeerList } from "../../../shared/protocol/api/pairing.ts";
import { toIso } from "../../../shared/protocol/time.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import { World } from "../../support/world.ts";
import { Machine } from "../cli_world.ts";
import { story } from "./bench.ts";
import { contextOf } from "./context.ts";

const peer = (n: number, agentName = `agent ${n}`): PeerList["peers"][number] => ({
  agentDid: `did:svc:localhost:agent:01KHYQ5H00${String(n).padStart(16, "0")}`,
  profile: { agentName, humanName: "h".repeat(64) },
  pairedAt: toIso(Date.UTC(2026, 0) + n * 1_000),
});
const many = (count: number, name?: string) => ({ peers: Array.from({ length: count }, (_, n) => peer(n, name)) });

Deno.test("10,000 peers are written and read again with unique aliases, also when all have one name", async () => {
  await using world = await World.open();
  await using machine = await Machine.ofPerson(world);
  await machine.json("agent", "create", "alpha");
  const folder = await new AgentStore(contextOf(world, machine)).open("alpha");
  const merged = mergePeers({}, many(10_000, "same"));
  assertEquals([Object.keys(merged).length, merged["same-10000"]?.did], [10_000, peer(9_999).agentDid]);
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
  const merged = mergePeers({}, { peers: names.map((name, n) => peer(n, name)) });
  const prefixed = ["user", "system", "assistant", "human", "admin", "svc", "System"].map((name) => `peer-${name}`);
  assertEquals(Object.keys(merged).sort(), [...prefixed, "peer-svc-2", "systems"].sort());
  // A file of the previous release may have one.
  const before = { system: { did: peer(1).agentDid, agentName: "system", humanName: "h" } };
  assertEquals(Object.keys(mergePeers(before, { peers: [peer(1, "system")] })), ["peer-system"]);
});

Deno.test("the alias of an ended pair leads to no agent, and stays for its messages", () => {
  const first = mergePeers({}, { peers: [peer(1, "beta")] });
  const ended = mergePeers(first, { peers: [peer(2, "beta")] });
  assertEquals([findPeer(ended, "beta"), findPeerEver(ended, "beta")], [null, peer(1).agentDid]);
  assertEquals([findPeer(ended, "beta-2"), findPeer(ended, peer(1).agentDid)], [peer(2).agentDid, peer(1).agentDid]);
  assertEquals(Object.keys(presentPeers(ended)), ["beta-2"]);
  assertEquals([findPeer(ended, "toString"), findPeerEver(ended, "__proto__")], [null, null]);
});

Deno.test("the aliases of 20,000 ended pairs fit into the file with 10,000 peers", async () => {
  await using world = await World.open();
  await using machine = await Machine.ofPerson(world);
  await machine.json("agent", "create", "alpha");
  const folder = await new AgentStore(contextOf(world, machine)).open("alpha");
  const long = (n: number) => ({
    ...peer(n),
    profile: { agentName: `${n} ${"😀".repeat(50)}`, humanName: "😀".repeat(64) },
  });
  const ended = mergePeers({}, { peers: Array.from({ length: 20_000 }, (_, n) => long(n)) });
  const merged = mergePeers(ended, { peers: Array.from({ length: 10_000 }, (_, n) => long(n + 20_000)) });
  await writePeers(folder, merged);
  assertEquals([Object.keys(merged).length, Object.keys(presentPeers(readPeers(folder))).length], [15_000, 10_000]);
});

Deno.test("the pairs that ended last keep their aliases when more have ended than are kept", () => {
  const named = (n: number) => peer(n, `${n < 5_000 ? "z" : "a"}-${n}`);
  const range = (from: number, to: number) => Array.from({ length: to - from }, (_, n) => named(from + n));
  const all = mergePeers({}, { peers: range(0, 5_004) });
  // An ended pair of a file without the order is the oldest.
  const old = { did: peer(9_999).agentDid, agentName: "old", humanName: "h", gone: true } as const;
  const first = mergePeers({ ...all, old }, { peers: range(4, 5_004) });
  assertEquals(Object.keys(first).filter((alias) => first[alias]?.gone), ["old", "z-0", "z-1", "z-2", "z-3"]);
  const second = mergePeers(first, { peers: range(4, 8) });
  assertEquals(Object.keys(second).length, 5_004);
  assertEquals(["old", "z-0", "z-1", "z-2", "z-8", "a-5003"].map((alias) => findPeerEver(second, alias) !== null), [
    false,
    true,
    true,
    true,
    true,
    true,
  ]);
  const third = mergePeers(second, { peers: [] });
  assertEquals(
    ["z-0", "z-1", "z-2", "z-4", "z-7", "a-5003"].map((alias) => findPeer(third, alias)),
    Array(6).fill(null),
  );
  assertEquals(["z-0", "z-1", "z-4", "z-7"].map((alias) => alias in third), [false, false, true, true]);
  // A pair that begins again has its alias, and no mark of its end.
  assertEquals(mergePeers(third, { peers: [named(4)] })["z-4"], { did: named(4).agentDid, ...named(4).profile });
});

Deno.test("a message to a DID is sent while the peers file cannot be read", async () => {
  await using world = await World.open();
  const { a, bench } = await story(world);
  await using _ = bench;
  const read = (): Peers => {
    throw new CliError("CLI_FILE_INVALID", "peers.json is too large");
  };
  Object.assign(bench.connector.deps.peers, { read });
  assertEquals(await bench.connector.findPeer(a.agent.did), a.agent.did);
  await assertRejects(() => bench.connector.findPeer("alias"), CliError);
  assert(bench.connector.status().connection.state === "connected");
});

Deno.test("a connector that stops waits at most 500 ms for the peers that it writes", async (t) => {
  for (const ends of [true, false]) {
    await t.step(ends ? "a write that ends" : "a write that hangs", async () => {
      await using world = await World.open();
      const { bench } = await story(world);
      await using _ = bench;
      const begun = Promise.withResolvers<void>(), written = Promise.withResolvers<void>();
      bench.connector.deps.peers.write = () => {
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
  const asked = Promise.withResolvers<void>(), released = Promise.withResolvers<void>();
  let isHeld = false;
  const { bench } = await story(world, {
    fetch: (async (...request: Parameters<typeof fetch>) => {
      if (isHeld) {
        asked.resolve();
        await released.promise;
      }
      return await world.fetch(...request);
    }) as typeof fetch,
  });
  await using _ = bench;
  await flushTasks();
  isHeld = true;
  const update = bench.connector.updatePeers();
  await asked.promise;
  let writes = 0;
  bench.connector.deps.peers.write = () => Promise.resolve(void writes++);
  await bench.connector.stop();
  released.resolve();
  await update;
  assertEquals([writes, bench.eventsOf("peers_failed")], [0, []]);
});
