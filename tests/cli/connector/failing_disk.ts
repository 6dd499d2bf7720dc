/** A database whose disk becomes full, or whose file turns out to be damaged, while a connector uses it. */
import { DatabaseSync } from "node:sqlite";
import { Database } from "../../../cli/connector/store/database.ts";

export const FULL = "database or disk is full";

export class FailingDisk {
  /** Commits fail. As in SQLite, the transaction is already over then. */
  isFull = false;
  /** Commits succeed anyway, as those do for which the log has room. */
  hasRest = false;
  /** It becomes full with the next commit, which still succeeds. */
  fillsUp = false;
  /** Code of SQLite with which every statement fails, as when a page that it needs is damaged; `null`: none fails. */
  damage: number | null = null;

  open = (path: string): Database => {
    Database.open(path)[Symbol.dispose]();
    const db = new DatabaseSync(path);
    return new Database(
      new Proxy(db, {
        get: (target, name) => {
          if (name === "exec") return (sql: string) => this.#exec(target, sql);
          if (name === "prepare") return (sql: string) => this.#failing(target.prepare(sql));
          const value: unknown = Reflect.get(target, name);
          return typeof value === "function" ? value.bind(target) : value;
        },
      }),
      path,
      null,
      () => this.isFull,
    );
  };

  #exec(db: DatabaseSync, sql: string): void {
    if (this.isFull && !this.hasRest && sql === "COMMIT") {
      db.exec("ROLLBACK");
      throw new Error(FULL);
    }
    db.exec(sql);
    if (sql === "COMMIT" && this.fillsUp) this.isFull = true;
  }

  #failing<T extends object>(statement: T): T {
    return new Proxy(statement, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name);
        if (typeof value !== "function") return value;
        return (...given: unknown[]) => {
          if (this.damage === null) return value.apply(target, given);
          throw Object.assign(new Error("database disk image is malformed"), { errcode: this.damage });
        };
      },
    });
  }
}
