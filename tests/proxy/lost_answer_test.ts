/**
 * A message whose commit succeeded although the store's answer was lost (D-216) is accepted, delivered or queued once
 * and counted once, and the same signed request is a replay.
 */
import { assertEquals } from "@std/assert";
import { KEYS } from "../../proxy/schema/kv_keys.ts";
import { FaultyKv } from "../support/faulty_kv.ts";
import { outcome } from "../support/registry_world.ts";
import { requestsIn } from "../support/sender_counts.ts";
import { openProxy } from "./proxy_world.ts";

Deno.test("a message is accepted once when the answer to its commit is lost", async (t) => {
  for (const [kind, headers] of [["delivered", {}], ["queued", { Prefer: "respond-async" }]] as const) {
    await t.step(kind, async () => {
      using store = await FaultyKv.open();
      await using w = await openProxy({ kv: store.kv });
      const { a, b } = await w.pairedAgents();
      const socket = kind === "delivered" ? w.connect(b) : null;
      await w.connected();
      const countOf = async () => {
        const senders = await Array.fromAsync(w.kv.list({ prefix: KEYS.allSenders() }));
        return senders.reduce((sum, { value }) => sum + requestsIn(value), 0);
      };
      const before = await countOf();
      let lost = 0;
      store.faults.loses = ({ method, keys }) =>
        method === "commit" && keys.some((key) => key[1] === "sender") && ++lost === 1;
      const request = await w.signed(a, {
        recipient: b.agent.did,
        body: JSON.stringify({ message: "once" }),
        headers: { "x-request-id": "request-0001", ...headers },
      });
      const again = request.clone();
      assertEquals(await outcome(await w.fetch(request)), "202");
      assertEquals(lost, 1);
      assertEquals(await countOf(), before + 1);
      assertEquals(await outcome(await w.fetch(again)), "401 PROXY_AUTH_REPLAY");
      if (socket) assertEquals(socket.delivered.length, 1);
      else assertEquals((await Array.fromAsync(w.kv.list({ prefix: KEYS.mailbox(b.agent.did) }))).length, 1);
    });
  }
});

Deno.test("a message is 503, not a replay of itself, when its commit took effect and cannot be confirmed", async () => {
  using store = await FaultyKv.open();
  await using w = await openProxy({ kv: store.kv });
  const { a, b } = await w.pairedAgents();
  const socket = w.connect(b);
  await w.connected();
  let lost = 0, unread = 0;
  store.faults.loses = ({ method, keys }) =>
    method === "commit" && keys.some((key) => key[1] === "sender") && ++lost === 1;
  store.faults.fails = ({ method, keys }) => method === "getMany" && keys[0]?.[1] === "commit_mark" && ++unread === 1;
  const request = await w.signed(a, { recipient: b.agent.did, body: JSON.stringify({ message: "once" }) });
  const again = request.clone();
  assertEquals(await outcome(await w.fetch(request)), "503 PROXY_AUTH_DEPENDENCY_UNAVAILABLE");
  assertEquals([lost > 0, unread > 0], [true, true]);
  assertEquals([await outcome(await w.fetch(again)), socket.delivered.length], ["401 PROXY_AUTH_REPLAY", 0]);
});
