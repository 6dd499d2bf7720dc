/** The lists of connections and queues for an admin: two instances, pages, the end of records, and what is left out. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import type { ConnectionList, IssuerList, QueueList } from "../../../shared/protocol/api/relay_admin.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { toIso } from "../../../shared/protocol/time.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import { refused, writeRecords } from "../../support/registry_world.ts";
import { until } from "../../support/until.ts";
import type { TestAgent, World } from "../../support/world.ts";
import { openProxy } from "../proxy_world.ts";
import { sharedStore, two } from "../relay/two_instances.ts";
import { look, seen, tokenOf } from "./admin_world.ts";

const connectionsOf = async (w: World, query = "") => await seen<ConnectionList>(w, `connections${query}`);
const queuesOf = async (w: World, query = "") => await seen<QueueList>(w, `queues${query}`);
const didOf = (i: number) => `did:svc:registry.example.test:agent:01KHYQ5H00${String(i).padStart(16, "0")}`;

/** Waits until an agent's connection is stored as ended. */
async function gone(w: World, agent: TestAgent): Promise<void> {
  await until(async () =>
    (await connectionsOf(w, "?limit=100")).connections.some((one) =>
      one.agentDid === agent.agent.did && one.disconnectedAt !== null
    )
  );
}

Deno.test("a connection has its start, its end, and its instance", async () => {
  await using w = await openProxy();
  await w.proxy.start();
  const b = await w.agent();
  assertEquals((await connectionsOf(w)).connections, []);
  const began = toIso(w.clock.now());
  const socket = w.connect(b);
  await w.connected();
  const { instance } = w.proxy.deps.presence;
  const base = { agentDid: b.agent.did, instance, connectedAt: began };
  assertEquals((await connectionsOf(w)).connections, [{ ...base, online: true, disconnectedAt: null }]);
  await w.clock.advance(7_000);
  const second = w.connect(b);
  await w.connected();
  socket.link.end(1000, "over");
  await flushTasks();
  assertEquals((await connectionsOf(w)).connections, [{ ...base, online: true, disconnectedAt: null }]);
  second.link.end(1000, "over");
  await gone(w, b);
  const ended = { ...base, online: false, disconnectedAt: toIso(w.clock.now()) };
  assertEquals((await connectionsOf(w)).connections, [ended]);
  assertEquals((await connectionsOf(w, "?online=false")).connections, [ended]);
  assertEquals((await connectionsOf(w, "?online=true")).connections, []);
});

Deno.test("an agent on another instance is online for both, and offline after that instance has ended", () =>
  two(sharedStore, async (w1, w2, _a, b) => {
    w2.connect(b);
    await w2.connected();
    for (const w of [w1, w2]) {
      const answer = await look(w, "connections?online=true", await tokenOf(w1));
      const { connections } = await answer.json() as ConnectionList;
      assertEquals(connections.map(({ agentDid, instance }) => [agentDid, instance]), [
        [b.agent.did, w2.proxy.deps.presence.instance],
      ]);
    }
    // A crash: the lease ends and nothing is recorded.
    await w2.proxy.deps.leases.stop();
    const [one] = (await connectionsOf(w1)).connections;
    assertEquals([one?.online, one?.disconnectedAt], [false, null]);
    w1.connect(b);
    await w1.connected();
    const [moved] = (await connectionsOf(w1)).connections;
    assertEquals([moved?.online, moved?.instance], [true, w1.proxy.deps.presence.instance]);
  }));

Deno.test("the record of a connection is part of the commits of presence and is kept for 90 days", async () => {
  await using w = await openProxy();
  await w.proxy.start();
  const b = await w.agent();
  const commits: string[][] = [];
  const atomic = w.kv.atomic.bind(w.kv);
  w.kv.atomic = () => {
    const operation = atomic();
    const families: string[] = [];
    const { set, delete: remove, commit } = operation;
    operation.set = (key, ...rest) => {
      families.push(String(key[1]));
      return set.call(operation, key, ...rest);
    };
    operation.delete = (key) => {
      families.push(`no ${String(key[1])}`);
      return remove.call(operation, key);
    };
    operation.commit = async () => {
      const result = await commit.call(operation);
      if (result.ok && families.length > 0) commits.push(families);
      return result;
    };
    return operation;
  };
  const socket = w.connect(b);
  await w.connected();
  await flushTasks();
  assertEquals(commits, [["presence", "seen"]]);
  socket.link.end(1000, "over");
  await until(() => commits.length === 2);
  w.kv.atomic = atomic;
  assertEquals(commits[1], ["no presence", "seen"]);
  assertEquals(LIMITS.seenKeptSeconds, 90 * 86_400);
});

Deno.test("all pages of the connections name each agent once, also when few fit the filter", async () => {
  await using w = await openProxy();
  await w.proxy.start();
  const { instance } = w.proxy.deps.presence;
  const count = 1_300, all = Array.from({ length: count }, (_, i) => didOf(i));
  await writeRecords(w, count, (operation, i) => {
    operation.set(KEYS.seen(didOf(i)), { instance, connectedAt: w.clock.now(), disconnectedAt: null });
  });
  for (const i of [1_149, 1_299]) await w.kv.set(KEYS.presence(didOf(i)), { instance });
  const token = await tokenOf(w);
  const pagesOf = async (query: string) => {
    const found: string[] = [];
    let pages = 0;
    for (let cursor = "";;) {
      const answer = await look(w, `connections?${query}${cursor}`, token);
      const { connections, pagination } = await answer.json() as ConnectionList;
      pages++;
      found.push(...connections.map(({ agentDid }) => agentDid));
      if (pagination.nextCursor === null) return { found, pages };
      cursor = `&cursor=${pagination.nextCursor}`;
    }
  };
  assertEquals(await pagesOf("limit=100"), { found: all, pages: 13 });
  assertEquals(await pagesOf("limit=100&online=true"), { found: [didOf(1_149), didOf(1_299)], pages: 2 });
  assertEquals((await pagesOf("limit=100&online=false")).found.length, count - 2);
  assertEquals((await pagesOf("limit=1&online=true")).found.length, 2);
});

Deno.test("a queue has its messages, its senders as a number, and the expiry of its oldest message", async () => {
  await using w = await openProxy();
  const b = await w.agent();
  const senders = [await w.agent(), await w.agent()];
  for (const a of senders) await w.pair(a, b);
  const expiresAt = toIso(w.clock.now() + LIMITS.mailboxTtlSeconds * 1000);
  assertEquals((await queuesOf(w)).queues, []);
  for (const a of [...senders, ...senders, senders[0]]) {
    if (a) assertEquals((await w.message(a, b, { headers: { Prefer: "respond-async" } })).status, 202);
    await w.clock.advance(1_000);
  }
  const { queues, pagination } = await queuesOf(w);
  assertEquals(queues, [{ recipientAgentDid: b.agent.did, messages: 5, senders: 2, oldestExpiresAt: expiresAt }]);
  assertEquals(pagination, { limit: 20, nextCursor: null });
  const text = JSON.stringify(queues);
  for (const a of senders) assert(!text.includes(a.agent.did));
  w.connect(b);
  await until(async () => (await queuesOf(w)).queues.length === 0);
});

Deno.test("all pages of the queues name each recipient once, and none whose mailbox is empty", async () => {
  await using w = await openProxy();
  const dids = Array.from({ length: 45 }, (_, i) => didOf(i));
  for (const [i, did] of dids.entries()) {
    const total = i % 3 === 0 ? 0 : i;
    await w.kv.set(KEYS.mailboxState(did), { next: 1, total, bySender: { [didOf(99)]: total }, byPayer: {} });
    const entry = { number: 1, message: {}, parts: 0, expiresAt: w.clock.now() + 1, nacks: 0, notBefore: 0 };
    if (total > 0) await w.kv.set(KEYS.mailboxEntry(did, 1), entry);
  }
  const found: string[] = [];
  for (let query = "?limit=7"; query !== "";) {
    const { queues, pagination } = await queuesOf(w, query);
    found.push(...queues.map(({ recipientAgentDid }) => recipientAgentDid));
    query = pagination.nextCursor === null ? "" : `?limit=7&cursor=${pagination.nextCursor}`;
  }
  assertEquals(found, dids.filter((_, i) => i % 3 !== 0));
});

Deno.test("a list is refused when its query does not fit", async () => {
  await using w = await openProxy();
  const token = await tokenOf(w);
  const queries = ["limit=0", "limit=101", "limit=x", "limit=1&limit=2", "cursor=x", `cursor=${"x".repeat(5_000)}`];
  for (const query of queries) {
    for (const list of ["connections", "queues"]) {
      await refused(await look(w, `${list}?${query}`, token), "PROXY_ADMIN_INVALID_QUERY");
    }
  }
  for (const list of ["connections", "queues", "refusals", "deliveries"]) {
    const { error } = await (await look(w, `${list}?state=online`, token)).json();
    assertEquals(error.code, "PROXY_ADMIN_INVALID_QUERY", list);
    assertMatch(error.message, /may name only .*(limit|requestId).*, and not "state"/);
  }
  const { error } = await (await look(w, "issuers?state=online", token)).json();
  assertEquals(error.code, "PROXY_ADMIN_INVALID_QUERY");
  assertMatch(error.message, /may name no parameter, and not "state"/);
  for (const query of ["online=yes", "online=1", "online=true&online=false"]) {
    await refused(await look(w, `connections?${query}`, token), "PROXY_ADMIN_INVALID_QUERY");
  }
});

Deno.test("the list of registries says that it is not complete when over 10,000 of their agents have pairs here", async () => {
  await using w = await openProxy();
  const countOf = (i: number) => KEYS.pairCount(didOf(i).replace("registry.example.test", "a.example"));
  await writeRecords(w, 10_001, (operation, i) => operation.set(countOf(i), { pairs: 1 }));
  const { issuers, areAll } = await seen<IssuerList>(w, "issuers");
  assertEquals(issuers.map(({ authority, agents, pairs }) => [authority, agents, pairs]), [[
    "a.example",
    10_000,
    10_000,
  ]]);
  assertEquals(areAll, false);
});
