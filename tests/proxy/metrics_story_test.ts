/** Plays the story once over both services: each row of the table of metrics moves. */
import { assertEquals } from "@std/assert";
import { KEYS } from "../../proxy/schema/kv_keys.ts";
import type { Seen } from "../../proxy/schema/records.ts";
import { DAY_MS } from "../../shared/clock.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { METRICS } from "../../shared/server/metrics/metrics_table.ts";
import { expositionOf } from "../../shared/server/metrics/metrics.ts";
import { parseExposition, totalOf } from "../support/exposition.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { flushTasks } from "../support/manual_clock.ts";
import { until } from "../support/until.ts";
import { World } from "../support/world.ts";

/** Rows that do not move here, with the reason. */
const STILL: Readonly<Record<string, string>> = {
  process_start_time_seconds: "deploy.ts reads it; tests/e2e/metrics_test.ts",
  ready: "deploy.ts reads it; tests/e2e/metrics_test.ts",
  store_bytes: "deploy.ts reads it; tests/e2e/metrics_test.ts",
  store_free_bytes: "deploy.ts reads it; tests/e2e/metrics_test.ts",
  store_reserve_bytes: "a store in memory has no disk; tests/e2e/metrics_test.ts",
  process_resident_memory_bytes: "deploy.ts reads it; tests/e2e/metrics_test.ts",
  log_lines_dropped_total: "counts while standard error is not read: tests/e2e/log_reader_test.ts",
  instance_clock_difference_seconds: "one instance has one clock; tests/proxy/relay/instance_leases_test.ts",
  relay_crossings_total: "one instance has no other; tests/proxy/relay/instance_links_test.ts",
  issuer_calls_total: "no agent of another registry comes; tests/proxy/federation/issuers_test.ts",
  instance_links: "one instance has no other; tests/proxy/relay/instance_links_test.ts",
  instance_links_missing: "one instance has no other; tests/proxy/relay/instance_links_test.ts",
  http_requests_in_flight: "deploy.ts reads it; tests/e2e/metrics_test.ts",
  build_info: "deploy.ts sets it; tests/e2e/metrics_test.ts",
};

Deno.test("every metric moves when the story is played once", async () => {
  await using w = await World.open();
  const seen = new Map<string, Set<number | undefined>>();
  const look = () => {
    const families = parseExposition(expositionOf(w.metrics));
    for (const name of Object.keys(METRICS)) {
      const full = `svc_${name}`;
      const values = seen.get(name) ?? new Set<number | undefined>();
      seen.set(name, values.add(families.has(full) ? totalOf(families, full) : undefined));
    }
  };
  const count = async () => {
    // Counts of the store are at least 10 s apart.
    w.clock.step(10_000);
    await w.metrics.measure();
    look();
  };
  await count();
  const { apiKey } = await w.admin();
  await w.ask("GET", "/v1/admin/audit", { apiKey });
  await w.ask("GET", "/v1/me");
  const { id } = await w.person();
  assertEquals((await w.ask("POST", `/v1/admin/people/${id}/suspend`, { apiKey, body: {} })).status, 200);
  const { a, b, socket } = await w.story();
  const c = await w.agent();
  w.connect(a);
  await w.pair(a, c);

  // A large message that waits for its acknowledgement.
  w.registryAnswer = () => (look(), null);
  socket.behaviour = "silent";
  const large = JSON.stringify({ message: "x".repeat(LIMITS.bodyFreeBytes) });
  const requestId = "request-0001";
  const sending = w.message(a, b, { body: large, headers: { "x-request-id": requestId } });
  while (socket.delivered.length === 0) await flushTasks();
  w.registryAnswer = null;
  socket.unsentBytes = 10;
  look();
  socket.unsentBytes = 0;
  socket.ack(socket.delivered[0]?.id ?? "");
  assertEquals((await sending).status, 202);
  const receipt = { requestId, recipientAgentDid: b.agent.did, status: "processed_by_svc" as const };
  await b.client.submitReceipt({ ...receipt, timestamp: toIso(w.clock.now()) });

  // A queued message.
  assertEquals((await w.message(a, c, { headers: { Prefer: "respond-async" } })).status, 202);
  await count();
  const late = w.connect(c);
  await until(() => late.delivered.length === 1);

  // A refresh, and the end of an agent.
  const refresh = { refreshToken: b.agentAuth.refreshToken };
  const target = "/v1/agents/auth/refresh", body = JSON.stringify(refresh);
  await w.fetch(await w.signed(b, { base: "https://registry.example.test", target, body }));
  await w.ask("DELETE", `/v1/agents/${b.agent.id}`, { apiKey: b.owner.apiKey });
  await w.proxy.deps.revalidation.onTrustChange([b.agent.did], w.clock.now() - 250);

  // An agent that stays away until its token is about to end.
  late.link.end(1000, "over");
  const ended = async () => (await w.kv.get<Seen>(KEYS.seen(c.agent.did))).value?.disconnectedAt !== null;
  await until(ended);
  w.clock.step(25 * DAY_MS);
  await count();

  const still = [...seen].filter(([, values]) => values.size < 2).map(([name]) => name);
  assertEquals(still.toSorted(), Object.keys(STILL).toSorted());
});
