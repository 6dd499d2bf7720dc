/** Which messages a program's handler gets, and when: four at once, one per conversation, in order. */
import { assertEquals } from "@std/assert";
import type { IncomingMessage } from "../../../shared/client/agent_api.ts";
import { HandlerLanes } from "../../../shared/client/inbox_reader.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import { localMessage } from "../../support/local_message.ts";
import { didOf } from "./library_bench.ts";

/** Lanes whose work ends when the test says so. */
function bench() {
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  const lanes = new HandlerLanes(({ requestId }) => {
    begun.push(requestId);
    return new Promise((resolve) => ends.set(requestId, resolve));
  });
  const end = async (...ids: string[]) => {
    for (const id of ids) ends.get(id)?.();
    await flushTasks();
  };
  return { lanes, begun, end };
}

const of = (requestId: string, conversationId: string | null, letter = "B"): IncomingMessage =>
  localMessage(requestId, { conversationId, from: { ...localMessage("").from, agentDid: didOf(letter) } });

Deno.test("at most four messages are handled at once, and one of each conversation in order", async () => {
  const { lanes, begun, end } = bench();
  lanes.handler = () => {};
  for (const n of [1, 2, 3, 4, 5]) for (const part of ["a", "b"]) lanes.add(of(`c${n}${part}`, `c${n}`));
  await flushTasks();
  assertEquals([begun, lanes.size], [["c1a", "c2a", "c3a", "c4a"], 10]);
  await end("c2a");
  assertEquals(begun.slice(4), ["c5a"], "each conversation gets its turn");
  await end("c1a", "c3a", "c4a", "c5a");
  assertEquals(begun.slice(5).sort(), ["c1b", "c2b", "c3b", "c4b"]);
  await end("c1b", "c2b", "c3b", "c4b");
  await end("c5b");
  assertEquals([begun.length, lanes.size], [10, 0]);
});

Deno.test("messages without a conversation are in order per sender, and do not wait for another sender", async () => {
  const { lanes, begun, end } = bench();
  lanes.handler = () => {};
  for (const message of [of("b1", null), of("b2", null), of("g1", null, "G"), of("b3", "x")]) lanes.add(message);
  await flushTasks();
  assertEquals(begun, ["b1", "g1", "b3"]);
  await end("b1");
  assertEquals(begun.at(-1), "b2");
});

Deno.test("messages wait while there is no handler, and after the handler has ended", async () => {
  const { lanes, begun, end } = bench();
  for (const id of ["m1", "m2"]) lanes.add(of(id, id));
  await flushTasks();
  assertEquals(begun, []);
  lanes.handler = () => {};
  await flushTasks();
  assertEquals(begun, ["m1", "m2"]);
  lanes.handler = null;
  lanes.add(of("m3", "m3"));
  await end("m1", "m2");
  assertEquals([begun.length, lanes.size], [2, 1]);
});

Deno.test("stop() begins no further message and waits for the handlers that run", async () => {
  const { lanes, begun, end } = bench();
  lanes.handler = () => {};
  for (const id of ["m1", "m2", "m3"]) lanes.add(of(id, "one"));
  await flushTasks();
  let isEnded = false;
  void lanes.stop().then(() => isEnded = true);
  await flushTasks();
  assertEquals(isEnded, false);
  await end("m1");
  assertEquals([isEnded, begun], [true, ["m1"]]);
});

Deno.test("a handler that adds messages while it runs does not run twice in one conversation", async () => {
  let running = 0, most = 0, handled = 0;
  const lanes: HandlerLanes = new HandlerLanes(async () => {
    most = Math.max(most, ++running);
    if (handled++ < 5) lanes.add(of(`m${handled}`, "one"));
    await flushTasks();
    running--;
  });
  lanes.handler = () => {};
  lanes.add(of("m0", "one"));
  while (lanes.size > 0) await flushTasks();
  assertEquals([most, handled], [1, 6]);
});
