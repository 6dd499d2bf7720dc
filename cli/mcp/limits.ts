/** The limits of `svc mcp`, with unit and source (D-137). */
import { type LimitRow, LIMITS } from "../../shared/protocol/limits.ts";

/** Every limit of the MCP server. */
export const MCP_LIMIT_TABLE = {
  requestBytes: {
    value: 1024 ** 2,
    unit: "bytes",
    source: "D-127",
    what: "one message of the MCP client, before it is parsed; the connection ends after a larger one",
  },
  accessMs: { value: 10_000, unit: "ms", source: "D-127", what: "how long a tool waits for a connector" },
  platformMs: {
    value: 500,
    unit: "ms",
    source: "D-127",
    what: "how long the start waits for the platform of a running connector",
  },
  watchMs: { value: 5_000, unit: "ms", source: "D-119", what: "time between looks for a connector that has ended" },
  retryMs: { value: 30_000, unit: "ms", source: "D-119", what: "the same after a connector could not be started" },
  toCharacters: { value: 256, unit: "count", source: "D-128", what: "characters of the name of a peer" },
  textCharacters: { value: 100_000, unit: "count", source: "D-128", what: "characters of a text that is sent" },
  waitSeconds: {
    value: 45,
    unit: "s",
    source: "D-128",
    what: "longest wait of a tool, shorter than programs that run a model give a call",
  },
  waitDefaultSeconds: { value: 30, unit: "s", source: "D-128", what: "default wait of wait_for_message" },
  callSeconds: {
    value: 5,
    unit: "s",
    source: "D-128",
    what: "longest wait of one call of the local API, after which a tool looks whether its call was cancelled",
  },
  readMessages: { value: 20, unit: "count", source: "D-128", what: "messages in one result" },
  readDefaultMessages: { value: 10, unit: "count", source: "D-128", what: "default of these" },
  readTries: {
    value: 5,
    unit: "count",
    source: "D-128",
    what: "pages that read_inbox tries when other MCP servers take every message of a page",
  },
  resultCharacters: { value: 24_000, unit: "count", source: "D-128", what: "characters of a result as text" },
  messageCharacters: { value: 8_000, unit: "count", source: "D-128", what: "characters of one text in a result" },
  messageJsonCharacters: {
    value: 16_000,
    unit: "count",
    source: "D-128",
    what: "characters of one text in a result as a JSON string, in which control characters are escaped",
  },
  aliasCharacters: { value: 32, unit: "count", source: "D-129", what: "characters of an alias in a result" },
  nameCharacters: { value: 64, unit: "count", source: "D-129", what: "characters of a name of a peer in a result" },
  problemCharacters: { value: 300, unit: "count", source: "D-129", what: "characters of a reason in a result" },
  errorCharacters: { value: 1_000, unit: "count", source: "D-127", what: "characters of the error of a tool" },
  countedPages: {
    value: 10,
    unit: "count",
    source: "D-128",
    what: "pages of 200 unread messages that whoami counts with --peers",
  },
  questions: { value: 3, unit: "count", source: "D-130", what: "questions to the person in one window" },
  questionWindowMs: { value: 10 * 60_000, unit: "ms", source: "D-130", what: "window of these questions" },
  approvalMs: { value: 5 * 60_000, unit: "ms", source: "D-130", what: "how long a question may be answered" },
  ticketMinSeconds: { value: 60, unit: "s", source: "D-128", what: "shortest lifetime of a ticket of pair_start" },
  ticketSeconds: { value: 300, unit: "s", source: "D-128", what: "default of this lifetime" },
  ticketMaxSeconds: { value: LIMITS.ticketTtlMaxSeconds, unit: "s", source: "D-128", what: "longest one" },
  ticketCharacters: { value: 2_048, unit: "count", source: "D-128", what: "characters of a ticket" },
  channelDelayMs: { value: 2_000, unit: "ms", source: "D-133", what: "time from the start to the first notification" },
  channelMessages: {
    value: 5,
    unit: "count",
    source: "D-133",
    what: "messages found at once that get a notification each; more get one together",
  },
  channelNotices: { value: 30, unit: "count", source: "D-133", what: "notifications in one window" },
  channelWindowMs: { value: 10 * 60_000, unit: "ms", source: "D-133", what: "window of the notifications" },
} as const satisfies Record<string, LimitRow>;
Object.freeze(MCP_LIMIT_TABLE);

/** Value of each limit, in the unit of its row. */
export const MCP_LIMITS = Object.freeze(
  Object.fromEntries(Object.entries(MCP_LIMIT_TABLE).map(([name, { value }]) => [name, value])),
) as Readonly<Record<keyof typeof MCP_LIMIT_TABLE, number>>;
