/** The plots' numbers: what passed in each minute and each 15 minutes, and what a restart leaves out. */
import { assert, assertEquals } from "@std/assert";
import { refusalGroup, RelaySeries } from "../../../proxy/admin/series.ts";
import { ACK_OVER_MS, type RelaySeriesAnswer } from "../../../shared/protocol/api/relay_admin.ts";
import { ERRORS } from "../../../shared/protocol/errors.ts";
import { toIso } from "../../../shared/protocol/time.ts";
import { Metrics } from "../../../shared/server/metrics/metrics.ts";
import { ManualClock } from "../../support/manual_clock.ts";
import { openProxy } from "../proxy_world.ts";
import { look, seen, tokenOf } from "./admin_world.ts";

const NOON = Date.UTC(2026, 10, 23, 12);

function world(now: number) {
  const clock = new ManualClock(now), metrics = new Metrics();
  let isAway = false;
  const counts = {
    at: 0,
    agents: { online: 3, offlineOver1d: 0 },
    queues: { messages: 7, recipients: 1, oldestAt: null, fullest: 0 },
    complete: true,
  };
  const current = () => isAway ? Promise.reject(new Error("the store is away")) : Promise.resolve(counts);
  const series = new RelaySeries({ clock, metrics, counts: { current } });
  series.start();
  return { clock, metrics, series, storeAway: (away: boolean) => isAway = away };
}

Deno.test("each minute has what passed in it, with bounds of the acknowledgements", async () => {
  const { clock, metrics, series, storeAway } = world(NOON + 30_000);
  for (let i = 0; i < 19; i++) metrics.observe("relay_ack_seconds", 0.004);
  metrics.observe("relay_ack_seconds", 60);
  for (const outcome of ["delivered", "delivered", "queued", "repeat", "offline", "mailbox_full"]) {
    metrics.count("relay_messages_total", outcome, "local");
  }
  metrics.count("refusals_total", "RATE_LIMIT_EXCEEDED", "none", "local");
  metrics.count("refusals_total", "PROXY_AUTH_INVALID_AIT", "2", "local");
  await clock.advance(30_000);
  metrics.observe("relay_ack_seconds", 60);
  storeAway(true);
  await clock.advance(60_000);
  const { since, stepSeconds, points } = series.of("hour");
  assertEquals([since, stepSeconds], [toIso(NOON + 30_000), 60]);
  const none = { rate: 0, pair: 0, identity: 0, other: 0 };
  assertEquals(points, [
    {
      at: toIso(NOON + 60_000),
      delivered: 2,
      queued: 1,
      failed: 2,
      refusals: { ...none, rate: 1, identity: 1 },
      waiting: 7,
      agents: 3,
      ackP50Ms: 5,
      ackP95Ms: 5,
    },
    {
      at: toIso(NOON + 120_000),
      delivered: 0,
      queued: 0,
      failed: 0,
      refusals: none,
      waiting: null,
      agents: null,
      ackP50Ms: ACK_OVER_MS,
      ackP95Ms: ACK_OVER_MS,
    },
  ]);
  series.stop();
  assertEquals(clock.waiting, 0);
});

Deno.test("a step ends although a pause or a clock that is set skips its last minute", async () => {
  const { clock, metrics, series } = world(NOON + 30_000);
  await clock.advance(14 * 60_000 + 20_000);
  metrics.count("relay_messages_total", "delivered", "local");
  clock.step(40_000);
  await clock.advance(15 * 60_000);
  const { points } = series.of("day");
  assertEquals(points.map(({ at, delivered }) => [at, delivered]), [
    [toIso(NOON + 15 * 60_000), 1],
    [toIso(NOON + 30 * 60_000), 0],
  ]);
  series.stop();
});

Deno.test("a clock that is set back by two minutes replaces no point of 15 minutes", async () => {
  const { clock, metrics, series } = world(NOON + 30_000);
  for (const passed of [3, 5, 2]) {
    for (let i = 0; i < passed; i++) metrics.count("relay_messages_total", "delivered", "local");
    await clock.advance(15 * 60_000);
    clock.step(-120_000);
    await clock.advance(120_000);
  }
  const points = new Map(series.of("day").points.map(({ at, delivered }) => [at, delivered]));
  assertEquals([...points], [15, 30, 45].map((minute, i) => [toIso(NOON + minute * 60_000), [3, 5, 2][i]]));
  series.stop();
});

Deno.test("two rings have a fixed size, and their points stay below 40 KB", async () => {
  const { clock, metrics, series } = world(NOON + 60_000);
  for (let minute = 0; minute < 26 * 60; minute++) {
    metrics.count("relay_messages_total", "delivered", "local");
    await clock.advance(60_000, () => Promise.resolve());
  }
  // The counts of a minute come in a later task.
  await clock.advance(0);
  const hour = series.of("hour").points, day = series.of("day").points;
  assertEquals([hour.length, day.length], [60, 96]);
  assertEquals([new Set(hour.map((one) => one.delivered)), new Set(day.map((one) => one.delivered))], [
    new Set([1]),
    new Set([15]),
  ]);
  assertEquals([hour.at(-1)?.at, day.at(-1)?.at], [toIso(clock.now()), toIso(NOON + 26 * 3_600_000)]);
  assert(JSON.stringify([hour, day]).length < 40_000);
  series.stop();
});

Deno.test("a sleep of the machine leaves old points out, and every code has a group", async () => {
  const { clock, series } = world(NOON);
  await clock.advance(120_000);
  clock.step(2 * 3_600_000);
  assertEquals(series.of("hour").points, []);
  const groups = new Map(Object.keys(ERRORS).map((code) => [code, refusalGroup(code)]));
  assertEquals(groups.get("PROXY_RATE_LIMIT_EXCEEDED"), "rate");
  assertEquals(groups.get("PROXY_AUTH_FORBIDDEN"), "pair");
  assertEquals(groups.get("PROXY_AGENT_ACCESS_INVALID"), "identity");
  assertEquals(groups.get("PROXY_AUTH_DEPENDENCY_UNAVAILABLE"), "other");
  series.stop();
});

Deno.test("an admin reads the series, and the connections and queues of chosen agents", async () => {
  await using w = await openProxy();
  const { a, b } = await w.story();
  const c = await w.agent();
  await w.pair(a, c);
  assertEquals((await w.message(a, b)).status, 202);
  await w.message(a, c, { headers: { Prefer: "respond-async" } });
  await w.proxy.deps.series.take();
  const { points, instance } = await seen<RelaySeriesAnswer>(w, "series?span=hour");
  assertEquals(points.map(({ delivered }) => delivered), [1]);
  assertEquals(instance, w.proxy.deps.leases.instance);
  const ids = [c, b].map(({ agent }) => agent.id).join(",");
  const { connections } = await seen<{ connections: { agentDid: string }[] }>(w, `connections?agents=${ids}`);
  assertEquals(connections.map(({ agentDid }) => agentDid), [b.agent.did]);
  const { queues } = await seen<{ queues: { recipientAgentDid: string; messages: number }[] }>(
    w,
    `queues?agents=${ids}`,
  );
  assertEquals(queues.map(({ recipientAgentDid, messages }) => [recipientAgentDid, messages]), [[c.agent.did, 1]]);
  const token = await tokenOf(w);
  for (const path of ["series?span=week", "connections?agents=x", `queues?agents=${ids},`]) {
    const answer = await look(w, path, token);
    assertEquals(answer.status, 400, path);
    await answer.body?.cancel();
  }
});
