/** The steps of the schema of `connector.db` (D-115). */
import { assertEquals, assertThrows } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { Database } from "../../../../cli/connector/delivery/database.ts";
import { Inbox } from "../../../../cli/connector/delivery/inbox.ts";
import { migrate, SCHEMA_VERSION } from "../../../../cli/connector/delivery/migrations.ts";
import { CliError } from "../../../../cli/errors.ts";
import { rowsOfOldDatabase, writeOldDatabase } from "../../../support/old_database.ts";

async function inFolder(run: (path: string) => void): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc_schema_" });
  try {
    run(`${folder}/connector.db`);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Tables, indexes and columns of a database. */
function schemaOf(path: string): unknown {
  using db = new DatabaseSync(path);
  const named = db.prepare("SELECT type, name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY type, name")
    .all();
  const tables = named.filter(({ type }) => type === "table");
  const columns = tables.map(({ name }) => db.prepare(`SELECT * FROM pragma_table_info('${name}')`).all());
  return { named, columns, version: db.prepare("PRAGMA user_version").get() };
}

Deno.test("a database of schema version 1 keeps every row, and its waiting messages wait", () =>
  inFolder((path) => {
    writeOldDatabase(path, 3);
    const before = rowsOfOldDatabase(path);
    using db = Database.open(path);
    assertEquals(rowsOfOldDatabase(path), before);
    const inbox = new Inbox(db);
    assertEquals(inbox.waiting().map(({ seq }) => seq), [1, 2, 3]);
    assertEquals(db.all("SELECT DISTINCT in_reply_to, auto, read_at FROM messages").map((row) => ({ ...row })), [
      { in_reply_to: null, auto: 0, read_at: null },
    ]);
  }));

Deno.test("a converted database has the tables, columns and indexes of a new one", () =>
  inFolder((path) => {
    writeOldDatabase(path, 1);
    Database.open(path).close();
    const fresh = `${path}.new`;
    Database.open(fresh).close();
    assertEquals(schemaOf(path), schemaOf(fresh));
  }));

Deno.test("a step that fails leaves the version before it, and the next start repeats it", () =>
  inFolder((path) => {
    writeOldDatabase(path, 1);
    const before = schemaOf(path);
    {
      using db = new DatabaseSync(path);
      db.exec("CREATE TABLE tasks (x)");
      assertThrows(() => migrate(db, path), Error, "tasks already exists");
      db.exec("DROP TABLE tasks");
    }
    assertEquals(schemaOf(path), before);
    Database.open(path).close();
  }));

Deno.test("a database of a later version is refused and left unchanged", () =>
  inFolder((path) => {
    {
      using db = new DatabaseSync(path);
      db.exec(`PRAGMA user_version = ${SCHEMA_VERSION + 1}`);
    }
    const before = Deno.readFileSync(path);
    assertThrows(() => Database.open(path), CliError, "later svc");
    assertEquals(Deno.readFileSync(path).subarray(100), before.subarray(100));
  }));
