/** A damaged `connector.db`: it is named with what to do, at the start and in the middle of work. */
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { Database } from "../../../cli/connector/store/database.ts";
import { CliError } from "../../../cli/errors.ts";
import { World } from "../../support/world.ts";
import { story } from "./bench.ts";
import { FailingDisk } from "./failing_disk.ts";
import { OPTIONS, store } from "./store/disk.ts";
import { ConnectorStore } from "../../../cli/connector/store/store.ts";
import { asker, post } from "./local_api/local_caller.ts";

const PAGE = 4_096;
/** Codes of SQLite: a part of the file is damaged, and it is no database at all. */
const CORRUPT = 11, NOT_A_DATABASE = 26;

/** A closed database with many rows, in a folder of its own. */
async function written(prefix = "svc_damaged_"): Promise<{ path: string } & AsyncDisposable> {
  const folder = await Deno.makeTempDir({ prefix });
  const path = `${folder}/connector.db`;
  using db = new ConnectorStore(Database.open(path), OPTIONS);
  const inbox = db.received;
  for (let n = 0; n < 100; n++) store(inbox, `request-${n}`, { payload: JSON.stringify("x".repeat(3_000)) });
  return { path, [Symbol.asyncDispose]: () => Deno.remove(folder, { recursive: true }) };
}

Deno.test("a file that lost a part is refused at the start, and nothing in it changes", async (t) => {
  const cases: [what: string, from: number, bytes: number][] = [
    ["its head", 0, 100],
    ["the schema", 100, 400],
    ["a root page", 3 * PAGE, PAGE],
    ["pages of messages", 40 * PAGE, 10 * PAGE],
  ];
  for (const [what, from, bytes] of cases) {
    await t.step(what, async () => {
      await using disk = await written();
      const damaged = Deno.readFileSync(disk.path).fill(0xab, from, from + bytes);
      Deno.writeFileSync(disk.path, damaged);
      const { code, message, fix } = assertThrows(() => Database.open(disk.path), CliError);
      assertEquals([code, message.startsWith(`${disk.path} is damaged: `)], ["CLI_FILE_INVALID", true]);
      assertStringIncludes(fix ?? "", "Move it away");
      assert(!message.includes("\\n"), message);
      assertEquals(Deno.readFileSync(disk.path), damaged);
    });
  }
  await t.step("the end of the file, and its folder has a blank", async () => {
    await using disk = await written("svc damaged ");
    Deno.truncateSync(disk.path, 30 * PAGE);
    const { code, fix } = assertThrows(() => Database.open(disk.path), CliError);
    assertEquals(code, "CLI_FILE_INVALID");
    assertStringIncludes(fix ?? "", `sqlite3 '${disk.path}' .recover`);
  });
});

Deno.test("a file that the system does not let svc open is not called damaged, because its messages are whole", async () => {
  await using disk = await written();
  // Root could open what only lacks permissions. A folder in place of the log is refused to everyone.
  Deno.mkdirSync(`${disk.path}-wal`);
  const { code, message, fix } = assertThrows(() => Database.open(disk.path), CliError);
  assertEquals([code, fix], ["CLI_SAVE_FAILED", undefined]);
  assertStringIncludes(message, `${disk.path}-wal could not be written: Is a directory`);
  Deno.removeSync(`${disk.path}-wal`);
  using db = new ConnectorStore(Database.open(disk.path), OPTIONS);
  assertEquals(db.received.waiting().length, 100);
});

Deno.test("nothing is acknowledged once the file was removed or replaced, and the connector ends", async (t) => {
  const ways: Record<string, (path: string) => void> = {
    removed: (path) => Deno.removeSync(path),
    replaced(path) {
      Deno.copyFileSync(path, `${path}.copy`);
      Deno.renameSync(`${path}.copy`, path);
    },
  };
  for (const [way, change] of Object.entries(ways)) {
    await t.step(way, async () => {
      await using disk = await written();
      const told: unknown[] = [];
      using db = new ConnectorStore(Database.open(disk.path), { ...OPTIONS, onDamaged: (error) => told.push(error) });
      store(db.received, "before");
      change(disk.path);
      const error = assertThrows(() => store(db.received, "after"), CliError, "was removed or replaced");
      assertEquals([error.code, told], ["CLI_FILE_INVALID", [error]]);
    });
  }
});

Deno.test("a file without a table is refused, and names the table", async () => {
  await using disk = await written();
  {
    using db = new DatabaseSync(disk.path);
    db.exec("DROP TABLE receipts; DROP TABLE tasks");
  }
  const { code, message } = assertThrows(() => Database.open(disk.path), CliError);
  assertEquals([code, message], ["CLI_FILE_INVALID", `${disk.path} is damaged: it lacks the table receipts, tasks`]);
});

Deno.test("damage that shows later ends the connector with the same error", async (t) => {
  const trials: [what: string, pull: (at: Awaited<ReturnType<typeof start>>) => Promise<unknown>, code?: number][] = [
    ["a message arrives", ({ world, a, b }) => world.message(a, b)],
    ["a program lists the inbox", ({ ask }) => ask("/v1/inbox")],
    ["a program sends", ({ ask, a }) => ask("/v1/outbound", post({ to: a.agent.did, text: "hi" }))],
    ["a program asks for the status", ({ ask }) => ask("/v1/status")],
    ["time passes", ({ world }) => world.clock.advance(20 * 60_000)],
    ["the file was replaced", ({ ask }) => ask("/v1/inbox"), NOT_A_DATABASE],
  ];
  for (const [what, pull, code = CORRUPT] of trials) {
    await t.step(what, async () => {
      await using at = await start();
      at.disk.damage = code;
      await pull(at);
      for (let s = 0; s < 10; s++) await at.world.clock.advance(1_000);
      const why = await at.bench.ended;
      assert(why instanceof CliError, String(why));
      assertEquals(why.code, "CLI_FILE_INVALID");
      assertEquals(at.bench.eventsOf("defect"), []);
    });
  }
});

/** A connector whose file becomes damaged. */
async function start() {
  const world = await World.open();
  const disk = new FailingDisk();
  const { a, b, bench } = await story(world, { database: disk.open, platform: "inbox" });
  return {
    world,
    disk,
    a,
    b,
    bench,
    ask: asker(bench),
    async [Symbol.asyncDispose]() {
      disk.damage = null;
      await world[Symbol.asyncDispose]();
    },
  };
}

Deno.test("a database that was moved away without its journal, after a kill, is named and nothing is deleted", async () => {
  await using disk = await written();
  using db = new ConnectorStore(Database.open(disk.path), OPTIONS);
  store(db.received, "newest");
  // What a kill leaves: the last connection of a process that ends by itself would remove the journal.
  const parts = ["-wal", "-shm"].map((end) => [end, Deno.readFileSync(disk.path + end)] as const);
  const whole = Deno.readFileSync(disk.path), moved = `${disk.path}.moved`;
  const left = `${await Deno.makeTempDir({ dir: disk.path.slice(0, -"/connector.db".length) })}/connector.db`;
  for (const [end, bytes] of parts) Deno.writeFileSync(left + end, bytes);
  const { code, message, fix } = assertThrows(() => Database.open(left), CliError);
  assertEquals([code, message], ["CLI_FILE_INVALID", `${left} was moved without the files that belong to it`]);
  assertStringIncludes(fix ?? "", `Move ${left}-wal and ${left}-shm to the same place`);
  for (const [end, bytes] of parts) assertEquals(Deno.readFileSync(left + end), bytes);
  Deno.writeFileSync(moved, whole);
  for (const [end] of parts) Deno.renameSync(left + end, moved + end);
  using together = new ConnectorStore(Database.open(moved), OPTIONS);
  assertEquals(together.received.counts().waiting, 101);
  using _fresh = Database.open(left);
});
