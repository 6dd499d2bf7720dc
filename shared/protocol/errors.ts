/**
 * The error table: every code with its HTTP status, condition and fix. No other file defines the status of an error,
 * because services and documents could then differ. The error class that carries a code, and the error body, are here
 * too.
 */
import { LIMITS } from "./limits.ts";

export interface ErrorRow {
  /** HTTP status. If there are two, the code that throws selects one. */
  status: number | readonly [number, number];
  when: string;
  fix: string;
}

/** Every error code with status, condition and fix. `docs/errors.md` and `svc explain` are generated from it. */
const ERROR_TABLE = {
  // Registry: invites and admin
  INVITE_CREATE_INVALID: [
    400,
    "the body of the invite is invalid",
    "Send expiresAt as an RFC 3339 time in the future, or null.",
  ],
  INVITE_CREATE_FORBIDDEN: [
    403,
    "the caller is not an admin",
    "Use an admin's API key, or ask an admin.",
  ],
  INVITE_REDEEM_INVALID: [
    400,
    "the body of the redemption is invalid",
    "Send code, and optionally displayName and apiKeyName, as strings.",
  ],
  INVITE_REDEEM_CODE_INVALID: [400, "the invite code does not exist", "Check the code, or ask for a new invite."],
  INVITE_REDEEM_EXPIRED: [400, "the invite code has expired", "Ask for a new invite."],
  INVITE_REDEEM_ALREADY_USED: [
    409,
    "the invite code has already been redeemed",
    "Ask for a new invite. An admin can suspend the person who used it.",
  ],
  INVITE_NOT_FOUND: [404, "the invite does not exist", "List the invites to get their IDs."],
  CONSOLE_OFF: [404, "the console is off", "Start the server with svc serve --console, or CONSOLE=on."],
  QUOTA_EXCEEDED: [
    409,
    "a quota of this account or agent is exhausted",
    "Delete unused records, or ask the operator to raise the quota.",
  ],
  LIST_INVALID_QUERY: [
    400,
    "the query of the list is invalid",
    "Send limit as 1 to 100, and cursor as the nextCursor of the previous page.",
  ],
  ADMIN_BOOTSTRAP_DISABLED: [
    503,
    "no bootstrap secret is configured",
    "Set BOOTSTRAP_SECRET and restart the registry.",
  ],
  ADMIN_BOOTSTRAP_UNAUTHORIZED: [
    401,
    "the bootstrap secret is missing or wrong",
    "Send the registry's BOOTSTRAP_SECRET in x-bootstrap-secret.",
  ],
  ADMIN_BOOTSTRAP_INVALID: [
    400,
    "the body of the bootstrap is invalid",
    "Send displayName and apiKeyName as strings, or no body.",
  ],
  ADMIN_BOOTSTRAP_ALREADY_COMPLETED: [
    409,
    "the registry already has an admin",
    "Use the admin's API key, or recover a lost key on the registry's host.",
  ],
  ADMIN_REQUIRED: [403, "the caller is not an admin", "Use an admin's API key."],
  ADMIN_INVALID_QUERY: [
    400,
    "the query of an admin's list is invalid",
    "Check the filters, limit (1 to 100) and cursor.",
  ],
  ADMIN_INVALID_BODY: [
    400,
    "the body of an admin's request is invalid",
    "Send reason as 1 to 200 characters of text, or no body.",
  ],
  ADMIN_SUSPEND_FORBIDDEN: [
    409,
    "the person is an admin",
    "Revoke the admin's agents; only the admin can revoke its API keys.",
  ],
  PERSON_NOT_FOUND: [404, "the person does not exist", "List the people to get their IDs."],
  ACCOUNT_SUSPENDED: [
    403,
    "an admin has suspended this account",
    "Ask the administrator to restore it; the connectors of its agents try again every 2 min.",
  ],
  AUDIT_INVALID_QUERY: [
    400,
    "the audit query is invalid",
    "Check event, actor, subject, since, until, order, limit (1 to 100) and cursor.",
  ],
  SIGNING_KEYS_CONFIGURED: [
    409,
    "the signing keys come from the configuration",
    "Change REGISTRY_SIGNING_KEYS and restart the registry.",
  ],
  SIGNING_KEYS_TOO_MANY: [
    409,
    "the store holds the maximum number of signing keys",
    "Rotate again after a retired key has left the key document, or set REGISTRY_SIGNING_KEYS.",
  ],
  // Registry: agent registration and lifecycle
  AGENT_REGISTRATION_CHALLENGE_INVALID: [
    400,
    "the body of the challenge is invalid",
    "Send publicKey as base64url of a 32-byte Ed25519 key.",
  ],
  AGENT_REGISTRATION_CHALLENGE_NOT_FOUND: [
    400,
    "the challenge does not exist, or another owner requested it",
    "Request a new challenge with the same API key.",
  ],
  AGENT_REGISTRATION_CHALLENGE_EXPIRED: [400, "the challenge has expired", "Request a new challenge."],
  AGENT_REGISTRATION_CHALLENGE_REPLAYED: [
    400,
    "the challenge has already been used",
    "Request a new challenge.",
  ],
  AGENT_REGISTRATION_INVALID: [
    400,
    "the body of the registration is invalid",
    "Check name, publicKey, challengeId, challengeSignature, framework and ttlDays.",
  ],
  AGENT_REGISTRATION_PROOF_MISMATCH: [
    400,
    "the public key is not the key of the challenge",
    "Register with the key of the challenge.",
  ],
  AGENT_REGISTRATION_PROOF_INVALID: [
    400,
    "the registration signature does not verify",
    "Sign the message built from messageTemplate with the agent's private key.",
  ],
  AGENT_NOT_FOUND: [404, "no such agent, or the caller does not own it", "List your agents to get their IDs."],
  AGENT_REVOKE_INVALID_PATH: [
    400,
    "the agent ID in the path is not a ULID",
    "Use the agent's ID, 26 upper-case characters.",
  ],
  AGENT_REVOKE_INVALID_STATE: [409, "the agent is already revoked", "List your agents to check its status."],
  AGENT_REISSUE_INVALID_STATE: [
    409,
    "the agent is revoked, or another change came first",
    "Check the agent's status; if it is active, try again.",
  ],
  AGENT_RESOLVE_INVALID_PATH: [
    400,
    "the ID in the path is not a ULID",
    "Use the agent's ID, 26 upper-case characters.",
  ],
  AGENT_LIST_INVALID_QUERY: [
    400,
    "the query of the agent list is invalid",
    "Check status, framework, limit (1 to 100) and cursor.",
  ],
  AGENT_OWNERSHIP_INVALID: [400, "the body of the ownership query is invalid", "Send ownerDid and agentDid."],
  // Registry: agent auth
  AGENT_AUTH_VALIDATE_INVALID: [
    400,
    "the request with an access token is incomplete or malformed",
    "Send X-Svc-Agent-Access, and the members of the body that the request needs.",
  ],
  AGENT_AUTH_VALIDATE_UNAUTHORIZED: [401, "the access token does not belong to this agent", "Refresh the session."],
  AGENT_AUTH_VALIDATE_EXPIRED: [401, "the access token has expired", "Refresh the session."],
  AGENT_AUTH_REFRESH_INVALID: [
    [400, 401],
    "the refresh request is invalid, or the token is not this agent's current refresh token",
    "Use the newest refresh token; after a lost response, send recovery: true.",
  ],
  AGENT_AUTH_REFRESH_UNAUTHORIZED: [
    401,
    "the proof of possession of the refresh request is missing or invalid",
    "Sign again with the agent's key and its current AIT.",
  ],
  AGENT_AUTH_REFRESH_REVOKED: [
    401,
    "the agent or its session is revoked",
    "Ask the owner to reissue the agent's token.",
  ],
  AGENT_AUTH_REFRESH_EXPIRED: [
    401,
    "the refresh token has expired",
    "Ask the owner to revoke the session and to reissue the agent's token.",
  ],
  AGENT_AUTH_REFRESH_CONFLICT: [409, "the session changed during the refresh", "Wait a moment, sign again and retry."],
  // Registry: API keys, services, CRL, rate limit
  API_KEY_CREATE_INVALID: [400, "the body of the API key is invalid", "Send name as a string of 1 to 64 characters."],
  API_KEY_REVOKE_INVALID_PATH: [
    400,
    "the key ID in the path is not a ULID",
    "Use the key's ID, 26 upper-case characters.",
  ],
  API_KEY_NOT_FOUND: [404, "no such API key, or the caller does not own it", "List your keys to get their IDs."],
  API_KEY_MISSING: [401, "the request has no API key", "Send Authorization: Bearer with your API key."],
  API_KEY_INVALID: [
    401,
    "the API key does not exist",
    "Check the key, or use another one.",
  ],
  API_KEY_REVOKED: [401, "the API key is revoked", "Use an active key, which can also create another one."],
  INTERNAL_SERVICE_INVALID: [
    400,
    "the body of the internal service is invalid",
    "Send name (2 to 64 of a-z, 0-9, _ and -) and scopes.",
  ],
  INTERNAL_SERVICE_FORBIDDEN: [
    403,
    "the caller is not an admin, or the service lacks the scope",
    "Use the API key of an admin, or a service with the scope.",
  ],
  INTERNAL_SERVICE_NOT_FOUND: [404, "the internal service does not exist", "List the services to get their IDs."],
  INTERNAL_SERVICE_ALREADY_EXISTS: [
    409,
    "an internal service with this name already exists",
    "Choose another name, or rotate the existing service.",
  ],
  INTERNAL_SERVICE_UNAUTHORIZED: [
    401,
    "the service credential is missing or wrong",
    "Set REGISTRY_INTERNAL_SERVICE_ID and REGISTRY_INTERNAL_SERVICE_SECRET.",
  ],
  RATE_LIMIT_EXCEEDED: [429, "too many requests", "Wait for the seconds in Retry-After."],
  CRL_NOT_FOUND: [
    404,
    "no token has ever been revoked",
    "Treat this as an empty list, unless you have seen a list, because a 404 can be forged.",
  ],
  CRL_BUILD_FAILED: [500, "the revocation list could not be built", "Check the registry's log."],
  // Proxy: authentication
  PROXY_AUTH_MISSING_TOKEN: [
    401,
    "the Authorization header is missing",
    "Send Authorization: Svc with the agent's AIT.",
  ],
  PROXY_AUTH_INVALID_SCHEME: [
    401,
    "the Authorization header is not of the form Svc <ait>",
    "Send the scheme Svc and one token.",
  ],
  PROXY_AUTH_INVALID_AIT: [
    401,
    "the AIT is malformed, expired, or not signed by this registry",
    "Ask the owner to reissue the AIT, or check which registry issued it.",
  ],
  PROXY_AUTH_INVALID_TIMESTAMP: [401, "X-Svc-Timestamp is missing or not a Unix timestamp", "Send whole Unix seconds."],
  PROXY_AUTH_TIMESTAMP_SKEW: [
    401,
    `X-Svc-Timestamp is over ${LIMITS.timestampSkewSeconds} s off`,
    "Set the machine's clock; the Date header of the response is the service's time.",
  ],
  PROXY_AUTH_INVALID_PROOF: [
    401,
    "the proof of possession does not verify",
    "Sign the method, origin, path, timestamp, nonce, body hash, recipient and AIT exactly as sent.",
  ],
  PROXY_AUTH_INVALID_NONCE: [401, "the nonce is missing or malformed", "Send 16 to 128 characters of base64url."],
  PROXY_AUTH_REPLAY: [401, "the nonce has already been used", "Sign again with a new nonce."],
  PROXY_AUTH_REVOKED: [
    401,
    "the AIT is revoked",
    "The owner runs svc agent reissue <name>, then starts the agent's connector again. For a deleted agent create a new one.",
  ],
  PROXY_AUTH_FORBIDDEN: [403, "the two agents are not a confirmed pair", "Pair the two agents first."],
  PROXY_AGENT_ACCESS_REQUIRED: [401, "X-Svc-Agent-Access is missing", "Send the session's access token."],
  PROXY_AGENT_ACCESS_INVALID: [401, "the access token is expired or invalid", "Refresh the session."],
  PROXY_AUTH_DEPENDENCY_UNAVAILABLE: [503, "the registry or the store is unreachable", "Try again in a moment."],
  PROXY_RATE_LIMIT_EXCEEDED: [
    429,
    "the agent, or all agents of its owner together, have reached a limit of requests, bytes, open tickets or refusals",
    "Wait for the seconds in Retry-After. The message names the limit.",
  ],
  // Proxy: what an admin sees
  PROXY_ADMIN_TOKEN_INVALID: [
    401,
    "the admin token is missing, expired, for another proxy, or not signed by the registry",
    "Get a new token from the registry with POST /v1/admin/tokens.",
  ],
  PROXY_ADMIN_INVALID_QUERY: [
    400,
    "the query of the admin route is invalid",
    "Check the parameters. An unknown one is refused, because a filter with a wrong name would show every record.",
  ],
  // Proxy: hooks and relay
  PROXY_HOOK_UNSUPPORTED_MEDIA_TYPE: [
    415,
    "the Content-Type is not application/json",
    "Send JSON with Content-Type: application/json.",
  ],
  PROXY_HOOK_INVALID_JSON: [
    400,
    "the body is not valid JSON, nests too deep or has too long a number",
    "Send UTF-8 JSON with one member message. Over 64 levels or 300 characters in a number are refused, because readers fail on them.",
  ],
  PROXY_HOOK_RECIPIENT_REQUIRED: [400, "the recipient header is missing", "Send X-Svc-Recipient-Agent-Did."],
  PROXY_HOOK_RECIPIENT_INVALID: [
    400,
    "the recipient header is not the DID of an agent of this server",
    "Send the DID of one agent.",
  ],
  PROXY_HOOK_CONVERSATION_INVALID: [
    400,
    "the conversation ID is invalid",
    "Send 1 to 128 visible ASCII characters without a comma.",
  ],
  PROXY_HOOK_REPLY_INVALID: [
    400,
    "a reply header of the message is invalid",
    "Send the ID of one message in X-Svc-In-Reply-To, and X-Svc-Auto as 1 or not at all.",
  ],
  PROXY_HOOK_CONTEXT_INVALID: [
    400,
    "the headers of the message are not those of its signed context",
    "Sign the headers that are sent. A server in front of the proxy that changes x-request-id or content-type also causes this.",
  ],
  PROXY_HOOK_REQUEST_ID_REUSED: [
    409,
    "the request ID was accepted with another body",
    "Use a new x-request-id, because the old one names the first message.",
  ],
  PROXY_RELAY_UNAVAILABLE: [503, "the relay cannot accept this now", "Try again in a moment."],
  PROXY_RELAY_DELIVERY_FAILED: [
    502,
    "the recipient's connector did not acknowledge the message",
    "Send it again with the same x-request-id, because it may have arrived.",
  ],
  PROXY_RELAY_CONNECTOR_OFFLINE: [
    502,
    "the recipient is offline",
    "Try later, or send Prefer: respond-async, so that the proxy keeps the message.",
  ],
  PROXY_RELAY_UPGRADE_REQUIRED: [426, "the request is not a WebSocket upgrade", "Connect with a WebSocket client."],
  PROXY_RELAY_AUTH_CONTEXT_MISSING: [
    500,
    "the handler was reached without a verified identity",
    "Report this defect of the service.",
  ],
  PROXY_RELAY_MAILBOX_FULL: [
    507,
    "the recipient's mailbox is full, or the space of its owner, of the sender's owner, or of the server's disk",
    "Try again after recipients have been online. The message says what is full.",
  ],
  PROXY_RELAY_RECEIPT_FORBIDDEN: [
    403,
    "the caller is not the recipient of the message",
    "Submit the receipt as the agent that received the message.",
  ],
  PROXY_RELAY_RECEIPT_INVALID: [
    400,
    "the receipt or the query of deliveries is invalid",
    "Send requestId, recipientAgentDid, status and timestamp, or messages; add senderAgentDid if several senders used the request ID.",
  ],
  PROXY_RELAY_RECEIPT_INVALID_QUERY: [400, "the receipt query is invalid", "Send requestId and recipientAgentDid."],
  PROXY_RECEIPT_DELIVERY_NOT_FOUND: [
    404,
    "no delivery with this request ID from this sender to this recipient is on record",
    "Do not send this receipt again: the delivery never existed or is no longer kept.",
  ],
  // Proxy: pairing
  PROXY_PAIR_OWNERSHIP_FORBIDDEN: [
    403,
    "the registry does not confirm an active agent of this owner",
    "Check that the agent is active and has a live session.",
  ],
  PROXY_PAIR_OWNERSHIP_UNAVAILABLE: [503, "the registry's ownership check is unavailable", "Try again in a moment."],
  PROXY_PAIR_TICKET_NOT_FOUND: [
    404,
    "the ticket does not exist, or its pair has ended",
    "Check the ticket, or start a new pairing.",
  ],
  PROXY_PAIR_TICKET_EXPIRED: [410, "the ticket has expired", "Start a new pairing."],
  PROXY_PAIR_TICKET_ALREADY_CONFIRMED: [409, "another agent has confirmed the ticket", "Start a new pairing."],
  PROXY_PAIR_RESPONDER_FORBIDDEN: [
    403,
    "the ticket is for another agent, or this server takes no agents of that registry",
    "Ask for a ticket for your agent, or the operator about FEDERATION.",
  ],
  PROXY_PAIR_INVALID_BODY: [
    400,
    "the pairing request is invalid",
    "Correct what the message names; a profile has agentName and humanName.",
  ],
  // Both services
  NOT_FOUND: [404, "the route does not exist", "Check the path; /docs lists the routes."],
  METHOD_NOT_ALLOWED: [405, "the route does not support this method", "Use a method from the Allow header."],
  PAYLOAD_TOO_LARGE: [413, "the body is too large", "Reduce the body below the route's limit."],
  REQUEST_TIMEOUT: [
    408,
    "the body did not arrive in time",
    `Send the whole body within ${LIMITS.bodyTimeoutMs / 1000} s.`,
  ],
  INTERNAL_ERROR: [500, "an unexpected error occurred", "Try again, or search the service's log for the request ID."],
  SERVICE_UNAVAILABLE: [
    503,
    "the service is stopping or overloaded, its store is unreachable, or its disk is nearly full",
    "Wait for the seconds in Retry-After. When the message names the disk, its operator has to free space.",
  ],
} as const satisfies Record<string, readonly [ErrorRow["status"], when: string, fix: string]>;

export type ErrorCode = keyof typeof ERROR_TABLE;

type CodeWithTwoStatuses = {
  [K in ErrorCode]: (typeof ERROR_TABLE)[K][0] extends number ? never : K;
}[ErrorCode];

export const ERRORS = Object.freeze(
  Object.fromEntries(Object.entries(ERROR_TABLE).map(([code, [status, when, fix]]) => [code, { status, when, fix }])),
) as Readonly<Record<ErrorCode, ErrorRow>>;

/** Tells whether a text is a code of the table. Inherited names such as `constructor` are not codes. */
export function isErrorCode(text: string): text is ErrorCode {
  return Object.hasOwn(ERRORS, text);
}

/** Problems of an input, by member and as a whole. They are sent only in `local` and `dev`. */
export interface ErrorDetails {
  fieldErrors: Record<string, string[]>;
  formErrors: string[];
}

export interface ServiceErrorOptions {
  /** Message (default: the table's `when`). It must not contain a secret, because it is sent to the caller. */
  message?: string;
  details?: ErrorDetails;
  headers?: Record<string, string>;
  /** The internal cause. It is logged but never sent. */
  cause?: unknown;
}

export class ServiceError extends Error {
  override name = "ServiceError";
  readonly code: ErrorCode;
  readonly status: number;
  readonly details: ErrorDetails | undefined;
  readonly headers: Record<string, string>;

  constructor(code: Exclude<ErrorCode, CodeWithTwoStatuses>, options?: ServiceErrorOptions);
  constructor(code: CodeWithTwoStatuses, options: ServiceErrorOptions & { status: 400 | 401 });
  constructor(code: ErrorCode, options: ServiceErrorOptions & { status?: number } = {}) {
    const { status, when } = ERRORS[code];
    super(options.message ?? when.charAt(0).toUpperCase() + when.slice(1), { cause: options.cause });
    this.code = code;
    this.status = options.status ?? (typeof status === "number" ? status : status[0]);
    this.details = options.details;
    this.headers = options.headers ?? {};
  }
}

export interface ErrorEnvelope {
  error: { code: ErrorCode; message: string; details?: ErrorDetails };
}

export function errorEnvelope(error: ServiceError, showDetails: boolean): ErrorEnvelope {
  const { code, message, details } = error;
  return { error: { code, message, ...(showDetails && details ? { details } : {}) } };
}
