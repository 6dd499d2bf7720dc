/** The connector's own numbers, with their units and sources; those of the network are in shared/protocol/limits.ts. */
import { DAY_MS } from "../../shared/clock.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";

export const CONNECTOR_LIMITS = Object.freeze({
  /** D-68: more than these an inbox does not take. */
  inboxMessages: 10_000,
  inboxBytes: 1024 ** 3,
  /** D-88: how long a message that was handed over is known. */
  seenKeptMs: DAY_MS,
  /** Dead letters that nobody looked after go at last; their senders have long had the receipt. */
  deadKeptMs: 30 * DAY_MS,
  /** A receipt is of use as long as the proxy keeps the delivery (D-72). */
  receiptKeptMs: LIMITS.deliveryKeptSeconds * 1000,
  /** Requests to the runtime at once. */
  handoversAtOnce: 16,
  /** D-88: attempts before a message steps aside, and their waits. */
  quickAttempts: 4,
  quickFirstMs: 300,
  quickMaxMs: 2_000,
  slowFirstMs: 1_000,
  slowMaxMs: 60_000,
  /** D-88: how often what may pass is tried, and for how long what says nothing about the message. */
  serverErrorAttempts: 10,
  clientErrorAttempts: 5,
  patienceMs: DAY_MS,
  /** D-88: time for the runtime's answer. */
  runtimeTimeoutMs: 10_000,
  /** D-89 */
  reconnectFirstMs: 5_000,
  reconnectMs: 2_000,
  reconnectMaxMs: 28_000,
  reconnectJitter: 0.2,
  /** Time for the WebSocket handshake, from the connection on. */
  handshakeMs: 10_000,
  /** D-70: wait after the session has moved to another socket. */
  replacedMs: 30_000,
  /** D-89: how long before its end an access token is refreshed. */
  refreshAheadMs: 60_000,
  /** A link that lived so long was a good one: the next waits start small again. */
  settledMs: 30_000,
  /** Requests with receipts to the proxy at once. */
  receiptsAtOnce: 8,
  receiptFirstMs: 1_000,
  receiptMaxMs: 60_000,
  probeEveryMs: 30_000,
  probeTimeoutMs: 5_000,
  houseKeepingMs: 10 * 60_000,
  /** Time for what is under way when the connector is told to stop. */
  drainMs: 4_000,
  proxyTimeoutMs: 30_000,
  /** D-87 */
  port: 19_400,
  portsTried: 100,
});
