/**
 * The error table: every code with its HTTP status, condition and fix (D-10). Also the error class that carries a code,
 * and the envelope. No other file defines the status of an error.
 */
import { LIMITS } from "./limits.ts";

export interface ErrorRow {
  /** HTTP status; of two, the code that throws selects one. */
  status: number | readonly [number, number];
  /** The condition; the default message. */
  when: string;
  /** What a person can do. */
  fix: string;
}

/** Every error code, with its row. `docs/errors.md` and `svc explain` are generated from it. */
export const ERRORS = {
  // Registry: invites and admin
  INVITE_CREATE_INVALID: {
    status: 400,
    when: "the body of the invite is invalid",
    fix: "Send expiresAt as an RFC 3339 time in the future, or null.",
  },
  INVITE_CREATE_FORBIDDEN: {
    status: 403,
    when: "the caller is not an admin, so it cannot create invites",
    fix: "Use the API key of an admin, or ask an admin for an invite.",
  },
  INVITE_REDEEM_INVALID: {
    status: 400,
    when: "the body of the redemption is invalid",
    fix: "Send code, and optionally displayName and apiKeyName, as strings.",
  },
  INVITE_REDEEM_CODE_INVALID: {
    status: 400,
    when: "the invite code does not exist",
    fix: "Check the code, or ask for a new invite.",
  },
  INVITE_REDEEM_EXPIRED: { status: 400, when: "the invite code has expired", fix: "Ask for a new invite." },
  INVITE_REDEEM_ALREADY_USED: {
    status: 409,
    when: "the invite code has already been redeemed",
    fix: "Ask for a new invite; each can be redeemed once.",
  },
  INVITE_NOT_FOUND: { status: 404, when: "the invite does not exist", fix: "List the invites to get their IDs." },
  CONSOLE_OFF: {
    status: 404,
    when: "the console is off",
    fix: "Start the server with svc serve --console, or CONSOLE=on.",
  },
  QUOTA_EXCEEDED: {
    status: 409,
    when: "a quota of this account or agent is exhausted",
    fix: "Delete unused records, or ask the operator to raise the quota.",
  },
  LIST_INVALID_QUERY: {
    status: 400,
    when: "the query of the list is invalid",
    fix: "Send limit as 1 to 100, and cursor as the nextCursor of the previous page.",
  },
  ADMIN_BOOTSTRAP_DISABLED: {
    status: 503,
    when: "no bootstrap secret is configured",
    fix: "Set BOOTSTRAP_SECRET and restart the registry.",
  },
  ADMIN_BOOTSTRAP_UNAUTHORIZED: {
    status: 401,
    when: "the bootstrap secret is missing or wrong",
    fix: "Send the registry's BOOTSTRAP_SECRET in x-bootstrap-secret.",
  },
  ADMIN_BOOTSTRAP_INVALID: {
    status: 400,
    when: "the body of the bootstrap is invalid",
    fix: "Send displayName and apiKeyName as strings, or no body.",
  },
  ADMIN_BOOTSTRAP_ALREADY_COMPLETED: {
    status: 409,
    when: "the registry already has an admin",
    fix: "Use the admin's API key, or recover a lost key on the registry's host.",
  },
  ADMIN_REQUIRED: { status: 403, when: "the caller is not an admin", fix: "Use the API key of an admin." },
  ADMIN_INVALID_QUERY: {
    status: 400,
    when: "the query of an admin's list is invalid",
    fix: "Check the filters, limit (1 to 100) and cursor.",
  },
  ADMIN_INVALID_BODY: {
    status: 400,
    when: "the body of an admin's request is invalid",
    fix: "Send reason as 1 to 200 characters of text, or no body.",
  },
  ADMIN_SUSPEND_FORBIDDEN: {
    status: 409,
    when: "an admin cannot be suspended",
    fix: "Revoke the admin's API keys, or its agents, instead.",
  },
  PERSON_NOT_FOUND: { status: 404, when: "the person does not exist", fix: "List the people to get their IDs." },
  ACCOUNT_SUSPENDED: {
    status: 403,
    when: "an admin has suspended this account",
    fix: "Ask the administrator to restore it; the connectors of its agents try again every 5 min.",
  },
  AUDIT_INVALID_QUERY: {
    status: 400,
    when: "the audit query is invalid",
    fix: "Check event, actor, subject, since, until, order, limit (1 to 100) and cursor.",
  },
  SIGNING_KEYS_CONFIGURED: {
    status: 409,
    when: "the signing keys come from the configuration",
    fix: "Change REGISTRY_SIGNING_KEYS and restart the registry.",
  },
  SIGNING_KEYS_TOO_MANY: {
    status: 409,
    when: "the store holds the maximum number of signing keys",
    fix: "Rotate again after a retired key has left the key document, or set REGISTRY_SIGNING_KEYS.",
  },
  // Registry: agent registration and lifecycle
  AGENT_REGISTRATION_CHALLENGE_INVALID: {
    status: 400,
    when: "the body of the challenge is invalid",
    fix: "Send publicKey as base64url of a 32-byte Ed25519 key.",
  },
  AGENT_REGISTRATION_CHALLENGE_NOT_FOUND: {
    status: 400,
    when: "the challenge does not exist, or another owner requested it",
    fix: "Request a new challenge with the same API key.",
  },
  AGENT_REGISTRATION_CHALLENGE_EXPIRED: {
    status: 400,
    when: "the challenge is older than five minutes",
    fix: "Request a new challenge.",
  },
  AGENT_REGISTRATION_CHALLENGE_REPLAYED: {
    status: 400,
    when: "the challenge has already been used",
    fix: "Request a new challenge; each can be used once.",
  },
  AGENT_REGISTRATION_INVALID: {
    status: 400,
    when: "the body of the registration is invalid",
    fix: "Check name, publicKey, challengeId, challengeSignature, framework and ttlDays.",
  },
  AGENT_REGISTRATION_PROOF_MISMATCH: {
    status: 400,
    when: "the public key is not the key of the challenge",
    fix: "Register with the key that the challenge was requested for.",
  },
  AGENT_REGISTRATION_PROOF_INVALID: {
    status: 400,
    when: "the registration signature does not verify",
    fix: "Sign the message built from messageTemplate with the agent's private key.",
  },
  AGENT_NOT_FOUND: {
    status: 404,
    when: "no such agent, or the caller does not own it",
    fix: "List your agents to get their IDs.",
  },
  AGENT_REVOKE_INVALID_PATH: {
    status: 400,
    when: "the agent ID in the path is not a ULID",
    fix: "Use the agent's ID, 26 upper-case characters.",
  },
  AGENT_REVOKE_INVALID_STATE: {
    status: 409,
    when: "the agent is already revoked",
    fix: "List your agents to check its status.",
  },
  AGENT_REISSUE_INVALID_STATE: {
    status: 409,
    when: "the agent is revoked, or another change came first",
    fix: "Check the agent's status; if it is active, try again.",
  },
  AGENT_RESOLVE_INVALID_PATH: {
    status: 400,
    when: "the ID in the path is not a ULID",
    fix: "Use the agent's ID, 26 upper-case characters.",
  },
  AGENT_LIST_INVALID_QUERY: {
    status: 400,
    when: "the query of the agent list is invalid",
    fix: "Check status, framework, limit (1 to 100) and cursor.",
  },
  AGENT_OWNERSHIP_INVALID: {
    status: 400,
    when: "the body of the ownership query is invalid",
    fix: "Send ownerDid and agentDid.",
  },
  // Registry: agent auth
  AGENT_AUTH_VALIDATE_INVALID: {
    status: 400,
    when: "the request with an access token is incomplete or malformed",
    fix: "Send X-Svc-Agent-Access, and the members of the body that the request needs.",
  },
  AGENT_AUTH_VALIDATE_UNAUTHORIZED: {
    status: 401,
    when: "the access token does not belong to this agent",
    fix: "Refresh the session.",
  },
  AGENT_AUTH_VALIDATE_EXPIRED: { status: 401, when: "the access token has expired", fix: "Refresh the session." },
  AGENT_AUTH_REFRESH_INVALID: {
    status: [400, 401],
    when: "the refresh request is invalid, or the token is not this agent's current refresh token",
    fix: "Use the newest refresh token; after a lost response, set recovery.",
  },
  AGENT_AUTH_REFRESH_UNAUTHORIZED: {
    status: 401,
    when: "the proof of possession of the refresh request is missing or invalid",
    fix: "Sign again with the agent's key and its current AIT.",
  },
  AGENT_AUTH_REFRESH_REVOKED: {
    status: 401,
    when: "the agent or its session is revoked",
    fix: "Ask the owner to reissue the agent's token.",
  },
  AGENT_AUTH_REFRESH_EXPIRED: {
    status: 401,
    when: "the refresh token has expired",
    fix: "Ask the owner to revoke the session and to reissue the agent's token.",
  },
  AGENT_AUTH_REFRESH_CONFLICT: {
    status: 409,
    when: "the session changed during the refresh",
    fix: "Wait a moment, sign again and retry.",
  },
  // Registry: API keys, services, CRL, rate limit
  API_KEY_CREATE_INVALID: {
    status: 400,
    when: "the body of the API key is invalid",
    fix: "Send name as a string of 1 to 64 characters.",
  },
  API_KEY_REVOKE_INVALID_PATH: {
    status: 400,
    when: "the key ID in the path is not a ULID",
    fix: "Use the key's ID, 26 upper-case characters.",
  },
  API_KEY_NOT_FOUND: {
    status: 404,
    when: "no such API key, or the caller does not own it",
    fix: "List your keys to get their IDs.",
  },
  API_KEY_MISSING: {
    status: 401,
    when: "the request has no API key",
    fix: "Send Authorization: Bearer with your API key.",
  },
  API_KEY_INVALID: {
    status: 401,
    when: "the API key does not exist",
    fix: "Check the key; it was shown only at its creation.",
  },
  API_KEY_REVOKED: {
    status: 401,
    when: "the API key is revoked",
    fix: "Use an active key, or create a new one with it.",
  },
  INTERNAL_SERVICE_INVALID: {
    status: 400,
    when: "the body of the internal service is invalid",
    fix: "Send name (2 to 64 of a-z, 0-9, _ and -) and scopes.",
  },
  INTERNAL_SERVICE_FORBIDDEN: {
    status: 403,
    when: "the caller is not an admin, or the service lacks the scope",
    fix: "Use the API key of an admin, or a service with the scope.",
  },
  INTERNAL_SERVICE_NOT_FOUND: {
    status: 404,
    when: "the internal service does not exist",
    fix: "List the services to get their IDs.",
  },
  INTERNAL_SERVICE_ALREADY_EXISTS: {
    status: 409,
    when: "an internal service with this name already exists",
    fix: "Choose another name, or rotate the existing service.",
  },
  INTERNAL_SERVICE_UNAUTHORIZED: {
    status: 401,
    when: "the service credential is missing or wrong",
    fix: "Set REGISTRY_INTERNAL_SERVICE_ID and REGISTRY_INTERNAL_SERVICE_SECRET.",
  },
  RATE_LIMIT_EXCEEDED: {
    status: 429,
    when: "too many requests",
    fix: "Wait for the number of seconds in Retry-After.",
  },
  CRL_NOT_FOUND: {
    status: 404,
    when: "no token has ever been revoked",
    fix: "Treat the response as an empty list until the first signed list.",
  },
  CRL_BUILD_FAILED: { status: 500, when: "the revocation list could not be built", fix: "Check the registry's log." },
  // Proxy: authentication
  PROXY_AUTH_MISSING_TOKEN: {
    status: 401,
    when: "the Authorization header is missing",
    fix: "Send Authorization: Svc with the agent's AIT.",
  },
  PROXY_AUTH_INVALID_SCHEME: {
    status: 401,
    when: "the Authorization header is not of the form Svc <ait>",
    fix: "Send the scheme Svc and one token.",
  },
  PROXY_AUTH_INVALID_AIT: {
    status: 401,
    when: "the AIT is malformed, expired, or not signed by this registry",
    fix: "Ask the owner to reissue the AIT, or check which registry issued it.",
  },
  PROXY_AUTH_INVALID_TIMESTAMP: {
    status: 401,
    when: "X-Svc-Timestamp is missing or not a Unix timestamp",
    fix: "Send whole Unix seconds.",
  },
  PROXY_AUTH_TIMESTAMP_SKEW: {
    status: 401,
    when: `X-Svc-Timestamp is over ${LIMITS.timestampSkewSeconds} s off`,
    fix: "Set the machine's clock; the Date header of the response is the service's time.",
  },
  PROXY_AUTH_INVALID_PROOF: {
    status: 401,
    when: "the proof of possession does not verify",
    fix: "Sign the method, origin, path, timestamp, nonce, body hash, recipient and AIT exactly as sent.",
  },
  PROXY_AUTH_INVALID_NONCE: {
    status: 401,
    when: "the nonce is missing or malformed",
    fix: "Send 16 to 128 characters of base64url.",
  },
  PROXY_AUTH_REPLAY: {
    status: 401,
    when: "the nonce has already been used",
    fix: "Sign every request with a new nonce.",
  },
  PROXY_AUTH_REVOKED: {
    status: 401,
    when: "the AIT is revoked",
    fix:
      "The owner runs svc agent reissue <name>, then starts its connector again. A deleted agent stays deleted: create a new one.",
  },
  PROXY_AUTH_FORBIDDEN: {
    status: 403,
    when: "the two agents are not a confirmed pair",
    fix: "Pair the two agents first.",
  },
  PROXY_AGENT_ACCESS_REQUIRED: {
    status: 401,
    when: "X-Svc-Agent-Access is missing",
    fix: "Send the session's access token.",
  },
  PROXY_AGENT_ACCESS_INVALID: {
    status: 401,
    when: "the access token is expired or invalid",
    fix: "Refresh the session.",
  },
  PROXY_AUTH_DEPENDENCY_UNAVAILABLE: {
    status: 503,
    when: "the registry or the store is unreachable",
    fix: "Try again in a moment.",
  },
  PROXY_RATE_LIMIT_EXCEEDED: {
    status: 429,
    when: "the agent, or all agents of its owner together, have exceeded a rate limit",
    fix: "Wait for the number of seconds in Retry-After. The message of the answer says which limit it is.",
  },
  // Proxy: what an admin sees
  PROXY_ADMIN_TOKEN_INVALID: {
    status: 401,
    when: "the admin token is missing, expired, for another proxy, or not signed by the registry",
    fix: "Get a new token from the registry with POST /v1/admin/tokens; an API key does not work here.",
  },
  PROXY_ADMIN_INVALID_QUERY: {
    status: 400,
    when: "the query of the admin route is invalid",
    fix: "Send only the parameters of the route, each once and in its form.",
  },
  // Proxy: hooks and relay
  PROXY_HOOK_UNSUPPORTED_MEDIA_TYPE: {
    status: 415,
    when: "the Content-Type is not application/json",
    fix: "Send JSON with Content-Type: application/json.",
  },
  PROXY_HOOK_INVALID_JSON: {
    status: 400,
    when: "the body is not valid JSON, nests too deep or has too long a number",
    fix: "Send UTF-8 JSON with at most 64 levels, 300 characters in a number and one member message at its top level.",
  },
  PROXY_HOOK_RECIPIENT_REQUIRED: {
    status: 400,
    when: "the recipient header is missing",
    fix: "Send X-Svc-Recipient-Agent-Did.",
  },
  PROXY_HOOK_RECIPIENT_INVALID: {
    status: 400,
    when: "the recipient header is not the DID of an agent",
    fix: "Send the DID of one agent.",
  },
  PROXY_HOOK_CONVERSATION_INVALID: {
    status: 400,
    when: "the conversation ID is invalid",
    fix: "Send 1 to 128 visible ASCII characters without a comma.",
  },
  PROXY_HOOK_REPLY_INVALID: {
    status: 400,
    when: "a reply header of the message is invalid",
    fix: "Send the ID of one message in X-Svc-In-Reply-To, and X-Svc-Auto as 1 or not at all.",
  },
  PROXY_HOOK_CONTEXT_INVALID: {
    status: 400,
    when: "the headers of the message are not those of its signed context",
    fix: "Sign the headers that are sent. A server in front of the proxy must not change x-request-id or content-type.",
  },
  PROXY_HOOK_REQUEST_ID_REUSED: {
    status: 409,
    when: "the request ID was accepted with another body",
    fix: "Use a new x-request-id for a new message.",
  },
  PROXY_RELAY_UNAVAILABLE: {
    status: 503,
    when: "the relay cannot accept the message now",
    fix: "Try again in a moment.",
  },
  PROXY_RELAY_DELIVERY_FAILED: {
    status: 502,
    when: "the recipient's connector did not acknowledge the message",
    fix: "Send the message again with the same x-request-id.",
  },
  PROXY_RELAY_CONNECTOR_OFFLINE: {
    status: 502,
    when: "the recipient is offline",
    fix: "Try later, or send Prefer: respond-async.",
  },
  PROXY_RELAY_UPGRADE_REQUIRED: {
    status: 426,
    when: "the request is not a WebSocket upgrade",
    fix: "Connect with a WebSocket client.",
  },
  PROXY_RELAY_AUTH_CONTEXT_MISSING: {
    status: 500,
    when: "the handler was reached without a verified identity",
    fix: "Report this defect of the service.",
  },
  PROXY_RELAY_MAILBOX_FULL: {
    status: 507,
    when: "the recipient's mailbox is full, or the space of its owner, of the sender's owner, or of the server's disk",
    fix: "Try again after recipients have been online. The message of the answer says what is full.",
  },
  PROXY_RELAY_RECEIPT_FORBIDDEN: {
    status: 403,
    when: "the caller is not the recipient of the message",
    fix: "Submit the receipt as the agent that received the message.",
  },
  PROXY_RELAY_RECEIPT_INVALID: {
    status: 400,
    when: "the body of the receipt is invalid",
    fix:
      "Send requestId, recipientAgentDid, status and timestamp; add senderAgentDid if several senders used the request ID.",
  },
  PROXY_RELAY_RECEIPT_INVALID_QUERY: {
    status: 400,
    when: "the receipt query is invalid",
    fix: "Send requestId and recipientAgentDid.",
  },
  PROXY_RECEIPT_DELIVERY_NOT_FOUND: {
    status: 404,
    when: "no delivery with this request ID from this sender to this recipient is on record",
    fix: "Do not send this receipt again: the delivery never existed or is no longer kept.",
  },
  // Proxy: pairing
  PROXY_PAIR_OWNERSHIP_FORBIDDEN: {
    status: 403,
    when: "the registry does not confirm an active agent of this owner",
    fix: "Check that the agent is active and has a live session.",
  },
  PROXY_PAIR_OWNERSHIP_UNAVAILABLE: {
    status: 503,
    when: "the registry's ownership check is unavailable",
    fix: "Try again in a moment.",
  },
  PROXY_PAIR_TICKET_NOT_FOUND: {
    status: 404,
    when: "the ticket does not exist",
    fix: "Check the ticket, or start a new pairing.",
  },
  PROXY_PAIR_TICKET_EXPIRED: { status: 410, when: "the ticket has expired", fix: "Start a new pairing." },
  PROXY_PAIR_TICKET_ALREADY_CONFIRMED: {
    status: 409,
    when: "another agent has confirmed the ticket",
    fix: "Start a new pairing.",
  },
  PROXY_PAIR_RESPONDER_FORBIDDEN: {
    status: 403,
    when: "the ticket is for another agent",
    fix: "Ask for a ticket for your agent.",
  },
  PROXY_PAIR_INVALID_BODY: {
    status: 400,
    when: "the body of the pairing request is invalid",
    fix: "Send agentName and humanName of the profile, and the ticket or ttlSeconds.",
  },
  // Both services
  NOT_FOUND: { status: 404, when: "the route does not exist", fix: "Check the path; /docs lists the routes." },
  METHOD_NOT_ALLOWED: {
    status: 405,
    when: "the route does not support this method",
    fix: "Use a method from the Allow header.",
  },
  PAYLOAD_TOO_LARGE: { status: 413, when: "the body is too large", fix: "Reduce the body below the route's limit." },
  REQUEST_TIMEOUT: {
    status: 408,
    when: "the body did not arrive in time",
    fix: `Send the whole body within ${LIMITS.bodyTimeoutMs / 1000} s.`,
  },
  INTERNAL_ERROR: {
    status: 500,
    when: "an unexpected error occurred",
    fix: "Try again, or search the service's log for the request ID.",
  },
  SERVICE_UNAVAILABLE: {
    status: 503,
    when: "the store is unreachable, or too many others change the same records",
    fix: "Try again in a moment.",
  },
} as const satisfies Record<string, ErrorRow>;
Object.freeze(ERRORS);

/** A code of the table. */
export type ErrorCode = keyof typeof ERRORS;

type CodeWithTwoStatuses = {
  [K in ErrorCode]: (typeof ERRORS)[K]["status"] extends number ? never : K;
}[ErrorCode];

/** Returns true for a code of the table. Inherited names such as `constructor` are not codes. */
export function isErrorCode(text: string): text is ErrorCode {
  return Object.hasOwn(ERRORS, text);
}

/** Problems of an input, by member and as a whole. Sent in `local` and `dev` only. */
export interface ErrorDetails {
  /** Problems of each member, by its name. */
  fieldErrors: Record<string, string[]>;
  /** Problems of the input as a whole. */
  formErrors: string[];
}

export interface ServiceErrorOptions {
  /** Message (default: the table's `when`). Never contains a secret. */
  message?: string;
  details?: ErrorDetails;
  /** Response headers, for example `Retry-After`. */
  headers?: Record<string, string>;
  /** Internal cause; logged, never sent. */
  cause?: unknown;
}

/** An error whose code is sent to the client. */
export class ServiceError extends Error {
  override name = "ServiceError";
  readonly code: ErrorCode;
  readonly status: number;
  /** Problems of the input, if any. */
  readonly details: ErrorDetails | undefined;
  readonly headers: Record<string, string>;

  /** Creates an error with a code; the status only where the table has two. */
  constructor(code: Exclude<ErrorCode, CodeWithTwoStatuses>, options?: ServiceErrorOptions);
  /** Creates an error with a code; the status only where the table has two. */
  constructor(code: CodeWithTwoStatuses, options: ServiceErrorOptions & { status: 400 | 401 });
  constructor(code: ErrorCode, options: ServiceErrorOptions & { status?: number } = {}) {
    super(options.message ?? capitalised(ERRORS[code].when), { cause: options.cause });
    const { status } = ERRORS[code];
    this.code = code;
    this.status = options.status ?? (typeof status === "number" ? status : status[0]);
    this.details = options.details;
    this.headers = options.headers ?? {};
  }
}

/** Body of every error response. */
export interface ErrorEnvelope {
  error: { code: ErrorCode; message: string; details?: ErrorDetails };
}

/** Returns the envelope of an error, with its `details` only if `showDetails` is true. */
export function errorEnvelope(error: ServiceError, showDetails: boolean): ErrorEnvelope {
  const { code, message, details } = error;
  return { error: { code, message, ...(showDetails && details ? { details } : {}) } };
}

function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
