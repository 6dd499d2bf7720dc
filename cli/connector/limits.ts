/** The connector's own limits. Those of the network and of its clients are in shared/protocol/limits.ts. */
import { DAY_MS } from "../../shared/clock.ts";
import { type LimitRow, LIMITS, valuesOf } from "../../shared/protocol/limits.ts";

export const CONNECTOR_LIMIT_TABLE = {
  seenKeptMs: [DAY_MS, "ms", "how long an ended message is remembered, to recognise a repeated delivery"],
  taskAnswerBytes: [1024 ** 2, "bytes", "answer of an A2A agent"],
  taskPatienceMs: [60 * 60_000, "ms", "how long a task is followed, and how long its question may be answered"],
  openTasks: [200, "count", "tasks that are followed at the same time; further messages wait"],
  a2aBlockMs: [120_000, "ms", "how long a call of an A2A client waits for the end of its task"],
  a2aBlockingCalls: [32, "count", "such calls at the same time"],
  keptMessages: [1_000, "count", "messages that wait in the connector until the proxy takes them"],
  keptBytes: [64 * 1024 ** 2, "bytes", "payload of these messages"],
  keptMs: [DAY_MS, "ms", "how long such a message is tried: as long as the proxy recognises its request ID"],
  drainMs: [4_000, "ms", "time for work in progress when the connector stops"],
  localBodyBytes: [LIMITS.hookBodyBytes + 8 * 1024, "bytes", "body of a call of the local API"],
  waitingCalls: [64, "count", "calls of the local API that wait at the same time"],
  waitMaxMs: [60_000, "ms", "longest wait of a call of the local API"],
  pageMessages: [50, "count", "default number of messages on a page of the local API, and of svc inbox and svc sent"],
  pageMessagesMax: [200, "count", "largest number of messages on a page of the local API"],
  sendersAtOnce: [20, "count", "senders in one query of the inbox, and peers of svc mcp --peers"],
  heldMs: [30_000, "ms", "how long a reply is kept for a caller instead of going to the runtime"],
  queuedWaitMs: [3_000, "ms", "how long a connector that svc inbox runs may receive queued messages"],
  hostFileBytes: [10 * 1024 ** 2, "bytes", "a configuration file of a host that svc mcp install changes"],
  hostFileDepth: [100, "count", "nesting of such a file"],
  hookWakeUps: [6, "count", "wake-ups of one session in the window"],
  hookWakeUpsMs: [10 * 60_000, "ms", "window of these wake-ups"],
} as const satisfies Record<string, LimitRow>;

/** Limits that no person or program meets, so docs/limits.md leaves them out. */
export const INNER_CONNECTOR_LIMIT_TABLE = {
  slowFirstMs: [1_000, "ms", "first wait of a task that failed, for example of a hand-over; doubles"],
  taskPollMaxMs: [15_000, "ms", "longest wait between looks at a task of an A2A agent"],
  closeMs: [500, "ms", "time to write the peers, then for the answers of the local API"],
  receiptLookupMaxMs: [15_000, "ms", "longest wait between requests for the receipts of a message"],
  receiptLookupTimeoutMs: [3_000, "ms", "how long a caller that does not wait is kept for the receipts"],
  waitPauseMs: [250, "ms", "time between two waiting calls of a command"],
} as const satisfies Record<string, LimitRow>;

export const CONNECTOR_LIMITS = valuesOf({ ...CONNECTOR_LIMIT_TABLE, ...INNER_CONNECTOR_LIMIT_TABLE });
