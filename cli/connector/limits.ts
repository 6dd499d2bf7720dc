/**
 * The connector's own limits, with unit and source. Limits of the network are in shared/protocol/limits.ts, those of the
 * link and of the calls to the services in shared/client/limits.ts.
 */
import { DAY_MS } from "../../shared/clock.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";

export const CONNECTOR_LIMITS = Object.freeze({
  /** D-68: bounds of the inbox, messages and bytes of payload. */
  inboxMessages: 10_000,
  inboxBytes: 1024 ** 3,
  /** D-88: how long a delivered message is remembered, to recognise a repeated delivery. */
  seenKeptMs: DAY_MS,
  /** Most delivered messages that are remembered, the newest; checked every `houseKeepingMs`. */
  seenMessages: 100_000,
  /** D-116: bounds of the unread messages of one sender on a pull platform, messages and bytes of payload. */
  senderMessages: 1_000,
  senderBytes: 64 * 1024 ** 2,
  /** D-116: how long a message stays unread before it is a dead letter, and how long its content is kept once read. */
  unreadKeptMs: 7 * DAY_MS,
  readKeptMs: 7 * DAY_MS,
  /** Bytes of payload in one list of messages, and of dead letters. A peer decides how large a payload is. */
  listedBytes: 1024 ** 2,
  deadListedBytes: 4 * 1024 ** 2,
  /** How long a dead letter is kept. Its sender has had the receipt since it ended. */
  deadKeptMs: 30 * DAY_MS,
  /**
   * The proxy accepts a receipt until 8 days after its answer (D-218). `RECEIPT_RETENTION_SECONDS` does not count here: it
   * starts when the proxy stores the receipt. For a queued message the 8 days start at the end of its mailbox lifetime,
   * so a connector that does not reach the proxy for 8 days may drop a receipt that the proxy would still accept.
   */
  receiptKeptMs: LIMITS.deliveryKeptSeconds * 1000,
  /** D-115: how long a sent message is kept after its last change of state, and the content of one that has ended. */
  sentKeptMs: 8 * DAY_MS,
  sentPayloadKeptMs: DAY_MS,
  /** D-115: bounds of the sent messages, rows and bytes of payload. */
  sentMessages: 100_000,
  sentBytes: 256 * 1024 ** 2,
  /** Concurrent requests to the runtime. */
  handoversAtOnce: 16,
  /** D-88: attempts before a message leaves its lane, and the waits between them. */
  quickAttempts: 4,
  quickFirstMs: 300,
  quickMaxMs: 2_000,
  slowFirstMs: 1_000,
  slowMaxMs: 60_000,
  /** D-88: attempts after an answer about the message, and the time limit for answers that are not about it. */
  serverErrorAttempts: 10,
  clientErrorAttempts: 5,
  patienceMs: DAY_MS,
  /** D-88: time-out of a request to the runtime. */
  runtimeTimeoutMs: 10_000,
  /** D-114: body of an answer of the runtime, when it may become a reply. */
  answerBytes: 256 * 1024,
  /** D-114: how long a reply of the runtime is tried, and concurrent requests that send replies, each to another peer. */
  replyPatienceMs: DAY_MS,
  repliesAtOnce: 8,
  /** Concurrent requests that send receipts to the proxy. */
  receiptsAtOnce: 8,
  probeEveryMs: 30_000,
  probeTimeoutMs: 5_000,
  houseKeepingMs: 10 * 60_000,
  /** Time for work in progress when the connector stops. */
  drainMs: 4_000,
  /** Time for the answers of the local API after that. */
  closeMs: 500,
  /** D-117: calls of the local API that wait at the same time, and how long one may wait. */
  waitingCalls: 64,
  waitMaxMs: 60_000,
  /** D-117: messages on a page of the local API, unless the caller says, and at most. */
  pageMessages: 50,
  pageMessagesMax: 200,
  /** D-117: how long a reply is kept for a caller instead of going to the runtime, and how long after its wait. */
  heldMs: 30_000,
  heldAfterWaitMs: 10_000,
  /** Waits that are remembered after their end, the newest. */
  endedWaits: 1_000,
  /** D-115: waits before the receipts of a message are requested again, doubled from the first to the last. */
  receiptLookupFirstMs: 1_000,
  receiptLookupMaxMs: 15_000,
  /** How long a caller that does not wait is kept for the receipts. */
  receiptLookupTimeoutMs: 3_000,
  /** D-119: how long a command waits for a connector that holds the lock, how often it asks, and for how long each time. */
  attachMs: 20_000,
  attachRetryMs: 250,
  statusTimeoutMs: 3_000,
  /** D-120: how long `svc send --wait` waits for a reply (default), and at most; seconds. */
  replyWaitSeconds: 60,
  replyWaitMaxSeconds: 3_600,
  /** D-120: how long a connector that `svc inbox` runs gets to receive queued messages. */
  queuedWaitMs: 3_000,
  /** Time-out of a command's call to the local API, without its wait: longer than the proxy waits for an acknowledgement. */
  callTimeoutMs: 45_000,
  /** Between two waiting calls of a command, so that a connector that is stopping is not asked without a pause. */
  waitPauseMs: 250,
  /** D-123: several agents in one process. How often the list of agents, and the files of a failed one, are read. */
  agentLookMs: 10_000,
  /** Wait before a connector is started again that another process runs. */
  agentBusyMs: 30_000,
  /** Waits before a failed connector is started again; they double. */
  agentRestartFirstMs: 5_000,
  agentRestartMaxMs: 5 * 60_000,
  /** Wait after a permanent failure, unless the agent's files change before. */
  agentPermanentMs: 10 * 60_000,
  agentsStartingAtOnce: 10,
  /** D-122: keys that follow a paste within this time are dropped. */
  keysDroppedMs: 500,
  /** Time for the end of a paste, and for the answer to a question. */
  pasteTimeoutMs: 2_000,
  questionMs: 60_000,
  /** Messages that a key shows, and characters of each. */
  unreadShown: 20,
  unreadCharacters: 2_000,
  /** D-87 */
  port: 19_400,
  portsTried: 1_000,
});
