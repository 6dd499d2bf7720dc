/**
 * Shows what the registry reports about itself: health, which checks store and key, and metadata, which is
 * configuration only.
 */
import { assert, assertEquals } from "@std/assert";
import { KEYS } from "../../../registry/schema/kv_keys.ts";
import { STORE_CALL_MS } from "../../../shared/server/store/store_errors.ts";
import { HEALTHY_MS } from "../../../shared/server/store/store_probe.ts";
import { FaultyKv } from "../../support/faulty_kv.ts";
import { flushTasks, ManualClock } from "../../support/manual_clock.ts";
import { answered, openRegistry } from "../../support/registry_world.ts";
import { PROXY_URL, REGISTRY_URL } from "../../support/world.ts";

/** Paths without a credential and without a limit. */
const PUBLIC = [
  "/health",
  "/v1/metadata",
  "/.well-known/svc-keys.json",
  "/openapi.json",
  "/",
  "/join",
  "/docs",
  "/page.css",
];

Deno.test("health is 200 with exactly its members when store and key work", async (t) => {
  for (const environment of ["local", "dev", "production"] as const) {
    await t.step(environment, async () => {
      await using w = await openRegistry({ registry: { environment, version: "1.2.3" } });
      const checks = { kv: true, signingKey: true };
      const wanted = { status: "ok", version: "1.2.3", environment, ready: true, checks, crlFill: 0 };
      assertEquals(await answered(await w.ask("GET", "/health")), wanted);
    });
  }
});

Deno.test("health is 503 and names the failed check without store or key, and 200 when they are back", async (t) => {
  await t.step("store", async () => {
    using faulty = await FaultyKv.open();
    await using w = await openRegistry({ kv: faulty.kv });
    faulty.faults = { fails: () => true };
    const { status, ready, checks } = await answered<
      { status: string; ready: boolean; checks: Record<string, boolean> }
    >(
      await w.ask("GET", "/health"),
      503,
    );
    assertEquals([status, ready, checks.kv], ["unavailable", false, false]);
    faulty.faults = {};
    await answered(await w.ask("GET", "/health"));
  });
  await t.step("key", async () => {
    await using w = await openRegistry();
    const { value } = await w.kv.get(KEYS.signingKeys());
    await w.kv.delete(KEYS.signingKeys());
    const { checks } = await answered<{ checks: unknown }>(await w.ask("GET", "/health"), 503);
    assertEquals(checks, { kv: true, signingKey: false });
    await w.kv.set(KEYS.signingKeys(), value);
    await answered(await w.ask("GET", "/health"));
  });
});

Deno.test("readyz is 200 or 503 as health is, and healthz is 200 without the store", async () => {
  using faulty = await FaultyKv.open();
  await using w = await openRegistry({ kv: faulty.kv });
  assertEquals(await answered(await w.ask("GET", "/readyz")), { status: "ok", ready: true });
  faulty.faults = { fails: () => true };
  assertEquals(await answered(await w.ask("GET", "/readyz"), 503), { status: "unavailable", ready: false });
  assertEquals(await answered(await w.ask("GET", "/healthz")), { status: "ok" });
});

for (const path of ["/readyz", "/health"]) {
  Deno.test(`${path} is 503 after 5 s while the store hangs`, async () => {
    const clock = new ManualClock();
    using faulty = await FaultyKv.open({}, 1, clock);
    await using w = await openRegistry({ kv: faulty.kv });
    faulty.faults = { before: () => new Promise<void>(() => {}) };
    let status = 0;
    const answer = w.ask("GET", path).then((response) => {
      status = response.status;
      return response.body?.cancel();
    });
    await flushTasks();
    await w.clock.advance(HEALTHY_MS);
    assertEquals(status, 503);
    faulty.faults = {};
    await clock.advance(STORE_CALL_MS);
    await answer;
  });
}

Deno.test("health shows no cause, no key and no path", async () => {
  using faulty = await FaultyKv.open();
  await using w = await openRegistry({ kv: faulty.kv });
  faulty.faults = { fails: () => new Error("secret cause in /srv/data.kv") };
  const text = await (await w.ask("GET", "/health")).text();
  assert(!/secret|srv|cause|seed|stack/.test(text), text);
});

Deno.test("metadata has its four configured members", async () => {
  const place = { environment: "production", version: "9.9.9" } as const;
  await using w = await openRegistry({ registry: place });
  const wanted = { registryUrl: REGISTRY_URL, proxyUrl: PROXY_URL, ...place };
  assertEquals(await answered(await w.ask("GET", "/v1/metadata")), wanted);
  const headers = {
    Host: "evil.example",
    "X-Forwarded-Host": "evil.example",
    "X-Forwarded-Proto": "http",
    Forwarded: "host=evil.example",
  };
  assertEquals(await answered(await w.ask("GET", "/v1/metadata", { headers })), wanted);
});

Deno.test("health, keys, metadata and the documents have no rate limit", async () => {
  await using w = await openRegistry();
  for (const path of PUBLIC) {
    const answer = await w.ask("GET", path);
    assertEquals([answer.status, answer.headers.get("ratelimit")], [200, null]);
    await answer.body?.cancel();
  }
});
