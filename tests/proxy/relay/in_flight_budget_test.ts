/**
 * Shows the byte budget of messages that wait for an answer (D-98): a bound per sender and one in total. A refusal
 * counts as a request, and the bytes are released with any answer.
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { InFlightBudget } from "../../../proxy/relay/in_flight_budget.ts";
import { ServiceError } from "../../../shared/protocol/errors.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import { outcome, refused } from "../../support/registry_world.ts";
import { openProxy } from "../proxy_world.ts";

const LARGE = LIMITS.hookBodyBytes;
const FIT = LIMITS.heldPerSenderBytes / LARGE;

Deno.test("a sender is refused beyond 2 MiB of messages without an ack; other senders are not", async () => {
  const w = await openProxy();
  await using _ = w;
  const { a, b, socket } = await w.story();
  const other = await w.agent();
  await w.pair(other, b);
  const body = JSON.stringify({ message: "x".repeat(LARGE - '{"message":""}'.length) });
  const send = async (from: typeof a) => await w.fetch(await w.signed(from, { recipient: b.agent.did, body }));
  socket.behaviour = "silent";
  const waiting = Array.from({ length: FIT }, () => send(a));
  for (let i = 0; i < 200 && socket.delivered.length < FIT; i++) await flushTasks();
  const over = await send(a);
  assert(over.headers.get("retry-after"));
  await refused(over, "PROXY_RELAY_UNAVAILABLE");
  const others = send(other);
  for (let i = 0; i < 200 && socket.delivered.length <= FIT; i++) await flushTasks();
  assertEquals(w.proxy.deps.held.total, (FIT + 1) * LARGE);
  await w.clock.advance(LIMITS.ackTimeoutMs);
  for (const answer of await Promise.all([...waiting, others])) {
    assertEquals(await outcome(answer), "502 PROXY_RELAY_DELIVERY_FAILED");
  }
  assertEquals(w.proxy.deps.held.total, 0);
});

Deno.test("all senders share 32 MiB, beyond which only small messages fit", () => {
  const held = new InFlightBudget();
  const ends: (() => void)[] = [];
  for (let i = 0; i < LIMITS.heldBytes / LIMITS.heldPerSenderBytes; i++) {
    ends.push(held.take(`sender ${i}`, LIMITS.heldPerSenderBytes));
  }
  assertThrows(() => held.take("one more", LIMITS.bodyFreeBytes + 1), ServiceError);
  held.take("one more", LIMITS.bodyFreeBytes)();
  assertThrows(() => held.take("sender 0", 1), ServiceError);
  for (const end of ends) end();
  assertEquals(held.total, 0);
  held.take("sender 0", LIMITS.heldPerSenderBytes)();
});
