/** The tables of `connector.db`, made in one transaction, so a kill leaves an empty file or all of them. */
import type { DatabaseSync } from "node:sqlite";
import { CliError } from "../../errors.ts";

/**
 * The `user_version`. Raised with each change of the tables, because other versions of svc could not use these tables.
 */
export const SCHEMA_VERSION = 12;

const TABLES = `
CREATE TABLE messages (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  fromDid TEXT NOT NULL,
  requestId TEXT NOT NULL,
  toDid TEXT NOT NULL,
  identity TEXT NOT NULL,
  conversationId TEXT,
  inReplyTo TEXT,
  auto INTEGER NOT NULL DEFAULT 0,
  bytes INTEGER NOT NULL,
  receivedAt INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('waiting', 'done', 'dead')),
  attempts INTEGER NOT NULL DEFAULT 0,
  refusals INTEGER NOT NULL DEFAULT 0,
  firstTriedAt INTEGER,
  nextAt INTEGER NOT NULL DEFAULT 0,
  aside INTEGER NOT NULL DEFAULT 0,
  problem TEXT,
  readAt INTEGER,
  leaseId TEXT,
  leaseUntil INTEGER NOT NULL DEFAULT 0,
  mayRepeat INTEGER NOT NULL DEFAULT 0,
  endedAt INTEGER,
  verified TEXT NOT NULL,
  signedAt INTEGER NOT NULL,
  -- What a receipt says of its proof: JSON with nonce and hashes.
  proof TEXT NOT NULL,
  payload TEXT NOT NULL,
  UNIQUE (fromDid, requestId)
) STRICT;
CREATE INDEX messages_by_state ON messages (state, seq, bytes, receivedAt);
-- Bounds and unread messages of one sender.
CREATE INDEX messages_waiting_by_sender ON messages (fromDid, seq, bytes) WHERE state = 'waiting';
-- Bounds of one person; the expression is OWNER of received_bounds.ts.
CREATE INDEX messages_waiting_by_owner ON messages (json_extract(identity, '$.ownerDid'), bytes) WHERE state = 'waiting';
-- What was said with a peer, in its order.
CREATE INDEX messages_by_sender ON messages (fromDid);
CREATE INDEX messages_by_question ON messages (inReplyTo, fromDid) WHERE inReplyTo IS NOT NULL;
CREATE INDEX messages_read ON messages (seq, bytes, readAt) WHERE readAt IS NOT NULL AND bytes > 0;
CREATE INDEX messages_read_by_sender ON messages (fromDid, seq, bytes, readAt) WHERE readAt IS NOT NULL AND bytes > 0;
CREATE INDEX messages_leased ON messages (leaseUntil) WHERE leaseUntil > 0;

CREATE TABLE receipts (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  fromDid TEXT NOT NULL,
  requestId TEXT NOT NULL,
  status TEXT NOT NULL,
  at INTEGER NOT NULL,
  -- The claims to sign that are not in the other columns: JSON. Every attempt sends the same bytes.
  about TEXT NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  nextAt INTEGER NOT NULL DEFAULT 0,
  UNIQUE (fromDid, requestId, status)
) STRICT;

CREATE TABLE sent (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  toDid TEXT NOT NULL,
  requestId TEXT NOT NULL,
  conversationId TEXT,
  inReplyTo TEXT,
  auto INTEGER NOT NULL,
  origin TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  sentAt INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (
    state IN ('sending', 'kept', 'queued', 'delivered', 'processed', 'dead_lettered', 'refused', 'unknown')
  ),
  stateAt INTEGER NOT NULL,
  problem TEXT,
  expiresAt INTEGER,
  -- Whether the connector sends it again by itself, and whether the answer of an attempt was lost.
  keep INTEGER NOT NULL DEFAULT 0,
  mayHaveArrived INTEGER NOT NULL DEFAULT 0,
  attempts INTEGER NOT NULL DEFAULT 0,
  nextAt INTEGER NOT NULL DEFAULT 0,
  payload TEXT NOT NULL,
  -- Of an automatic message: the first of those that follow each other by answers to answers.
  thread TEXT,
  -- What left (D-152): hashes of payload and body, and for a day the sealed body, which another attempt sends again.
  payloadSha256 TEXT,
  bodySha256 TEXT,
  salt TEXT,
  body TEXT,
  bodyBytes INTEGER NOT NULL DEFAULT 0,
  UNIQUE (requestId, toDid)
) STRICT;
CREATE INDEX sent_by_state ON sent (state, seq, stateAt);
CREATE INDEX sent_kept ON sent (toDid, seq, nextAt) WHERE state = 'kept';
CREATE INDEX sent_open ON sent (toDid, bytes) WHERE keep = 1 AND state IN ('kept', 'sending');
CREATE INDEX sent_by_recipient ON sent (toDid);
-- Tasks of local A2A clients.
CREATE INDEX sent_tasks ON sent (toDid, seq) WHERE requestId >= 'a-' AND requestId < 'a.';
CREATE INDEX sent_with_payload ON sent (seq, bytes, bodyBytes) WHERE payload <> '';
CREATE INDEX sent_with_body ON sent (sentAt) WHERE body IS NOT NULL;
CREATE INDEX sent_by_question ON sent (toDid, inReplyTo) WHERE inReplyTo IS NOT NULL;
CREATE INDEX sent_by_thread ON sent (toDid, thread) WHERE thread IS NOT NULL;

CREATE TABLE tasks (
  fromDid TEXT NOT NULL,
  requestId TEXT NOT NULL,
  taskId TEXT NOT NULL,
  contextId TEXT NOT NULL,
  state TEXT NOT NULL,
  nextAt INTEGER NOT NULL,
  polls INTEGER NOT NULL,
  startedAt INTEGER NOT NULL,
  PRIMARY KEY (fromDid, requestId)
) STRICT;

CREATE TABLE seen_proofs (
  fromDid TEXT NOT NULL,
  nonce TEXT NOT NULL,
  requestId TEXT NOT NULL,
  signedAt INTEGER NOT NULL,
  PRIMARY KEY (fromDid, nonce)
) STRICT, WITHOUT ROWID;
CREATE INDEX seen_proofs_by_time ON seen_proofs (fromDid, signedAt);
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
  // There is no rollback, because a caller that gets an error closes the database, which ends the transaction.
  for (const sql of ["BEGIN IMMEDIATE", TABLES, "COMMIT"]) db.exec(sql);
}
