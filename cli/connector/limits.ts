/** The connector's own limits. Those of the network and of its clients are in shared/protocol/limits.ts. */
import { DAY_MS } from "../../shared/clock.ts";
import { type LimitRow, LIMITS, valuesOf } from "../../shared/protocol/limits.ts";

export const CONNECTOR_LIMIT_TABLE = {
  seenKeptMs: [DAY_MS, "ms", "how long an ended message is remembered, to recognise a repeated delivery"],
  taskAnswerBytes: [1024 ** 2, "bytes", "answer of an A2A agent"],
  taskPatienceMs: [60 * 60_000, "ms", "time to follow a task and to answer its question"],
  openTasks: [200, "count", "tasks followed at the same time, half as many for one sender; other messages wait"],
  a2aBlockMs: [120_000, "ms", "wait of an A2A client's call for its task"],
  a2aBlockingCalls: [32, "count", "waiting calls of A2A clients"],
  a2aCalls: [64, "count", "calls of A2A clients in progress, with those whose answer is not read"],
  keptMessages: [1_000, "count", "messages that wait in the connector for the proxy, without replies of the runtime"],
  keptBytes: [64 * 1024 ** 2, "bytes", "payload of all these messages"],
  keptReplies: [250, "count", "replies of the runtime to one peer that wait in the connector; more are not sent"],
  keptReplyBytes: [16 * 1024 ** 2, "bytes", "payload of these replies"],
  keptMs: [DAY_MS, "ms", "retries of a waiting message, because the proxy recognises its request ID as long"],
  drainMs: [4_000, "ms", "time for work in progress when the connector stops"],
  localBodyBytes: [LIMITS.hookBodyBytes + 8 * 1024, "bytes", "body of a call of the local API"],
  waitingCalls: [64, "count", "waiting calls of the local API"],
  waitMaxMs: [60_000, "ms", "longest wait of a call of the local API"],
  pageMessages: [50, "count", "default messages per page of the local API, svc inbox and svc sent"],
  pageMessagesMax: [200, "count", "most messages per page of the local API"],
  sendersAtOnce: [20, "count", "senders in one query of the inbox, and peers of svc mcp --peers"],
  heldMs: [30_000, "ms", "wait of a reply for its caller before the runtime gets it"],
  queuedWaitMs: [3_000, "ms", "wait of svc inbox for queued messages"],
  hostFileBytes: [10 * 1024 ** 2, "bytes", "MCP host's file that svc mcp install changes"],
  // With more, the parser, which keeps every value in memory, takes hundreds of megabytes.
  hostTomlBytes: [256 * 1024, "bytes", "MCP host's file in TOML"],
  hostFileDepth: [100, "count", "nesting of an MCP host's file"],
  hookWakeUps: [6, "count", "wake-ups of one session in ten minutes"],
  hookWakeUpsMs: [10 * 60_000, "ms", "window of the wake-ups of one session"],
} as const satisfies Record<string, LimitRow>;

/** Limits that no person and no program notices, so docs/limits.md leaves them out. */
export const INNER_CONNECTOR_LIMIT_TABLE = {
  slowFirstMs: [1_000, "ms", "first wait of a task that failed, for example of a hand-over; doubles"],
  taskPollMaxMs: [15_000, "ms", "longest wait between looks at a task of an A2A agent"],
  closeMs: [500, "ms", "time to write the peers, then for the answers of the local API"],
  receiptLookupMaxMs: [15_000, "ms", "longest wait between requests for the receipts of a message"],
  receiptLookupTimeoutMs: [3_000, "ms", "how long a caller that does not wait is kept for the receipts"],
  waitPauseMs: [250, "ms", "time between two waiting calls of a command"],
} as const satisfies Record<string, LimitRow>;

export const CONNECTOR_LIMITS = valuesOf({ ...CONNECTOR_LIMIT_TABLE, ...INNER_CONNECTOR_LIMIT_TABLE });
