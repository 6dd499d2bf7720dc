/** Shows the limiter of bad proofs (D-94, D-241): it refuses the client that floods, and no other client. */
import { assertEquals, assertThrows } from "@std/assert";
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import { nonceTotal, unpackSender } from "../../../proxy/schema/sender_record.ts";
import { BadProofLimiter } from "../../../proxy/admission/bad_proof_limiter.ts";
import { ServiceError } from "../../../shared/protocol/errors.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import type { RequestContext } from "../../../shared/server/http/route.ts";
import { ManualClock } from "../../support/manual_clock.ts";
import { codeOf, PROXY_URL, World } from "../../support/world.ts";

const BAD = { signed: { method: "PUT" } };

Deno.test("the same token from the same address is refused without verification after 200 bad proofs in 10 s", async () => {
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

Deno.test("requests over the rate limit are refused before their nonce is written when they go on", async () => {
  await using w = await World.open({ proxy: { agentRequests: 5 } });
  const { a, b } = await w.story();
  const nonces = async () => nonceTotal(unpackSender((await w.kv.get(KEYS.sender(a.agent.did))).value));
  for (let i = 0; i < 250; i++) await w.message(a, b);
  const before = await nonces();
  for (let i = 0; i < 50; i++) assertEquals((await w.message(a, b)).status, 429);
  assertEquals(await nonces(), before);
});

Deno.test("bad proofs do not count against the agent's own rate limit", async () => {
  await using w = await World.open({ proxy: { agentRequests: 5 } });
  const { a, b, socket } = await w.story();
  socket.alive = true;
  await w.clock.advance(60_000);
  for (let i = 0; i < 100; i++) await w.message(a, b, BAD);
  for (let i = 0; i < 5; i++) assertEquals((await w.message(a, b)).status, 202);
  assertEquals((await w.message(a, b)).status, 429);
});

Deno.test("the limiter refuses every spelling of the token's header after 200 bad proofs", async () => {
  await using w = await World.open();
  const { a, b } = await w.story();
  const spelling = (i: number) => ({ ...BAD, headers: { Authorization: `Svc${" ".repeat(1 + i)}${a.identity.ait}` } });
  for (let i = 0; i < 200; i++) {
    assertEquals(await codeOf(await w.message(a, b, spelling(i))), "PROXY_AUTH_INVALID_PROOF");
  }
  const others = [spelling(500), { ...BAD, headers: { Authorization: `sVC ${a.identity.ait}` } }];
  for (const parts of others) assertEquals((await w.message(a, b, parts)).status, 429);
});

Deno.test("the limiter keeps the newest counts when it receives a flood of tokens", () => {
  const guard = new BadProofLimiter(new ManualClock());
  const exchangeOf = (token: string) =>
    ({
      ip: "192.0.2.1",
      request: new Request(PROXY_URL, { headers: { Authorization: `Svc ${token}` } }),
    }) as RequestContext;
  const noted = (token: string) => {
    const exchange = exchangeOf(token);
    for (let i = 0; i < LIMITS.badProofs; i++) guard.recordFailure(exchange);
  };
  for (let i = 0; i < 5_000; i++) guard.recordFailure(exchangeOf(`first-${i}`));
  noted("attacker");
  for (let i = 0; i < 9_000; i++) guard.recordFailure(exchangeOf(`second-${i}`));
  assertThrows(() => guard.rejectIfOver(exchangeOf("attacker")), ServiceError);
});
