/** `svc dead-letters …`: the messages that a connector gave up on. They need a running connector. */
import { toIso } from "../../shared/protocol/time.ts";
import { AGENT_OPTION, command } from "../command_line/command.ts";
import { parseCount } from "../command_line/numbers.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { idCell } from "../terminal/tables.ts";
import { statusOf } from "../connector/status.ts";
import { runningConnector } from "./connector/connector.ts";
import { call, get, post } from "../../shared/client/local_client.ts";
import { DeadLetters } from "../../shared/client/local_shapes.ts";
import { Purged, Replayed } from "../connector/local_api/inbox_handlers.ts";
import { shownAliases } from "../connector/peers/peers.ts";

/** Most dead letters of one listing. With more, the local API refuses the request. */
const MAX_LISTED = 1_000;
/** Most IDs of one request. With more, the local API refuses the whole request. */
const MAX_IDS = 10_000;

const IDS = { id: { summary: "Dead letter ID from svc dead-letters", optional: true, repeat: true } } as const;
const WHICH = { ...AGENT_OPTION, all: { summary: "All dead letters" } } as const;

export const COMMANDS = [
  command({
    path: ["dead-letters"],
    summary: "List the messages that the connector gave up on, newest first",
    options: {
      ...AGENT_OPTION,
      limit: { value: "count", summary: `Most dead letters to list, 1 to ${MAX_LISTED} (default 100)` },
    },
    examples: { "svc dead-letters": "Show who sent them and why they were not accepted" },
    async run(ctx, { options }) {
      const limit = parseCount(options.limit ?? "100", "--limit", MAX_LISTED);
      const { folder, client } = await runningConnector(ctx, options.agent);
      const listed = await call(client, DeadLetters, get(`/v1/dead-letter?limit=${limit}`));
      const aliases = shownAliases(folder);
      const deadLetters = listed.deadLetters.map(({ fromAgentDid: agentDid, receivedAt, endedAt, ...rest }) => ({
        ...rest,
        from: { agentDid, alias: aliases.get(agentDid) ?? null },
        receivedAt: toIso(receivedAt),
        endedAt: toIso(endedAt),
      }));
      const { deadLetters: count } = await statusOf(client), more = count > deadLetters.length;
      ctx.out.list({ agent: folder.name, deadLetters, more }, deadLetters, "No dead letters.", [
        { head: "ID", of: ({ id }) => String(id) },
        { head: "FROM", of: ({ from }) => from.alias ?? idCell(from.agentDid) },
        { head: "ENDED", rank: 2, of: ({ endedAt }) => ctx.out.time(endedAt) },
        { head: "ATTEMPTS", rank: 3, of: ({ attempts }) => String(attempts) },
        { head: "PROBLEM", rank: 1, of: ({ problem }) => problem },
      ]);
      const [first] = deadLetters;
      if (first === undefined) return;
      if (more) {
        ctx.out.more(`${count} in all`, limit < MAX_LISTED, "those that are replayed or purged make room for others");
      }
      ctx.out.next(["dead-letters", "replay", String(first.id), "--agent", folder.name], { when: "to try it again" });
    },
  }),
  command({
    path: ["dead-letters", "replay"],
    summary: "Hand dead letters to the agent runtime again, or make them unread on the platform inbox",
    args: IDS,
    options: WHICH,
    examples: {
      "svc dead-letters replay 17 18": "Try two messages again",
      "svc dead-letters replay --all": "Try all of them again, after the runtime was repaired",
    },
    run: (ctx, { args, options }) => change(ctx, args.id, options, "replay"),
  }),
  command({
    path: ["dead-letters", "purge"],
    summary: "Delete dead letters permanently",
    args: IDS,
    options: WHICH,
    examples: { "svc dead-letters purge 17": "Delete one message and its content" },
    run: (ctx, { args, options }) => change(ctx, args.id, options, "purge"),
  }),
];

const DONE = { replay: "waiting for the runtime again, or unread on the platform inbox", purge: "deleted" } as const;

/** Changes the named dead letters. @throws {CliError} `CLI_MESSAGE_UNKNOWN` after that, for IDs of no dead letter */
async function change(
  ctx: Context,
  words: readonly string[],
  options: { agent: string | undefined; all: boolean },
  what: keyof typeof DONE,
): Promise<void> {
  if (options.all === words.length > 0) throw new CliError("CLI_USAGE", "Give either IDs or --all");
  if (words.length > MAX_IDS) throw new CliError("CLI_USAGE", `Give at most ${MAX_IDS} IDs, or --all`);
  const ids = [...new Set(words.map((word) => parseCount(word, "<id>", Number.MAX_SAFE_INTEGER)))];
  const { folder, client } = await runningConnector(ctx, options.agent);
  const request = post(`/v1/dead-letter/${what}`, options.all ? { all: true } : { ids });
  const answer = await call(client, what === "replay" ? Replayed : Purged, request);
  const count = "replayed" in answer ? answer.replayed : answer.purged;
  const missing = options.all ? 0 : ids.length - count;
  const are = missing === 1 ? "is not a dead letter" : "are not dead letters";
  const messages = count === 1 ? "message is" : "messages are";
  ctx.out.result({ agent: folder.name, ...answer }, `${count} ${messages} ${DONE[what]}.`);
  if (missing === 0) return;
  const fix = `svc dead-letters --agent ${folder.name} lists them.`;
  throw new CliError("CLI_MESSAGE_UNKNOWN", `${missing} of the IDs ${are}`, { fix });
}
