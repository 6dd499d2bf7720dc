/** Plays the story once over both services: each row of the table of metrics moves (D-177). */
import { assertEquals } from "@std/assert";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { METRICS } from "../../shared/server/metrics/metrics_table.ts";
import { expositionOf } from "../../shared/server/metrics/exposition.ts";
import { parseExposition, totalOf } from "../support/exposition.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { flushTasks } from "../support/manual_clock.ts";
import { until } from "../support/until.ts";
import { World } from "../support/world.ts";

/** Rows that do not move here, with the reason. At most five. */
const STILL: Readonly<Record<string, string>> = {
  process_start_time_seconds: "deploy.ts reads it; tests/e2e/metrics_test.ts",
  process_resident_memory_bytes: "deploy.ts reads it; tests/e2e/metrics_test.ts",
  http_requests_in_flight: "deploy.ts reads it; tests/e2e/metrics_test.ts",
};

Deno.test("every metric moves when the story is played once", async () => {
  await using w = await World.open();
  w.metrics.isRead = true;
  const seen = new Map<string, Set<number | undefined>>();
  const look = () => {
    const families = parseExposition(expositionOf(w.metrics));
    for (const name of Object.keys(METRICS)) {
      const full = `svc_${name}`;
      const values = seen.get(name) ?? new Set<number | undefined>();
      seen.set(name, values.add(families.has(full) ? totalOf(families, full) : undefined));
    }
  };
  look();
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
  w.proxy.deps.drain.start();
  await w.clock.advance(LIMITS.mailboxSweepMs);
  await until(() => expositionOf(w.metrics).includes("svc_mailbox_oldest_seconds"));
  look();
  const late = w.connect(c);
  await until(() => late.delivered.length === 1);

  // A refresh, and the end of an agent.
  const refresh = { refreshToken: b.agentAuth.refreshToken };
  const target = "/v1/agents/auth/refresh", body = JSON.stringify(refresh);
  await w.fetch(await w.signed(b, { base: "https://registry.example.test", target, body }));
  await w.ask("DELETE", `/v1/agents/${b.agent.id}`, { apiKey: b.owner.apiKey });
  await w.proxy.deps.revalidation.onTrustChange([b.agent.did], w.clock.now() - 250);
  look();

  const still = [...seen].filter(([, values]) => values.size < 2).map(([name]) => name);
  assertEquals(still.toSorted(), Object.keys(STILL).toSorted());
});
