/** Messages of a pull platform (D-116) and replies (D-112): lists, reading, expiry, bounds, and messages for a caller. */
import { assert, assertEquals } from "@std/assert";
import { type Inbox, NOT_READ } from "../../../../cli/connector/delivery/inbox.ts";
import type { StoredMessage } from "../../../../cli/connector/delivery/inbox_rows.ts";
import type { Outbox } from "../../../../cli/connector/delivery/outbox.ts";
import { CONNECTOR_LIMITS } from "../../../../cli/connector/limits.ts";
import { BETA, Disk, GAMMA, outgoing, PAYLOAD, received, store } from "./disk.ts";

const DAY = 24 * 3_600_000;

const receiptsIn = (outbox: Outbox) =>
  outbox.due(0, 60_000).map(({ requestId, status, at }) => [requestId, status, at]);
const unread = (inbox: Inbox) => inbox.list({ unread: true, limit: 200 }).messages.map(({ seq }) => seq);

Deno.test("an unread message survives a restart, is read once, and then has a receipt", async () => {
  await using disk = await Disk.make();
  store(disk.open("pull").inbox, "request-1", { conversationId: "c", inReplyTo: "question-1", auto: true }, 5);
  const { inbox, outbox } = disk.open("pull");
  const [found] = inbox.list({ unread: true, limit: 1 }).messages;
  assert(found);
  const { seq, payload, conversationId, inReplyTo, isReply, auto, receivedAt, readAt } = found;
  assertEquals(
    { seq, payload, conversationId, inReplyTo, isReply, auto, receivedAt, readAt },
    {
      seq: 1,
      payload: PAYLOAD,
      conversationId: "c",
      inReplyTo: "question-1",
      isReply: false,
      auto: true,
      receivedAt: 5,
      readAt: null,
    },
  );
  assertEquals(inbox.one(1), found);
  let ended = 0;
  inbox.onEnded = () => void ended++;
  assertEquals([receiptsIn(outbox), inbox.markRead([1, 1, 99], 9), inbox.markRead([1], 9)], [[], [1], []]);
  assertEquals([receiptsIn(outbox), ended, unread(inbox)], [[["request-1", "processed_by_svc", 9]], 1, []]);
  assertEquals(inbox.one(1), { ...found, readAt: 9 });
  assertEquals(inbox.list({ unread: false, limit: 1 }).messages, [{ ...found, readAt: 9 }]);
});

Deno.test("a list has the oldest messages first, by sender, conversation and position", async () => {
  await using disk = await Disk.make();
  const { inbox } = disk.open("pull");
  for (let n = 1; n <= 6; n++) {
    store(inbox, `request-${n}`, { from: n % 2 === 0 ? GAMMA : BETA, ...n > 4 ? { conversationId: "late" } : {} });
  }
  inbox.markRead([2], 0);
  const listed = (filter: Partial<Parameters<Inbox["list"]>[0]>) => {
    const { messages, more } = inbox.list({ unread: true, limit: 10, ...filter });
    return [messages.map(({ seq }) => seq), more];
  };
  assertEquals(listed({}), [[1, 3, 4, 5, 6], false]);
  assertEquals(listed({ limit: 2 }), [[1, 3], true]);
  assertEquals(listed({ limit: 2, after: 4 }), [[5, 6], false]);
  assertEquals(listed({ fromDids: [GAMMA] }), [[4, 6], false]);
  assertEquals(listed({ fromDids: [BETA, GAMMA] }), [[1, 3, 4, 5, 6], false]);
  assertEquals(listed({ fromDids: [] }), [[], false]);
  assertEquals(listed({ fromDids: [BETA], conversationId: "late" }), [[5], false]);
  assertEquals(listed({ newest: true, limit: 2 }), [[5, 6], true]);
  assertEquals(listed({ newest: true, limit: 2, fromDids: [GAMMA] }), [[4, 6], false]);
  assertEquals(listed({ unread: false }), [[2], false]);
});

Deno.test("a list holds at most 1 MiB of payload, and at least one message", async () => {
  await using disk = await Disk.make();
  const { inbox } = disk.open("pull");
  store(inbox, "request-0", { payload: `"${"x".repeat(CONNECTOR_LIMITS.listedBytes)}"` });
  for (let n = 1; n <= 6; n++) store(inbox, `request-${n}`, { payload: `"${"x".repeat(256 * 1024 - 2)}"` });
  const page = (after: number) => {
    const { messages, more } = inbox.list({ unread: true, limit: 200, after });
    return [messages.map(({ seq }) => seq), more];
  };
  assertEquals([page(0), page(1), page(5)], [[[1], true], [[2, 3, 4, 5], true], [[6, 7], false]]);
});

Deno.test("read content is kept for seven days, then blanked", async () => {
  await using disk = await Disk.make();
  const { inbox } = disk.open("pull");
  store(inbox, "request-1");
  inbox.markRead([1], 0);
  inbox.forget(7 * DAY);
  assertEquals(inbox.one(1)?.payload, PAYLOAD);
  inbox.forget(7 * DAY + 1);
  assertEquals([inbox.one(1), inbox.counts().bytes], [null, 0]);
});

Deno.test("a message unread for seven days is a dead letter with a receipt, and unread again after a replay", async () => {
  await using disk = await Disk.make();
  const { inbox, outbox } = disk.open("pull");
  store(inbox, "request-1");
  assertEquals([inbox.expireUnread(7 * DAY - 1), unread(inbox)], [[], [1]]);
  assertEquals(inbox.expireUnread(7 * DAY), [{ fromDid: BETA, requestId: "request-1" }]);
  assertEquals([unread(inbox), inbox.one(1)], [[], null]);
  assertEquals(inbox.deadLetters(1).map(({ problem, attempts }) => [problem, attempts]), [[NOT_READ, 0]]);
  assertEquals(NOT_READ, "not read within 7 days");
  const stored: StoredMessage[] = [];
  inbox.onStored = (message) => void stored.push(message);
  inbox.replay(null, 8 * DAY);
  assertEquals(stored, [{ seq: 1, fromDid: BETA, conversationId: null, inReplyTo: null }]);
  assertEquals([inbox.expireUnread(15 * DAY - 1), unread(inbox), inbox.markRead([1], 15 * DAY - 1)], [[], [1], [1]]);
  assertEquals(receiptsIn(outbox), [
    ["request-1", "dead_lettered", 7 * DAY],
    ["request-1", "processed_by_svc", 15 * DAY - 1],
  ]);
});

Deno.test("messages for a runtime do not expire unread", async () => {
  await using disk = await Disk.make();
  const { inbox } = disk.open("push");
  store(inbox, "request-1");
  assertEquals([inbox.expireUnread(30 * DAY), inbox.waiting().length], [[], 1]);
});

Deno.test("a sender has at most 1,000 unread messages and 64 MiB, and another sender is not affected", async () => {
  await using disk = await Disk.make();
  const { inbox, db } = disk.open("pull");
  const all = Array.from({ length: CONNECTOR_LIMITS.senderMessages }, (_, n) => received(`request-${n}`));
  assert(inbox.take(all, 0).every(({ taken }) => taken === "stored"));
  assertEquals([store(inbox, "request-x"), store(inbox, "request-x", { from: GAMMA })], ["full", "stored"]);
  inbox.markRead([1], 0);
  assertEquals([store(inbox, "request-x"), store(inbox, "request-y")], ["stored", "full"]);
  db.run("DELETE FROM messages WHERE seq > 2");
  db.run("UPDATE messages SET bytes = ? WHERE seq = 2", CONNECTOR_LIMITS.senderBytes - 29);
  assertEquals([store(inbox, "request-x"), store(inbox, "request-y")], ["stored", "full"]);
});

Deno.test("read content makes room before dead letters do, the oldest first", async () => {
  await using disk = await Disk.make();
  const { inbox, db } = disk.open("pull");
  for (let n = 1; n <= 4; n++) store(inbox, `request-${n}`);
  inbox.markRead([2, 3], 0);
  db.run("UPDATE messages SET state = 'dead', ended_at = 0, problem = '' WHERE seq = 1");
  // The unread message claims nearly all bytes.
  db.run("UPDATE messages SET bytes = ? WHERE seq = 4", CONNECTOR_LIMITS.inboxBytes - 3 * 29);
  inbox.forget(0);
  const kept = () => [inbox.one(2)?.payload !== "", inbox.one(3)?.payload !== "", inbox.counts().dead];
  const next = (requestId: string) => store(inbox, requestId, { from: GAMMA });
  assertEquals([next("request-5"), kept()], ["stored", [false, true, 1]]);
  assertEquals([next("request-6"), kept()], ["stored", [false, false, 1]]);
  assertEquals([next("request-7"), kept()], ["stored", [false, false, 0]]);
  assertEquals([next("request-8"), store(inbox, "request-2")], ["full", "known"]);
});

Deno.test("only the recipient of a question can answer it, and its answer marks the question as processed", async () => {
  await using disk = await Disk.make();
  const { inbox, sent } = disk.open("pull");
  const changes: string[] = [];
  sent.onChanged = ({ requestId, state }) => void changes.push(`${requestId} ${state}`);
  sent.settle(sent.begin(outgoing("question-1"), 0), { state: "delivered" }, 0);
  store(inbox, "reply-0001", { from: GAMMA, inReplyTo: "question-1" });
  store(inbox, "reply-0002", { from: BETA, inReplyTo: "question-1" });
  store(inbox, "reply-0003", { from: BETA, inReplyTo: "question-2" });
  const replies = inbox.list({ unread: true, limit: 3 }).messages.map(({ isReply, inReplyTo }) => [isReply, inReplyTo]);
  assertEquals(replies, [[false, "question-1"], [true, "question-1"], [false, "question-2"]]);
  assertEquals(changes, ["question-1 delivered", "question-1 processed"]);
});

Deno.test("messages that arrive are announced after they are on disk, repeated ones are not", async () => {
  await using disk = await Disk.make();
  const { inbox, db } = disk.open("pull");
  const stored: unknown[] = [];
  inbox.onStored = ({ seq }) => void stored.push([seq, db.get("SELECT count(*) AS n FROM messages")?.n]);
  inbox.take([received("request-1"), received("request-1"), received("request-2")], 0);
  assertEquals(stored, [[1, 2], [2, 2]]);
});

Deno.test("a reply for a waiting caller leaves its lane until the caller takes it or the wait is over", async () => {
  await using disk = await Disk.make();
  let { inbox, outbox } = disk.open("push");
  inbox.heldUntil = ({ inReplyTo }, now) => inReplyTo === "question-1" ? now + 30_000 : 0;
  const taken = inbox.take(
    [received("reply-0001", { inReplyTo: "question-1" }), received("reply-0002", { inReplyTo: "question-2" })],
    1_000,
  );
  assertEquals(taken.map((result) => result.taken === "stored" && [result.waiting.nextAt, result.waiting.aside]), [
    [31_000, true],
    [0, false],
  ]);
  assertEquals([inbox.markRead([1, 2], 31_000), inbox.markRead([1, 2], 30_999)], [[], [1]]);
  assertEquals(receiptsIn(outbox), [["reply-0001", "processed_by_svc", 30_999]]);
  store(inbox, "reply-0003", { inReplyTo: "question-1" }, 1_000);
  ({ inbox, outbox } = disk.open("push"));
  inbox.releaseHeld();
  assertEquals(inbox.waiting().map(({ seq, nextAt, aside }) => [seq, nextAt, aside]), [[2, 0, false], [3, 0, false]]);
});

Deno.test("unread messages wait for the runtime when the platform is changed", async () => {
  await using disk = await Disk.make();
  const { inbox } = disk.open("pull");
  for (const id of ["request-1", "request-2"]) store(inbox, id);
  inbox.markRead([1], 0);
  assertEquals(disk.open("push").inbox.waiting().map(({ seq }) => seq), [2]);
});
