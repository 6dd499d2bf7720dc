/**
 * Shows the byte budget of messages that wait for an answer: a bound per sender and one in total. A refusal counts as a
 * request, and the bytes are released with any answer.
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { HELD_BYTES, HELD_PER_SENDER_BYTES, InFlightBudget } from "../../../proxy/relay/in_flight_budget.ts";
import { ServiceError } from "../../../shared/protocol/errors.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { outcome, refused } from "../../support/registry_world.ts";
import { openProxy } from "../proxy_world.ts";
import { until } from "../../support/until.ts";

const LARGE = LIMITS.hookBodyBytes;
const FIT = HELD_PER_SENDER_BYTES / LARGE;

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
  await until(() => socket.delivered.length >= FIT);
  const over = await send(a);
  assert(over.headers.get("retry-after"));
  await refused(over, "PROXY_RELAY_UNAVAILABLE");
  const others = send(other);
  await until(() => socket.delivered.length > FIT);
  assertEquals(w.proxy.deps.held.total, (FIT + 1) * LARGE);
  await w.clock.advance(LIMITS.ackTimeoutMs);
  for (const answer of await Promise.all([...waiting, others])) {
    assertEquals(await outcome(answer), "502 PROXY_RELAY_DELIVERY_FAILED");
  }
  assertEquals(w.proxy.deps.held.total, 0);
});

/** Sender `i`; each owner has four. */
const sender = (i: number) => ({ holder: `owner ${Math.floor(i / 4)}`, agentDid: `sender ${i}` });

Deno.test("all senders share 32 MiB, beyond which only small messages fit", () => {
  const held = new InFlightBudget();
  const ends: (() => void)[] = [];
  for (let i = 0; i < HELD_BYTES / HELD_PER_SENDER_BYTES; i++) {
    ends.push(held.take(sender(i), HELD_PER_SENDER_BYTES));
  }
  assertThrows(() => held.take(sender(100), LIMITS.bodyFreeBytes + 1), ServiceError);
  held.take(sender(100), LIMITS.bodyFreeBytes)();
  assertThrows(() => held.take(sender(0), 1), ServiceError);
  for (const end of ends) end();
  assertEquals(held.total, 0);
  held.take(sender(0), HELD_PER_SENDER_BYTES)();
});

Deno.test("twenty senders of one owner hold 8 MiB together, and leave the rest to others", () => {
  const held = new InFlightBudget();
  const ofOwner = (i: number) => ({ ...sender(i), holder: "hostile" });
  const taken = Array.from({ length: 20 }, (_, i) => {
    try {
      return held.take(ofOwner(i), HELD_PER_SENDER_BYTES);
    } catch (error) {
      assert(error instanceof ServiceError && error.code === "PROXY_RELAY_UNAVAILABLE");
      return null;
    }
  });
  assertEquals(taken.filter((end) => end !== null).length, 4);
  assertThrows(() => held.take(ofOwner(20), 1), ServiceError, undefined, "not even a small one");
  held.take(sender(50), HELD_PER_SENDER_BYTES)();
  for (const end of taken) end?.();
  assertEquals(held.total, 0);
});
