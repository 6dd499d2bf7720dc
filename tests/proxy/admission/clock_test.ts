/**
 * Shows the effect of a step of the machine's clock on the proxy (D-25): no request is accepted twice, requests still
 * pass, and request IDs keep rising.
 */
import { assert, assertEquals } from "@std/assert";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { outcome } from "../../support/registry_world.ts";
import { openProxy } from "../proxy_world.ts";
import { inFlight } from "../../support/in_flight.ts";

for (const stepMs of [-600_000, 600_000, -1_000]) {
  Deno.test(`messages pass and no message is accepted twice after a clock step of ${stepMs / 1000} s`, async () => {
    await using w = await openProxy();
    const { a, b, socket } = await w.story();
    socket.alive = true;
    // Older than the step: otherwise a token dated in the future would be refused.
    if (stepMs < 0) await w.clock.advance(700_000);
    const parts = { recipient: b.agent.did, body: '{"message":"hi"}' };
    const request = await w.signed(a, parts);
    assertEquals(await outcome(await w.fetch(request.clone())), "202");
    w.clock.step(stepMs);
    const replayed = await outcome(await w.fetch(request.clone()));
    assert(/^401 PROXY_AUTH_(REPLAY|TIMESTAMP_SKEW)$/.test(replayed), replayed);
    assertEquals(await outcome(await w.fetch(await w.signed(a, parts))), "202");
    // The clock is back: the first request is within its tolerance again, and its nonce is still used.
    w.clock.step(-stepMs);
    assertEquals(await outcome(await w.fetch(request)), "401 PROXY_AUTH_REPLAY");
    assertEquals(inFlight(w.proxy.deps.connectedAgents), 0);
  });
}

Deno.test("records that expired while the clock was ahead stay expired, and request IDs rise through jitter", async () => {
  await using w = await openProxy();
  const { a, b, socket } = await w.story();
  const send = async () => await w.fetch(await w.signed(a, { recipient: b.agent.did, body: '{"message":"hi"}' }));
  for (let i = 0; i < 20; i++) {
    w.clock.step(i % 2 ? 1_000 : -1_000);
    assertEquals(await outcome(await send()), "202");
  }
  const ids = socket.delivered.map(({ requestId }) => requestId);
  assertEquals(ids, ids.toSorted());
  assertEquals(new Set(ids).size, 20);
  const aheadMs = (LIMITS.aitTtlDaysDefault + 1) * 86_400_000;
  w.clock.step(aheadMs);
  assertEquals(await outcome(await send()), "401 PROXY_AUTH_INVALID_AIT");
});
