/** Prints what an agent and its peers have written to each other, for `svc log`. */
import { arrayElements } from "../../shared/protocol/json_text.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { call, callForText, get, type LocalCalls, post } from "../../shared/client/local_client.ts";
import { Forgotten, type LogEntry, LogPage } from "../../shared/client/local_shapes.ts";
import { chosenAgent } from "../agents/agent_reference.ts";
import { access } from "../connector/attach.ts";
import { CONNECTOR_LIMITS as LIMIT } from "../connector/limits.ts";
import { historyLines } from "../connector/talk/history.ts";
import type { Context } from "../context.ts";
import { painted } from "../terminal/styled.ts";
import { memberOf } from "./received.ts";

export interface LogCommand {
  agent: string | undefined;
  /** Alias or DID; absent: all peers. */
  peer: string | undefined;
  /** Only the last milliseconds. */
  sinceMs: number | undefined;
  search: string | undefined;
  /** Most messages to print; `export` prints all. */
  limit: number;
  allowInsecure: boolean;
}

/** Prints the newest messages, oldest first. @throws as `access` and `call` */
export async function printLog(ctx: Context, command: LogCommand): Promise<void> {
  const { folder } = await chosenAgent(ctx, command.agent);
  await using connector = await access(ctx, folder, { "allow-insecure": command.allowInsecure });
  const found: Shown[] = [];
  let next: string | null = null;
  do {
    const page = await readPage(connector, ctx, command, next === null ? {} : { before: next });
    found.push(...page.messages);
    next = page.next;
  } while (next !== null && found.length < command.limit);
  const more = next !== null || found.length > command.limit;
  const shown = found.slice(0, command.limit).reverse();
  if (ctx.out.json) {
    ctx.out.jsonLine(`{"messages":[${shown.map(({ json }) => json).join(",")}],"more":${more}}`);
    return;
  }
  if (shown.length === 0) ctx.out.note(command.search === undefined ? "No messages." : "No message has this text.");
  const place = { columns: ctx.out.columns, now: ctx.clock.now(), isWhole: true };
  ctx.out.peerLines(historyLines(shown.map(({ entry }) => entry), place).map((line) => painted(line, false)));
  if (more) ctx.out.note("There are older messages; --limit shows more of them.");
}

/** Prints every message as a line of JSON, oldest first, and their number. */
export async function exportLog(ctx: Context, command: LogCommand): Promise<void> {
  const { folder } = await chosenAgent(ctx, command.agent);
  await using connector = await access(ctx, folder, { "allow-insecure": command.allowInsecure });
  let count = 0;
  for (let next: string | null = "0-0"; next !== null;) {
    const page = await readPage(connector, ctx, { ...command, limit: LIMIT.pageMessagesMax }, { after: next });
    for (const { json } of page.messages) if (!ctx.out.jsonLine(json)) return;
    count += page.messages.length;
    next = page.next;
  }
  ctx.out.jsonLine(JSON.stringify({ count }));
}

/** Blanks the texts. Returns how many. */
export async function forgetLog(
  ctx: Context,
  { agent, peer, allowInsecure }: Pick<LogCommand, "agent" | "peer" | "allowInsecure">,
): Promise<number> {
  const { folder } = await chosenAgent(ctx, agent);
  await using connector = await access(ctx, folder, { "allow-insecure": allowInsecure });
  const body = peer === undefined ? {} : { peer };
  return (await call(connector, Forgotten, post("/v1/log/forget", body))).forgotten;
}

/** A message with its JSON text, in which the payload is byte for byte as its sender wrote it. */
interface Shown {
  entry: LogEntry;
  json: string;
}

async function readPage(
  connector: LocalCalls,
  ctx: Context,
  { peer, sinceMs, search, limit }: LogCommand,
  place: { before?: string; after?: string },
): Promise<{ messages: Shown[]; next: string | null }> {
  const query = new URLSearchParams({ ...place, limit: String(Math.min(limit, LIMIT.pageMessagesMax)) });
  if (peer !== undefined) query.set("peer", peer);
  if (sinceMs !== undefined) query.set("since", toIso(ctx.clock.now() - sinceMs));
  if (search !== undefined) query.set("search", search);
  const { body, json } = await callForText(connector, LogPage, get(`/v1/log?${query}`));
  const texts = arrayElements(memberOf(json, "messages"));
  return { messages: body.messages.map((entry, i) => ({ entry, json: texts[i] ?? "{}" })), next: body.next };
}
