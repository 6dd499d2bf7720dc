/**
 * kill -9 of a process that makes `connector.db`, before each statement and at random moments: the next start opens the
 * file with all of its tables. One random trial; more with `-- --trials n`.
 */
import { assert, assertEquals } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { ChildProcess, tempFolder, within } from "../support/process.ts";
import { trials } from "../support/trials.ts";

const open = (path: string, n: number) =>
  new ChildProcess(["run", "-A", "--no-check", "tests/cli/connector/open_database.ts", path, String(n)]);

/** Names and definitions of the tables and indexes. */
function schemaOf(path: string): unknown[] {
  using db = new DatabaseSync(path);
  return db.prepare("SELECT name, sql FROM sqlite_schema ORDER BY name").all();
}

Deno.test("a database whose making is killed opens at the next start with every table", async () => {
  await using folder = await tempFolder();
  const whole = `${folder.path}/whole.db`;
  await using first = open(whole, 0);
  assertEquals((await first.status).code, 0, first.printed);
  const path = `${folder.path}/connector.db`;
  const opens = async (what: string) => {
    await using again = open(path, 0);
    assertEquals((await within(30_000, "the next start", again.status)).code, 0, `${what}\n${again.printed}`);
    assertEquals(schemaOf(path), schemaOf(whole), what);
    for (const end of ["", "-wal", "-shm"]) await Deno.remove(path + end).catch(() => {});
  };
  let kills = 0;
  for (let n = 1;; n++) {
    await using child = open(path, n);
    const { signal, code } = await within(30_000, `statement ${n}`, child.status);
    if (signal === null) {
      assertEquals(code, 0, child.printed);
      break;
    }
    kills++;
    await opens(`killed before statement ${n}`);
  }
  assert(kills >= 4, `${kills} statements`);
  for (let trial = 0; trial < trials(1); trial++) {
    await using child = open(path, 0);
    await within(30_000, "the process opens the file", child.stdout.match(/opening/));
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 30));
    child.signal("SIGKILL");
    await child.status;
    await opens(`killed in trial ${trial}`);
  }
});
