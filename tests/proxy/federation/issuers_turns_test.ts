/** Whether registries that one person brought can keep this server from asking all others. */
import { assertEquals } from "@std/assert";
import { Issuers } from "../../../proxy/federation/issuers.ts";
import { Metrics } from "../../../shared/server/metrics/metrics.ts";
import { ForeignIssuer } from "../../support/foreign_issuer.ts";
import { ManualClock } from "../../support/manual_clock.ts";
import { seededRandom } from "../../support/seeded_random.ts";
import { openTestKv } from "../../support/test_store.ts";

Deno.test("registries under one domain that answer slowly do not keep this server from asking another one", async () => {
  const clock = new ManualClock(), b = await ForeignIssuer.open(clock), kv = await openTestKv();
  b.answer = ({ url }) => url.includes("evil.example") ? new Promise(() => {}) : null;
  const issuers = new Issuers({
    ...{ kv, clock, random: seededRandom(1), log: () => {}, metrics: new Metrics(), ...b.abroad },
    config: { registryKeysTtlMs: 300_000, federationPrivate: false },
    onList: () => {},
  });
  // Each subdomain is asked once in 5 s or less often, so that its pauses never matter.
  let n = 0;
  const flood = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += 100) {
      for (let i = 0; i < 2; i++) issuers.of(`https://r${n++}.evil.example`).keys.current().catch(() => {});
      await clock.advance(100);
    }
  };
  await flood(3_000);
  let answered = 0;
  for (let i = 0; i < 5; i++) {
    const asked = issuers.of("https://b.example").keys.current().then(() => answered++, () => {});
    await flood(3_500);
    await asked;
  }
  kv.close();
  assertEquals(answered > 0, true);
});
