/**
 * A log of 1,000,000 messages: a page is there at once, and a search that finds nothing ends soon. The control is SQLite alone,
 * which looks through all texts.
 */
import process from "node:process";
import { assert, assertEquals } from "@std/assert";
import { Database } from "../../cli/connector/store/database.ts";
import { History } from "../../cli/connector/store/history.ts";
import { SentMessages } from "../../cli/connector/store/sent_messages.ts";
import { tempFolder } from "../support/process.ts";

const ROWS = 1_000_000;
const [BETA, GAMMA] = ["beta", "gamma"].map((name) => `did:svc:registry.example:agent:${name}`);
const IDENTITY = JSON.stringify({ agentDid: GAMMA, ownerDid: "x", issuer: "x", aitJti: "x", name: "gamma" });
/** Of 10,000 messages one is of beta. */
const WHOSE = `CASE n % 10000 WHEN 0 THEN '${BETA}' ELSE '${GAMMA}' END`;
const NUMBERS = "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)";
const PAYLOAD = `'{"message":"Which port does the staging server use? It is number ' || n || '"}'`;

function fill(database: Database): void {
  database.transaction(() => {
    database.run(
      `${NUMBERS} INSERT INTO sent (toDid, requestId, auto, origin, bytes, sentAt, state, stateAt, payload)
       SELECT ${WHOSE}, 'request-' || n, 0, 'person', 80, n * 2, 'processed', n * 2, ${PAYLOAD} FROM numbers`,
      ROWS / 2,
    );
    database.run(
      `${NUMBERS} INSERT INTO messages
         (fromDid, requestId, toDid, identity, bytes, receivedAt, state, readAt, verified, signedAt, proof, payload)
       SELECT ${WHOSE}, 'request-' || n, 'x', ?, 80, n * 2 + 1, 'done', n * 2 + 1, 'end-to-end', 0, '{}', ${PAYLOAD}
       FROM numbers`,
      ...[ROWS / 2, IDENTITY],
    );
  });
}

/** With more, a page would be looked for, not found by an index. */
const MAX_PAGE_PART = 0.3;
/** A search also makes a message of each row, in pieces that leave the connector time for others. */
const MAX_SEARCH_TIMES = 6;

/** Milliseconds of CPU since, because the time that other programs take between two pieces of a search is not its own. */
function cpuMs(before: ReturnType<typeof process.cpuUsage>): number {
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

Deno.test("a page of a log of 1,000,000 messages needs no look through it, and a search about two looks", async () => {
  await using folder = await tempFolder();
  const database = Database.open(`${folder.path}/connector.db`);
  try {
    fill(database);
    const log = new History(database, new SentMessages(database, () => {}));
    const timed = async (query: Parameters<History["log"]>[0]) => {
      const before = process.cpuUsage(), { messages } = await log.log(query);
      return { count: messages.length, ms: cpuMs(before) };
    };
    const before = process.cpuUsage();
    for (const table of ["messages", "sent"]) {
      database.all(`SELECT 1 FROM ${table} WHERE lower(payload) LIKE '%no such text%'`);
    }
    const lookMs = cpuMs(before);
    const whole = await timed({ limit: 50 }), rare = await timed({ did: BETA, limit: 50 });
    const oldest = await timed({ limit: 50, from: { received: 0, sent: 0 }, isForward: true });
    const search = await timed({
      limit: 50,
      isWanted: ({ payload }) => payload.toLowerCase().includes("no such text"),
    });
    console.log(JSON.stringify({ lookMs, whole, rare, oldest, search }));
    assertEquals([whole.count, rare.count, oldest.count, search.count], [50, 50, 50, 0]);
    for (const { ms } of [whole, rare, oldest]) assert(ms < lookMs * MAX_PAGE_PART, `${ms} of ${lookMs} ms`);
    assert(search.ms < lookMs * MAX_SEARCH_TIMES, `${search.ms} of ${lookMs} ms`);
  } finally {
    database[Symbol.dispose]();
  }
});
