/**
 * What waits for the disk between a question and its answer through the tools: only what another agent or a caller is
 * about to learn. Each such commit takes a millisecond or more of the way.
 */
import { assertEquals } from "@std/assert";
import { type Cell, Database } from "../../../cli/connector/store/database.ts";
import { World } from "../../support/world.ts";
import { Bench } from "../connector/bench.ts";
import { McpClient } from "./mcp_client.ts";

/** Opens a database that notes which of its commits wait for the disk and change something. */
function noting(commits: string[]) {
  return (path: string): Database => {
    const database = Database.open(path);
    const { run, get, transaction, transactionWithoutSync } = database;
    let isSynced = true, changed = "";
    // The table of the first row that a transaction changes.
    const note = (sql: string) => changed ||= /^(?:INSERT INTO|UPDATE|DELETE FROM) (\w+)/.exec(sql)?.[1] ?? "";
    database.run = (sql, ...values) => {
      const count = run.call(database, sql, ...values);
      if (count > 0) note(sql);
      return count;
    };
    database.get = <R extends object>(sql: string, ...values: Cell[]) => {
      const row = get.call(database, sql, ...values) as R | null;
      if (row !== null) note(sql);
      return row;
    };
    database.transaction = <T>(work: () => T): T => {
      changed = "";
      const result = transaction.call(database, work) as T;
      if (isSynced && changed !== "") commits.push(changed);
      return result;
    };
    database.transactionWithoutSync = <T>(work: () => T): T => {
      isSynced = false;
      try {
        return transactionWithoutSync.call(database, work) as T;
      } finally {
        isSynced = true;
      }
    };
    return database;
  };
}

Deno.test("of a question and its answer, what arrives and what a caller learns waits for the disk, and nothing else", async () => {
  await using world = await World.open();
  const [a, b] = [await world.agent(undefined, "alpha"), await world.agent(undefined, "beta")];
  await world.pair(a, b);
  const commits = { alpha: [] as string[], beta: [] as string[] };
  const alphaBench = await Bench.open(world, a, { platform: "inbox", database: noting(commits.alpha) });
  const betaBench = await Bench.open(world, b, { platform: "inbox", database: noting(commits.beta) });
  const alpha = await McpClient.open(world, alphaBench);
  const beta = await McpClient.open(world, betaBench);
  const asking = alpha.call("send_message", { to: "beta", text: "?", wait_seconds: 45 });
  const { messages: [question] } = await beta.passing(beta.data("wait_for_message"));
  await beta.data("send_message", { to: "alpha", text: "!", reply_to: question.id });
  assertEquals((await alpha.passing(asking)).data.reply.text, "!");
  // The state of the own message, and the message of the other agent, in either order.
  assertEquals([commits.alpha.sort(), commits.beta.sort()], [["messages", "sent"], ["messages", "sent"]]);
});
