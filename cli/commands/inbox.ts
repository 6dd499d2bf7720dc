/** `svc inbox` and `svc sent`: the messages that an agent has received, and those that it has sent. */
import { AGENT_OPTION, command, REGISTRY_OPTIONS } from "../command_line/command.ts";
import { parseCount } from "../command_line/numbers.ts";
import { EXEC_OPTION, VIEW_OPTIONS } from "./connector/connector_start.ts";
import { CONNECTOR_LIMITS } from "../connector/limits.ts";
import { CliError, EXIT } from "../errors.ts";
import { onStop } from "../terminal/interrupt.ts";

const { pageMessages: LISTED, pageMessagesMax: MAX_LISTED } = CONNECTOR_LIMITS;
const QUEUED_S = CONNECTOR_LIMITS.queuedWaitMs / 1000;
const LIMIT = { value: "count", summary: `Most messages to list, 1 to ${MAX_LISTED} (default ${LISTED})` } as const;
const INSECURE = { "allow-insecure": REGISTRY_OPTIONS["allow-insecure"] } as const;

export const COMMANDS = [
  command({
    path: ["inbox"],
    summary: "Print the unread messages, oldest first; --take marks them read",
    details: [
      `If no connector runs, svc runs one for ${QUEUED_S} s first, so messages that wait at the proxy arrive and are stored here.`,
      "The messages of an agent with a runtime go to that runtime.",
    ],
    args: { id: { summary: "Number of one message, to print it whole, read or unread", optional: true } },
    options: {
      ...AGENT_OPTION,
      from: { value: "peer", summary: "Only messages of this peer, an alias or a DID", complete: "peers" },
      conversation: { value: "id", summary: "Only messages of this conversation" },
      limit: LIMIT,
      read: { summary: "List read messages; their content is kept for 7 days" },
      follow: { summary: "Wait for more messages until Ctrl-C; on a terminal the view of the connector that runs" },
      take: { summary: "Mark the printed messages read" },
      ...VIEW_OPTIONS,
      ...EXEC_OPTION,
      ...INSECURE,
    },
    examples: {
      "svc inbox": "Show what is unread",
      "svc inbox 17": "Show message 17 whole",
      "svc inbox --take": "Show what is unread, and mark it read",
      "svc inbox --follow --take --json": "Print each message as one JSON line",
    },
    async run(ctx, { args: { id }, options }) {
      const { read, follow, take } = options;
      if (id !== undefined) {
        const { from, conversation, limit } = options;
        if (read || follow || [from, conversation, limit].some((given) => given !== undefined)) {
          throw new CliError("CLI_USAGE", "A message that is named by its number takes only --take");
        }
        const { showMessage } = await import("../messages/list_inbox.ts");
        return await showMessage(ctx, parseCount(id, "<id>", Number.MAX_SAFE_INTEGER), {
          agent: options.agent,
          take,
          allowInsecure: options["allow-insecure"],
        });
      }
      if (read && (follow || take)) throw new CliError("CLI_USAGE", "--read lists messages that are read already");
      if (options.exec !== undefined && !follow) throw new CliError("CLI_USAGE", "--exec is for --follow");
      const { listInbox } = await import("../messages/list_inbox.ts");
      await listInbox(ctx, {
        ...options,
        limit: parseCount(options.limit ?? `${LISTED}`, "--limit", MAX_LISTED),
        allowInsecure: options["allow-insecure"],
        hasFilter: [options.from, options.conversation, options.limit].some((given) => given !== undefined),
        onStop: (...given) => onStop(ctx, ...given),
      });
    },
  }),
  command({
    path: ["sent"],
    summary: "List the messages that an agent has sent, or show one with its receipts and reply",
    details: [
      "A message that was sent without a connector is not in the list; give its ID and --to.",
    ],
    args: { requestId: { summary: "Request ID, or its last 6 characters, from svc sent", optional: true } },
    options: {
      ...AGENT_OPTION,
      to: { value: "peer", summary: "Only messages to this peer, an alias or a DID", complete: "peers" },
      limit: LIMIT,
      cancel: { summary: "End this message if it waits in the connector" },
      ...INSECURE,
    },
    examples: {
      "svc sent --to beta --limit 5": "Show the state of the latest messages to beta",
      "svc sent 01KHYQ5H00AAAAAAAAAAAAAAAA --to beta": "Show the receipts and the reply of a message",
    },
    async run(ctx, { args: { requestId }, options }) {
      const limit = parseCount(options.limit ?? `${LISTED}`, "--limit", MAX_LISTED);
      const { cancelSent, listSent, showSent } = await import("../messages/sent.ts");
      const query = { agent: options.agent, to: options.to, allowInsecure: options["allow-insecure"] };
      if (requestId === undefined) {
        if (options.cancel) throw new CliError("CLI_USAGE", "--cancel needs the request ID of a message");
        await listSent(ctx, { ...query, limit });
      } else if (options.cancel) {
        return await cancelSent(ctx, { ...query, requestId }) ? EXIT.done : EXIT.failed;
      } else await showSent(ctx, { ...query, requestId });
    },
  }),
];
