/** Leases of unread messages (D-395): who may list and take them meanwhile, and how they end. */
import type { InboxMessage } from "../../../../cli/connector/store/received_rows.ts";
import { assertEquals } from "@std/assert";
import type { ReceivedMessages } from "../../../../cli/connector/store/received_messages.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { Disk, store } from "./disk.ts";

const MOST = LIMITS.leaseSeconds * 1000;
const lease = (id: string, until: number) => ({ id: `lease-${id}`, until });

/** IDs that a call lists at a time, and those of the terminal. */
const listed = (inbox: ReceivedMessages, freeAt?: number) =>
  inbox.list({ unread: true, limit: 200, freeAt }).messages.map(({ seq }) => seq);
const repeats = (inbox: ReceivedMessages) =>
  inbox.list({ unread: true, limit: 200 }).messages.filter(({ mayBeRepeat }) => mayBeRepeat).map(({ seq }) => seq);

/** Three unread messages. */
function opened(disk: Disk) {
  const { inbox, changes } = disk.open("pull");
  for (const n of [1, 2, 3]) store(inbox, `request-${n}`);
  changes.length = 0;
  return { inbox, changes };
}

Deno.test("a lease that ends by itself leaves a possible repeat, one that is given back does not", async () => {
  await using disk = await Disk.make();
  const { inbox, changes } = opened(disk);
  const again = () => changes.flatMap((change) => change.kind === "arrived" ? [change.message.seq] : []);
  inbox.lease([1, 2], lease("a", 500), 0);
  inbox.lease([3], lease("b", 800), 0);
  assertEquals([inbox.endLeases(499), again()], [500, []]);
  assertEquals(inbox.release([2, 3], "lease-a"), [2]);
  assertEquals([inbox.endLeases(500), again()], [800, [2, 1]]);
  assertEquals([listed(inbox, 500), repeats(inbox)], [[1, 2], [1, 3]]);
  inbox.lease([1], lease("c", 900), 500);
  inbox.release([1], "lease-c");
  assertEquals(repeats(inbox), [1, 3], "it stays one after an answer that was not sent");
  assertEquals([inbox.endLeases(800), inbox.endLeases(800), again()], [null, null, [2, 1, 1, 3]]);
});

Deno.test("the holder may mark a message after its lease, unless another holds it by then", async () => {
  await using disk = await Disk.make();
  const { inbox } = opened(disk);
  inbox.lease([1, 2], lease("a", 500), 0);
  assertEquals(inbox.lease([2], lease("b", 1_500), 1_000), [2]);
  assertEquals(inbox.markRead([1, 2], 1_000, "lease-a"), [1]);
  assertEquals(inbox.markRead([2], 1_000, "lease-b"), [2]);
});

Deno.test("a lease survives a restart of the connector, and holds no longer than a lease may", async () => {
  await using disk = await Disk.make();
  opened(disk).inbox.lease([1], lease("a", MOST), 0);
  const { inbox } = disk.open("pull");
  assertEquals([inbox.endLeases(0), listed(inbox, 0), inbox.lease([1], lease("b", 9), 0)], [MOST, [2, 3], []]);
  // The clock was set back by an hour.
  assertEquals([inbox.endLeases(-3_600_000), listed(inbox, -3_600_000)], [null, [1, 2, 3]]);
});

Deno.test("a message for a task of an A2A client stays with the program that holds it, then with the client", async () => {
  await using disk = await Disk.make();
  const { inbox, outbox } = disk.open("pull");
  store(inbox, "request-1", { inReplyTo: "question-1" });
  inbox.lease([1], lease("a", 500), 0);
  const task = { toDid: inbox.one(1)?.fromDid ?? "", requestId: "question-1" };
  assertEquals([inbox.takeReply(task, 100)?.seq, inbox.one(1)?.readAt], [1, null]);
  const waiting = inbox.read(1) as InboxMessage;
  assertEquals([inbox.takeReply(task, 500)?.seq, inbox.one(1)?.readAt], [1, 500]);
  // The runtime had it at the same time, and refuses it.
  inbox.moveToDeadLetters(waiting, "status 400", 600);
  assertEquals([inbox.deadLetters(1), outbox.due(600, 600).map(({ status }) => status)], [[], ["processed_by_svc"]]);
});
