/** All limits and lifetimes, with unit and source (D-202). */

/** A row of the table of limits. */
export interface LimitRow {
  /** The number, in `unit`. */
  value: number;
  /** Unit of `value`. */
  unit: "ms" | "s" | "days" | "bytes" | "count" | "code points" | "requests" | "percent";
  /** A requirement, a decision or a section of a document. */
  source: string;
  /** What the number limits. */
  what: string;
}

/** Every limit. */
export const LIMIT_TABLE = {
  crlRequests: { value: 30, unit: "requests", source: "R-334", what: "GET /v1/crl per minute and IP" },
  resolveRequests: {
    value: 10,
    unit: "requests",
    source: "R-335",
    what: "GET /v1/resolve/:id per minute and IP",
  },
  refreshRequests: {
    value: 20,
    unit: "requests",
    source: "R-336",
    what: "POST /v1/agents/auth/refresh per minute and IP",
  },
  validateRequests: {
    value: 120,
    unit: "requests",
    source: "R-337",
    what: "POST /v1/agents/auth/validate per minute and IP",
  },
  apiKeyRequests: {
    value: 600,
    unit: "requests",
    source: "D-51, D-210",
    what: "default limit of the API-key routes per minute and human",
  },
  redeemFailures: {
    value: 60,
    unit: "requests",
    source: "D-51",
    what: "redemptions of an unknown invite code per minute and IP",
  },
  bootstrapFailures: {
    value: 10,
    unit: "requests",
    source: "D-33",
    what: "wrong bootstrap secrets per minute and IP",
  },
  limitWindowMs: {
    value: 60_000,
    /** Unit of `value`. */
    unit: "ms",
    source: "R-334",
    what: "window of the per-IP and per-human limits",
  },
  agentRequests: {
    value: 60,
    unit: "requests",
    source: "R-338",
    what: "default limit of the proxy per agent and window",
  },
  agentRequestsMax: {
    value: 1_000_000,
    unit: "requests",
    source: "D-65",
    what: "largest configurable limit per agent",
  },
  agentWindowMs: {
    value: 60_000,
    /** Unit of `value`. */
    unit: "ms",
    source: "R-338",
    what: "default window of the proxy's limit per agent",
  },
  exactWindowRequests: {
    value: 1_000,
    unit: "requests",
    source: "D-65",
    what: "largest limit whose requests are counted one by one",
  },
  receiptRequestsFactor: {
    value: 10,
    unit: "count",
    source: "D-60",
    what: "factor from the limit per agent to that of the receipt routes",
  },
  inviteCodeLength: { value: 128, unit: "count", source: "R-340", what: "characters of an invite code" },
  displayName: {
    value: 64,
    unit: "code points",
    source: "R-341",
    what: "display name, API key name, names of a pairing profile",
  },
  framework: { value: 32, unit: "code points", source: "R-342", what: "framework label" },
  agentListDefault: { value: 20, unit: "count", source: "R-343", what: "default number of agents per page" },
  agentListMin: { value: 1, unit: "count", source: "R-343", what: "smallest number of agents per page" },
  agentListMax: { value: 100, unit: "count", source: "R-343", what: "largest number of agents per page" },
  listPageDefault: {
    value: 100,
    unit: "count",
    source: "D-215",
    what: "default number of records per page of the other lists",
  },
  listPageMax: {
    value: 100,
    unit: "count",
    source: "D-215",
    what: "largest number of records per page of the other lists",
  },
  adminListDefault: {
    value: 20,
    unit: "count",
    source: "D-169",
    what: "default number of people or agents per page of an admin's list",
  },
  filteredPageReads: { value: 1_000, unit: "count", source: "D-215", what: "records read for one filtered page" },
  reason: { value: 200, unit: "code points", source: "D-169", what: "reason in an entry of the audit log" },
  auditFilter: {
    value: 200,
    unit: "count",
    source: "D-174",
    what: "characters of an actor or subject in an audit query",
  },
  auditClockSlackMs: {
    value: 3_600_000,
    unit: "ms",
    source: "D-174",
    what: "how far the ID of an audit entry may be ahead of its time, after the clock was set back",
  },
  suspensionWaitMs: {
    value: 5_000,
    unit: "ms",
    source: "D-170",
    what: "wait of a suspension or restore for the sessions of the person's agents",
  },
  suspensionRetryMs: {
    value: 1_000,
    unit: "ms",
    source: "D-170",
    what: "pause of a suspension after a failure of the store",
  },
  suspensionReads: { value: 100, unit: "count", source: "D-170", what: "sessions that a suspension reads at once" },
  suspensionSessions: { value: 4, unit: "count", source: "D-170", what: "sessions in one commit of a suspension" },
  quotaAgents: { value: 500, unit: "count", source: "D-210", what: "default quota of active agents of one human" },
  quotaApiKeys: { value: 50, unit: "count", source: "D-210", what: "default quota of active API keys of one human" },
  quotaRegistrationsPerDay: {
    value: 100,
    unit: "count",
    source: "D-210",
    what: "default quota of registrations of one human in 24 h",
  },
  quotaAgentReissuesPerDay: {
    value: 10,
    unit: "count",
    source: "D-210",
    what: "default quota of reissues of one agent in 24 h",
  },
  quotaReissuesPerDay: {
    value: 100,
    unit: "count",
    source: "D-210",
    what: "default quota of reissues of one human in 24 h",
  },
  quotaChallenges: {
    value: 1_000,
    unit: "count",
    source: "D-210",
    what: "default quota of open challenges of one human",
  },
  quotaRevocations: {
    value: 2_000,
    unit: "count",
    source: "D-210",
    what: "default quota of live revocation entries of one human",
  },
  quotaMax: { value: 1_000_000, unit: "count", source: "D-210", what: "largest configurable quota" },
  quotaWindowMs: { value: 86_400_000, unit: "ms", source: "D-210", what: "window of the daily quotas" },
  keyCreationsPerDay: { value: 100, unit: "count", source: "D-210", what: "API keys created by one human in 24 h" },
  openInvites: { value: 1_000, unit: "count", source: "D-218", what: "open invites of one admin" },
  endedKeptSeconds: {
    value: 7_776_000,
    unit: "s",
    source: "D-218",
    what: "retention of an agent, session, API key, invite or service after its end",
  },
  publicKeyBytes: { value: 32, unit: "bytes", source: "R-344", what: "decoded public key" },
  signatureBytes: { value: 64, unit: "bytes", source: "R-344", what: "decoded signature" },
  challengeTtlSeconds: { value: 300, unit: "s", source: "R-345", what: "lifetime of a registration challenge" },
  challengeNonceBytes: { value: 24, unit: "bytes", source: "R-345", what: "nonce of a registration challenge" },
  challengeKeptSeconds: { value: 86_400, unit: "s", source: "D-38", what: "retention of a challenge" },
  aitTtlDaysDefault: { value: 30, unit: "days", source: "R-346", what: "default lifetime of an AIT" },
  aitTtlDaysMin: { value: 1, unit: "days", source: "R-346", what: "shortest lifetime of an AIT" },
  aitTtlDaysMax: { value: 90, unit: "days", source: "R-346", what: "longest lifetime of an AIT" },
  aitBytes: { value: 8_192, unit: "bytes", source: "D-20", what: "size of an AIT" },
  tokenLeewaySeconds: {
    value: 60,
    unit: "s",
    source: "D-20, D-62",
    what: "largest lead of iat and nbf over the verifier's clock",
  },
  adminTokenTtlSeconds: { value: 300, unit: "s", source: "D-172", what: "lifetime of an admin token" },
  adminTokenBytes: { value: 2_048, unit: "bytes", source: "D-172", what: "an admin token" },
  adminRequests: {
    value: 600,
    unit: "requests",
    source: "D-172",
    what: "requests to the proxy's admin routes per minute and admin",
  },
  seenKeptSeconds: {
    value: 7_776_000,
    unit: "s",
    source: "D-173",
    what: "retention of when an agent last connected or disconnected",
  },
  deliveriesListed: { value: 50, unit: "count", source: "D-173", what: "deliveries of one request ID in a response" },
  refusalsPerCode: { value: 50, unit: "count", source: "D-173", what: "newest refusals of one code in memory" },
  accessTokenTtlSeconds: { value: 900, unit: "s", source: "R-347", what: "default lifetime of an access token" },
  refreshTokenTtlSeconds: {
    value: 2_592_000,
    unit: "s",
    source: "R-347",
    what: "default lifetime of a refresh token",
  },
  crlTtlSeconds: { value: 900, unit: "s", source: "D-21", what: "validity of a signed CRL" },
  crlKeptSeconds: { value: 3_600, unit: "s", source: "D-21", what: "retention of a CRL entry after its AIT expired" },
  crlBytes: { value: 33_554_432, unit: "bytes", source: "D-21, D-210", what: "size of a CRL that a verifier reads" },
  crlRebuildMs: { value: 1_000, unit: "ms", source: "D-210", what: "shortest time between builds of a long CRL" },
  crlRebuildFreeEntries: {
    value: 500,
    unit: "count",
    source: "D-210",
    what: "entries up to which a CRL is built at each change",
  },
  crlWarnPercent: { value: 50, unit: "percent", source: "D-210", what: "fill of the CRL at which the log warns" },
  crlWarnMs: { value: 3_600_000, unit: "ms", source: "D-210", what: "shortest time between two of these warnings" },
  crlRefusePercent: {
    value: 80,
    unit: "percent",
    source: "D-210",
    what: "fill of the CRL above which humans with many entries are refused",
  },
  crlRefuseEntries: {
    value: 100,
    unit: "count",
    source: "D-210",
    what: "live entries of one human above that fill",
  },
  crlRefreshIntervalMs: {
    value: 300_000,
    /** Unit of `value`. */
    unit: "ms",
    source: "R-348",
    what: "default interval of CRL refreshes",
  },
  crlMaxAgeMs: { value: 900_000, unit: "ms", source: "D-62", what: "default age after which a CRL is not used" },
  crlRetryMs: { value: 10_000, unit: "ms", source: "D-62", what: "first wait after a failed CRL fetch; doubles" },
  crlRetryMaxMs: { value: 60_000, unit: "ms", source: "D-62", what: "longest wait after a failed CRL fetch" },
  keysTtlMs: { value: 300_000, unit: "ms", source: "D-61", what: "default lifetime of cached registry keys" },
  keysGraceMs: {
    value: 900_000,
    /** Unit of `value`. */
    unit: "ms",
    source: "D-61",
    what: "use of the last keys while fetches fail",
  },
  keysRefetchMs: {
    value: 30_000,
    /** Unit of `value`. */
    unit: "ms",
    source: "D-61",
    what: "shortest time between fetches for an unknown kid",
  },
  signingKeys: { value: 64, unit: "count", source: "D-241", what: "signing keys in the store, including retired keys" },
  signingKeyLeadSeconds: {
    value: 60,
    unit: "s",
    source: "D-249",
    what: "publication of a new key before it signs, unless the proxy runs in the same process",
  },
  bootstrapSecretLength: {
    value: 24,
    unit: "count",
    source: "D-241",
    what: "fewest characters of a bootstrap secret in production",
  },
  keyDocumentMaxAgeSeconds: { value: 300, unit: "s", source: "D-22", what: "max-age of the key document" },
  registryTimeoutMs: {
    value: 5_000,
    /** Unit of `value`. */
    unit: "ms",
    source: "D-61, D-63",
    what: "time-out of a call from the proxy to the registry",
  },
  registryAnswerBytes: {
    value: 33_554_432,
    unit: "bytes",
    source: "D-21, D-210",
    what: "registry response that the proxy reads",
  },
  registryShortAnswerBytes: {
    value: 1_048_576,
    unit: "bytes",
    source: "D-210",
    what: "registry response other than the revocation list",
  },
  accessCacheMaxMs: { value: 5_000, unit: "ms", source: "D-63", what: "longest caching of an access-token check" },
  timestampSkewSeconds: {
    value: 300,
    unit: "s",
    source: "R-349",
    what: "difference of X-Svc-Timestamp from the server's clock, in either direction",
  },
  nonceKeptSeconds: { value: 300, unit: "s", source: "R-350", what: "shortest retention of a nonce" },
  nonceGraceSeconds: {
    value: 301,
    unit: "s",
    source: "D-25",
    what: "retention of a nonce after its timestamp",
  },
  badProofs: { value: 200, unit: "requests", source: "D-94", what: "bad proofs of one token from one address" },
  badProofsWindowMs: { value: 10_000, unit: "ms", source: "D-94", what: "window in which bad proofs are counted" },
  lingeringBytes: {
    value: 67_108_864,
    unit: "bytes",
    source: "D-70",
    what: "unsent bytes of closed sockets, in total",
  },
  bodyBytes: { value: 65_536, unit: "bytes", source: "D-12", what: "request body" },
  hookBodyBytes: { value: 262_144, unit: "bytes", source: "D-12", what: "body of POST /hooks/agent" },
  bodyPieces: { value: 1_024, unit: "count", source: "D-211", what: "chunks in which a body arrives" },
  queryLength: { value: 4_096, unit: "count", source: "D-211", what: "characters of a query that a route reads" },
  inputProblems: { value: 20, unit: "count", source: "D-240", what: "reported problems of one input" },
  preferLength: {
    value: 256,
    unit: "count",
    source: "D-211",
    what: "characters of a Prefer header; a longer header is ignored",
  },
  contextLines: { value: 16, unit: "count", source: "D-140", what: "bound headers of a message with a signed context" },
  contextValueLength: { value: 1_024, unit: "count", source: "D-140", what: "characters of a bound header" },
  contextBytes: { value: 4_096, unit: "bytes", source: "D-140", what: "text of a signed context" },
  contentTypeLength: { value: 256, unit: "count", source: "D-241", what: "characters of a message's Content-Type" },
  bodyTimeoutMs: { value: 10_000, unit: "ms", source: "D-12", what: "time for a body to arrive" },
  bodyFreeBytes: {
    value: 8_192,
    unit: "bytes",
    source: "D-98, D-259",
    what: "request body that is exempt from the body budget, and is read in one step when its length is declared",
  },
  bodyLeftBytes: {
    value: 262_144,
    unit: "bytes",
    source: "D-248",
    what: "unread body bytes that are read after the response, before the connection is closed",
  },
  bodyLeftMs: {
    value: 2_000,
    /** Unit of `value`. */
    unit: "ms",
    source: "D-248",
    what: "time from the refusal of a body to the end of its connection",
  },
  bodyRoomBytes: {
    value: 4_194_304,
    unit: "bytes",
    source: "D-98",
    what: "body budget: request bodies in memory, in total; half of it per address",
  },
  bodyWaitMs: { value: 2_000, unit: "ms", source: "D-98", what: "wait of a request body for the body budget" },
  bodiesWaiting: {
    value: 1_000,
    unit: "requests",
    source: "D-98",
    what: "requests that wait for the body budget, in total; half of them per address",
  },
  heldBytes: {
    value: 33_554_432,
    unit: "bytes",
    source: "D-98",
    what: "messages that wait for their response, in total",
  },
  heldPerSenderBytes: {
    value: 2_097_152,
    unit: "bytes",
    source: "D-98",
    what: "messages of one sender that wait for their response",
  },
  auditKeptSeconds: { value: 34_560_000, unit: "s", source: "D-50", what: "retention of an audit event" },
  refreshAuditKeptSeconds: {
    value: 604_800,
    unit: "s",
    source: "D-218",
    what: "retention of the audit event of a refresh",
  },
  apiKeyTouchMs: { value: 60_000, unit: "ms", source: "D-35", what: "shortest time between writes of lastUsedAt" },
  serviceOverlapSeconds: {
    value: 3_600,
    unit: "s",
    source: "D-46",
    what: "validity of a service secret after its rotation",
  },
  heartbeatIntervalMs: {
    value: 30_000,
    /** Unit of `value`. */
    unit: "ms",
    source: "R-351",
    what: "default interval of relay heartbeats",
  },
  silentSocketMs: {
    value: 60_000,
    /** Unit of `value`. */
    unit: "ms",
    source: "docs/protocol.md#relay-frames",
    what: "silence after which a socket is closed",
  },
  ackTimeoutMs: { value: 10_000, unit: "ms", source: "D-67", what: "default wait for deliver_ack over all attempts" },
  socketsPerAgent: { value: 4, unit: "count", source: "D-70", what: "sockets of one agent" },
  frameBytes: {
    value: 1_048_576,
    unit: "bytes",
    source: "docs/protocol.md#relay-frames",
    what: "relay frame from the proxy",
  },
  connectorFrameBytes: { value: 8_192, unit: "bytes", source: "D-213", what: "relay frame from a connector" },
  framesPerSecond: {
    value: 50,
    unit: "count",
    source: "D-70, D-213",
    what: "frames from a connector; acknowledgements of frames in flight are not counted",
  },
  heartbeatsInFlight: {
    value: 8,
    unit: "count",
    source: "D-213",
    what: "heartbeats of one socket whose acknowledgement is not counted",
  },
  malformedFrames: {
    value: 3,
    unit: "count",
    source: "docs/protocol.md#relay-frames",
    what: "malformed frames after which a socket is closed",
  },
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
    what: "unsent bytes at which a socket counts as slow",
  },
  unsentAllBytes: {
    value: 67_108_864,
    unit: "bytes",
    source: "D-98",
    what: "unsent bytes of all sockets after which the slowest is closed",
  },
  drainMs: { value: 3_500, unit: "ms", source: "D-70", what: "wait for acknowledgements in flight at shutdown" },
  stopNoticeMs: {
    value: 1_000,
    /** Unit of `value`. */
    unit: "ms",
    source: "D-267",
    what: "time at shutdown in which an instance with others is not ready and still serves requests",
  },
  noteDrainMs: {
    value: 3_300,
    unit: "ms",
    source: "D-267",
    what: "longest time at shutdown to end the lease and to handle the notes of other instances",
  },
  closeMs: { value: 700, unit: "ms", source: "D-267", what: "time at shutdown to close connections" },
  shutdownMs: { value: 5_000, unit: "ms", source: "D-70", what: "time for a complete shutdown" },
  ticketTtlSeconds: { value: 300, unit: "s", source: "R-352", what: "default lifetime of a pairing ticket" },
  ticketTtlMaxSeconds: { value: 900, unit: "s", source: "R-352", what: "longest lifetime of a pairing ticket" },
  ticketKeptSeconds: {
    value: 86_400,
    unit: "s",
    source: "D-26",
    what: "retention of a ticket after its expiry",
  },
  openTickets: { value: 20, unit: "count", source: "D-73", what: "open tickets of one agent" },
  pairsPerAgent: { value: 10_000, unit: "count", source: "D-215", what: "default quota of pairs of one agent" },
  peerListDefault: { value: 100, unit: "count", source: "D-215", what: "default number of peers per page" },
  peerListMax: { value: 500, unit: "count", source: "D-215", what: "largest number of peers per page" },
  deliveryKeptSeconds: {
    value: 691_200,
    unit: "s",
    source: "D-72, D-218",
    what: "retention of a delivery without a receipt after its response or its mailbox lifetime",
  },
  deliveryAfterReceiptSeconds: {
    value: 86_400,
    unit: "s",
    source: "D-218",
    what: "retention of a delivery after its receipt",
  },
  receiptKeptSeconds: { value: 259_200, unit: "s", source: "D-218", what: "default retention of a receipt" },
  receiptKeptSecondsMin: {
    value: 3_600,
    unit: "s",
    source: "D-218",
    what: "shortest configurable retention of a receipt",
  },
  receiptKeptSecondsMax: {
    value: 2_592_000,
    unit: "s",
    source: "D-218",
    what: "longest configurable retention of a receipt",
  },
  receiptsListed: { value: 200, unit: "count", source: "D-218", what: "receipts of one request ID in a response" },
  presenceKeptSeconds: {
    value: 86_400,
    unit: "s",
    source: "D-218",
    what: "retention of presence after the lease of its instance ended",
  },
  sweepMarginSeconds: {
    value: 604_800,
    unit: "s",
    source: "D-217",
    what: "time from the end of a record to its expiry in the store",
  },
  sweepRows: { value: 200, unit: "count", source: "D-217", what: "records read in one step of the expiry sweep" },
  sweepBytes: {
    value: 50_000,
    unit: "bytes",
    source: "D-217",
    what: "keys deleted by one commit of the expiry sweep",
  },
  sweepSlowMs: { value: 160, unit: "ms", source: "D-217", what: "pause of the expiry sweep after a step" },
  sweepQuickMs: {
    value: 20,
    /** Unit of `value`. */
    unit: "ms",
    source: "D-217",
    what: "pause of the expiry sweep after a step in which half of the records had ended",
  },
  sweepFirstMs: { value: 10_000, unit: "ms", source: "D-217", what: "wait of the expiry sweep after the start" },
  sweepRestMs: { value: 60_000, unit: "ms", source: "D-217", what: "pause between two passes over a key family" },
  sweepLeaseMs: { value: 120_000, unit: "ms", source: "D-217", what: "lease of the instance that sweeps a store" },
  sameAnswerSeconds: {
    value: 86_400,
    unit: "s",
    source: "D-69",
    what: "time in which a request ID gets the same response",
  },
  identityAgentDid: { value: 160, unit: "code points", source: "R-353", what: "agentDid in the identity block" },
  identityOwnerDid: { value: 160, unit: "code points", source: "R-353", what: "ownerDid in the identity block" },
  identityIssuer: { value: 200, unit: "code points", source: "R-353", what: "issuer in the identity block" },
  identityAitJti: { value: 64, unit: "code points", source: "R-353", what: "aitJti in the identity block" },
  commitBytes: { value: 600_000, unit: "bytes", source: "D-208", what: "payload bytes in one commit" },
  mailboxTtlSeconds: { value: 86_400, unit: "s", source: "D-68", what: "default lifetime of a queued message" },
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
    what: "rejections by the connector after which a message becomes a dead letter",
  },
  mailboxRetryMs: { value: 1_000, unit: "ms", source: "D-68", what: "first wait after a rejection; doubles" },
  mailboxRetryMaxMs: { value: 60_000, unit: "ms", source: "D-68", what: "longest wait after a rejection" },
  senderStatusMs: {
    value: 30_000,
    /** Unit of `value`. */
    unit: "ms",
    source: "D-222",
    what: "caching of the status of a queued message's sender",
  },
  senderStatuses: { value: 10_000, unit: "count", source: "D-222", what: "senders whose status is cached" },
  mailboxSweepMs: { value: 30_000, unit: "ms", source: "D-68", what: "time between searches for expired messages" },
  mailboxCountedTogether: {
    value: 500,
    unit: "count",
    source: "D-176",
    what: "mailboxes that are counted for the metrics before other work has a turn",
  },
  mailboxCountSlowMs: {
    value: 200,
    unit: "ms",
    source: "D-176",
    what: "duration of a count of all mailboxes from which the next one is later",
  },
  mailboxCountRareMs: {
    value: 300_000,
    unit: "ms",
    source: "D-176",
    what: "time to the next count of all mailboxes after a slow one",
  },
  chunkBytes: { value: 61_440, unit: "bytes", source: "D-208", what: "chunk of a payload in one stored value" },
  sessionRevalidateMs: {
    value: 300_000,
    /** Unit of `value`. */
    unit: "ms",
    source: "D-64",
    what: "default time between checks of a connected agent",
  },
  wayBackMs: {
    value: 500,
    /** Unit of `value`. */
    unit: "ms",
    source: "D-209",
    what: "time that the sender's instance waits longer than the recipient's",
  },
  underWayLookMs: {
    value: 100,
    /** Unit of `value`. */
    unit: "ms",
    source: "D-69",
    what: "time between polls for another instance's response",
  },
  instanceLeaseMs: { value: 12_000, unit: "ms", source: "D-209", what: "lease of an instance" },
  instanceRenewMs: { value: 4_000, unit: "ms", source: "D-209", what: "time between renewals of the lease" },
  leaseLookMs: {
    value: 1_000,
    /** Unit of `value`. */
    unit: "ms",
    source: "D-267",
    what: "time between looks at the lease of an instance whose result is awaited",
  },
  bellLookMs: {
    value: 2_000,
    /** Unit of `value`. */
    unit: "ms",
    source: "D-209",
    what: "time between polls of a watched key, in addition to the watch",
  },
  commitChecks: { value: 100, unit: "count", source: "D-208", what: "checks per commit with the embedded store" },
  commitChecksConnect: { value: 10, unit: "count", source: "D-208", what: "checks per commit over KV Connect" },
  changesPerCommit: { value: 25, unit: "count", source: "D-221", what: "registry changes in one commit" },
  changesWaiting: {
    value: 10_000,
    unit: "count",
    source: "D-221",
    what: "registry changes that wait for their commit",
  },
  changeWaitMs: { value: 30_000, unit: "ms", source: "D-221", what: "wait of a change for its commit" },
  changeRetryMs: {
    value: 5_000,
    /** Unit of `value`. */
    unit: "ms",
    source: "D-221",
    what: "time in which a commit that conflicts with another instance is retried",
  },
  commitMutations: { value: 1_000, unit: "count", source: "D-220", what: "writes and deletions in one commit" },
  commitKeyBytes: { value: 81_920, unit: "bytes", source: "D-220", what: "keys written by one commit" },
  commitMutationBytes: {
    value: 819_200,
    unit: "bytes",
    source: "D-220",
    what: "keys and values written by one commit",
  },
  storeKeyBytes: { value: 2_048, unit: "bytes", source: "D-220", what: "key in the store" },
  storeValueBytes: { value: 65_536, unit: "bytes", source: "D-220", what: "value in the store" },
  storeCallMs: { value: 10_000, unit: "ms", source: "D-216", what: "time for the store to answer a call" },
  claimsWaiting: { value: 10_000, unit: "count", source: "D-216", what: "claims that wait for their commit" },
  claimsPassedOver: {
    value: 500,
    unit: "count",
    source: "D-254",
    what: "waiting claims that wait for a commit in flight and that later claims may pass",
  },
  commitsInFlight: {
    value: 16,
    unit: "count",
    source: "D-254",
    what: "group commits in flight with a store over the network",
  },
  reliedMs: {
    value: 1_000,
    unit: "ms",
    source: "D-255",
    what: "age of a record on which a message relies without a check by its commit, with a store over the network",
  },
  claimWaitMs: {
    value: 3_000,
    /** Unit of `value`. */
    unit: "ms",
    source: "D-216",
    what: "wait for a commit to begin above which new claims are refused",
  },
  claimHealthyMs: {
    value: 5_000,
    /** Unit of `value`. */
    unit: "ms",
    source: "D-216",
    what: "wait of the oldest claim, and duration of a health check, above which the service is unavailable",
  },
  commitMarkSeconds: {
    value: 3_600,
    unit: "s",
    source: "D-216",
    what: "retention of the mark of the newest commit",
  },
  storeAwayCallMs: {
    value: 1_000,
    /** Unit of `value`. */
    unit: "ms",
    source: "D-270",
    what: "deadline of a call of the store after an unanswered one",
  },
  storeOpenCalls: {
    value: 1_000,
    /** Unit of `value`. */
    unit: "count",
    source: "D-270",
    what: "calls without an answer above which a store that is away gets no more",
  },
  storeProbeMs: {
    value: 5_000,
    /** Unit of `value`. */
    unit: "ms",
    source: "D-220",
    what: "shortest time between probe writes of a health check",
  },
  storeProbeSeconds: { value: 3_600, unit: "s", source: "D-220", what: "retention of a probe record" },
  joiningWaitMs: {
    value: 20,
    /** Unit of `value`. */
    unit: "ms",
    source: "D-260",
    what: "longest wait of the outcome of a message for the commit of another claim",
  },
  wheelTimerMs: {
    value: 1_000,
    /** Unit of `value`. */
    unit: "ms",
    source: "D-259",
    what: "shortest deadline that the server keeps in its timer wheel",
  },
  wheelSlotMs: {
    value: 250,
    /** Unit of `value`. */
    unit: "ms",
    source: "D-259",
    what: "slot of the timer wheel: how late such a deadline may end",
  },
  commitRetries: { value: 10, unit: "count", source: "D-208", what: "attempts of an optimistic commit" },
} as const satisfies Record<string, LimitRow>;
Object.freeze(LIMIT_TABLE);

/** Name of a limit. */
export type LimitName = keyof typeof LIMIT_TABLE;

/** Value of each limit, in the unit of its row. */
export const LIMITS: Readonly<Record<LimitName, number>> = Object.freeze(
  Object.fromEntries(Object.entries(LIMIT_TABLE).map(([name, row]) => [name, row.value])),
) as Readonly<Record<LimitName, number>>;
