/**
 * The service deletes its expired records itself (D-217): sealed nonces, deliveries, receipts, and the presence of
 * instances that have ended. The store would delete them a week later.
 */
import { assert, assertEquals } from "@std/assert";
import { KEYS } from "../../proxy/schema/kv_keys.ts";
import { HEADERS } from "../../shared/protocol/proof.ts";
import { SWEEP_REST_MS } from "../../shared/server/store/expiry_sweeper.ts";
import { flushTasks } from "../support/manual_clock.ts";
import { answered, countOf } from "../support/registry_world.ts";
import type { TestAgent, World } from "../support/world.ts";
import { get, openProxy, post, receiptOf, restart } from "./proxy_world.ts";
import { type CastTest, inWorld, openCast } from "./cast.ts";

const ID = "request-1";
const HOUR_MS = 3_600_000, DAY_MS = 24 * HOUR_MS;

const count = (w: World, family: string) => countOf(w, ["proxy", family]);

/** Moves the clock, then lets the expiry sweep make one pass. */
async function later(w: World, ms: number): Promise<void> {
  w.clock.step(ms);
  await w.clock.advance(SWEEP_REST_MS);
  for (let i = 0; i < 3; i++) await flushTasks();
}

async function sendAndConfirm(w: World, a: TestAgent, b: TestAgent): Promise<void> {
  await answered(await w.message(a, b, { headers: { [HEADERS.requestId]: ID } }), 202);
  await answered(await post(w, b, "/v1/relay/delivery-receipts", receiptOf(w, b, ID)), 201);
}

const test = (name: string, run: CastTest) => Deno.test(name, inWorld(openCast, run));

Deno.test("sealed nonces, deliveries and receipts are deleted once each has expired, and not before", async () => {
  await using w = await openProxy({ proxy: { receiptKeptMs: 2 * DAY_MS } });
  const { a, b } = await w.story();
  await w.proxy.start();
  await sendAndConfirm(w, a, b);
  for (let i = 0; i < 40; i++) await answered(await get(w, a, "/pair/peers"), 200);
  const counts = () => Promise.all(["sender_part", "delivery", "receipt"].map((family) => count(w, family)));
  assertEquals(await counts(), [2, 1, 1]);
  await later(w, 5 * 60_000);
  assertEquals(await counts(), [2, 1, 1]);
  await later(w, 6 * 60_000);
  assertEquals(await counts(), [0, 1, 1]);
  await later(w, DAY_MS);
  assertEquals([await count(w, "delivery"), await count(w, "receipt")], [0, 1]);
  await later(w, DAY_MS);
  assertEquals(await count(w, "receipt"), 0);
});

test("a delivery without a receipt is deleted 8 days after its answer", async ({ w, a, b }) => {
  await w.proxy.start();
  await answered(await w.message(a, b), 202);
  await later(w, 8 * DAY_MS - HOUR_MS);
  assertEquals(await count(w, "delivery"), 1);
  await later(w, HOUR_MS);
  assertEquals(await count(w, "delivery"), 0);
});

test("records of a stopped instance are deleted after the next start", async ({ w, a, b }) => {
  for (let i = 0; i < 30; i++) await answered(await get(w, a, "/pair/peers"), 200);
  await sendAndConfirm(w, a, b);
  assertEquals([await count(w, "sender_part"), await count(w, "delivery")], [1, 1]);
  w.clock.step(DAY_MS);
  await restart(w);
  await w.proxy.start();
  await later(w, 0);
  assertEquals([await count(w, "sender_part"), await count(w, "delivery")], [0, 0]);
});

test("a nonce is refused within its lifetime, also right after a sweep", async ({ w, a, b }) => {
  await w.proxy.start();
  const nonce = "nonce-of-the-request";
  const timestamp = String(w.clock.now() / 1000 + 240);
  await answered(await w.message(a, b, { nonce, timestamp }), 202);
  await later(w, 8 * 60_000);
  await w.renew(a);
  const again = await w.message(a, b, { nonce, timestamp });
  assertEquals((await again.json()).error.code, "PROXY_AUTH_REPLAY");
});

Deno.test("presence is deleted when the lease of its instance has expired, and not while it is valid", async () => {
  await using w = await openProxy();
  await w.proxy.start();
  const gone = "01KHYQ5H00GGGGGGGGGGGGGGGG";
  await w.kv.set(KEYS.presence("did:gone"), { instance: gone });
  await w.kv.set(KEYS.presence("did:here"), { instance: w.proxy.deps.presence.instance });
  await w.kv.set(KEYS.instance(gone), { at: 0, pid: 1, state: "stopped" });
  await later(w, HOUR_MS);
  assertEquals(await count(w, "presence"), 2);
  // The store deletes a lease 24 hours after it expires.
  await w.kv.delete(KEYS.instance(gone));
  await later(w, 0);
  assertEquals((await w.kv.get(KEYS.presence("did:gone"))).value, null);
  assert((await w.kv.get(KEYS.presence("did:here"))).value);
});
