/** Limits of the client ring, with unit and source. The connector's own limits are in cli/connector/limits.ts. */

export const CLIENT_LIMITS = Object.freeze({
  /** Time-out of a call to the registry, and of its connection. */
  registryTimeoutMs: 30_000,
  registryConnectMs: 10_000,
  /** Time-out of a call to the proxy, and most bytes of its response (D-199). */
  proxyTimeoutMs: 30_000,
  proxyAnswerBytes: 4 * 1024 ** 2,
  /** D-120: most bytes of a payload that this project's programs send. Below the proxy's limit, for a larger form. */
  payloadBytes: 196_444,
  /** Time-out of the WebSocket handshake, from the start of the connection. */
  handshakeMs: 10_000,
  /** D-89: the first wait before a reconnect is random up to this; the next ones double from `StartMs` to `MaxMs`. */
  reconnectFirstMaxMs: 5_000,
  reconnectStartMs: 2_000,
  reconnectMaxMs: 28_000,
  /** D-70: extra wait after another connector of the agent has taken over. */
  replacedMs: 30_000,
  /** After a link that lasted this long the reconnect waits start from the first again. */
  settledMs: 30_000,
  /** Longest wait before a reconnect that a `Retry-After` can cause. */
  retryAfterMaxMs: 60_000,
  /** D-89: an access token is refreshed this long before it expires. */
  refreshAheadMs: 60_000,
  /** First and longest wait before a receipt is sent again. */
  receiptFirstMs: 1_000,
  receiptMaxMs: 60_000,
  /** D-113: automatic replies to a peer in a conversation, the window that counts them, and the pause after them. */
  autoReplies: 20,
  autoReplyWindowMs: 5 * 60_000,
  autoReplyPauseMs: 10 * 60_000,
  /** D-113: messages of a model to a peer that sends none itself, and to a peer in a conversation, with their windows. */
  modelPeerMessages: 5,
  modelPeerWindowMs: 60_000,
  modelMessages: 30,
  modelWindowMs: 10 * 60_000,
  /** D-113: peers and conversations that the loop guard remembers. */
  loopGuardEntries: 1_000,
});
