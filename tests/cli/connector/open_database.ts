/**
 * Opens a `connector.db` as the connector does. Prints a line before, and kills itself with SIGKILL just before the n-th
 * SQL statement; 0: never. deno run -A tests/cli/connector/open_database.ts <path> <n>
 */
import { DatabaseSync } from "node:sqlite";
import { Database } from "../../../cli/connector/store/database.ts";

const [path = "", n] = Deno.args;
let left = Number(n);
const { exec } = DatabaseSync.prototype;
DatabaseSync.prototype.exec = function (sql: string): void {
  if (--left === 0) Deno.kill(Deno.pid, "SIGKILL");
  exec.call(this, sql);
};
console.log("opening");
Database.open(path)[Symbol.dispose]();
