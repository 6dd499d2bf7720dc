/**
 * The schema of `connector.db`, as steps from version to version (D-115). Each step is one transaction, so a kill leaves
 * the version before it or the version after it. A step that was released is never changed.
 */
import type { DatabaseSync } from "node:sqlite";
import { CliError } from "../../errors.ts";

/** Step `n` converts version `n` to version `n + 1`; version 0 is an empty file. The statements run in order. */
const STEPS: readonly (readonly string[])[] = [
  [
    `
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
) STRICT`,
    "CREATE INDEX messages_by_state ON messages (state, seq, bytes, received_at)",
    `
CREATE TABLE receipts (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  from_did TEXT NOT NULL,
  request_id TEXT NOT NULL,
  status TEXT NOT NULL,
  at INTEGER NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  next_at INTEGER NOT NULL DEFAULT 0,
  UNIQUE (from_did, request_id, status)
) STRICT`,
  ],
  [
    "ALTER TABLE messages ADD COLUMN in_reply_to TEXT",
    "ALTER TABLE messages ADD COLUMN auto INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE messages ADD COLUMN read_at INTEGER",
    // Bounds of one sender, and the content that an agent has read.
    "CREATE INDEX messages_waiting_by_sender ON messages (from_did, seq, bytes) WHERE state = 'waiting'",
    "CREATE INDEX messages_by_question ON messages (in_reply_to, from_did) WHERE in_reply_to IS NOT NULL",
    "CREATE INDEX messages_read ON messages (seq, bytes, read_at) WHERE read_at IS NOT NULL",
    `
CREATE TABLE sent (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  to_did TEXT NOT NULL,
  request_id TEXT NOT NULL,
  conversation_id TEXT,
  in_reply_to TEXT,
  auto INTEGER NOT NULL,
  origin TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  sent_at INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (
    state IN ('sending', 'queued', 'delivered', 'processed', 'dead_lettered', 'refused', 'unknown')
  ),
  state_at INTEGER NOT NULL,
  problem TEXT,
  expires_at INTEGER,
  attempts INTEGER NOT NULL DEFAULT 0,
  next_at INTEGER NOT NULL DEFAULT 0,
  payload TEXT NOT NULL,
  UNIQUE (request_id, to_did)
) STRICT`,
    "CREATE INDEX sent_by_state ON sent (state, seq, state_at)",
    "CREATE INDEX sent_with_payload ON sent (seq, bytes) WHERE payload <> ''",
    `
CREATE TABLE tasks (
  from_did TEXT NOT NULL,
  request_id TEXT NOT NULL,
  task_id TEXT NOT NULL,
  context_id TEXT NOT NULL,
  state TEXT NOT NULL,
  next_at INTEGER NOT NULL,
  polls INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  PRIMARY KEY (from_did, request_id)
) STRICT`,
  ],
];

/** The version that this program reads and writes. */
export const SCHEMA_VERSION = STEPS.length;

/**
 * Converts the database to `SCHEMA_VERSION`.
 *
 * @param path of the file, for the error
 * @throws {CliError} `CLI_FILE_INVALID` when a later version of svc wrote it; the file is unchanged
 */
export function migrate(db: DatabaseSync, path: string): void {
  for (let version = versionOf(db); version !== SCHEMA_VERSION; version++) {
    const step = STEPS[version];
    if (step === undefined) throw new CliError("CLI_FILE_INVALID", `${path} was written by a later svc: update svc`);
    db.exec("BEGIN IMMEDIATE");
    try {
      for (const statement of step) db.exec(statement);
      db.exec(`PRAGMA user_version = ${version + 1}`);
      db.exec("COMMIT");
    } catch (error) {
      if (db.isTransaction) db.exec("ROLLBACK");
      throw error;
    }
  }
}

function versionOf(db: DatabaseSync): number {
  return Number(db.prepare("PRAGMA user_version").get()?.user_version);
}
