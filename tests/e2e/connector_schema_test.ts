/**
 * kill -9 of a process that converts `connector.db` (D-115): before each statement of the step, and at random moments.
 * The next start opens the file with every row. 8 random trials; more with `-- --trials n`.
 */
import { assert, assertEquals } from "@std/assert";
import { rowsOfOldDatabase, writeOldDatabase } from "../support/old_database.ts";
import { ChildProcess, tempFolder, within } from "../support/process.ts";
import { trials } from "../support/trials.ts";

const ROWS = 1_000;

const open = (path: string, n: number) =>
  new ChildProcess(["run", "-A", "--no-check", "tests/cli/connector/open_database.ts", path, String(n)]);

Deno.test("a database whose conversion is killed opens at the next start with every row", async () => {
  await using folder = await tempFolder();
  const original = `${folder.path}/original.db`;
  writeOldDatabase(original, ROWS);
  const rows = rowsOfOldDatabase(original);
  const path = `${folder.path}/connector.db`;
  const opens = async (what: string) => {
    await using again = open(path, 0);
    assertEquals((await within(30_000, "the next start", again.status)).code, 0, `${what}\n${again.printed}`);
    assertEquals(rowsOfOldDatabase(path), rows, what);
  };
  const restore = async () => {
    for (const end of ["", "-wal", "-shm"]) await Deno.remove(path + end).catch(() => {});
    await Deno.copyFile(original, path);
  };
  let kills = 0;
  for (let n = 1;; n++) {
    await restore();
    await using child = open(path, n);
    const { signal, code } = await within(30_000, `statement ${n}`, child.status);
    if (signal === null) {
      assertEquals(code, 0, child.printed);
      break;
    }
    kills++;
    await opens(`killed before statement ${n}`);
  }
  assert(kills >= 10, `${kills} statements`);
  for (let trial = 0; trial < trials(8); trial++) {
    await restore();
    await using child = open(path, 0);
    await within(30_000, "the process opens the file", child.stdout.match(/opening/));
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 30));
    child.signal("SIGKILL");
    await child.status;
    kills++;
    await opens(`killed in trial ${trial}`);
  }
  console.log(`${kills} kills during the conversion of ${rows.length} rows`);
});
