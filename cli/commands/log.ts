/** `svc log`: what an agent and its peers have written to each other. */
import { LIMITS } from "../../shared/protocol/limits.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { call, callForText, get, type LocalCalls, post } from "../../shared/client/local_client.ts";
import { Forgotten, type LogEntry, LogPage } from "../../shared/client/local_shapes.ts";
import { chosenAgent } from "../agents/agent_store.ts";
import { AGENT_OPTION, command, REGISTRY_OPTIONS } from "../command_line/command.ts";
import { parseCount, parseDuration } from "../command_line/numbers.ts";
import { access } from "../connector/attach.ts";
import { CONNECTOR_LIMITS as LIMIT } from "../connector/limits.ts";
import { messageLines } from "../connector/talk/log_text.ts";
import type { Context } from "../context.ts";
import { CliError, EXIT } from "../errors.ts";
import { type WithText, withTexts } from "../messages/received.ts";
import { painted } from "../terminal/escapes.ts";
import { isConfirmed } from "./confirm.ts";

/** How many messages are printed by default and at most, because all their texts are in memory. */
const PRINTED = 50, PRINTED_MAX = 1_000;

export const COMMANDS = [
  command({
    path: ["log"],
    summary: "Print what the agent and its peers have written, in order",
    details: [
      `Texts of read and sent messages are kept ${LIMITS.historyDays} days, or as many as svc profile set historyDays says. A`,
      "message that went to a runtime has no text here.",
    ],
    args: { peer: { summary: "Only messages with this peer, an alias or a DID", optional: true, complete: "peers" } },
    options: {
      ...AGENT_OPTION,
      since: { value: "time", summary: "Only messages of this time, for example 2d, 3h or 30min" },
      search: { value: "text", summary: "Only messages with this text, without regard to case" },
      limit: { value: "count", summary: `Most messages to print, 1 to ${PRINTED_MAX} (default ${PRINTED})` },
      export: { summary: "Print all of them as JSON lines, oldest first; the last line counts them" },
      forget: { summary: "Blank the texts of read messages and of sent ones that have ended" },
      yes: { summary: "Do not ask for confirmation of --forget" },
      "allow-insecure": REGISTRY_OPTIONS["allow-insecure"],
    },
    examples: {
      "svc log beta --since 2d": "What was said with beta in two days",
      "svc log --search port": "Every message that contains port",
      "svc log --export": "All texts as JSON lines, to keep them elsewhere",
    },
    async run(ctx, { args: { peer }, options }) {
      const { since, search, limit, forget } = options;
      const isAll = since === undefined && search === undefined && limit === undefined;
      if (forget && (options.export || !isAll)) {
        throw new CliError("CLI_USAGE", "--forget is for all messages of a peer, or of all; it takes no other option");
      }
      if (options.export && limit !== undefined) {
        throw new CliError("CLI_USAGE", "--export prints all; --limit is not for it");
      }
      const query = {
        peer,
        since: since === undefined ? undefined : toIso(ctx.clock.now() - parseDuration(since, "--since")),
        search,
        limit: parseCount(limit ?? `${PRINTED}`, "--limit", PRINTED_MAX),
      };
      const folder = await chosenAgent(ctx, options.agent);
      const question = `Blank the texts with ${peer ?? "all peers"}? They cannot be read again.`;
      if (forget && !await isConfirmed(ctx, options.yes, question)) return EXIT.failed;
      await using connector = await access(ctx, folder);
      if (options.export) return await exportLog(ctx, connector, query);
      if (!forget) return await printLog(ctx, connector, query);
      const { forgotten } = await call(connector, Forgotten, post("/v1/log/forget", { peer }));
      ctx.out.result({ forgotten }, `${forgotten} ${forgotten === 1 ? "text is" : "texts are"} blanked.`);
    },
  }),
];

interface LogQuery {
  /** Alias or DID; without it the messages of all peers. */
  peer: string | undefined;
  /** ISO 8601. */
  since: string | undefined;
  search: string | undefined;
  limit: number;
}

/** Prints the newest messages, oldest first. */
async function printLog(ctx: Context, connector: LocalCalls, query: LogQuery): Promise<void> {
  const found: WithText<LogEntry>[] = [];
  let next: string | null = null;
  do {
    const page = await readPage(connector, query, next === null ? {} : { before: next });
    found.push(...page.messages);
    next = page.next;
  } while (next !== null && found.length < query.limit);
  const more = next !== null || found.length > query.limit;
  const shown = found.slice(0, query.limit).reverse();
  if (ctx.out.json) {
    ctx.out.jsonLine(`{"messages":[${shown.map(({ json }) => json).join(",")}],"more":${more}}`);
    return;
  }
  if (shown.length === 0) ctx.out.note(query.search === undefined ? "No messages." : "No message has this text.");
  const place = { columns: ctx.out.columns, now: ctx.clock.now(), isWhole: true };
  ctx.out.peerLines(messageLines(shown.map(({ message }) => message), place).map((line) => painted(line, false)));
  if (more) ctx.out.more("older messages", query.limit < PRINTED_MAX, "--export prints all");
}

/** Prints every message as a line of JSON, oldest first, and then their number. */
async function exportLog(ctx: Context, connector: LocalCalls, query: LogQuery): Promise<void> {
  let count = 0;
  for (let next: string | null = "0-0"; next !== null;) {
    const page = await readPage(connector, { ...query, limit: LIMIT.pageMessagesMax }, { after: next });
    for (const { json } of page.messages) if (!ctx.out.jsonLine(json)) return;
    count += page.messages.length;
    next = page.next;
  }
  ctx.out.jsonLine(JSON.stringify({ count }));
}

async function readPage(
  connector: LocalCalls,
  { limit, ...filters }: LogQuery,
  place: { before?: string; after?: string },
): Promise<{ messages: WithText<LogEntry>[]; next: string | null }> {
  const request = get("/v1/log", { ...place, ...filters, limit: Math.min(limit, LIMIT.pageMessagesMax) });
  const { body, json } = await callForText(connector, LogPage, request);
  return { messages: withTexts(body.messages, json), next: body.next };
}
