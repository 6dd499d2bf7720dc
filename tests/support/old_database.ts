/** A `connector.db` as schema version 1 wrote it, before the sent messages (D-115). Frozen: a copy of what was released. */
import { DatabaseSync } from "node:sqlite";

const SCHEMA_1 = `
CREATE TABLE messages (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  from_did TEXT NOT NULL,
  request_id TEXT NOT NULL,
  to_did TEXT NOT NULL,
  identity TEXT NOT NULL,
  conversation_id TEXT,
  bytes INTEGER NOT NULL,
  received_at INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('waiting', 'done', 'dead')),
  attempts INTEGER NOT NULL DEFAULT 0,
  refusals INTEGER NOT NULL DEFAULT 0,
  first_tried_at INTEGER,
  next_at INTEGER NOT NULL DEFAULT 0,
  aside INTEGER NOT NULL DEFAULT 0,
  problem TEXT,
  ended_at INTEGER,
  payload TEXT NOT NULL,
  UNIQUE (from_did, request_id)
) STRICT;
CREATE INDEX messages_by_state ON messages (state, seq, bytes, received_at);
CREATE TABLE receipts (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  from_did TEXT NOT NULL,
  request_id TEXT NOT NULL,
  status TEXT NOT NULL,
  at INTEGER NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  next_at INTEGER NOT NULL DEFAULT 0,
  UNIQUE (from_did, request_id, status)
) STRICT;
PRAGMA user_version = 1;
`;

export const OLD_SENDER = "did:svc:localhost:agent:01KHYQ5H00AAAAAAAAAAAAAAAA";
const RECIPIENT = "did:svc:localhost:agent:01KHYQ5H00AAAAAAAAAAAAAAAD";
const IDENTITY = JSON.stringify({
  agentDid: OLD_SENDER,
  ownerDid: "did:svc:localhost:human:01KHYQ5H00AAAAAAAAAAAAAAAB",
  issuer: "https://registry.example.test",
  aitJti: "01KHYQ5H00AAAAAAAAAAAAAAAC",
  name: "sender",
});

/** Writes the file with `count` messages of each state, and two receipts. */
export function writeOldDatabase(path: string, count: number): void {
  using db = new DatabaseSync(path);
  db.exec(`PRAGMA journal_mode = WAL; BEGIN; ${SCHEMA_1}`);
  const insert = db.prepare(
    `INSERT INTO messages (from_did, request_id, to_did, identity, conversation_id, bytes, received_at, state, ended_at,
     payload) VALUES (?, ?, ?, ?, 'c', ?, 5, ?, ?, ?)`,
  );
  for (const state of ["waiting", "done", "dead"]) {
    for (let n = 0; n < count; n++) {
      const payload = state === "done" ? "" : `{ "n": ${n} }`;
      const endedAt = state === "waiting" ? null : 6;
      insert.run(OLD_SENDER, `${state}-${n}`, RECIPIENT, IDENTITY, payload.length, state, endedAt, payload);
    }
  }
  db.exec(
    `INSERT INTO receipts (from_did, request_id, status, at) VALUES ('${OLD_SENDER}', 'done-0', 'processed_by_svc', 6),
    ('${OLD_SENDER}', 'dead-0', 'dead_lettered', 6); COMMIT`,
  );
}

/** Every row of the two tables, with the columns of schema version 1. */
export function rowsOfOldDatabase(path: string): unknown[] {
  using db = new DatabaseSync(path);
  const messages = db.prepare(
    `SELECT seq, from_did, request_id, to_did, identity, conversation_id, bytes, received_at, state, attempts, refusals,
     first_tried_at, next_at, aside, problem, ended_at, payload FROM messages ORDER BY seq`,
  ).all();
  return [...messages, ...db.prepare("SELECT * FROM receipts ORDER BY seq").all()];
}
