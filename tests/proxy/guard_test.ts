/** The guard against floods of bad proofs (D-94): it costs the one who floods, and nobody else. */
import { assertEquals } from "@std/assert";
import { codeOf, World } from "../support/world.ts";

const BAD = { signed: { method: "PUT" } };

Deno.test("H10: after 200 bad proofs in 10 s the same token from the same address is answered at a glance", async () => {
  await using w = await World.open();
  const { a, b } = await w.story();
  for (let i = 0; i < 200; i++) assertEquals(await codeOf(await w.message(a, b, BAD)), "PROXY_AUTH_INVALID_PROOF");
  const refused = await w.message(a, b, BAD);
  assertEquals(refused.status, 429);
  assertEquals(refused.headers.get("Retry-After"), "10");
  assertEquals(await codeOf(refused), "PROXY_RATE_LIMIT_EXCEEDED");

  w.peer = { from: "socket", address: "192.0.2.2" };
  assertEquals((await w.message(a, b)).status, 202, "the same agent from another address");
  w.peer = { from: "socket", address: "192.0.2.1" };
  const c = await w.agent();
  await w.pair(c, b);
  assertEquals((await w.message(c, b)).status, 202, "another agent at the same address");

  await w.clock.advance(10_000);
  assertEquals((await w.message(a, b)).status, 202, "the same agent, later");
});

Deno.test("H10: bad proofs use up nothing of the agent's own limit", async () => {
  await using w = await World.open({ proxy: { agentRequests: 5 } });
  const { a, b, socket } = await w.story();
  socket.alive = true;
  await w.clock.advance(60_000);
  for (let i = 0; i < 100; i++) await w.message(a, b, BAD);
  for (let i = 0; i < 5; i++) assertEquals((await w.message(a, b)).status, 202);
  assertEquals((await w.message(a, b)).status, 429);
});
