/**
 * Limits of the client ring, with unit and source (D-137). The connector's own limits are in cli/connector/limits.ts.
 */
import type { LimitRow } from "../protocol/limits.ts";

/** Every limit of the client ring. */
export const CLIENT_LIMIT_TABLE = {
  registryTimeoutMs: { value: 30_000, unit: "ms", source: "D-199", what: "time-out of a call to the registry" },
  registryConnectMs: { value: 10_000, unit: "ms", source: "D-199", what: "time-out of a connection to the registry" },
  proxyTimeoutMs: { value: 30_000, unit: "ms", source: "D-199", what: "time-out of a call to the proxy" },
  proxyAnswerBytes: { value: 4 * 1024 ** 2, unit: "bytes", source: "D-199", what: "response of the proxy" },
  payloadBytes: {
    value: 196_444,
    unit: "bytes",
    source: "D-120",
    what: "payload that this project's programs send; below the proxy's limit, for a larger form",
  },
  handshakeMs: {
    value: 10_000,
    unit: "ms",
    source: "D-89",
    what: "time-out of the WebSocket handshake, from the start of the connection",
  },
  reconnectFirstMaxMs: {
    value: 5_000,
    unit: "ms",
    source: "D-89",
    what: "longest first wait before a reconnect; it is random",
  },
  reconnectStartMs: {
    value: 2_000,
    unit: "ms",
    source: "D-89",
    what: "second wait before a reconnect; the next ones double",
  },
  reconnectMaxMs: { value: 28_000, unit: "ms", source: "D-89", what: "longest wait before a reconnect" },
  replacedMs: {
    value: 30_000,
    unit: "ms",
    source: "D-70",
    what: "extra wait after another connector of the agent has taken over",
  },
  settledMs: {
    value: 30_000,
    unit: "ms",
    source: "D-89",
    what: "age of a link after which the reconnect waits start from the first again",
  },
  retryAfterMaxMs: {
    value: 60_000,
    unit: "ms",
    source: "D-89",
    what: "longest wait before a reconnect that a Retry-After can cause",
  },
  refreshAheadMs: {
    value: 60_000,
    unit: "ms",
    source: "D-89",
    what: "how long before its expiry an access token is refreshed",
  },
  receiptFirstMs: { value: 1_000, unit: "ms", source: "D-72", what: "first wait before a receipt is sent again" },
  receiptMaxMs: { value: 60_000, unit: "ms", source: "D-72", what: "longest wait before a receipt is sent again" },
  autoReplies: {
    value: 20,
    unit: "count",
    source: "D-113",
    what: "automatic replies to a peer in one conversation and window",
  },
  autoReplyWindowMs: { value: 5 * 60_000, unit: "ms", source: "D-113", what: "window of the automatic replies" },
  autoReplyPauseMs: { value: 10 * 60_000, unit: "ms", source: "D-113", what: "pause after too many automatic replies" },
  modelPeerMessages: {
    value: 5,
    unit: "count",
    source: "D-113",
    what: "messages of a model to a peer that sends none itself, in one window",
  },
  modelPeerWindowMs: {
    value: 60_000,
    unit: "ms",
    source: "D-113",
    what: "window of the messages of a model to a peer",
  },
  modelMessages: {
    value: 30,
    unit: "count",
    source: "D-113",
    what: "messages of a model to a peer in one conversation and window",
  },
  modelWindowMs: {
    value: 10 * 60_000,
    unit: "ms",
    source: "D-113",
    what: "window of the messages of a model in a conversation",
  },
  loopGuardEntries: {
    value: 1_000,
    unit: "count",
    source: "D-113",
    what: "peers and conversations that the loop guard remembers",
  },
  localStatusMs: { value: 3_000, unit: "ms", source: "D-119", what: "time-out of the status of a local API" },
  localCallMs: {
    value: 45_000,
    unit: "ms",
    source: "D-199",
    what: "time-out of a call to a local API, in addition to the time that it may wait",
  },
  localAnswerBytes: { value: 10 * 1024 ** 2, unit: "bytes", source: "D-199", what: "response of a local API" },
  localWaitSeconds: { value: 60, unit: "s", source: "D-117", what: "longest wait of one call to a local API" },
  readIds: { value: 1_000, unit: "count", source: "D-117", what: "IDs in one request that marks messages as read" },
  localMessages: { value: 20, unit: "count", source: "D-125", what: "messages that LocalAgent holds for its handler" },
  handlerTries: { value: 5, unit: "count", source: "D-125", what: "tries of a handler, or of its reply" },
  handlersAtOnce: { value: 4, unit: "count", source: "D-125", what: "handlers of an agent that run at once" },
  askMs: { value: 60_000, unit: "ms", source: "D-125", what: "how long ask waits for a reply" },
  agentMessages: {
    value: 1_000,
    unit: "count",
    source: "D-125",
    what: "messages that Agent holds, with receipts that wait for the proxy",
  },
  agentBytes: { value: 16 * 1024 ** 2, unit: "bytes", source: "D-125", what: "payloads that Agent holds" },
  agentKnownIds: {
    value: 10_000,
    unit: "count",
    source: "D-125",
    what: "IDs that Agent remembers, of received and of sent messages each",
  },
  closeMs: { value: 4_000, unit: "ms", source: "D-125", what: "time for work in progress when an agent closes" },
} satisfies Record<string, LimitRow>;
export type ClientLimitName = keyof typeof CLIENT_LIMIT_TABLE;

/** The numbers of the table. */
export const CLIENT_LIMITS: Readonly<Record<ClientLimitName, number>> = Object.freeze(
  Object.fromEntries(Object.entries(CLIENT_LIMIT_TABLE).map(([name, row]) => [name, row.value])),
) as Readonly<Record<ClientLimitName, number>>;
