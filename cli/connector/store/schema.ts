/** The tables of `connector.db`, made in one transaction, so a kill leaves an empty file or all of them. */
import type { DatabaseSync } from "node:sqlite";
import { CliError } from "../../errors.ts";

/** The version that this program reads and writes, in `user_version`. Raised with each change of the tables. */
export const SCHEMA_VERSION = 11;

const TABLES = `
CREATE TABLE messages (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  from_did TEXT NOT NULL,
  request_id TEXT NOT NULL,
  to_did TEXT NOT NULL,
  identity TEXT NOT NULL,
  conversation_id TEXT,
  in_reply_to TEXT,
  auto INTEGER NOT NULL DEFAULT 0,
  bytes INTEGER NOT NULL,
  received_at INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('waiting', 'done', 'dead')),
  attempts INTEGER NOT NULL DEFAULT 0,
  refusals INTEGER NOT NULL DEFAULT 0,
  first_tried_at INTEGER,
  next_at INTEGER NOT NULL DEFAULT 0,
  aside INTEGER NOT NULL DEFAULT 0,
  problem TEXT,
  read_at INTEGER,
  lease_id TEXT,
  lease_until INTEGER NOT NULL DEFAULT 0,
  may_repeat INTEGER NOT NULL DEFAULT 0,
  ended_at INTEGER,
  verified TEXT NOT NULL,
  signed_at INTEGER NOT NULL,
  -- What a receipt says of its proof: JSON with nonce and hashes.
  proof TEXT NOT NULL,
  payload TEXT NOT NULL,
  UNIQUE (from_did, request_id)
) STRICT;
CREATE INDEX messages_by_state ON messages (state, seq, bytes, received_at);
-- Bounds of one sender, and the content that an agent has read.
CREATE INDEX messages_waiting_by_sender ON messages (from_did, seq, bytes) WHERE state = 'waiting';
-- What was said with a peer, in its order.
CREATE INDEX messages_by_sender ON messages (from_did);
CREATE INDEX messages_by_question ON messages (in_reply_to, from_did) WHERE in_reply_to IS NOT NULL;
CREATE INDEX messages_read ON messages (seq, bytes, read_at) WHERE read_at IS NOT NULL;
CREATE INDEX messages_leased ON messages (lease_until) WHERE lease_until > 0;

CREATE TABLE receipts (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  from_did TEXT NOT NULL,
  request_id TEXT NOT NULL,
  status TEXT NOT NULL,
  at INTEGER NOT NULL,
  -- The claims to sign that are not in the other columns: JSON. Every attempt sends the same bytes.
  about TEXT NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  next_at INTEGER NOT NULL DEFAULT 0,
  UNIQUE (from_did, request_id, status)
) STRICT;

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
    state IN ('sending', 'kept', 'queued', 'delivered', 'processed', 'dead_lettered', 'refused', 'unknown')
  ),
  state_at INTEGER NOT NULL,
  problem TEXT,
  expires_at INTEGER,
  -- Whether the connector sends it again by itself, and whether the answer of an attempt was lost.
  keep INTEGER NOT NULL DEFAULT 0,
  may_have_arrived INTEGER NOT NULL DEFAULT 0,
  attempts INTEGER NOT NULL DEFAULT 0,
  next_at INTEGER NOT NULL DEFAULT 0,
  payload TEXT NOT NULL,
  -- Of an automatic message: the first of those that follow each other by answers to answers.
  thread TEXT,
  -- What left (D-152): hashes of payload and body, and for a day the sealed body, which another attempt sends again.
  payload_sha256 TEXT,
  body_sha256 TEXT,
  salt TEXT,
  body TEXT,
  body_bytes INTEGER NOT NULL DEFAULT 0,
  UNIQUE (request_id, to_did)
) STRICT;
CREATE INDEX sent_by_state ON sent (state, seq, state_at);
CREATE INDEX sent_kept ON sent (to_did, seq, next_at) WHERE state = 'kept';
CREATE INDEX sent_open ON sent (bytes) WHERE keep = 1 AND state IN ('kept', 'sending');
CREATE INDEX sent_by_recipient ON sent (to_did);
-- Tasks of local A2A clients.
CREATE INDEX sent_tasks ON sent (to_did, seq) WHERE request_id >= 'a-' AND request_id < 'a.';
CREATE INDEX sent_with_payload ON sent (seq, bytes, body_bytes) WHERE payload <> '';
CREATE INDEX sent_with_body ON sent (sent_at) WHERE body IS NOT NULL;
CREATE INDEX sent_by_question ON sent (to_did, in_reply_to) WHERE in_reply_to IS NOT NULL;
CREATE INDEX sent_by_thread ON sent (to_did, thread) WHERE thread IS NOT NULL;

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
) STRICT;

CREATE TABLE seen_proofs (
  from_did TEXT NOT NULL,
  nonce TEXT NOT NULL,
  request_id TEXT NOT NULL,
  signed_at INTEGER NOT NULL,
  PRIMARY KEY (from_did, nonce)
) STRICT, WITHOUT ROWID;
CREATE INDEX seen_proofs_by_time ON seen_proofs (from_did, signed_at);
-- Of open tickets of this agent.
CREATE TABLE pair_secrets (secret TEXT PRIMARY KEY, until INTEGER NOT NULL) STRICT;
-- Tickets that this agent confirms. half: the peer whose own server has the pair already.
CREATE TABLE pair_confirmations (
  ticket TEXT PRIMARY KEY,
  profile TEXT NOT NULL,
  until INTEGER NOT NULL,
  half TEXT
) STRICT;
-- One row: from when on the proofs of stored messages are known.
CREATE TABLE memory (since INTEGER NOT NULL) STRICT;
PRAGMA user_version = ${SCHEMA_VERSION};`;

const NAMES = [...TABLES.matchAll(/^CREATE TABLE (\w+)/gm)].map(([, name = ""]) => name);

/** Names of the tables that a database lacks. */
export function missingTables(db: DatabaseSync): string[] {
  const there = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all().map(({ name }) => name);
  return NAMES.filter((name) => !there.includes(name));
}

/**
 * Makes the tables in an empty file.
 *
 * @param path of the file, for the error
 * @throws {CliError} `CLI_FILE_INVALID` when another version of svc wrote it; the file is unchanged
 */
export function ensureTables(db: DatabaseSync, path: string): void {
  const version = Number(db.prepare("PRAGMA user_version").get()?.user_version);
  if (version === SCHEMA_VERSION) return;
  if (version !== 0) {
    throw new CliError("CLI_FILE_INVALID", `${path} was written by another version of svc`, {
      fix: "Start that one, or move the file away.",
    });
  }
  db.exec("BEGIN IMMEDIATE");
  try {
    db.exec(TABLES);
    db.exec("COMMIT");
  } catch (error) {
    if (db.isTransaction) db.exec("ROLLBACK");
    throw error;
  }
}
