/** The sent messages on disk: states, restarts, repeated request IDs, retention and bounds. */
import { assert, assertEquals } from "@std/assert";
import type { Cell } from "../../../../cli/connector/store/database.ts";
import type { MessageState } from "../../../../shared/client/agent_api.ts";
import { SENT_STATES } from "../../../../shared/client/local_shapes.ts";
import { CONNECTOR_LIMITS } from "../../../../cli/connector/limits.ts";
import { ALPHA, BETA, Disk, GAMMA, outgoing } from "./disk.ts";
import { SENT_BYTES, SENT_MESSAGES } from "../../../../cli/connector/store/sent_messages.ts";

/** Other peers, so many that their replies together are more than a person may have waiting. */
const PEERS = [..."DEFGH"].map((last) => BETA.slice(0, -1) + last);
const DAY = 24 * 3_600_000;

Deno.test("a state is replaced only by one that shows more", async () => {
  await using disk = await Disk.make();
  const { sent, changes } = disk.open();
  const steps: [MessageState, MessageState][] = [
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
  assertEquals(changes.map(({ kind }) => kind), Array(5).fill("sent"));
  assertEquals(sent.find("request-1")?.state, "processed");
});

Deno.test("a message that waits behind others has the present problem of the first, if it is a reason for both", async () => {
  await using disk = await Disk.make();
  const { sent } = disk.open();
  const begin = (id: string, payload: string) => sent.begin(outgoing(id, { payload, keep: true }), 0);
  const wait = { mayHaveArrived: false, nextAt: 9 };
  const first = begin("request-1", '{"message":"a longer text"}');
  const waiting = sent.keep(first, { ...wait, problem: "ACCOUNT_SUSPENDED" }, 0);
  assertEquals(begin("request-2", "{}").problem, "ACCOUNT_SUSPENDED");
  sent.tryAgain(waiting, 1);
  sent.keep(waiting, { ...wait, problem: "connection refused" }, 1);
  assertEquals(begin("request-3", "{}").problem, "connection refused");
  sent.tryAgain(waiting, 1);
  sent.markInterrupted(2);
  const { state, problem } = begin("request-4", "{}");
  assertEquals([state, problem], ["kept", null]);
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

Deno.test("a request ID that is sent again has its body of before only for the same message, within 24 h", async () => {
  await using disk = await Disk.make();
  const { sent } = disk.open();
  const body = { salt: "s", payloadSha256: "p", bodySha256: "b", body: "sealed" };
  const message = outgoing("request-1", { payload: "1" });
  const rows: [
    name: string,
    change: Partial<typeof message>,
    later: number,
    isSame: boolean,
    mayHaveArrived: boolean,
  ][] = [
    ["the same", {}, 1, true, true],
    ["another text", { payload: "2" }, 1, false, true],
    ["another conversation", { conversationId: "c-2" }, 1, false, true],
    ["another question", { inReplyTo: "question-2" }, 1, false, true],
    ["an automatic one", { auto: true }, 1, false, true],
    ["a new one after a day", {}, DAY, false, false],
  ];
  for (const [i, [name, change, later, isSame, mayHaveArrived]] of rows.entries()) {
    const start = i * 3 * DAY, begun = sent.begin(message, start);
    sent.leave(begun, body);
    sent.settle(begun, { state: "unknown" }, start);
    const again = sent.begin({ ...message, ...change }, start + later);
    assertEquals([again.seq !== begun.seq, sent.bodyOf(again), again.mayHaveArrived], [
      true,
      isSame ? body : null,
      mayHaveArrived,
    ], name);
  }
});

Deno.test("an answer marks its question as processed, and only that of its recipient", async () => {
  await using disk = await Disk.make();
  const { sent, changes } = disk.open();
  sent.settle(sent.begin(outgoing("request-1"), 0), { state: "queued", expiresAt: 99 }, 0);
  sent.markAnswered({ toDid: GAMMA, requestId: "request-1" }, 1);
  assertEquals(sent.find("request-1")?.state, "queued");
  sent.markAnswered({ toDid: BETA, requestId: "request-1" }, 1);
  const answered = sent.find("request-1");
  assertEquals([answered?.state, answered?.stateAt, answered?.expiresAt], ["processed", 1, null]);
  sent.markAnswered({ toDid: BETA, requestId: "request-1" }, 2);
  assertEquals([sent.find("request-1")?.stateAt, changes.length], [1, 2]);
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

Deno.test("the content of ended messages is blanked after a day, and their rows are deleted after eight", async () => {
  await using disk = await Disk.make();
  const { sent } = disk.open();
  for (const state of SENT_STATES) {
    const begun = sent.begin(outgoing(`request-${state}`), 0);
    if (state !== "sending") sent.settle(begun, { state }, 0);
  }
  sent.forget(DAY, DAY);
  assertEquals(sent.list({ limit: 10 }).messages.filter((one) => sent.payloadOf(one) === null), []);
  sent.forget(DAY + 1, DAY);
  const withContent = sent.list({ limit: 10 }).messages.filter((one) => sent.payloadOf(one) !== null);
  assertEquals(withContent.map(({ state, bytes }) => [state, bytes]), [["queued", 29], ["kept", 29], ["sending", 29]]);
  sent.forget(8 * DAY, DAY);
  assertEquals(sent.list({ limit: 10 }).messages.length, SENT_STATES.length);
  sent.forget(8 * DAY + 1, DAY);
  assertEquals(sent.list({ limit: 10 }).messages.map(({ state }) => state), ["kept", "sending"]);
});

Deno.test("sending a message reads none of the earlier ones to its recipient", async () => {
  await using disk = await Disk.make();
  const { db, sent } = disk.open();
  // The first one counts them all.
  sent.begin(outgoing("request-1", { keep: true }), 0);
  const plans: string[] = [];
  for (const method of ["get", "all"] as const) {
    const real = db[method].bind(db) as typeof db.all;
    const explained = (sql: string, ...values: Cell[]) => {
      if (sql.startsWith("SELECT")) {
        plans.push(...db.all<{ detail: string }>(`EXPLAIN QUERY PLAN ${sql}`, ...values).map(({ detail }) => detail));
      }
      return real(sql, ...values);
    };
    Object.assign(db, { [method]: explained });
  }
  sent.begin(outgoing("request-2", { keep: true }), 0);
  assert(plans.length > 2);
  assertEquals(plans.filter((plan) => plan.includes("sent_by_recipient") || plan.startsWith("SCAN sent")), []);
});

Deno.test("replies that one peer does not take have a bound, and stop no message of the person and no reply to another", async () => {
  await using disk = await Disk.make();
  const { sent } = disk.open();
  const reply = (n: string, toDid = BETA, payload = "{}") =>
    sent.begin(outgoing(`reply-${n}`, { toDid, payload, origin: "runtime", auto: true }), 0);
  const shown = ({ state, problem }: { state: MessageState; problem: string | null }) => [state, problem];
  const large = JSON.stringify("x".repeat(CONNECTOR_LIMITS.keptReplyBytes));
  assertEquals(shown(reply("large", BETA, large)), ["refused", "too many replies wait for this peer"]);
  const first = reply("0");
  for (let n = 1; n < CONNECTOR_LIMITS.keptReplies; n++) assertEquals(reply(`${n}`).state, "kept");
  assertEquals(shown(reply("over")), ["refused", "too many replies wait for this peer"]);
  for (let n = 0; n < CONNECTOR_LIMITS.keptMessages; n++) reply(`${n}`, PEERS[n % PEERS.length]);
  assertEquals(reply("other", GAMMA).state, "kept");
  assertEquals(sent.begin(outgoing("request-1", { toDid: ALPHA, keep: true }), 0).state, "sending");
  sent.settle(first, { state: "queued" }, 1);
  assertEquals(reply("next").state, "kept", "a reply that has left makes room");
});

Deno.test("a full table deletes the oldest finished messages, then queued ones", async () => {
  await using disk = await Disk.make();
  const { sent, db } = disk.open();
  db.run(
    `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
     INSERT INTO sent (toDid, requestId, auto, origin, bytes, sentAt, state, stateAt, payload)
     SELECT ?, 'request-' || i, 0, 'program', 2, 0,
       CASE WHEN i <= 10 THEN 'sending' WHEN i <= 99500 THEN 'queued' ELSE 'delivered' END, 0, '{}' FROM n`,
    SENT_MESSAGES,
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

Deno.test("replies of the runtime over 256 MiB are blanked before what the person wrote, also while they are queued", async () => {
  await using disk = await Disk.make();
  const { sent, db } = disk.open();
  for (const state of ["queued", "delivered"] as const) {
    sent.settle(sent.begin(outgoing(`request-${state}`), 0), { state }, 0);
    sent.settle(sent.begin(outgoing(`reply-${state}`, { origin: "runtime", auto: true }), 0), { state }, 0);
  }
  db.run(`UPDATE sent SET bytes = ${SENT_BYTES} / 2 WHERE origin = 'runtime'`);
  db.run(
    `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 998)
     INSERT INTO sent (toDid, requestId, auto, origin, bytes, sentAt, state, stateAt, payload)
     SELECT ?, 'r-' || i, 1, 'runtime', 2, 0, 'refused', 0, '{}' FROM n`,
    BETA,
  );
  sent.forget(0, DAY);
  sent.begin(outgoing("request-new"), 0);
  const left = db.all("SELECT requestId FROM sent WHERE payload <> '' ORDER BY seq").map(({ requestId }) => requestId);
  assertEquals(left, ["request-queued", "request-delivered", "request-new"]);
});

Deno.test("content over 256 MiB is blanked, oldest ended messages first; requests under way keep theirs", async () => {
  await using disk = await Disk.make();
  const { sent, db } = disk.open();
  const size = SENT_BYTES / 4;
  for (const [n, state] of (["sending", "queued", "delivered", "delivered"] as const).entries()) {
    const begun = sent.begin(outgoing(`request-${n}`), 0);
    if (state !== "sending") sent.settle(begun, { state }, 0);
  }
  // The rows claim the size: four contents of it would make the test slow.
  db.run("UPDATE sent SET bytes = ?", size);
  sent.forget(0, DAY);
  const kept = () =>
    sent.list({ limit: 10 }).messages.filter((one) => sent.payloadOf(one) !== null).map(({ seq }) => seq);
  sent.begin(outgoing("request-5"), 0);
  assertEquals(kept(), [5, 1]);
  db.run("UPDATE sent SET bytes = ? WHERE seq = 1", 4 * size);
  sent.forget(0, DAY);
  sent.begin(outgoing("request-6"), 0);
  assertEquals(kept(), [6, 5], "the oldest request goes when nothing else is left");
  assertEquals(sent.find("request-0"), null);
});
