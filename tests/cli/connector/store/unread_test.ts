/** Messages of a pull platform (D-116) and replies (D-112): lists, reading, expiry, bounds, and messages for a caller. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import type { ReceivedMessages } from "../../../../cli/connector/store/received_messages.ts";
import type { InboxMessage } from "../../../../cli/connector/store/received_rows.ts";
import type { ReceiptRows } from "../../../../cli/connector/store/receipt_rows.ts";
import { BETA, Disk, GAMMA, HISTORY_MS, outgoing, PAYLOAD, received, store } from "./disk.ts";
import {
  INBOX_BYTES,
  INBOX_MESSAGES,
  OWNER_BYTES,
  OWNER_MESSAGES,
  SENDER_BYTES,
  SENDER_MESSAGES,
} from "../../../../cli/connector/store/received_bounds.ts";

const DAY = 24 * 3_600_000;

const receiptsIn = (outbox: ReceiptRows) =>
  outbox.due(0, 60_000).map(({ requestId, status, at }) => [requestId, status, at]);
const unread = (inbox: ReceivedMessages) => inbox.list({ unread: true, limit: 200 }).messages.map(({ seq }) => seq);

Deno.test("an unread message survives a restart, is read once, and then has a receipt", async () => {
  await using disk = await Disk.make();
  store(disk.open("pull").inbox, "request-1", { conversationId: "c", inReplyTo: "question-1", auto: true }, 5);
  const { inbox, outbox, changes } = disk.open("pull");
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
  assertEquals([receiptsIn(outbox), inbox.markRead([1, 1, 99], 9), inbox.markRead([1], 9)], [[], [1], []]);
  assertEquals([receiptsIn(outbox), unread(inbox)], [[["request-1", "processed_by_svc", 9]], []]);
  assertEquals(changes, [{ kind: "receipt" }, { kind: "taken" }]);
  assertEquals(inbox.one(1), { ...found, readAt: 9, isWaiting: false });
  assertEquals(inbox.list({ unread: false, limit: 1 }).messages, [{ ...found, readAt: 9, isWaiting: false }]);
});

Deno.test("read content is kept for seven days, then blanked", async () => {
  await using disk = await Disk.make();
  const { inbox } = disk.open("pull");
  store(inbox, "request-1");
  inbox.markRead([1], 0);
  inbox.forget(7 * DAY, HISTORY_MS);
  assertEquals(inbox.one(1)?.payload, PAYLOAD);
  inbox.forget(7 * DAY + 1, HISTORY_MS);
  assertEquals([inbox.one(1), inbox.counts().bytes], [null, 0]);
});

Deno.test("messages for a runtime do not expire unread", async () => {
  await using disk = await Disk.make();
  const { inbox } = disk.open("push");
  store(inbox, "request-1");
  assertEquals([inbox.expireUnread(30 * DAY), inbox.waiting().length], [[], 1]);
});

Deno.test("a sender has at most 1,000 messages and 64 MiB, and another sender is not affected", async (t) => {
  const ends = {
    pull: (inbox: ReceivedMessages, seq: number) => void inbox.markRead([seq], 0),
    push: (inbox: ReceivedMessages, seq: number) => inbox.finish(inbox.read(seq) as InboxMessage, 0),
  };
  for (const delivery of ["pull", "push"] as const) {
    await t.step(delivery === "pull" ? "unread" : "waiting for a runtime", async () => {
      await using disk = await Disk.make();
      const { inbox, db } = disk.open(delivery);
      const all = Array.from({ length: SENDER_MESSAGES }, (_, n) => received(`request-${n}`));
      assert(inbox.take(all, 0).every((taken) => taken === "stored"));
      assertEquals([store(inbox, "request-x"), store(inbox, "request-x", { from: GAMMA })], ["full", "stored"]);
      ends[delivery](inbox, 1);
      assertEquals([store(inbox, "request-x"), store(inbox, "request-y")], ["stored", "full"]);
      db.run("DELETE FROM messages WHERE seq > 2");
      db.run("UPDATE messages SET bytes = ? WHERE seq = 2", SENDER_BYTES - 29);
      assertEquals([store(inbox, "request-x"), store(inbox, "request-y")], ["stored", "full"]);
    });
  }
});

Deno.test("ten agents of one person fill half of the inbox, and another person's messages find room", async () => {
  await using disk = await Disk.make();
  const { inbox, db } = disk.open("pull");
  const next = (requestId: string, more = { from: `${BETA}9`, owner: BETA }) =>
    inbox.take([received(requestId, more)], 0)[0];
  next("request-1");
  db.run(
    `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
     INSERT INTO messages (fromDid, requestId, toDid, identity, bytes, receivedAt, state, verified, signedAt, proof, payload)
     SELECT ? || (i % 9), 'more-' || i, toDid, identity, 2, 0, 'waiting', verified, signedAt, proof, '{}' FROM n, messages`,
    OWNER_MESSAGES - 2,
    BETA,
  );
  inbox.forget(0, HISTORY_MS);
  assertEquals([next("request-2"), next("request-3")], ["stored", "full"]);
  assertEquals(next("request-1", { from: GAMMA, owner: GAMMA }), "stored");
  inbox.markRead([1], 0);
  assertEquals([next("request-3"), next("request-4")], ["stored", "full"]);
  db.run("DELETE FROM messages WHERE requestId LIKE 'more-%' AND seq > 2");
  db.run("UPDATE messages SET bytes = ? WHERE seq = 2", OWNER_BYTES - 4 * 29);
  inbox.forget(0, HISTORY_MS);
  assertEquals([next("request-4"), next("request-5"), next("request-6")], ["stored", "stored", "full"]);
  assertEquals(next("request-2", { from: GAMMA, owner: GAMMA }), "stored");
});

Deno.test("read content makes room before dead letters do, the oldest first", async () => {
  await using disk = await Disk.make();
  const { inbox, db } = disk.open("pull");
  for (let n = 1; n <= 4; n++) store(inbox, `request-${n}`);
  inbox.markRead([2, 3], 0);
  db.run("UPDATE messages SET state = 'dead', endedAt = 0, problem = '' WHERE seq = 1");
  // The unread message claims nearly all bytes.
  db.run("UPDATE messages SET bytes = ? WHERE seq = 4", INBOX_BYTES - 3 * 29);
  inbox.forget(0, HISTORY_MS);
  const kept = () => [inbox.one(2)?.payload !== "", inbox.one(3)?.payload !== "", inbox.counts().dead];
  const next = (requestId: string) => store(inbox, requestId, { from: GAMMA });
  assertEquals([next("request-5"), kept()], ["stored", [false, true, 1]]);
  assertEquals([next("request-6"), kept()], ["stored", [false, false, 1]]);
  assertEquals([next("request-7"), kept()], ["stored", [false, false, 0]]);
  assertEquals([next("request-8"), store(inbox, "request-2")], ["full", "known"]);
});

Deno.test("a sender whose read messages fill the inbox erases its own, and not what another one wrote before", async () => {
  await using disk = await Disk.make();
  const { inbox, db } = disk.open("pull");
  store(inbox, "request-1", { from: GAMMA });
  store(inbox, "request-2");
  inbox.markRead([1, 2], 0);
  db.run(
    `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
     INSERT INTO messages (fromDid, requestId, toDid, identity, bytes, receivedAt, state, readAt, verified, signedAt, proof,
       payload)
     SELECT fromDid, 'read-' || i, toDid, identity, 2, 0, 'done', 0, verified, signedAt, proof, '{}'
     FROM n, messages WHERE seq = 2`,
    INBOX_MESSAGES - 2,
  );
  inbox.forget(0, HISTORY_MS);
  const kept = () => [1, 2].map((seq) => inbox.one(seq)?.payload === PAYLOAD);
  assertEquals([store(inbox, "request-3"), kept()], ["stored", [true, false]]);
  assertEquals([store(inbox, "request-4", { from: GAMMA }), kept()], ["stored", [true, false]]);
});

Deno.test("messages that arrive are told after they are on disk, repeated ones and those of a failed commit are not", async () => {
  await using disk = await Disk.make();
  const { inbox, store, changes } = disk.open("pull");
  const told = () => changes.map((change) => change.kind === "arrived" ? change.message.seq : change.kind);
  assertThrows(
    () =>
      store.database.transaction(() => {
        const about = { nonce: "A".repeat(24), bodySha256: "A".repeat(43) };
        store.receipts.add({ fromDid: BETA, requestId: "request-0", status: "processed_by_svc", at: 0, about });
        assertEquals(told(), []);
        throw new Error("the commit fails");
      }),
    Error,
    "the commit fails",
  );
  inbox.take([received("request-1"), received("request-1"), received("request-2")], 0);
  assertEquals(told(), [1, 2]);
});

Deno.test("what is called after a commit that does not wait for the disk is again where each change waits for it", async () => {
  await using disk = await Disk.make();
  const { db } = disk.open();
  const modes: unknown[] = [];
  const look = () => void modes.push(db.number("SELECT synchronous FROM pragma_synchronous"));
  db.transactionWithoutSync(() => {
    look();
    db.afterCommit(look);
  });
  const [NORMAL, FULL] = [1, 2];
  assertEquals(modes, [NORMAL, FULL]);
});

Deno.test("a list of the messages of one sender does not read those of others", async () => {
  await using disk = await Disk.make();
  const { db, inbox } = disk.open("pull");
  const plans: string[] = [];
  const all: typeof db.all = db.all.bind(db);
  db.all = (sql, ...values) => {
    plans.push(...all<{ detail: string }>(`EXPLAIN QUERY PLAN ${sql}`, ...values).map(({ detail }) => detail));
    return all(sql, ...values);
  };
  inbox.list({ unread: true, fromDids: [BETA], freeAt: 0, limit: 20 });
  const looks = plans.filter((plan) => plan.includes("messages"));
  assert(looks.length > 0 && looks.every((plan) => /^SEARCH messages .*\(fromDid=\? /.test(plan)), plans.join("\n"));
});

Deno.test("a reply for a waiting caller leaves its lane until the caller takes it or the wait is over", async () => {
  await using disk = await Disk.make();
  let { inbox, outbox, claims, changes } = disk.open("push");
  claims.heldUntil = ({ requestId }, now) => requestId === "question-1" ? now + 30_000 : 0;
  inbox.take(
    [received("reply-0001", { inReplyTo: "question-1" }), received("reply-0002", { inReplyTo: "question-2" })],
    1_000,
  );
  const places = changes.map((change) => change.kind === "arrived" && [change.waiting?.nextAt, change.waiting?.aside]);
  assertEquals(places, [[31_000, true], [0, false]]);
  assertEquals([inbox.markRead([1, 2], 31_000), inbox.markRead([1, 2], 30_999)], [[], [1]]);
  assertEquals(receiptsIn(outbox), [["reply-0001", "processed_by_svc", 30_999]]);
  store(inbox, "reply-0003", { inReplyTo: "question-1" }, 1_000);
  ({ inbox, outbox, claims, changes } = disk.open("push"));
  inbox.releaseHeld();
  assertEquals(inbox.waiting().map(({ seq, nextAt, aside }) => [seq, nextAt, aside]), [[2, 0, false], [3, 0, false]]);
});

Deno.test("a conversation that a message without one has opened belongs to the session of its sender", async () => {
  await using disk = await Disk.make();
  const { inbox, sent } = disk.open();
  const session = (requestId: string, more = {}) => {
    store(inbox, requestId, more);
    const { session, seq } = inbox.waiting().map(({ seq }) => inbox.read(seq)).find((one) =>
      one?.requestId === requestId
    )!;
    return { session, lane: inbox.waiting().find((one) => one.seq === seq)?.lane };
  };
  const own = { session: null, lane: BETA };
  assertEquals(session("question-1"), own);
  assertEquals(session("question-2", { conversationId: "talk" }), { session: "talk", lane: `${BETA} talk` });
  // The answers, as the connector sends them: that to the first question is in the conversation that it opened.
  sent.begin(outgoing("answer-1", { inReplyTo: "question-1", conversationId: "question-1" }), 0);
  sent.begin(outgoing("answer-2", { inReplyTo: "question-2", conversationId: "talk" }), 0);
  assertEquals(session("follow-up-1", { conversationId: "question-1", inReplyTo: "answer-1" }), own);
  assertEquals(session("follow-up-2", { conversationId: "talk", inReplyTo: "answer-2" }).session, "talk");
  // An answer in the conversation that a message of this agent opened.
  sent.begin(outgoing("question-3"), 0);
  assertEquals(session("answer-3", { conversationId: "question-3", inReplyTo: "question-3" }), own);
  // Another agent knows nothing of it.
  assertEquals(session("follow-up-3", { from: GAMMA, conversationId: "question-1" }).session, "question-1");
});
