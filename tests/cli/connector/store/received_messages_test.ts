/**
 * What is stored on disk: messages, receipts and dead letters, across restarts and up to the limits. Decisions: D-68.
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import type { ReceivedMessages } from "../../../../cli/connector/store/received_messages.ts";
import { CliError } from "../../../../cli/errors.ts";
import { SCHEMA_VERSION } from "../../../../cli/connector/store/schema.ts";
import { BETA, Disk, GAMMA, HISTORY_MS, received } from "./disk.ts";
import { INBOX_BYTES, INBOX_MESSAGES } from "../../../../cli/connector/store/received_bounds.ts";
import { DEAD_KEPT_MS, SEEN_MESSAGES } from "../../../../cli/connector/store/received_messages.ts";

const DAY = 24 * 3_600_000;

const takeOne = (inbox: ReceivedMessages, requestId: string, now = 0) => {
  const [taken] = inbox.take([received(requestId)], now);
  return taken === "stored" ? inbox.waiting().at(-1)?.seq ?? -1 : -1;
};

Deno.test("a delivered message is remembered for a day, also after a restart, and leaves a receipt", async () => {
  await using disk = await Disk.make();
  let { inbox, outbox } = disk.open();
  const seq = takeOne(inbox, "request-1");
  const found = inbox.read(seq);
  assert(found);
  inbox.finish(found, 1_000);
  ({ inbox, outbox } = disk.open());
  assertEquals(outbox.due(0, 60_000).map(({ requestId, status }) => [requestId, status]), [[
    "request-1",
    "processed_by_svc",
  ]]);
  assertEquals(inbox.waiting(), []);
  assertEquals(takeOne(inbox, "request-1", DAY), -1);
  assert(takeOne(inbox, "request-1", DAY + 1_000) > 0);
  assertEquals(disk.open().db.get("SELECT count(*) AS n FROM messages")?.n, 1);
});

Deno.test("the attempts of a message survive a restart", async () => {
  await using disk = await Disk.make();
  const { inbox } = disk.open();
  const seq = takeOne(inbox, "request-1");
  const tries = { attempts: 4, refusals: 2, firstTriedAt: 77 };
  inbox.retry(seq, tries, { nextAt: 9_000, aside: true }, "status 500");
  const after = disk.open().inbox;
  assertEquals(after.waiting(), [{ seq, lane: BETA, nextAt: 9_000, aside: true }]);
  assertEquals(after.read(seq)?.tries, tries);
});

Deno.test("a full inbox accepts no message, but dead letters make room", async () => {
  await using disk = await Disk.make();
  let { inbox, db } = disk.open();
  assertEquals(takeOne(inbox, "request-0") > 0, true);
  // Of ten senders, because one has a bound of its own.
  const from = (i: number) => `${BETA.slice(0, -1)}${i % 10}`;
  db.run(
    `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
     INSERT INTO messages (fromDid, requestId, toDid, identity, bytes, receivedAt, state, verified, signedAt, proof, payload)
     SELECT ? || (i % 10), 'request-' || i, toDid, json_set(identity, '$.ownerDid', i % 10), 2, 0, 'waiting', verified, signedAt, proof, '{}'
     FROM n, messages WHERE requestId = 'request-0'`,
    INBOX_MESSAGES - 1,
    BETA.slice(0, -1),
  );
  // What it holds is counted when it is opened.
  ({ inbox, db } = disk.open());
  assertEquals(inbox.take([received("request-x")], 0)[0], "full");
  assertEquals(inbox.take([received("request-7", { from: from(7) })], 0)[0], "known");
  db.run("UPDATE messages SET state = 'dead', endedAt = 1, problem = '' WHERE requestId = 'request-3'");
  assertEquals(inbox.take([received("request-x"), received("request-y")], 0), [
    "stored",
    "full",
  ]);
  const found = inbox.read(1);
  assert(found);
  inbox.finish(found, 1);
  assertEquals(inbox.take([received("request-y")], 2)[0], "stored");
});

Deno.test("records are deleted at the end of their retention", async () => {
  await using disk = await Disk.make();
  const { inbox, outbox, db } = disk.open();
  const [done, dead] = [inbox.read(takeOne(inbox, "request-1")), inbox.read(takeOne(inbox, "request-2"))];
  assert(done && dead);
  inbox.finish(done, 0);
  inbox.moveToDeadLetters(dead, "status 400", 0);
  inbox.forget(DAY + 1, HISTORY_MS);
  assertEquals(db.all("SELECT state FROM messages"), [{ ...Object.create(null), state: "dead" }]);
  inbox.forget(DEAD_KEPT_MS + 1, HISTORY_MS);
  assertEquals(db.all("SELECT state FROM messages"), []);
  assertEquals([outbox.forget(1), outbox.nextAt(0)], [2, null]);
});

Deno.test("the inbox remembers at most 100,000 delivered messages, the newest", async () => {
  await using disk = await Disk.make();
  const { inbox, db } = disk.open();
  const [waiting, dead] = [takeOne(inbox, "waiting-1"), inbox.read(takeOne(inbox, "dead-0001"))];
  assert(dead);
  inbox.moveToDeadLetters(dead, "status 400", 0);
  db.run(
    `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
     INSERT INTO messages (fromDid, requestId, toDid, identity, bytes, receivedAt, state, endedAt, verified, signedAt, proof,
       payload)
     SELECT ?, 'done-' || i, '', '{}', 0, 0, 'done', 0, 'by-registry', 0, '{}', '' FROM n`,
    SEEN_MESSAGES + 3,
    BETA,
  );
  inbox.forget(1, HISTORY_MS);
  assertEquals(Number(db.get("SELECT count(*) AS n FROM messages WHERE state = 'done'")?.n), 100_000);
  assertEquals(["done-3", "done-4"].map((id) => takeOne(inbox, id) > 0), [true, false]);
  assertEquals([inbox.read(waiting)?.requestId, inbox.counts().dead], ["waiting-1", 1]);
});

Deno.test("the file has mode 0600 from the first byte, and an open one is corrected", async () => {
  await using disk = await Disk.make();
  takeOne(disk.open().inbox, "request-1");
  for (const { name } of Deno.readDirSync(disk.folder)) {
    assertEquals((Deno.statSync(`${disk.folder}/${name}`).mode ?? 0) & 0o777, 0o600, name);
  }
  Deno.chmodSync(disk.path, 0o644);
  disk.open();
  assertEquals((Deno.statSync(disk.path).mode ?? 0) & 0o777, 0o600);
});

const START_OR_MOVE = "Start that one, or move the file away.";

Deno.test("a file that is a link, of another version, or not a database is refused and left unchanged", async (t) => {
  await t.step("a link", async () => {
    await using disk = await Disk.make();
    Deno.symlinkSync(`${disk.folder}/elsewhere`, disk.path);
    assertThrows(() => disk.open(), CliError, "not a plain file");
    assertThrows(() => Deno.statSync(`${disk.folder}/elsewhere`), Deno.errors.NotFound);
  });
  for (const version of [SCHEMA_VERSION - 1, SCHEMA_VERSION + 1]) {
    await t.step(`of version ${version}`, async () => {
      await using disk = await Disk.make();
      {
        using other = new DatabaseSync(disk.path);
        other.exec(`PRAGMA user_version = ${version}`);
      }
      const before = Deno.readFileSync(disk.path);
      const { message, fix } = assertThrows(() => disk.open(), CliError);
      assertEquals(`${message}. ${fix}`, `${disk.path} was written by another version of svc. ${START_OR_MOVE}`);
      // SQLite notes in the first 100 bytes that the file has a write-ahead log.
      assertEquals(Deno.readFileSync(disk.path).subarray(100), before.subarray(100));
    });
  }
  await t.step("not a database", async () => {
    await using disk = await Disk.make();
    Deno.writeTextFileSync(disk.path, "not a database, but long enough to be taken for one".repeat(100));
    assertThrows(() => disk.open(), CliError, "is damaged: file is not a database");
    assertEquals(Deno.readTextFileSync(disk.path).slice(0, 5), "not a");
  });
});

Deno.test("a list of dead letters holds at most 4 MiB of payloads, and at least one message", async () => {
  await using disk = await Disk.make();
  const { inbox } = disk.open();
  const addDeadLetter = (requestId: string, payload: string) => {
    inbox.take([received(requestId, { payload })], 0);
    const found = inbox.read(inbox.waiting()[0]?.seq ?? 0);
    assert(found);
    inbox.moveToDeadLetters(found, "status 400", 1_000);
  };
  addDeadLetter("request-0", `"${"x".repeat(5 * 1024 * 1024)}"`);
  assertEquals(inbox.deadLetters(10).map(({ id }) => id), [1]);
  for (let n = 1; n <= 20; n++) addDeadLetter(`request-${n}`, `"${"x".repeat(256 * 1024 - 2)}"`);
  assertEquals(inbox.deadLetters(1_000).map(({ id }) => id), Array.from({ length: 16 }, (_, n) => 21 - n));
  assertEquals(inbox.deadLetters(3).map(({ id }) => id), [21, 20, 19]);
});

Deno.test("a large message replaces many small dead letters, and the counts stay right", async () => {
  await using disk = await Disk.make();
  const { inbox, db } = disk.open();
  inbox.take(Array.from({ length: 2_000 }, (_, n) => received(`request-${n}`, n < 1_000 ? {} : { from: GAMMA })), 0);
  db.run("UPDATE messages SET state = 'dead', endedAt = 1000 WHERE requestId <> 'request-1999'");
  // The counts show a nearly full inbox.
  const size = (found: number) => `UPDATE messages SET bytes = ${found} WHERE requestId = 'request-1999'`;
  db.run(size(INBOX_BYTES - 1_998 * 29));
  inbox.forget(0, HISTORY_MS);
  assertEquals(inbox.take([received("large", { payload: `"${"x".repeat(29 * 1_000)}"` })], 0)[0], "stored");
  const { dead, bytes } = inbox.counts();
  assert(bytes <= INBOX_BYTES && dead < 1_000 && dead > 990, JSON.stringify({ dead, bytes }));
});

Deno.test("a dead letter that is replayed begins again at once, and is no other message for as long as it waits", async () => {
  await using disk = await Disk.make();
  const { inbox } = disk.open();
  const seq = takeOne(inbox, "request-1");
  inbox.retry(seq, { attempts: 4, refusals: 2, firstTriedAt: 5 }, { nextAt: 90_000, aside: true }, "no");
  const found = inbox.read(seq);
  assert(found);
  inbox.moveToDeadLetters(found, "no", 10_000);
  assertEquals(inbox.deadLetters(9).map(({ id, attempts }) => [id, attempts]), [[seq, 5]]);
  assertEquals(inbox.replay([seq], 20_000), 1);
  const queued = () => inbox.waiting().map((one) => [one.seq, one.nextAt, one.aside]);
  assertEquals(queued(), [[seq, 20_000, false]]);
  const { attempts, refusals, firstTriedAt } = inbox.read(seq)?.tries ?? {};
  assertEquals([attempts, refusals, firstTriedAt], [0, 0, null]);
  assertEquals(inbox.take([received("request-1")], 2 * DAY), ["known"]);
  assertEquals(queued().length, 1);
});

Deno.test("an unread message is a dead letter after seven days, and again seven days after its replay", async () => {
  await using disk = await Disk.make();
  const { inbox } = disk.open("pull");
  takeOne(inbox, "request-1");
  const expired = (now: number) => inbox.expireUnread(now).length;
  assertEquals([expired(7 * DAY - 1), expired(7 * DAY)], [0, 1]);
  inbox.replay(null, 8 * DAY);
  assertEquals([expired(15 * DAY - 1), expired(15 * DAY)], [0, 1]);
});

Deno.test("what one sender wrote is blanked without what another one wrote", async () => {
  await using disk = await Disk.make();
  const { inbox } = disk.open("pull");
  inbox.take([received("request-1"), received("request-2", { from: GAMMA })], 0);
  inbox.markRead([1, 2], 1);
  assertEquals([inbox.blank(GAMMA), inbox.one(1)?.payload === "", inbox.one(2)?.payload], [1, false, ""]);
});

Deno.test("a program takes or leases nothing that the runtime gets", async () => {
  await using disk = await Disk.make();
  const { inbox, claims } = disk.open("push");
  claims.heldUntil = () => 30_000;
  inbox.take([received("request-1"), ...[1, 2].map((n) => received(`reply-${n}`, { inReplyTo: "question-1" }))], 0);
  // A reply whose caller has gone is tried with the runtime, and put aside after a failure.
  inbox.retry(3, { attempts: 1, refusals: 0, firstTriedAt: 1 }, { nextAt: 60_000, aside: true }, "no");
  assertEquals(inbox.lease([1, 2, 3], { id: "lease-a", until: 500 }, 0), [2]);
  assertEquals(inbox.markRead([1, 2, 3], 600), [2]);
  inbox.releaseHeld();
  assertEquals(inbox.waiting().map(({ seq, nextAt, aside }) => [seq, nextAt, aside]), [[1, 0, false], [
    3,
    60_000,
    true,
  ]]);
});
