/**
 * `connector.db` of the previous release (D-115): this version hands its waiting messages over, and the previous release
 * refuses the converted file. kill -9 of a process that converts it, before each statement of the step and at random
 * moments: the next start opens the file with every row. 8 random trials; more with `-- --trials n`.
 */
import { assert, assertEquals } from "@std/assert";
import { Listener, RunningConnector } from "../cli/connector/people.ts";
import { bundledProgram } from "../cli/program.ts";
import { previousRelease } from "../support/previous_release.ts";
import { rowsOfOldDatabase, writeOldDatabase } from "../support/old_database.ts";
import { ChildProcess, eventually, Service, tempFolder, within } from "../support/process.ts";
import { trials } from "../support/trials.ts";
import { pairedAgents } from "./harness.ts";

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

const previous = await previousRelease();

Deno.test({
  name: "messages that the previous release has stored are handed over, and it refuses the converted database",
  ignore: previous === null,
  async fn() {
    if (previous === null) return;
    await using service = await Service.open();
    await using folder = await tempFolder();
    const program = await bundledProgram();
    const { a, b } = await pairedAgents(service, folder.path, previous.program);
    const down = ["--runtime-base-url", "http://127.0.0.1:9"];
    const ids: string[] = [];
    {
      await using old = await RunningConnector.start(folder.path, "b", down, { program: previous.program });
      for (const text of ["one", "two"]) {
        const payload = JSON.stringify({ message: text });
        const { delivered, requestId } = await a.client.sendMessage({ recipientDid: b.agent.did, payload });
        assertEquals(delivered, true);
        ids.push(requestId);
      }
      old.child.signal("SIGKILL");
    }
    await using runtime = new Listener();
    {
      const line = ["--runtime-base-url", runtime.url];
      await using _connector = await RunningConnector.start(folder.path, "b", line, { program });
      await eventually(30_000, "both have their receipt", async () => {
        const lists = await Promise.all(ids.map((id) => a.client.receipts(id, b.agent.did)));
        return lists.every(({ receipts }) => receipts[0]?.status === "processed_by_svc") || undefined;
      });
    }
    assertEquals(runtime.received.map(({ headers }) => headers.get("x-request-id")), ids);
    const line = [...previous.program.args, "connector", "start", "b", "--config-dir", folder.path, "--json", ...down];
    await using refused = new ChildProcess(line, {}, previous.program.command);
    const { code } = await within(60_000, "the previous release refuses to start", refused.status);
    assert(code !== 0, refused.printed);
    const { error } = JSON.parse(refused.stderr.text);
    assertEquals(error.code, "CLI_FILE_INVALID");
    assert(/connector\.db was written by a later svc: update svc/.test(error.message), error.message);
  },
});
