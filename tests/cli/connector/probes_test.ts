/** Probes of `provider relay-test`: the peer's connector answers them, and its agent sees none. */
import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { isProbe, PROBES_A_MINUTE } from "../../../cli/connector/receiving.ts";
import { MinuteCounts } from "../../../cli/link/minute_counts.ts";
import { until } from "../../support/until.ts";
import { World } from "../../support/world.ts";
import { Bench, INBOX, story } from "./bench.ts";
import { asker, post } from "./local_api/local_caller.ts";

Deno.test("a peer's connector answers a probe with a receipt and stores no message, at most ten in a minute", async () => {
  await using world = await World.open();
  const { a, bench } = await story(world, INBOX);
  await using peer = await Bench.open(world, a, INBOX);
  await until(() => peer.connector.status().connection.state === "connected");
  const state = (requestId: string) => bench.connector.store.sent.find(requestId)?.state;
  const send = async (n: number) => {
    const requestId = `probe-${String(n).padStart(4, "0")}`;
    const message = { to: a.agent.did, payload: { svcProbe: requestId }, requestId };
    assertEquals((await asker(bench)("/v1/outbound", post(message))).status, 202);
    return requestId;
  };
  for (let n = 0; n < PROBES_A_MINUTE; n++) {
    const requestId = await send(n);
    await until(() => state(requestId) === "processed");
  }
  const over = await send(PROBES_A_MINUTE);
  await until(() => peer.eventsOf("probed").length === PROBES_A_MINUTE + 1);
  assertEquals([state(over), peer.connector.store.received.counts().waiting], ["delivered", 0]);
  assertEquals((await asker(peer)("/v1/inbox")).body.messages, []);
  await world.clock.advance(60_000);
  const later = await send(PROBES_A_MINUTE + 1);
  await until(() => state(later) === "processed");
});

Deno.test("after the clock was set back by an hour, probes are answered within a minute", () => {
  const counts = new MinuteCounts(), now = 3_600_000;
  for (let n = 0; n < PROBES_A_MINUTE; n++) counts.add("peer", now);
  assertEquals([counts.add("peer", now).count, counts.add("peer", 0).count], [PROBES_A_MINUTE + 1, 1]);
});

Deno.test("only an object with the one member is a probe, of any JSON", () => {
  assertEquals(isProbe('{"svcProbe":"x"}'), true);
  assertEquals(isProbe(' { "svcProbe" : "x" } '), true);
  const others = ['{"svcProbe":1}', '{"svcProbe":"x","message":"y"}', '["svcProbe"]', '"svcProbe"', "null", "{}"];
  for (const payload of others) assertEquals(isProbe(payload), false, payload);
  assertEquals(isProbe(`{"svcProbe":"${"x".repeat(64 * 1024)}"}`), false);
  fc.assert(fc.property(fc.json(), (payload) => !isProbe(payload)), { seed: 1 });
});
