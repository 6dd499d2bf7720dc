/**
 * What is stored on disk: messages, receipts and dead letters, across restarts and up to the limits. Decisions: D-68.
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import type { Inbox } from "../../../../cli/connector/delivery/inbox.ts";
import { CONNECTOR_LIMITS } from "../../../../cli/connector/limits.ts";
import { CliError } from "../../../../cli/errors.ts";
import { BETA, Disk, received } from "./disk.ts";

const DAY = 24 * 3_600_000;

const takeOne = (inbox: Inbox, requestId: string, now = 0) => {
  const [taken] = inbox.take([received(requestId)], now);
  return taken?.taken === "stored" ? taken.waiting.seq : -1;
};

Deno.test("a message is stored once, byte for byte, and survives a restart", async () => {
  await using disk = await Disk.make();
  const [first, again] = [received("request-1", { conversationId: "c" }), received("request-1")];
  assertEquals(disk.open().inbox.take([first, again], 5).map(({ taken }) => taken), ["stored", "known"]);
  const { inbox } = disk.open();
  const [waiting] = inbox.waiting();
  assertEquals(waiting, { seq: 1, lane: `${BETA} c`, nextAt: 0, aside: false });
  const read = inbox.read(1);
  assertEquals([read?.payload, read?.conversationId, read?.identity], [first.payload, "c", first.identity]);
});

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

Deno.test("a dead letter keeps its content and can be replayed or purged, with a receipt each time", async () => {
  await using disk = await Disk.make();
  const { inbox, outbox } = disk.open();
  for (const id of ["request-1", "request-2"]) {
    const found = inbox.read(takeOne(inbox, id));
    assert(found);
    inbox.moveToDeadLetters(found, "status 400", 1_000);
  }
  assertEquals(inbox.counts(), { waiting: 0, dead: 2, read: 0, bytes: 58, oldestAt: null });
  assertEquals(
    inbox.deadLetters(10).map(({ id, requestId, problem, attempts }) => [id, requestId, problem, attempts]),
    [
      [2, "request-2", "status 400", 1],
      [1, "request-1", "status 400", 1],
    ],
  );
  assertEquals(inbox.replay([1, 99], 2_000).map(({ seq, nextAt }) => [seq, nextAt]), [[1, 2_000]]);
  const again = inbox.read(1);
  assert(again);
  assertEquals(again.tries, { attempts: 0, refusals: 0, firstTriedAt: null });
  inbox.finish(again, 3_000);
  assertEquals(inbox.purge(null), 1);
  assertEquals(takeOne(inbox, "request-2", 4_000), -1);
  const statuses = outbox.due(0, 60_000).map(({ requestId, status }) => `${requestId} ${status}`);
  assertEquals(statuses, ["request-1 dead_lettered", "request-2 dead_lettered", "request-1 processed_by_svc"]);
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
  const { inbox, db } = disk.open();
  const all = Array.from(
    { length: CONNECTOR_LIMITS.inboxMessages },
    (_, i) => received(`request-${i}`, { payload: "{}" }),
  );
  assert(inbox.take(all, 0).every(({ taken }) => taken === "stored"));
  assertEquals(inbox.take([received("request-x")], 0)[0]?.taken, "full");
  assertEquals(inbox.take([received("request-7")], 0)[0]?.taken, "known");
  db.run("UPDATE messages SET state = 'dead', ended_at = 1, problem = '' WHERE request_id = 'request-3'");
  assertEquals(inbox.take([received("request-x"), received("request-y")], 0).map(({ taken }) => taken), [
    "stored",
    "full",
  ]);
  const found = inbox.read(1);
  assert(found);
  inbox.finish(found, 1);
  assertEquals(inbox.take([received("request-y")], 2)[0]?.taken, "stored");
});

Deno.test("records are deleted at the end of their retention", async () => {
  await using disk = await Disk.make();
  const { inbox, outbox, db } = disk.open();
  const [done, dead] = [inbox.read(takeOne(inbox, "request-1")), inbox.read(takeOne(inbox, "request-2"))];
  assert(done && dead);
  inbox.finish(done, 0);
  inbox.moveToDeadLetters(dead, "status 400", 0);
  inbox.forget(DAY + 1);
  assertEquals(db.all("SELECT state FROM messages"), [{ ...Object.create(null), state: "dead" }]);
  inbox.forget(CONNECTOR_LIMITS.deadKeptMs + 1);
  assertEquals(db.all("SELECT state FROM messages"), []);
  assertEquals([outbox.forget(1), outbox.nextAt()], [2, null]);
});

Deno.test("the inbox remembers at most 100,000 delivered messages, the newest", async () => {
  await using disk = await Disk.make();
  const { inbox, db } = disk.open();
  const [waiting, dead] = [takeOne(inbox, "waiting-1"), inbox.read(takeOne(inbox, "dead-0001"))];
  assert(dead);
  inbox.moveToDeadLetters(dead, "status 400", 0);
  db.run(
    `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
     INSERT INTO messages (from_did, request_id, to_did, identity, bytes, received_at, state, ended_at, payload)
     SELECT ?, 'done-' || i, '', '{}', 0, 0, 'done', 0, '' FROM n`,
    CONNECTOR_LIMITS.seenMessages + 3,
    BETA,
  );
  inbox.forget(1);
  assertEquals(Number(db.get("SELECT count(*) AS n FROM messages WHERE state = 'done'")?.n), 100_000);
  assertEquals(["done-3", "done-4"].map((id) => takeOne(inbox, id) > 0), [true, false]);
  assertEquals([inbox.read(waiting)?.requestId, inbox.counts().dead], ["waiting-1", 1]);
});

Deno.test("the file has mode 0600 from the first byte with any umask, and an open one is corrected", async () => {
  await using disk = await Disk.make();
  const umask = Deno.umask(0);
  try {
    takeOne(disk.open().inbox, "request-1");
    for (const { name } of Deno.readDirSync(disk.folder)) {
      assertEquals((Deno.statSync(`${disk.folder}/${name}`).mode ?? 0) & 0o777, 0o600, name);
    }
    Deno.chmodSync(disk.path, 0o644);
    disk.open();
    assertEquals((Deno.statSync(disk.path).mode ?? 0) & 0o777, 0o600);
  } finally {
    Deno.umask(umask);
  }
});

Deno.test("a file that is a link, of a later version, or not a database is refused and left unchanged", async (t) => {
  await t.step("a link", async () => {
    await using disk = await Disk.make();
    Deno.symlinkSync(`${disk.folder}/elsewhere`, disk.path);
    assertThrows(() => disk.open(), CliError, "not a plain file");
    assertThrows(() => Deno.statSync(`${disk.folder}/elsewhere`), Deno.errors.NotFound);
  });
  await t.step("of a later version", async () => {
    await using disk = await Disk.make();
    const later = new DatabaseSync(disk.path);
    later.exec("PRAGMA user_version = 99");
    later.close();
    assertThrows(() => disk.open(), CliError, "later svc");
  });
  await t.step("not a database", async () => {
    await using disk = await Disk.make();
    Deno.writeTextFileSync(disk.path, "not a database, but long enough to be taken for one".repeat(100));
    assertThrows(() => disk.open(), CliError, "cannot be used");
    assertEquals(Deno.readTextFileSync(disk.path).slice(0, 5), "not a");
  });
});

Deno.test("a list of dead letters holds at most 4 MiB of payloads, and at least one message", async () => {
  await using disk = await Disk.make();
  const { inbox } = disk.open();
  const addDeadLetter = (requestId: string, payload: string) => {
    const [taken] = inbox.take([received(requestId, { payload })], 0);
    const found = taken?.taken === "stored" ? inbox.read(taken.waiting.seq) : null;
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
  inbox.take(Array.from({ length: 2_000 }, (_, n) => received(`request-${n}`)), 0);
  db.run("UPDATE messages SET state = 'dead', ended_at = 1000 WHERE request_id <> 'request-1999'");
  // The counts show a nearly full inbox.
  const size = (found: number) => `UPDATE messages SET bytes = ${found} WHERE request_id = 'request-1999'`;
  db.run(size(CONNECTOR_LIMITS.inboxBytes - 1_998 * 29));
  inbox.forget(0);
  assertEquals(inbox.take([received("large", { payload: `"${"x".repeat(29 * 1_000)}"` })], 0)[0]?.taken, "stored");
  const { dead, bytes } = inbox.counts();
  assert(bytes <= CONNECTOR_LIMITS.inboxBytes && dead < 1_000 && dead > 990, JSON.stringify({ dead, bytes }));
});
