/** Shows that a flood of invented API keys and secrets of services keeps neither the store nor other requests busy. */
import { assert, assertEquals } from "@std/assert";
import { CallGate, countingKv, noCounts } from "../support/counting_kv.ts";
import { flushTasks } from "../support/manual_clock.ts";
import { openRegistry, outcome, tally } from "../support/registry_world.ts";
import { openTestKv } from "../support/test_store.ts";

const HELD = 3_000;

Deno.test("thousands of invented keys at once wait in few calls of the store, and other reads are not refused", async () => {
  const gate = new CallGate();
  await using w = await openRegistry({ kv: countingKv(await openTestKv(), gate, noCounts()) });
  const { apiKey } = await w.admin();
  gate.hold();
  const flood = Array.from({ length: HELD }, (_, i) => {
    if (i % 2 === 0) return w.ask("GET", "/v1/me", { apiKey: `invented-${i}` });
    const headers = { "X-Svc-Service-Id": w.newId(), "X-Svc-Service-Secret": "invented" };
    return w.ask("GET", "/v1/crl", { headers });
  });
  await flushTasks();
  assert(gate.waiting > 0 && gate.waiting <= 40, `${gate.waiting} calls of the store wait`);
  const { peer } = w;
  w.peer = { from: "process" };
  const list = w.ask("GET", "/v1/crl").then(outcome);
  w.peer = { from: "socket", address: "198.51.100.7" };
  const honest = w.ask("GET", "/v1/me", { apiKey }).then(outcome);
  await flushTasks();
  gate.letThrough();
  await gate.release();
  assertEquals(await list, "404 CRL_NOT_FOUND");
  assertEquals(await honest, "200", "a person at another address");
  const answers = await tally(flood);
  assert((answers["401 API_KEY_INVALID"] ?? 0) <= 100, JSON.stringify(answers));
  w.peer = peer;
  assertEquals(await outcome(await w.ask("GET", "/v1/me", { apiKey })), "200");
});
