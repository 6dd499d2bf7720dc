/** Tasks and receipts that wait on disk: which are due, also after the clock was set back, and each only once. */
import { assertEquals } from "@std/assert";
import { CONNECTOR_LIMITS as LIMIT } from "../../../../cli/connector/limits.ts";
import type { OpenTask } from "../../../../cli/connector/store/task_rows.ts";
import { BETA, Disk } from "./disk.ts";

const NOW = 1_771_632_060_000;

const task = (requestId: string, more: Partial<OpenTask> = {}): Omit<OpenTask, "conversationId"> => ({
  ...{ fromDid: BETA, requestId, taskId: `t-${requestId}`, contextId: "c", state: "working", polls: 0 },
  ...{ nextAt: NOW, startedAt: NOW, ...more },
});

Deno.test("a task is due at its time, and at once when its time is beyond the longest wait", async () => {
  await using disk = await Disk.make();
  const { tasks } = disk.open().store;
  const longest = NOW + LIMIT.taskPollMaxMs;
  const rows = { now: NOW, earlier: NOW - 5, later: NOW + 1, latest: longest, beyond: longest + 1 };
  for (const [name, nextAt] of Object.entries(rows)) tasks.put(task(name, { nextAt }));
  tasks.put(task("asks", { state: "asks", nextAt: 0 }));
  assertEquals(tasks.due(NOW).map(({ requestId }) => requestId), ["earlier", "now", "beyond"]);
  assertEquals([tasks.nextAt(), tasks.size], [NOW - 5, 5]);
});

Deno.test("the newest question of a conversation is the one that the next message answers, for an hour", async () => {
  await using disk = await Disk.make();
  const { tasks } = disk.open().store;
  const since = NOW - LIMIT.taskPatienceMs;
  tasks.put(task("over", { state: "asks", startedAt: since, contextId: "old" }));
  tasks.put(task("just", { state: "asks", startedAt: since + 1, contextId: "just" }));
  for (const [name, startedAt] of [["second", NOW - 2], ["newest", NOW - 1], ["first", NOW - 3]] as const) {
    tasks.put(task(name, { state: "asks", startedAt }));
  }
  tasks.put(task("works", { startedAt: NOW }));
  const asking = (context: string) => tasks.asking(context, NOW)?.requestId;
  assertEquals([asking("c"), asking("old"), asking("just"), asking("other")], ["newest", undefined, "just", undefined]);
});

Deno.test("a receipt is stored once, and due at its time, or at once beyond the longest wait", async () => {
  await using disk = await Disk.make();
  const { outbox } = disk.open();
  const receipt = { fromDid: BETA, status: "processed_by_svc", at: NOW } as const;
  const about = { nonce: "n", bodySha256: "b", payloadSha256: "p" };
  for (const requestId of ["one", "two", "two", "three"]) outbox.add({ ...receipt, requestId, about });
  assertEquals(outbox.size, 3);
  const [one, two, three] = outbox.due(NOW, NOW + 100).map(({ seq }) => seq) as [number, number, number];
  outbox.postpone(one, 1, NOW + 1);
  outbox.postpone(two, 1, NOW + 101);
  outbox.postpone(three, 1, NOW);
  assertEquals(outbox.due(NOW, NOW + 100).map(({ requestId }) => requestId), ["two", "three"]);
  assertEquals([outbox.nextAt(NOW), outbox.nextAt(NOW + 1), outbox.nextAt(NOW + 101)], [NOW + 1, NOW + 101, null]);
  assertEquals([outbox.forget(NOW), outbox.forget(NOW + 1)], [0, 3]);
});
