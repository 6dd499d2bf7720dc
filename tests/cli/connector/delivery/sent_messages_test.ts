/** The sent messages on disk (D-115): states, restarts, repeated request IDs, retention and bounds. */
import { assertEquals } from "@std/assert";
import { SENT_STATES, type SentState } from "../../../../shared/client/local_shapes.ts";
import { CONNECTOR_LIMITS } from "../../../../cli/connector/limits.ts";
import { BETA, Disk, GAMMA, outgoing, PAYLOAD } from "./disk.ts";

const DAY = 24 * 3_600_000;

Deno.test("a sent message is on disk before its request, and keeps its payload byte for byte", async () => {
  await using disk = await Disk.make();
  const begun = disk.open().sent.begin(outgoing("request-1", { conversationId: "c", inReplyTo: "request-0" }), 5);
  const { sent } = disk.open();
  assertEquals(sent.find("request-1", BETA), begun);
  assertEquals(sent.payloadOf(begun), PAYLOAD);
  const { seq, sentAt, stateAt, state, bytes, attempts } = begun;
  assertEquals({ seq, sentAt, stateAt, state, bytes, attempts }, {
    seq: 1,
    sentAt: 5,
    stateAt: 5,
    state: "sending",
    bytes: 29,
    attempts: 0,
  });
});

Deno.test("a restart makes interrupted requests unknown, and keeps replies of the runtime to send", async () => {
  await using disk = await Disk.make();
  let { sent } = disk.open();
  sent.begin(outgoing("request-1"), 1);
  sent.begin(outgoing("reply-0001", { origin: "runtime", auto: true }), 1);
  sent.settle(sent.begin(outgoing("request-2"), 1), { state: "delivered" }, 2);
  ({ sent } = disk.open());
  assertEquals(sent.markInterrupted(9), 1);
  const states = sent.list({ limit: 10 }).messages.map(({ requestId, state, stateAt }) => [requestId, state, stateAt]);
  assertEquals(states, [["request-2", "delivered", 2], ["reply-0001", "sending", 1], ["request-1", "unknown", 9]]);
  assertEquals([sent.dueReplies(9, 60_000).map(({ requestId }) => requestId), sent.nextReplyAt()], [["reply-0001"], 0]);
});

Deno.test("a state is replaced only by one that shows more", async () => {
  await using disk = await Disk.make();
  const { sent } = disk.open();
  const changes: string[] = [];
  sent.onChanged = ({ state }) => void changes.push(state);
  const steps: [SentState, SentState][] = [
    ["unknown", "unknown"],
    ["queued", "queued"],
    ["unknown", "queued"],
    ["refused", "queued"],
    ["delivered", "delivered"],
    ["queued", "delivered"],
    ["unknown", "delivered"],
    ["dead_lettered", "dead_lettered"],
    ["processed", "processed"],
    ["dead_lettered", "processed"],
  ];
  const begun = sent.begin(outgoing("request-1"), 0);
  for (const [next, expected] of steps) assertEquals(sent.settle(begun, { state: next }, 1).state, expected, next);
  assertEquals(changes, ["unknown", "queued", "delivered", "dead_lettered", "processed"]);
  assertEquals(sent.find("request-1")?.state, "processed");
});

Deno.test("a request ID that is sent again is the same message for 24 h, then a new one", async () => {
  await using disk = await Disk.make();
  const { sent, db } = disk.open();
  const first = sent.settle(sent.begin(outgoing("request-1"), 0), { state: "delivered" }, 0);
  assertEquals(sent.begin(outgoing("request-1", { payload: "{}" }), DAY - 1), first);
  const again = sent.begin(outgoing("request-1"), DAY);
  assertEquals([again.seq, again.state], [2, "sending"]);
  assertEquals(sent.begin(outgoing("request-1"), DAY).seq, 2, "two calls at a time share a row");
  sent.settle(again, { state: "unknown", problem: "no answer" }, DAY);
  assertEquals(sent.begin(outgoing("request-1"), DAY).state, "sending", "a retry of an interrupted call");
  sent.begin(outgoing("request-1", { toDid: GAMMA }), DAY);
  assertEquals(db.get("SELECT count(*) AS n FROM sent")?.n, 2);
  assertEquals([sent.find("request-1")?.toDid, sent.find("request-1", BETA)?.toDid], [GAMMA, BETA]);
});

Deno.test("an answer marks its question as processed, and only that of its recipient", async () => {
  await using disk = await Disk.make();
  const { sent } = disk.open();
  sent.settle(sent.begin(outgoing("request-1"), 0), { state: "queued", expiresAt: 99 }, 0);
  assertEquals(sent.markAnswered("request-1", GAMMA, 1), null);
  const answered = sent.markAnswered("request-1", BETA, 1);
  assertEquals([answered?.state, answered?.expiresAt], ["processed", null]);
  assertEquals(sent.markAnswered("request-1", BETA, 2), null);
});

Deno.test("sent messages are listed newest first, in pages, by recipient", async () => {
  await using disk = await Disk.make();
  const { sent } = disk.open();
  for (let n = 1; n <= 5; n++) sent.begin(outgoing(`request-${n}`, { toDid: n % 2 === 0 ? GAMMA : BETA }), n);
  const seqs = (options: Parameters<typeof sent.list>[0]) => {
    const { messages, more } = sent.list(options);
    return [messages.map(({ seq }) => seq), more];
  };
  assertEquals(seqs({ limit: 3 }), [[5, 4, 3], true]);
  assertEquals(seqs({ limit: 3, before: 3 }), [[2, 1], false]);
  assertEquals(seqs({ limit: 2, toDid: BETA }), [[5, 3], true]);
});

Deno.test("the content of ended messages is blanked after a day, and rows are deleted after eight", async () => {
  await using disk = await Disk.make();
  const { sent } = disk.open();
  for (const state of SENT_STATES) {
    const begun = sent.begin(outgoing(`request-${state}`), 0);
    if (state !== "sending") sent.settle(begun, { state }, 0);
  }
  sent.prune(DAY);
  assertEquals(sent.list({ limit: 10 }).messages.filter((one) => sent.payloadOf(one) === null), []);
  sent.prune(DAY + 1);
  const withContent = sent.list({ limit: 10 }).messages.filter((one) => sent.payloadOf(one) !== null);
  assertEquals(withContent.map(({ state, bytes }) => [state, bytes]), [["queued", 29], ["sending", 29]]);
  sent.prune(8 * DAY);
  assertEquals(sent.list({ limit: 10 }).messages.length, SENT_STATES.length);
  sent.prune(8 * DAY + 1);
  assertEquals(sent.list({ limit: 10 }).messages, []);
});

Deno.test("a full table deletes the oldest finished messages, then queued ones", async () => {
  await using disk = await Disk.make();
  const { sent, db } = disk.open();
  db.run(
    `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
     INSERT INTO sent (to_did, request_id, auto, origin, bytes, sent_at, state, state_at, payload)
     SELECT ?, 'request-' || i, 0, 'program', 2, 0,
       CASE WHEN i <= 10 THEN 'sending' WHEN i <= 99500 THEN 'queued' ELSE 'delivered' END, 0, '{}' FROM n`,
    CONNECTOR_LIMITS.sentMessages,
    BETA,
  );
  sent.begin(outgoing("request-new"), 1);
  const left = Object.fromEntries(
    db.all("SELECT state, count(*) AS n, min(seq) AS first FROM sent GROUP BY state").map((
      { state, n, first },
    ) => [state, [n, first]]),
  );
  assertEquals(left, { sending: [11, 1], queued: [98_990, 511] });
});

Deno.test("content over 256 MiB is blanked, oldest ended messages first; requests under way keep theirs", async () => {
  await using disk = await Disk.make();
  const { sent, db } = disk.open();
  const size = CONNECTOR_LIMITS.sentBytes / 4;
  for (const [n, state] of (["sending", "queued", "delivered", "delivered"] as const).entries()) {
    const begun = sent.begin(outgoing(`request-${n}`), 0);
    if (state !== "sending") sent.settle(begun, { state }, 0);
  }
  // The rows claim the size: four contents of it would make the test slow.
  db.run("UPDATE sent SET bytes = ?", size);
  sent.prune(0);
  const kept = () =>
    sent.list({ limit: 10 }).messages.filter((one) => sent.payloadOf(one) !== null).map(({ seq }) => seq);
  sent.begin(outgoing("request-5"), 0);
  assertEquals(kept(), [5, 1]);
  db.run("UPDATE sent SET bytes = ? WHERE seq = 1", 4 * size);
  sent.prune(0);
  sent.begin(outgoing("request-6"), 0);
  assertEquals(kept(), [6, 5], "the oldest request goes when nothing else is left");
  assertEquals(sent.find("request-0"), null);
});
