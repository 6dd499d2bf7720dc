/**
 * `connector.db`: the connector's SQLite database (D-88). The file is private before SQLite opens it, and a transaction
 * is on disk when it returns. schema.ts defines the tables, and the files beside it the meaning of rows.
 */
import { statfsSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { CliError } from "../../errors.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { reason, saveFailed } from "../../files/private_files.ts";
import { shellWord } from "../../terminal/output.ts";
import { ensureTables, missingTables } from "./schema.ts";

/** Pages in memory; few, because one process may have the databases of hundreds of agents open. */
const CACHE_KIB = 256;
/** Size of the file `-shm` that SQLite makes beside a database when it opens it. */
const LOG_INDEX_BYTES = 32 * 1024;

export type Cell = string | number | null;
export type Row = Record<string, Cell>;

/** Bytes that must be free before a disk that was full counts as free again: with less, the next message may not fit. */
const ROOM_BYTES = LIMITS.frameBytes;
const FULL = "The disk is full";

/** The disk is full: nothing was stored. */
export class DiskFullError extends CliError {
  constructor(cause: unknown) {
    super("CLI_SAVE_FAILED", FULL, { cause });
  }
}

export class Database implements Disposable {
  readonly #statements = new Map<string, StatementSync>();
  #afterCommit: (() => void)[] = [];
  /** Called when the file turns out to be damaged, also from the middle of work. A retry cannot help. */
  onDamaged: (error: CliError) => void = () => {};
  /** Whether a write has found the disk full, and no look has found room since. */
  #isFull = false;

  /** Wraps a database that already has the schema. `file` says which file it is, if that must stay at the path. */
  constructor(
    private readonly db: DatabaseSync,
    private readonly path: string,
    private readonly file: string | null = null,
    private readonly lacks: typeof lacksRoom = lacksRoom,
  ) {}

  /**
   * Why messages cannot be stored; `null` when they can. Looks at the disk itself, because a small write may find room in
   * the log where the next message finds none.
   */
  get problem(): string | null {
    this.#isFull &&= this.lacks(this.path, ROOM_BYTES);
    return this.#isFull ? FULL : null;
  }

  /**
   * Opens the file, or creates it. A file that lost a part is refused here, because each message that needs the part
   * would later fail with an error of SQLite, and the connector would try it again.
   *
   * @throws {CliError} `CLI_FILE_UNSAFE`, `CLI_FILE_INVALID`, `CLI_SAVE_FAILED`
   */
  static open(path: string): Database {
    makePrivate(path);
    let db: DatabaseSync | undefined;
    try {
      db = new DatabaseSync(path);
      // FULL, because in the mode NORMAL a commit to a write-ahead log returns before it is on disk.
      db.exec("PRAGMA busy_timeout = 5000; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
      // A negative size is in KiB.
      db.exec(`PRAGMA cache_size = -${CACHE_KIB}`);
      const [problem] = db.prepare("PRAGMA quick_check(1)").all();
      if (problem?.quick_check !== "ok") throw damaged(path, String(problem?.quick_check).split("\n").join(" "));
      ensureTables(db, path);
      const missing = missingTables(db);
      if (missing.length > 0) throw damaged(path, `it lacks the table ${missing.join(", ")}`);
      return new Database(db, path, fileAt(path));
    } catch (error) {
      db?.close();
      if (error instanceof CliError) throw error;
      if (isFull(error) || lacksRoom(path, LOG_INDEX_BYTES)) {
        throw new CliError("CLI_SAVE_FAILED", `${path} could not be written: the disk is full`);
      }
      // A person who is told that it is damaged would move it away with its messages.
      if (isRefused(error)) throw refusalOf(path, error);
      throw damaged(path, reason(error));
    }
  }

  /** Runs one statement without result rows. Returns the number of changed rows. */
  run(sql: string, ...values: Cell[]): number {
    return this.#named(() => Number(this.#prepared(sql).run(...values).changes));
  }

  /** The first row, or `null`. The caller names the type that its columns have. */
  get<R extends object = Row>(sql: string, ...values: Cell[]): R | null {
    return this.#named(() => this.#prepared(sql).get(...values) as R | undefined ?? null);
  }

  all<R extends object = Row>(sql: string, ...values: Cell[]): R[] {
    return this.#named(() => this.#prepared(sql).all(...values) as R[]);
  }

  /** The number that a query returns; `null` when it returns none. */
  number(sql: string, ...values: Cell[]): number | null {
    return this.get<{ n: number | null }>(`SELECT (${sql}) AS n`, ...values)?.n ?? null;
  }

  /** The number of rows that fulfil a condition, and the sum of their bytes. */
  sums(bytes: string, table: "messages" | "sent", condition: string, ...values: Cell[]) {
    const sql = `SELECT count(*) AS rows, coalesce(sum(${bytes}), 0) AS bytes FROM ${table} WHERE ${condition}`;
    return this.get(sql, ...values) as { rows: number; bytes: number };
  }

  /** Runs one statement in a `transactionWithoutSync`. */
  runWithoutSync(sql: string, ...values: Cell[]): number {
    return this.transactionWithoutSync(() => this.run(sql, ...values));
  }

  /**
   * Runs `work` in one transaction. All of it is on disk when this returns, or none of it after an error.
   *
   * @throws {CliError} `CLI_FILE_INVALID` also when the file was removed or replaced, because what SQLite goes on to
   * write into the old one is gone at the end of the process, and a message would be acknowledged and lost
   */
  transaction<T>(work: () => T): T {
    return this.#told(() => {
      const result = this.#committed(work);
      if (this.file === null || fileAt(this.path) === this.file) return result;
      this.#afterCommit = [];
      const gone = new CliError("CLI_FILE_INVALID", `${this.path} was removed or replaced while svc uses it`, {
        fix: "Put the file back with those beside it, or start again: the connector then begins with an empty one.",
      });
      this.onDamaged(gone);
      throw gone;
    });
  }

  /** `transaction` without waiting for the disk: a power failure may lose the change, so it must be safe to repeat. */
  transactionWithoutSync<T>(work: () => T): T {
    return this.#told(() => {
      this.db.exec("PRAGMA synchronous = NORMAL");
      try {
        return this.#committed(work);
      } finally {
        this.db.exec("PRAGMA synchronous = FULL");
      }
    });
  }

  /** Calls a function once the present transaction is committed, and never if it fails; at once when there is none. */
  afterCommit(call: () => void): void {
    if (this.db.isTransaction) this.#afterCommit.push(call);
    else call();
  }

  /**
   * Commits, and then makes the calls that wait for the commit. They run after `synchronous` is `FULL` again, because a
   * call may write what must be on disk.
   */
  #told<T>(commit: () => T): T {
    const result = commit();
    for (const call of this.#afterCommit.splice(0)) call();
    return result;
  }

  #committed<T>(work: () => T): T {
    return this.#named(() => {
      this.db.exec("BEGIN IMMEDIATE");
      try {
        const result = work();
        this.db.exec("COMMIT");
        return result;
      } catch (error) {
        this.#afterCommit = [];
        // SQLite ends the transaction itself when the disk is full. The first error is the one to report.
        if (this.db.isTransaction) this.db.exec("ROLLBACK");
        throw error;
      }
    });
  }

  /** @throws {DiskFullError} @throws {CliError} `CLI_FILE_INVALID` */
  #named<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      if (isFull(error)) {
        this.#isFull = true;
        throw new DiskFullError(error);
      }
      if (!isCorrupt(error)) throw error;
      const named = damaged(this.path, reason(error));
      this.onDamaged(named);
      throw named;
    }
  }

  [Symbol.dispose](): void {
    this.db.close();
  }

  #prepared(sql: string): StatementSync {
    return this.#statements.getOrInsertComputed(sql, () => this.db.prepare(sql));
  }
}

/** Names the file that is at a path; an empty text without one, `null` where the system has no such name. */
function fileAt(path: string): string | null {
  const stat = statOf(path);
  return stat === null ? "" : stat.ino === null ? null : `${stat.dev} ${stat.ino}`;
}

/** Codes of SQLite: a part of the file is damaged; the file is not a database at all. */
const CORRUPT: readonly unknown[] = [11, 26];

function isCorrupt(error: unknown): boolean {
  return error instanceof Error && "errcode" in error && CORRUPT.includes(Number(error.errcode) & 0xff);
}

/** Returns true when the system does not let SQLite open or write the file, or one beside it. */
function isRefused(error: unknown): boolean {
  return error instanceof Error && /unable to open database file|readonly database/.test(error.message);
}

/** Names the file that this process may not write: the database, or one of those beside it. */
function refusalOf(path: string, error: unknown): CliError {
  for (const file of [path, `${path}-wal`, `${path}-shm`]) {
    try {
      Deno.openSync(file, { write: true }).close();
    } catch (cause) {
      if (!(cause instanceof Deno.errors.NotFound)) return saveFailed(file, "written", cause);
    }
  }
  return saveFailed(path, "written", error);
}

function isFull(error: unknown): boolean {
  return error instanceof Error && !(error instanceof DiskFullError) && /disk is full/.test(error.message);
}

/**
 * Whether so many bytes do not fit on the disk. SQLite reports only an I/O error when the index of its log does not fit,
 * and a person who is told that the file is damaged would move it away with its messages. The bytes are written, because
 * only that shows a quota, but not on a disk that is known to be full, because they would take its rest from others.
 */
export function lacksRoom(path: string, bytes: number): boolean {
  if (freeBytes(dirname(path)) < bytes) return true;
  const probe = `${path}-room`;
  try {
    Deno.writeFileSync(probe, new Uint8Array(bytes), { mode: 0o600 });
    return false;
  } catch (error) {
    return reason(error) === "the disk is full";
  } finally {
    try {
      Deno.removeSync(probe);
    } catch {
      // The file was never made.
    }
  }
}

function freeBytes(folder: string): number {
  try {
    const { bsize, bavail } = statfsSync(folder);
    return bsize * bavail;
  } catch {
    return Infinity;
  }
}

function damaged(path: string, why: string): CliError {
  return new CliError("CLI_FILE_INVALID", `${path} is damaged: ${why}`, {
    fix:
      `Move it away, with the files beside it that begin with its name; the connector then starts with an empty one. ` +
      `Messages in it are not delivered; to see them, as far as it has them: sqlite3 ${shellWord(path)} .recover`,
  });
}

/**
 * Ensures that the file exists, is a plain file and is private. SQLite gives its companion files the same mode. Refuses
 * a journal without its database, because after a kill the newest messages are in the journal alone, and SQLite would
 * delete the journal with a new database.
 */
function makePrivate(path: string): void {
  const stat = statOf(path);
  if (stat !== null) {
    if (!stat.isFile) throw new CliError("CLI_FILE_UNSAFE", `${path} is not a plain file`);
    if (stat.mode !== null && (stat.mode & 0o077) !== 0) Deno.chmodSync(path, 0o600);
    return;
  }
  if ((statOf(`${path}-wal`)?.size ?? 0) > 0) {
    const fix =
      `Move ${path}-wal and ${path}-shm to the same place, because they hold its newest messages. Then start again.`;
    throw new CliError("CLI_FILE_INVALID", `${path} was moved without the files that belong to it`, { fix });
  }
  try {
    Deno.openSync(path, { write: true, create: true, mode: 0o600 }).close();
  } catch (error) {
    throw saveFailed(path, "created", error);
  }
}

function statOf(path: string): Deno.FileInfo | null {
  try {
    return Deno.lstatSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw saveFailed(path, "read", error);
  }
}
