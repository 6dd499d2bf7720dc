/** Messages that two agents have queued for each other end with their pair, and not when the recipient comes. */
import { assertEquals } from "@std/assert";
import { flushTasks } from "../../support/manual_clock.ts";
import { countOf } from "../../support/registry_world.ts";
import { type TestAgent, World } from "../../support/world.ts";

Deno.test("queued messages become dead letters at once when one of the two ends the pair, and those of others stay", async () => {
  await using w = await World.open();
  const { a, b } = await w.pairedAgents(), c = await w.agent();
  await w.pair(c, b);
  const queue = async (from: TestAgent, to: TestAgent): Promise<string> =>
    (await (await w.message(from, to, { headers: { Prefer: "respond-async" } })).json()).requestId;
  await queue(a, b);
  const answered = await queue(b, a);
  await queue(a, b);
  const kept = await queue(c, b);
  const body = JSON.stringify({ peerAgentDid: b.agent.did });
  assertEquals((await w.fetch(await w.signed(a, { target: "/pair/remove", body }))).status, 204);
  assertEquals([await countOf(w, ["proxy", "receipt"]), await countOf(w, ["proxy", "mailbox"])], [3, 1]);
  const { receipts } = await b.client.receipts(answered, a.agent.did);
  assertEquals(receipts.map(({ status }) => status), ["dead_lettered"]);
  const socket = w.connect(b);
  for (let i = 0; i < 3; i++) await flushTasks();
  assertEquals(socket.delivered.map(({ requestId }) => requestId), [kept]);
});
