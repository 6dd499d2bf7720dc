/** The numbers of an overview are those of the store: both services, after agents come, go, are killed and are revoked. */
import { assertEquals } from "@std/assert";
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import type { Seen } from "../../../proxy/schema/records.ts";
import { DAY_MS } from "../../../shared/clock.ts";
import type { AdminCounts } from "../../../shared/protocol/api/admin.ts";
import type { RelayOverview } from "../../../shared/protocol/api/relay_admin.ts";
import { toIso } from "../../../shared/protocol/time.ts";
import { answered, auditEvents } from "../../support/registry_world.ts";
import { until } from "../../support/until.ts";
import { AMPLE_QUOTAS, type TestAgent, type World } from "../../support/world.ts";
import { openProxy, restart } from "../proxy_world.ts";
import { seen } from "./admin_world.ts";

const counts = async (w: World): Promise<AdminCounts> =>
  await answered(await w.ask("GET", "/v1/admin/counts", { apiKey: (await w.admin()).apiKey }));
const overview = (w: World) => seen<RelayOverview>(w, "overview");

Deno.test("5 people and 14 agents of whom 5 are not online have these numbers, which ten looks read once", async () => {
  await using w = await openProxy({ registry: { quotas: AMPLE_QUOTAS } });
  const { apiKey } = await w.admin();
  const people = await Promise.all(Array.from({ length: 4 }, (_, i) => w.person(`Person ${i}`)));
  const agents: TestAgent[] = [];
  for (let i = 0; i < 14; i++) agents.push(await w.agent(people[i % 4]));
  const sockets = agents.map((agent) => w.connect(agent));
  await w.connected();
  for (const socket of sockets.slice(0, 3)) socket.link.end(1000, "over");
  for (const { agent } of agents.slice(0, 3)) {
    await until(async () => (await w.kv.get<Seen>(KEYS.seen(agent.did))).value?.disconnectedAt !== null);
  }
  for (const { owner, agent } of agents.slice(3, 5)) await w.client.deleteAgent(owner.apiKey, agent.id);
  await w.proxy.deps.crl.refresh();
  for (const { agent } of agents.slice(3, 5)) {
    await until(async () => (await w.kv.get(KEYS.seen(agent.did))).value === null);
  }
  for (const { id } of people.slice(0, 2)) {
    assertEquals((await w.ask("POST", `/v1/admin/people/${id}/suspend`, { apiKey, body: {} })).status, 200);
  }
  w.clock.step(DAY_MS + 1);
  const { at: _, ...found } = await counts(w);
  assertEquals<unknown>(found, {
    people: { active: 3, suspended: 2 },
    agents: { active: 12, revoked: 2 },
    expiring7d: 0,
    complete: true,
  });
  const { version, agents: relay, queues, store, agentLimit } = await overview(w);
  assertEquals<unknown>([version, relay, queues, store, agentLimit], [
    "0.0.0-test",
    { online: 9, offlineOver1d: 3 },
    { messages: 0, recipients: 0, oldestAt: null },
    null,
    { requests: w.proxy.deps.config.agentRequests, windowMs: 60_000 },
  ]);
  for (let i = 0; i < 10; i++) await overview(w);
  assertEquals((await auditEvents(w, "event=admin.token_issued")).length, 1);
  w.clock.step(23 * DAY_MS);
  assertEquals((await counts(w)).expiring7d, 12);
});

Deno.test("an overview has the queues, their oldest message, and the space of the store's disk", async () => {
  const diskSpace = () => ({ freeBytes: 5_000_000_000, totalBytes: 9_000_000_000 });
  await using w = await openProxy({ diskSpace });
  const [a, b, c] = [await w.agent(), await w.agent(), await w.agent()];
  for (const to of [b, c]) {
    await w.pair(a, to);
    assertEquals((await w.message(a, to, { headers: { Prefer: "respond-async" } })).status, 202);
  }
  const queuedAt = toIso(w.clock.now());
  w.clock.step(60_000);
  const { queues, complete } = await overview(w);
  assertEquals(complete, true);
  assertEquals(queues, { messages: 2, recipients: 2, oldestAt: queuedAt });
  assertEquals(w.proxy.deps.reserve.space, { freeBytes: 5_000_000_000, reserveBytes: 900_000_000 });
});

Deno.test("agents of an instance that was killed are offline for over a day when its lease is gone", async () => {
  await using w = await openProxy();
  const a = await w.agent();
  w.connect(a);
  await w.connected();
  const { instance } = w.proxy.deps.leases;
  assertEquals((await overview(w)).agents, { online: 1, offlineOver1d: 0 });
  await restart(w);
  await w.kv.set(KEYS.instance(instance), { at: w.clock.now(), pid: 1, state: "left" });
  assertEquals((await overview(w)).agents, { online: 0, offlineOver1d: 0 });
  // As in a store that was exported while the agent was connected: an export has no leases.
  await w.kv.delete(KEYS.instance(instance));
  w.clock.step(DAY_MS / 2);
  assertEquals((await overview(w)).agents, { online: 0, offlineOver1d: 0 });
  w.clock.step(DAY_MS / 2 + 1);
  assertEquals((await overview(w)).agents, { online: 0, offlineOver1d: 1 });
});
