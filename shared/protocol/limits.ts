/**
 * THE numbers: every limit and lifetime of the service, with its unit and its source.
 * No other file repeats one of them.
 */

interface LimitRow {
  value: number;
  unit: "ms" | "s" | "days" | "bytes" | "count" | "code points" | "requests";
  /** Where it is laid down: the specification or a decision. */
  source: string;
  what: string;
}

function rows<K extends string>(table: Record<K, LimitRow>): Readonly<Record<K, Readonly<LimitRow>>> {
  return Object.freeze(table);
}

/** One row a limit. `docs/limits.md` is written from it. */
export const LIMIT_TABLE = rows({
  crlRequests: { value: 30, unit: "requests", source: "SPEC Limits", what: "GET /v1/crl per minute and IP" },
  resolveRequests: {
    value: 10,
    unit: "requests",
    source: "SPEC Limits",
    what: "GET /v1/resolve/:id per minute and IP",
  },
  refreshRequests: {
    value: 20,
    unit: "requests",
    source: "SPEC Limits",
    what: "POST /v1/agents/auth/refresh per minute and IP",
  },
  validateRequests: {
    value: 120,
    unit: "requests",
    source: "SPEC Limits",
    what: "POST /v1/agents/auth/validate per minute and IP",
  },
  apiKeyRequests: { value: 600, unit: "requests", source: "D-51", what: "API-key routes per minute and key" },
  redeemFailures: { value: 60, unit: "requests", source: "D-51", what: "redeems of an unknown code per minute and IP" },
  bootstrapFailures: {
    value: 10,
    unit: "requests",
    source: "D-33",
    what: "failed bootstrap secrets per minute and IP",
  },
  limitWindowMs: { value: 60_000, unit: "ms", source: "SPEC Limits", what: "window of the per-IP and per-key limits" },
  agentRequests: {
    value: 60,
    unit: "requests",
    source: "SPEC Limits",
    what: "default of the proxy's limit per agent and window",
  },
  agentRequestsMax: {
    value: 1_000_000,
    unit: "requests",
    source: "D-65",
    what: "largest configurable limit per agent",
  },
  agentWindowMs: {
    value: 60_000,
    unit: "ms",
    source: "SPEC Limits",
    what: "default window of the proxy's limit per agent",
  },
  exactWindowRequests: {
    value: 1_000,
    unit: "requests",
    source: "D-65",
    what: "largest limit that is counted request by request",
  },
  receiptRequestsFactor: {
    value: 10,
    unit: "count",
    source: "D-60",
    what: "receipt routes: times the limit per agent",
  },
  inviteCodeLength: { value: 128, unit: "count", source: "SPEC Limits", what: "characters of an invite code" },
  displayName: {
    value: 64,
    unit: "code points",
    source: "SPEC Limits",
    what: "display name, API key name, profile names",
  },
  framework: { value: 32, unit: "code points", source: "SPEC Limits", what: "framework label" },
  agentListDefault: { value: 20, unit: "count", source: "SPEC Limits", what: "agents a page when not said" },
  agentListMin: { value: 1, unit: "count", source: "SPEC Limits", what: "agents a page at least" },
  agentListMax: { value: 100, unit: "count", source: "SPEC Limits", what: "agents a page at most" },
  publicKeyBytes: { value: 32, unit: "bytes", source: "SPEC Limits", what: "public key, decoded" },
  signatureBytes: { value: 64, unit: "bytes", source: "SPEC Limits", what: "signature, decoded" },
  challengeTtlSeconds: { value: 300, unit: "s", source: "SPEC Limits", what: "lifetime of a registration challenge" },
  challengeNonceBytes: { value: 24, unit: "bytes", source: "SPEC Limits", what: "nonce of a registration challenge" },
  challengeKeptSeconds: { value: 86_400, unit: "s", source: "D-38", what: "how long a challenge is remembered" },
  aitTtlDaysDefault: { value: 30, unit: "days", source: "SPEC Limits", what: "lifetime of an AIT when not said" },
  aitTtlDaysMin: { value: 1, unit: "days", source: "SPEC Limits", what: "shortest lifetime of an AIT" },
  aitTtlDaysMax: { value: 90, unit: "days", source: "SPEC Limits", what: "longest lifetime of an AIT" },
  aitBytes: { value: 8_192, unit: "bytes", source: "D-20", what: "an AIT" },
  tokenLeewaySeconds: { value: 60, unit: "s", source: "D-20, D-62", what: "how far ahead iat and nbf may be" },
  accessTokenTtlSeconds: { value: 900, unit: "s", source: "SPEC Limits", what: "default lifetime of an access token" },
  refreshTokenTtlSeconds: {
    value: 2_592_000,
    unit: "s",
    source: "SPEC Limits",
    what: "default lifetime of a refresh token",
  },
  crlTtlSeconds: { value: 900, unit: "s", source: "D-21", what: "validity of a signed CRL" },
  crlKeptSeconds: { value: 3_600, unit: "s", source: "D-21", what: "how long an entry outlives its AIT" },
  crlBytes: { value: 33_554_432, unit: "bytes", source: "D-210", what: "a CRL that a verifier reads" },
  crlRefreshIntervalMs: {
    value: 300_000,
    unit: "ms",
    source: "SPEC Limits",
    what: "default interval of CRL refreshes",
  },
  crlMaxAgeMs: { value: 900_000, unit: "ms", source: "D-62", what: "default age past which a CRL serves no more" },
  crlRetryMs: { value: 10_000, unit: "ms", source: "D-62", what: "first wait after a failed CRL fetch, doubling" },
  crlRetryMaxMs: { value: 60_000, unit: "ms", source: "D-62", what: "longest wait after a failed CRL fetch" },
  keysTtlMs: { value: 300_000, unit: "ms", source: "D-61", what: "default lifetime of cached registry keys" },
  keysGraceMs: {
    value: 900_000,
    unit: "ms",
    source: "D-61",
    what: "how long the last good keys serve while fetches fail",
  },
  keysRefetchMs: { value: 30_000, unit: "ms", source: "D-61", what: "least time between refetches for an unknown kid" },
  keyDocumentMaxAgeSeconds: { value: 300, unit: "s", source: "D-22", what: "max-age of the key document" },
  registryTimeoutMs: { value: 5_000, unit: "ms", source: "D-61, D-63", what: "a call of the proxy to the registry" },
  registryAnswerBytes: {
    value: 33_554_432,
    unit: "bytes",
    source: "D-210",
    what: "an answer of the registry that the proxy reads",
  },
  accessCacheMaxMs: { value: 5_000, unit: "ms", source: "D-63", what: "longest cache of an access-token verdict" },
  timestampSkewSeconds: { value: 300, unit: "s", source: "SPEC Limits", what: "skew of X-Svc-Timestamp, either way" },
  nonceKeptSeconds: { value: 300, unit: "s", source: "SPEC Limits", what: "least time a nonce is remembered" },
  nonceGraceSeconds: {
    value: 301,
    unit: "s",
    source: "D-25",
    what: "time past its timestamp that a nonce is remembered",
  },
  badProofs: { value: 200, unit: "requests", source: "D-94", what: "bad proofs of one token from one address" },
  badProofsWindowMs: { value: 10_000, unit: "ms", source: "D-94", what: "window in which bad proofs are counted" },
  lingeringBytes: {
    value: 67_108_864,
    unit: "bytes",
    source: "D-70",
    what: "held by closed sockets that have not gone, over all",
  },
  bodyBytes: { value: 65_536, unit: "bytes", source: "D-12", what: "a request body" },
  hookBodyBytes: { value: 262_144, unit: "bytes", source: "D-12", what: "the body of POST /hooks/agent" },
  preferLength: {
    value: 256,
    unit: "count",
    source: "D-211",
    what: "characters of a Prefer header; a longer one counts as absent",
  },
  contentTypeLength: { value: 256, unit: "count", source: "D-241", what: "characters of a message's Content-Type" },
  bodyTimeoutMs: { value: 10_000, unit: "ms", source: "D-12", what: "time for a body to arrive" },
  bodyFreeBytes: { value: 8_192, unit: "bytes", source: "D-98", what: "a request body that needs no room" },
  bodyRoomBytes: {
    value: 4_194_304,
    unit: "bytes",
    source: "D-98",
    what: "request bodies being read and judged, over all; half of it per address",
  },
  bodyWaitMs: { value: 2_000, unit: "ms", source: "D-98", what: "wait of a request body for room" },
  bodiesWaiting: {
    value: 1_000,
    unit: "requests",
    source: "D-98",
    what: "wait for room, over all; half of them per address",
  },
  heldBytes: {
    value: 33_554_432,
    unit: "bytes",
    source: "D-98",
    what: "messages that wait for their answer, over all",
  },
  heldPerSenderBytes: { value: 2_097_152, unit: "bytes", source: "D-98", what: "messages of one sender that wait so" },
  auditKeptSeconds: { value: 34_560_000, unit: "s", source: "D-50", what: "how long an audit entry is kept" },
  apiKeyTouchMs: { value: 60_000, unit: "ms", source: "D-35", what: "least time between writes of lastUsedAt" },
  serviceOverlapSeconds: { value: 3_600, unit: "s", source: "D-46", what: "life of a rotated service secret" },
  heartbeatIntervalMs: {
    value: 30_000,
    unit: "ms",
    source: "SPEC Limits",
    what: "default interval of relay heartbeats",
  },
  silentSocketMs: { value: 60_000, unit: "ms", source: "PROTOCOL 5", what: "silence after which a socket is closed" },
  ackTimeoutMs: { value: 10_000, unit: "ms", source: "D-67", what: "default wait for deliver_ack over all tries" },
  socketsPerAgent: { value: 4, unit: "count", source: "D-70", what: "sockets of one agent" },
  frameBytes: { value: 1_048_576, unit: "bytes", source: "PROTOCOL 5", what: "a relay frame from the proxy" },
  connectorFrameBytes: { value: 8_192, unit: "bytes", source: "D-213", what: "a relay frame from a connector" },
  framesPerSecond: {
    value: 50,
    unit: "count",
    source: "D-70, D-213",
    what: "frames from a connector; acks of frames in flight are not counted",
  },
  heartbeatsInFlight: {
    value: 8,
    unit: "count",
    source: "D-213",
    what: "heartbeats of one socket whose ack is not counted",
  },
  malformedFrames: { value: 3, unit: "count", source: "PROTOCOL 5", what: "malformed frames until a socket is closed" },
  unsentBytes: {
    value: 8_388_608,
    unit: "bytes",
    source: "D-70",
    what: "unsent bytes after which a slow socket is closed",
  },
  unsentNotedBytes: {
    value: 65_536,
    unit: "bytes",
    source: "D-98",
    what: "unsent bytes that make a socket a slow one",
  },
  unsentAllBytes: {
    value: 67_108_864,
    unit: "bytes",
    source: "D-98",
    what: "unsent over all sockets, after which the slowest is closed",
  },
  drainMs: { value: 3_500, unit: "ms", source: "D-70", what: "wait for acks in flight at shut-down" },
  shutdownMs: { value: 5_000, unit: "ms", source: "D-70", what: "time for a whole shut-down" },
  ticketTtlSeconds: { value: 300, unit: "s", source: "SPEC Limits", what: "default lifetime of a pairing ticket" },
  ticketTtlMaxSeconds: { value: 900, unit: "s", source: "SPEC Limits", what: "longest lifetime of a pairing ticket" },
  ticketKeptSeconds: {
    value: 86_400,
    unit: "s",
    source: "D-26",
    what: "how long a ticket is remembered after its expiry",
  },
  openTickets: { value: 20, unit: "count", source: "D-73", what: "open tickets of one agent" },
  pairsPerAgent: { value: 10_000, unit: "count", source: "D-215", what: "default quota of pairs of one agent" },
  peerListDefault: { value: 100, unit: "count", source: "D-215", what: "default number of peers per page" },
  peerListMax: { value: 500, unit: "count", source: "D-215", what: "largest number of peers per page" },
  deliveryKeptSeconds: { value: 691_200, unit: "s", source: "D-72", what: "how long deliveries and receipts are kept" },
  sameAnswerSeconds: { value: 86_400, unit: "s", source: "D-69", what: "how long a request id gives the same answer" },
  identityAgentDid: { value: 160, unit: "code points", source: "SPEC Limits", what: "agentDid in the identity block" },
  identityOwnerDid: { value: 160, unit: "code points", source: "SPEC Limits", what: "ownerDid in the identity block" },
  identityIssuer: { value: 200, unit: "code points", source: "SPEC Limits", what: "issuer in the identity block" },
  identityAitJti: { value: 64, unit: "code points", source: "SPEC Limits", what: "aitJti in the identity block" },
  commitBytes: { value: 600_000, unit: "bytes", source: "ARCHITECTURE 5", what: "payloads gathered in one commit" },
  mailboxTtlSeconds: { value: 86_400, unit: "s", source: "D-68", what: "default time that a queued message waits" },
  mailboxPerRecipient: { value: 500, unit: "count", source: "D-68", what: "queued messages of one recipient" },
  mailboxPerSender: {
    value: 100,
    unit: "count",
    source: "D-68",
    what: "queued messages of one sender to one recipient",
  },
  mailboxNacks: {
    value: 5,
    unit: "count",
    source: "D-68",
    what: "refusals by the connector after which a message is dead",
  },
  mailboxRetryMs: { value: 1_000, unit: "ms", source: "D-68", what: "first wait after a refusal, doubling" },
  mailboxRetryMaxMs: { value: 60_000, unit: "ms", source: "D-68", what: "longest wait after a refusal" },
  mailboxSweepMs: { value: 30_000, unit: "ms", source: "D-68", what: "time between looks for expired messages" },
  chunkBytes: { value: 61_440, unit: "bytes", source: "ARCHITECTURE 5", what: "part of a payload in one stored value" },
  sessionRevalidateMs: {
    value: 300_000,
    unit: "ms",
    source: "D-64",
    what: "default time between judgements of a connected agent",
  },
  wayBackMs: {
    value: 500,
    unit: "ms",
    source: "ARCHITECTURE 6",
    what: "how much longer than the other instance the sender's one waits",
  },
  underWayLookMs: { value: 100, unit: "ms", source: "D-69", what: "time between looks for another instance's answer" },
  instanceLeaseMs: { value: 12_000, unit: "ms", source: "ARCHITECTURE 6", what: "life of an instance without a sign" },
  instanceRenewMs: { value: 4_000, unit: "ms", source: "ARCHITECTURE 6", what: "time between signs of an instance" },
  bellLookMs: {
    value: 2_000,
    unit: "ms",
    source: "ARCHITECTURE 6",
    what: "time between looks at the bell, besides the watch",
  },
  commitChecks: { value: 100, unit: "count", source: "ARCHITECTURE 5", what: "checks per commit, embedded store" },
  commitChecksConnect: { value: 10, unit: "count", source: "ARCHITECTURE 5", what: "checks per commit, KV Connect" },
  commitRetries: { value: 10, unit: "count", source: "ARCHITECTURE 5", what: "tries of an optimistic commit" },
});

/** Name of a limit. */
export type LimitName = keyof typeof LIMIT_TABLE;

/** The values alone. */
export const LIMITS = Object.freeze(
  Object.fromEntries(Object.entries(LIMIT_TABLE).map(([name, row]) => [name, row.value])),
) as Readonly<Record<LimitName, number>>;
