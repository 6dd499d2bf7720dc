/**
 * `connector.db`: the connector's SQLite database (D-88). The file is private before SQLite opens it, and a transaction is
 * on disk when it returns. migrations.ts defines the tables; inbox.ts, outbox.ts and sent_messages.ts the meaning of rows.
 */
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { CliError } from "../../errors.ts";
import { reason } from "../../files/private_files.ts";
import { CONNECTOR_LIMITS } from "../limits.ts";
import { migrate } from "./migrations.ts";

/** A column value. */
export type Cell = string | number | null;
export type Row = Record<string, Cell>;

export class Database implements Disposable {
  readonly #db: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();

  /** Wraps a database that already has the schema. */
  constructor(db: DatabaseSync) {
    this.#db = db;
  }

  /**
   * Opens the file, or creates it.
   *
   * @throws {CliError} `CLI_FILE_UNSAFE`, `CLI_FILE_INVALID`, `CLI_SAVE_FAILED`
   */
  static open(path: string): Database {
    makePrivate(path);
    let db: DatabaseSync | undefined;
    try {
      db = new DatabaseSync(path);
      // FULL: with a write-ahead log, a commit is on disk when it returns.
      db.exec("PRAGMA busy_timeout = 5000; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
      // A negative size is in KiB.
      db.exec(`PRAGMA cache_size = -${CONNECTOR_LIMITS.databaseCacheBytes / 1024}`);
      migrate(db, path);
      return new Database(db);
    } catch (error) {
      db?.close();
      if (error instanceof CliError) throw error;
      throw new CliError(
        "CLI_FILE_INVALID",
        `${path} cannot be used: ${reason(error)}. Move it away to start with an empty one`,
      );
    }
  }

  /** Runs one statement without result rows. Returns the number of changed rows. */
  run(sql: string, ...values: Cell[]): number {
    return Number(this.#prepared(sql).run(...values).changes);
  }

  /** The first row, or `null`. */
  get(sql: string, ...values: Cell[]): Row | null {
    return this.#prepared(sql).get(...values) as Row | undefined ?? null;
  }

  all(sql: string, ...values: Cell[]): Row[] {
    return this.#prepared(sql).all(...values) as Row[];
  }

  /** Runs `work` in one transaction. All of it is on disk when this returns, or none of it after an error. */
  transaction<T>(work: () => T): T {
    this.#db.exec("BEGIN IMMEDIATE");
    try {
      const result = work();
      this.#db.exec("COMMIT");
      return result;
    } catch (error) {
      // SQLite ends the transaction itself when the disk is full. The first error is the one to report (D-247).
      if (this.#db.isTransaction) this.#db.exec("ROLLBACK");
      throw named(error);
    }
  }

  /** The same without waiting for the disk: for changes that may be lost with the power and are safe to repeat. */
  transactionWithoutSync<T>(work: () => T): T {
    this.#db.exec("PRAGMA synchronous = NORMAL");
    try {
      return this.transaction(work);
    } finally {
      this.#db.exec("PRAGMA synchronous = FULL");
    }
  }

  close(): void {
    this.#statements.clear();
    this.#db.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #prepared(sql: string): StatementSync {
    const known = this.#statements.get(sql);
    if (known) return known;
    const statement = this.#db.prepare(sql);
    this.#statements.set(sql, statement);
    return statement;
  }
}

/** The error to report for an error of SQLite. */
function named(error: unknown): unknown {
  if (!(error instanceof Error) || !/disk is full/.test(error.message)) return error;
  return new Error(`disk full: ${error.message}`, { cause: error });
}

/** Ensures that the file exists, is a plain file and is private. SQLite gives its companion files the same mode. */
function makePrivate(path: string): void {
  try {
    Deno.openSync(path, { write: true, createNew: true, mode: 0o600 }).close();
    return;
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) {
      throw new CliError("CLI_SAVE_FAILED", `${path} could not be created: ${reason(error)}`, { cause: error });
    }
  }
  const stat = Deno.lstatSync(path);
  if (!stat.isFile) throw new CliError("CLI_FILE_UNSAFE", `${path} is not a plain file`);
  if (stat.mode !== null && (stat.mode & 0o077) !== 0) Deno.chmodSync(path, 0o600);
}
