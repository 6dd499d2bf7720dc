/**
 * The connector's own limits, with unit and source (D-137). Limits of the network are in shared/protocol/limits.ts, those
 * of the link and of the calls to the services in shared/client/limits.ts.
 */
import { DAY_MS } from "../../shared/clock.ts";
import { type LimitRow, LIMITS } from "../../shared/protocol/limits.ts";

/** Every limit of the connector. */
export const CONNECTOR_LIMIT_TABLE = {
  inboxMessages: {
    value: 10_000,
    unit: "count",
    source: "D-68",
    what: "messages in the inbox: waiting or unread, read with content, dead letters",
  },
  inboxBytes: { value: 1024 ** 3, unit: "bytes", source: "D-68", what: "payload of these messages" },
  seenKeptMs: {
    value: DAY_MS,
    unit: "ms",
    source: "D-88",
    what: "how long an ended message is remembered, to recognise a repeated delivery",
  },
  seenMessages: {
    value: 100_000,
    unit: "count",
    source: "D-88",
    what: "ended messages that are remembered, the newest",
  },
  senderMessages: {
    value: 1_000,
    unit: "count",
    source: "D-116",
    what: "unread messages of one sender on the platform inbox",
  },
  senderBytes: { value: 64 * 1024 ** 2, unit: "bytes", source: "D-116", what: "payload of these messages" },
  unreadKeptMs: {
    value: 7 * DAY_MS,
    unit: "ms",
    source: "D-116",
    what: "how long a message may stay unread before it is a dead letter",
  },
  readKeptMs: {
    value: 7 * DAY_MS,
    unit: "ms",
    source: "D-116",
    what: "how long the content of a read message is kept",
  },
  listedBytes: {
    value: 1024 ** 2,
    unit: "bytes",
    source: "D-116",
    what: "payload on one page of messages; a peer decides how large a payload is",
  },
  deadListedBytes: { value: 4 * 1024 ** 2, unit: "bytes", source: "D-87", what: "payload in one list of dead letters" },
  deadKeptMs: {
    value: 30 * DAY_MS,
    unit: "ms",
    source: "D-88",
    what: "how long a dead letter is kept; its sender has had the receipt",
  },
  // `RECEIPT_RETENTION_SECONDS` does not count here: it starts when the proxy stores the receipt. For a queued message the
  // 8 days start at the end of its mailbox lifetime, so a connector that does not reach the proxy for 8 days may drop a
  // receipt that the proxy would still accept.
  receiptKeptMs: {
    value: LIMITS.deliveryKeptSeconds * 1000,
    unit: "ms",
    source: "D-218",
    what: "how long a receipt is tried: as long as the proxy accepts it",
  },
  sentKeptMs: {
    value: 8 * DAY_MS,
    unit: "ms",
    source: "D-115",
    what: "how long a sent message is kept after its last change of state",
  },
  sentPayloadKeptMs: {
    value: DAY_MS,
    unit: "ms",
    source: "D-115",
    what: "how long the content of a sent message is kept after it has ended",
  },
  sentMessages: { value: 100_000, unit: "count", source: "D-115", what: "sent messages that are kept" },
  sentBytes: { value: 256 * 1024 ** 2, unit: "bytes", source: "D-115", what: "content of sent messages that is kept" },
  handoversAtOnce: { value: 16, unit: "count", source: "D-88", what: "concurrent requests to the runtime" },
  quickAttempts: { value: 4, unit: "count", source: "D-88", what: "attempts at a message before it leaves its lane" },
  quickFirstMs: { value: 300, unit: "ms", source: "D-88", what: "wait after the first attempt; doubles" },
  quickMaxMs: { value: 2_000, unit: "ms", source: "D-88", what: "longest wait between these attempts" },
  slowFirstMs: { value: 1_000, unit: "ms", source: "D-88", what: "wait after the later attempts; doubles" },
  slowMaxMs: { value: 60_000, unit: "ms", source: "D-88", what: "longest wait between attempts at a message" },
  serverErrorAttempts: {
    value: 10,
    unit: "count",
    source: "D-88",
    what: "attempts at a message that the runtime refuses with 5xx",
  },
  clientErrorAttempts: {
    value: 5,
    unit: "count",
    source: "D-88",
    what: "attempts at a message that the runtime refuses with another status",
  },
  patienceMs: {
    value: DAY_MS,
    unit: "ms",
    source: "D-88",
    what: "how long a message is tried while the answers are not about it",
  },
  answerBytes: {
    value: 256 * 1024,
    unit: "bytes",
    source: "D-114",
    what: "answer of the runtime that may become a reply",
  },
  replyPatienceMs: { value: DAY_MS, unit: "ms", source: "D-114", what: "how long a reply of the runtime is tried" },
  repliesAtOnce: {
    value: 8,
    unit: "count",
    source: "D-114",
    what: "concurrent requests that send replies of the runtime, each to another peer",
  },
  receiptsAtOnce: { value: 8, unit: "count", source: "D-72", what: "concurrent requests that send receipts" },
  probeEveryMs: { value: 30_000, unit: "ms", source: "D-88", what: "time between health checks of the runtime" },
  probeTimeoutMs: { value: 5_000, unit: "ms", source: "D-88", what: "time-out of a health check of the runtime" },
  houseKeepingMs: { value: 10 * 60_000, unit: "ms", source: "D-88", what: "time between deletions of expired records" },
  drainMs: { value: 4_000, unit: "ms", source: "D-88", what: "time for work in progress when the connector stops" },
  closeMs: { value: 500, unit: "ms", source: "D-87", what: "time for the answers of the local API after that" },
  waitingCalls: {
    value: 64,
    unit: "count",
    source: "D-117",
    what: "calls of the local API that wait at the same time",
  },
  waitMaxMs: { value: 60_000, unit: "ms", source: "D-117", what: "longest wait of a call of the local API" },
  pageMessages: {
    value: 50,
    unit: "count",
    source: "D-117",
    what: "default number of messages on a page of the local API",
  },
  pageMessagesMax: {
    value: 200,
    unit: "count",
    source: "D-117",
    what: "largest number of messages on a page of the local API",
  },
  sendersAtOnce: {
    value: 20,
    unit: "count",
    source: "D-128",
    what: "senders in one query of the inbox, and peers of svc mcp --peers",
  },
  repliesListed: { value: 100, unit: "count", source: "D-128", what: "replies to a sent message that are listed" },
  heldMs: {
    value: 30_000,
    unit: "ms",
    source: "D-117",
    what: "how long a reply is kept for a caller instead of going to the runtime",
  },
  heldAfterWaitMs: {
    value: 10_000,
    unit: "ms",
    source: "D-117",
    what: "how long after the end of its wait a caller gets a reply first",
  },
  endedWaits: { value: 1_000, unit: "count", source: "D-117", what: "ended waits that are remembered, the newest" },
  receiptLookupFirstMs: {
    value: 1_000,
    unit: "ms",
    source: "D-115",
    what: "wait before the receipts of a message are requested again; doubles",
  },
  receiptLookupMaxMs: { value: 15_000, unit: "ms", source: "D-115", what: "longest wait between these requests" },
  receiptLookupTimeoutMs: {
    value: 3_000,
    unit: "ms",
    source: "D-115",
    what: "how long a caller that does not wait is kept for the receipts",
  },
  attachMs: {
    value: 20_000,
    unit: "ms",
    source: "D-119",
    what: "how long a command waits for a connector that holds the lock",
  },
  attachRetryMs: { value: 250, unit: "ms", source: "D-119", what: "time between its attempts" },
  statusTimeoutMs: {
    value: 3_000,
    unit: "ms",
    source: "D-119",
    what: "time-out of a request for the status of a connector",
  },
  replyWaitSeconds: { value: 60, unit: "s", source: "D-120", what: "default wait of svc send --wait for a reply" },
  replyWaitMaxSeconds: {
    value: 3_600,
    unit: "s",
    source: "D-120",
    what: "longest wait of svc send --wait for a reply",
  },
  queuedWaitMs: {
    value: 3_000,
    unit: "ms",
    source: "D-120",
    what: "how long a connector that svc inbox runs may receive queued messages",
  },
  callTimeoutMs: {
    value: 45_000,
    unit: "ms",
    source: "D-120",
    what: "time-out of a call to the local API, longer than the proxy waits for an acknowledgement",
  },
  waitPauseMs: { value: 250, unit: "ms", source: "D-120", what: "time between two waiting calls of a command" },
  agentLookMs: {
    value: 10_000,
    unit: "ms",
    source: "D-123",
    what: "time between searches for new agents and changed files of failed ones",
  },
  agentBusyMs: {
    value: 30_000,
    unit: "ms",
    source: "D-123",
    what: "wait before a connector is started again that another process runs",
  },
  agentRestartFirstMs: {
    value: 5_000,
    unit: "ms",
    source: "D-123",
    what: "wait before a failed connector is started again; doubles",
  },
  agentRestartMaxMs: { value: 5 * 60_000, unit: "ms", source: "D-123", what: "longest of these waits" },
  agentPermanentMs: {
    value: 10 * 60_000,
    unit: "ms",
    source: "D-123",
    what: "wait after a permanent failure, unless the agent's files change before",
  },
  databaseCacheBytes: {
    value: 256 * 1024,
    unit: "bytes",
    source: "D-123",
    what: "pages of a connector's database in memory; one process may have hundreds of databases",
  },
  agentsStartingAtOnce: { value: 10, unit: "count", source: "D-123", what: "connectors that start at the same time" },
  endedPairs: {
    value: 5_000,
    unit: "count",
    source: "D-121",
    what: "ended pairs whose aliases are kept, the newest; they fit into peers.json next to 10,000 peers",
  },
  keysDroppedMs: { value: 500, unit: "ms", source: "D-122", what: "time after a paste in which keys are dropped" },
  pasteCharacters: { value: 2_048, unit: "count", source: "D-122", what: "characters of a pasted text" },
  pasteTimeoutMs: { value: 2_000, unit: "ms", source: "D-122", what: "time for the end of a paste" },
  questionMs: { value: 60_000, unit: "ms", source: "D-122", what: "time for the answer to a question" },
  unreadShown: { value: 20, unit: "count", source: "D-122", what: "messages that a key shows" },
  unreadCharacters: { value: 2_000, unit: "count", source: "D-122", what: "characters of each of these messages" },
  port: { value: 19_400, unit: "port", source: "D-87", what: "first port of the local API" },
  portsTried: { value: 1_000, unit: "count", source: "D-87", what: "ports that are tried" },
} as const satisfies Record<string, Omit<LimitRow, "unit"> & { unit: LimitRow["unit"] | "port" }>;
Object.freeze(CONNECTOR_LIMIT_TABLE);

/** Value of each limit, in the unit of its row. */
export const CONNECTOR_LIMITS = Object.freeze(
  Object.fromEntries(Object.entries(CONNECTOR_LIMIT_TABLE).map(([name, { value }]) => [name, value])),
) as Readonly<Record<keyof typeof CONNECTOR_LIMIT_TABLE, number>>;
