/**
 * Which platform an agent is remembered on, and the question before its unread messages go to a runtime: they were
 * kept for their reader, and a runtime that has them cannot be made to give them back.
 */
import { join } from "node:path";
import type { AgentFolder } from "../../agents/agent_store.ts";
import type { Context } from "../../context.ts";
import { CliError } from "../../errors.ts";
import { kindOf } from "../../files/private_files.ts";
import type { RuntimeTarget } from "../../platforms/platform.ts";
import { PLATFORMS } from "../../platforms/table.ts";
import { Database } from "../store/database.ts";
import { emptyRuntimeFile, readRuntimeFileIn, RUNTIME_FILE } from "./runtime_file.ts";

/**
 * Asks before unread messages of an agent that read them itself go to a runtime.
 *
 * @throws {CliError} `CLI_PLATFORM_CHANGE` when the person declines or cannot be asked
 */
export async function confirmChange(
  ctx: Pick<Context, "confirm" | "out">,
  folder: AgentFolder,
  target: Pick<RuntimeTarget, "platform"> | null,
  isAgreed: boolean,
): Promise<void> {
  if (target === null || isAgreed || readRuntimeFileIn(folder)?.platform !== "inbox") return;
  const unread = await countUnread(folder);
  if (unread === 0) return;
  const what = `${unread} unread ${unread === 1 ? "message" : "messages"} of ${folder.name} ${
    unread === 1 ? "goes" : "go"
  } to ${PLATFORMS[target.platform].name} now`;
  const canAsk = ctx.confirm !== null && !ctx.out.json;
  if (canAsk) ctx.out.finish();
  if (!canAsk || !await ctx.confirm?.(`${what}. Continue?`)) throw new CliError("CLI_PLATFORM_CHANGE", what);
}

/** Remembers that nothing chose a platform, so the agent reads its messages until a choice is made. Returns true when this is new. */
export async function rememberInbox(folder: AgentFolder): Promise<boolean> {
  if (folder.read(RUNTIME_FILE) !== null) return false;
  await folder.writeJson(RUNTIME_FILE, { ...emptyRuntimeFile("inbox"), chosen: "default" });
  return true;
}

/** Forgets that nothing chose a platform, because a choice for every agent was made and agreed to. */
export async function forgetDefault(folder: AgentFolder): Promise<void> {
  if (readRuntimeFileIn(folder)?.chosen === "default") await folder.remove(RUNTIME_FILE);
}

async function countUnread(folder: AgentFolder): Promise<number> {
  const path = join(folder.path, "connector.db");
  if (await kindOf(path) === "none") return 0;
  using database = Database.open(path);
  return Number(database.get("SELECT count(*) AS n FROM messages WHERE state = 'waiting'")?.n ?? 0);
}
