/**
 * THE error table: every code, its HTTP status, when it is answered and what helps. No other file knows the status of
 * an error. Also the one error class that carries a code, and the envelope (D-10).
 */
import { LIMITS } from "./limits.ts";

interface ErrorRow {
  /** HTTP status; where the specification has two, whoever throws chooses. */
  status: number | readonly [number, number];
  /** The condition; also the message unless a better one is given. */
  when: string;
  /** What a person can do about it. */
  fix: string;
  /** From the specification, or added by this project. */
  origin: "spec" | "project";
}

/** One row a code. `docs/errors.md` and `svc explain` are written from it. Not exported: its type is read from it. */
const TABLE = {
  // Registry: invites and admin
  INVITE_CREATE_INVALID: {
    status: 400,
    when: "the body of an invite is not valid",
    fix: "Give expiresAt as an RFC 3339 time in the future, or null.",
    origin: "spec",
  },
  INVITE_CREATE_FORBIDDEN: {
    status: 403,
    when: "only an admin may create invites",
    fix: "Use an admin's API key, or ask an admin for an invite.",
    origin: "spec",
  },
  INVITE_REDEEM_INVALID: {
    status: 400,
    when: "the body of a redemption is not valid",
    fix: "Send code, and optionally displayName and apiKeyName, as text.",
    origin: "spec",
  },
  INVITE_REDEEM_CODE_INVALID: {
    status: 400,
    when: "the invite code does not exist",
    fix: "Check the code, or ask for a new one.",
    origin: "spec",
  },
  INVITE_REDEEM_EXPIRED: {
    status: 400,
    when: "the invite code has expired",
    fix: "Ask for a new invite.",
    origin: "spec",
  },
  INVITE_REDEEM_ALREADY_USED: {
    status: 409,
    when: "the invite code was redeemed before",
    fix: "Ask for a new invite; each works once.",
    origin: "spec",
  },
  INVITE_NOT_FOUND: {
    status: 404,
    when: "there is no such invite",
    fix: "List the invites to see their ids.",
    origin: "project",
  },
  QUOTA_EXCEEDED: {
    status: 409,
    when: "a quota of this account or agent is used up",
    fix: "Delete what is not needed, or ask the operator to raise the quota.",
    origin: "project",
  },
  LIST_INVALID_QUERY: {
    status: 400,
    when: "the query of a list is not valid",
    fix: "Give limit as 1 to 100, and cursor as the nextCursor of the page before.",
    origin: "project",
  },
  ADMIN_BOOTSTRAP_DISABLED: {
    status: 503,
    when: "no bootstrap secret is configured",
    fix: "Set BOOTSTRAP_SECRET and restart the registry.",
    origin: "spec",
  },
  ADMIN_BOOTSTRAP_UNAUTHORIZED: {
    status: 401,
    when: "the bootstrap secret is missing or wrong",
    fix: "Send the secret of the registry's configuration in x-bootstrap-secret.",
    origin: "spec",
  },
  ADMIN_BOOTSTRAP_INVALID: {
    status: 400,
    when: "the body of the bootstrap is not valid",
    fix: "Send displayName and apiKeyName as text, or no body.",
    origin: "spec",
  },
  ADMIN_BOOTSTRAP_ALREADY_COMPLETED: {
    status: 409,
    when: "an admin exists already",
    fix: "Use the admin's API key; if it is lost, recover on the registry's host.",
    origin: "spec",
  },
  ADMIN_REQUIRED: { status: 403, when: "only an admin may do this", fix: "Use an admin's API key.", origin: "project" },
  AUDIT_INVALID_QUERY: {
    status: 400,
    when: "the audit query is not valid",
    fix: "Give limit as 1 to 100 and cursor as returned.",
    origin: "project",
  },
  SIGNING_KEYS_CONFIGURED: {
    status: 409,
    when: "the signing keys come from the configuration",
    fix: "Change REGISTRY_SIGNING_KEYS and restart the registry.",
    origin: "project",
  },
  SIGNING_KEYS_TOO_MANY: {
    status: 409,
    when: "the store holds as many signing keys as it may",
    fix: "Rotate again when a retired key has left the key document, or set REGISTRY_SIGNING_KEYS.",
    origin: "project",
  },
  // Registry: agent registration and lifecycle
  AGENT_REGISTRATION_CHALLENGE_INVALID: {
    status: 400,
    when: "the body of a challenge is not valid",
    fix: "Send publicKey: base64url of a 32-byte Ed25519 key.",
    origin: "spec",
  },
  AGENT_REGISTRATION_CHALLENGE_NOT_FOUND: {
    status: 400,
    when: "this owner has no such challenge",
    fix: "Ask for a new challenge with the same API key.",
    origin: "spec",
  },
  AGENT_REGISTRATION_CHALLENGE_EXPIRED: {
    status: 400,
    when: "the challenge is older than five minutes",
    fix: "Ask for a new challenge.",
    origin: "spec",
  },
  AGENT_REGISTRATION_CHALLENGE_REPLAYED: {
    status: 400,
    when: "the challenge was used before",
    fix: "Ask for a new challenge; each works once.",
    origin: "spec",
  },
  AGENT_REGISTRATION_INVALID: {
    status: 400,
    when: "the body of a registration is not valid",
    fix: "Check name, publicKey, challengeId, challengeSignature, framework and ttlDays.",
    origin: "spec",
  },
  AGENT_REGISTRATION_PROOF_MISMATCH: {
    status: 400,
    when: "the public key is not the challenge's",
    fix: "Register with the key that the challenge was made for.",
    origin: "spec",
  },
  AGENT_REGISTRATION_PROOF_INVALID: {
    status: 400,
    when: "the registration signature does not verify",
    fix: "Sign the message of messageTemplate with the agent's private key.",
    origin: "spec",
  },
  AGENT_NOT_FOUND: {
    status: 404,
    when: "the caller owns no such agent",
    fix: "List your agents to see their ids.",
    origin: "spec",
  },
  AGENT_REVOKE_INVALID_PATH: {
    status: 400,
    when: "the agent id in the path is no ULID",
    fix: "Use the agent's id, 26 upper-case characters.",
    origin: "spec",
  },
  AGENT_REVOKE_INVALID_STATE: {
    status: 409,
    when: "the agent cannot be revoked in its state",
    fix: "Nothing to do when it is revoked already.",
    origin: "spec",
  },
  AGENT_REISSUE_INVALID_STATE: {
    status: 409,
    when: "the agent cannot be reissued in its state",
    fix: "A revoked agent stays revoked; otherwise try again.",
    origin: "spec",
  },
  AGENT_RESOLVE_INVALID_PATH: {
    status: 400,
    when: "the id in the path is no ULID",
    fix: "Use the agent's id, 26 upper-case characters.",
    origin: "spec",
  },
  AGENT_LIST_INVALID_QUERY: {
    status: 400,
    when: "the query of the agent list is not valid",
    fix: "Check status, framework, limit (1 to 100) and cursor.",
    origin: "spec",
  },
  AGENT_OWNERSHIP_INVALID: {
    status: 400,
    when: "the body of an ownership query is not valid",
    fix: "Send ownerDid and agentDid.",
    origin: "project",
  },
  // Registry: agent auth
  AGENT_AUTH_VALIDATE_INVALID: {
    status: 400,
    when: "the validate request is incomplete or malformed",
    fix: "Send X-Svc-Agent-Access, agentDid and aitJti.",
    origin: "spec",
  },
  AGENT_AUTH_VALIDATE_UNAUTHORIZED: {
    status: 401,
    when: "the access token is not this agent's",
    fix: "Refresh the session.",
    origin: "spec",
  },
  AGENT_AUTH_VALIDATE_EXPIRED: {
    status: 401,
    when: "the access token has expired",
    fix: "Refresh the session.",
    origin: "spec",
  },
  AGENT_AUTH_REFRESH_INVALID: {
    status: [400, 401],
    when: "the refresh request is not valid or the token is not this agent's current one",
    fix: "Use the newest refresh token; after a lost answer set recovery.",
    origin: "spec",
  },
  AGENT_AUTH_REFRESH_UNAUTHORIZED: {
    status: 401,
    when: "the refresh request does not prove who sent it",
    fix: "Sign anew with the agent's key and its current AIT.",
    origin: "spec",
  },
  AGENT_AUTH_REFRESH_REVOKED: {
    status: 401,
    when: "the agent or its session is revoked",
    fix: "Have the owner reissue the agent's token.",
    origin: "spec",
  },
  AGENT_AUTH_REFRESH_EXPIRED: {
    status: 401,
    when: "the refresh token has expired",
    fix: "Have the owner revoke the session and reissue the agent's token.",
    origin: "spec",
  },
  AGENT_AUTH_REFRESH_CONFLICT: {
    status: 409,
    when: "the session changed during the refresh",
    fix: "Wait a second, sign anew and try again.",
    origin: "spec",
  },
  // Registry: API keys, services, CRL, rate limit
  API_KEY_CREATE_INVALID: {
    status: 400,
    when: "the body of an API key is not valid",
    fix: "Send name as text of 1 to 64 characters.",
    origin: "spec",
  },
  API_KEY_REVOKE_INVALID_PATH: {
    status: 400,
    when: "the key id in the path is no ULID",
    fix: "Use the key's id, 26 upper-case characters.",
    origin: "spec",
  },
  API_KEY_NOT_FOUND: {
    status: 404,
    when: "the caller owns no such API key",
    fix: "List your keys to see their ids.",
    origin: "spec",
  },
  API_KEY_MISSING: {
    status: 401,
    when: "the request carries no API key",
    fix: "Send Authorization: Bearer with your API key.",
    origin: "project",
  },
  API_KEY_INVALID: {
    status: 401,
    when: "the API key is not known",
    fix: "Check the key; it is shown once, at its creation.",
    origin: "project",
  },
  API_KEY_REVOKED: {
    status: 401,
    when: "the API key is revoked",
    fix: "Use another key, or create one with a key that works.",
    origin: "project",
  },
  INTERNAL_SERVICE_INVALID: {
    status: 400,
    when: "the body of an internal service is not valid",
    fix: "Send name (2 to 64 of a-z, 0-9, _ and -) and scopes.",
    origin: "project",
  },
  INTERNAL_SERVICE_FORBIDDEN: {
    status: 403,
    when: "the caller may not do this with internal services",
    fix: "Use an admin's API key, or a service with the scope.",
    origin: "project",
  },
  INTERNAL_SERVICE_NOT_FOUND: {
    status: 404,
    when: "there is no such internal service",
    fix: "List the services to see their ids.",
    origin: "project",
  },
  INTERNAL_SERVICE_ALREADY_EXISTS: {
    status: 409,
    when: "an internal service of this name exists",
    fix: "Choose another name, or rotate the one that is there.",
    origin: "project",
  },
  INTERNAL_SERVICE_UNAUTHORIZED: {
    status: 401,
    when: "the service credential is missing or wrong",
    fix: "Set REGISTRY_INTERNAL_SERVICE_ID and REGISTRY_INTERNAL_SERVICE_SECRET.",
    origin: "project",
  },
  RATE_LIMIT_EXCEEDED: {
    status: 429,
    when: "too many requests",
    fix: "Wait for the seconds in Retry-After.",
    origin: "spec",
  },
  CRL_NOT_FOUND: {
    status: 404,
    when: "nothing was ever revoked",
    fix: "Treat it as an empty list until a signed one was seen.",
    origin: "spec",
  },
  CRL_BUILD_FAILED: {
    status: 500,
    when: "the revocation list could not be built",
    fix: "Look into the registry's log.",
    origin: "spec",
  },
  // Proxy: authentication
  PROXY_AUTH_MISSING_TOKEN: {
    status: 401,
    when: "the Authorization header is missing",
    fix: "Send Authorization: Svc with the agent's AIT.",
    origin: "spec",
  },
  PROXY_AUTH_INVALID_SCHEME: {
    status: 401,
    when: "the Authorization header is not of the form Svc <ait>",
    fix: "Send the scheme Svc and one token.",
    origin: "spec",
  },
  PROXY_AUTH_INVALID_AIT: {
    status: 401,
    when: "the AIT is malformed, expired or not signed by the registry",
    fix: "Have the owner reissue it, or check which registry it is of.",
    origin: "spec",
  },
  PROXY_AUTH_INVALID_TIMESTAMP: {
    status: 401,
    when: "X-Svc-Timestamp is missing or no unix time",
    fix: "Send whole unix seconds.",
    origin: "spec",
  },
  PROXY_AUTH_TIMESTAMP_SKEW: {
    status: 401,
    when: `X-Svc-Timestamp is over ${LIMITS.timestampSkewSeconds} s off`,
    fix: "Set the machine's clock; the answer's Date header tells the time.",
    origin: "spec",
  },
  PROXY_AUTH_INVALID_PROOF: {
    status: 401,
    when: "the proof of possession does not verify",
    fix: "Sign method, origin, path, timestamp, nonce, body hash, recipient and AIT as sent.",
    origin: "spec",
  },
  PROXY_AUTH_INVALID_NONCE: {
    status: 401,
    when: "the nonce is missing or malformed",
    fix: "Send 16 to 128 characters of base64url.",
    origin: "spec",
  },
  PROXY_AUTH_REPLAY: {
    status: 401,
    when: "the nonce was used before",
    fix: "Sign every request anew with a fresh nonce.",
    origin: "spec",
  },
  PROXY_AUTH_REVOKED: { status: 401, when: "the AIT is revoked", fix: "Have the owner reissue it.", origin: "spec" },
  PROXY_AUTH_FORBIDDEN: {
    status: 403,
    when: "the two agents are not a confirmed pair",
    fix: "Pair them first.",
    origin: "spec",
  },
  PROXY_AGENT_ACCESS_REQUIRED: {
    status: 401,
    when: "X-Svc-Agent-Access is missing",
    fix: "Send the session's access token.",
    origin: "spec",
  },
  PROXY_AGENT_ACCESS_INVALID: {
    status: 401,
    when: "the access token is expired or not valid",
    fix: "Refresh the session.",
    origin: "spec",
  },
  PROXY_AUTH_DEPENDENCY_UNAVAILABLE: {
    status: 503,
    when: "the registry or the store cannot be asked",
    fix: "Try again in a moment.",
    origin: "spec",
  },
  PROXY_RATE_LIMIT_EXCEEDED: {
    status: 429,
    when: "the agent's limit is used up",
    fix: "Wait for the seconds in Retry-After.",
    origin: "spec",
  },
  // Proxy: hooks and relay
  PROXY_HOOK_UNSUPPORTED_MEDIA_TYPE: {
    status: 415,
    when: "the Content-Type is not application/json",
    fix: "Send JSON and say so.",
    origin: "spec",
  },
  PROXY_HOOK_INVALID_JSON: {
    status: 400,
    when: "the body is no valid JSON",
    fix: "Send UTF-8 JSON with message at most once at its top level.",
    origin: "spec",
  },
  PROXY_HOOK_RECIPIENT_REQUIRED: {
    status: 400,
    when: "the recipient header is missing",
    fix: "Send X-Svc-Recipient-Agent-Did.",
    origin: "spec",
  },
  PROXY_HOOK_RECIPIENT_INVALID: {
    status: 400,
    when: "the recipient header is no agent DID",
    fix: "Send one DID of an agent.",
    origin: "spec",
  },
  PROXY_HOOK_CONVERSATION_INVALID: {
    status: 400,
    when: "the conversation id is not valid",
    fix: "Send 1 to 128 visible ASCII characters without a comma.",
    origin: "project",
  },
  PROXY_HOOK_REQUEST_ID_REUSED: {
    status: 409,
    when: "the request id was accepted with another body",
    fix: "Use a new x-request-id for a new message.",
    origin: "project",
  },
  PROXY_RELAY_UNAVAILABLE: {
    status: 503,
    when: "the relay cannot take the message now",
    fix: "Try again in a moment.",
    origin: "spec",
  },
  PROXY_RELAY_DELIVERY_FAILED: {
    status: 502,
    when: "the recipient's connector did not acknowledge",
    fix: "Send it again with the same x-request-id.",
    origin: "spec",
  },
  PROXY_RELAY_CONNECTOR_OFFLINE: {
    status: 502,
    when: "the recipient has no connector connected",
    fix: "Try later, or send Prefer: respond-async.",
    origin: "spec",
  },
  PROXY_RELAY_UPGRADE_REQUIRED: {
    status: 426,
    when: "the request is no WebSocket upgrade",
    fix: "Connect with a WebSocket client.",
    origin: "spec",
  },
  PROXY_RELAY_AUTH_CONTEXT_MISSING: {
    status: 500,
    when: "the handler was reached without a verified identity",
    fix: "This is a defect of the service: report it.",
    origin: "spec",
  },
  PROXY_RELAY_MAILBOX_FULL: {
    status: 507,
    when: "the recipient's mailbox is full",
    fix: "Try again when the recipient has been online.",
    origin: "project",
  },
  PROXY_RELAY_RECEIPT_FORBIDDEN: {
    status: 403,
    when: "only the recipient may submit a receipt",
    fix: "Submit it as the agent that received the message.",
    origin: "project",
  },
  PROXY_RELAY_RECEIPT_INVALID: {
    status: 400,
    when: "the body of a receipt is not valid",
    fix: "Send requestId, recipientAgentDid, status and timestamp; senderAgentDid if several sent that id.",
    origin: "project",
  },
  PROXY_RELAY_RECEIPT_INVALID_QUERY: {
    status: 400,
    when: "the receipt query is not valid",
    fix: "Give requestId and recipientAgentDid.",
    origin: "project",
  },
  PROXY_RECEIPT_DELIVERY_NOT_FOUND: {
    status: 404,
    when: "no delivery with this request ID from this sender to this recipient is on record",
    fix: "Do not send this receipt again: the delivery never existed or is no longer kept.",
    origin: "project",
  },
  // Proxy: pairing
  PROXY_PAIR_OWNERSHIP_FORBIDDEN: {
    status: 403,
    when: "the registry does not confirm an active agent of this owner",
    fix: "Check that the agent is active and its session is live.",
    origin: "spec",
  },
  PROXY_PAIR_OWNERSHIP_UNAVAILABLE: {
    status: 503,
    when: "the registry's ownership look-up is unavailable",
    fix: "Try again in a moment.",
    origin: "spec",
  },
  PROXY_PAIR_TICKET_NOT_FOUND: {
    status: 404,
    when: "there is no such ticket",
    fix: "Check the ticket, or start a new pairing.",
    origin: "spec",
  },
  PROXY_PAIR_TICKET_EXPIRED: {
    status: 410,
    when: "the ticket has expired",
    fix: "Start a new pairing.",
    origin: "spec",
  },
  PROXY_PAIR_TICKET_ALREADY_CONFIRMED: {
    status: 409,
    when: "another agent confirmed the ticket",
    fix: "Start a new pairing.",
    origin: "project",
  },
  PROXY_PAIR_RESPONDER_FORBIDDEN: {
    status: 403,
    when: "the ticket is for another agent",
    fix: "Ask for a ticket of your own.",
    origin: "project",
  },
  PROXY_PAIR_INVALID_BODY: {
    status: 400,
    when: "the pairing body is not valid",
    fix: "Send the profile's agentName and humanName, and the ticket or ttlSeconds.",
    origin: "project",
  },
  // Both services
  NOT_FOUND: {
    status: 404,
    when: "there is no such route",
    fix: "Check the path; /docs lists the routes.",
    origin: "project",
  },
  METHOD_NOT_ALLOWED: {
    status: 405,
    when: "the route has no such method",
    fix: "Use one of the methods in Allow.",
    origin: "project",
  },
  PAYLOAD_TOO_LARGE: { status: 413, when: "the body is too large", fix: "Send less.", origin: "project" },
  REQUEST_TIMEOUT: { status: 408, when: "the body did not arrive in time", fix: "Send it faster.", origin: "project" },
  INTERNAL_ERROR: {
    status: 500,
    when: "something unexpected happened",
    fix: "Try again; the service's log has the request id.",
    origin: "project",
  },
  SERVICE_UNAVAILABLE: {
    status: 503,
    when: "the store cannot be reached",
    fix: "Try again in a moment.",
    origin: "project",
  },
} as const satisfies Record<string, ErrorRow>;

/** The rows. */
export const ERRORS: Readonly<typeof TABLE> = Object.freeze(TABLE);

/** A code of the table. */
export type ErrorCode = keyof typeof ERRORS;

type CodeWithTwoStatuses = {
  [K in ErrorCode]: (typeof ERRORS)[K]["status"] extends number ? never : K;
}[ErrorCode];

/** True for a code of the table; inherited names such as `constructor` are none. */
export function isErrorCode(text: string): text is ErrorCode {
  return Object.hasOwn(ERRORS, text);
}

/** Problems of an input, by field and as a whole; answered in `local` and `dev` only. */
export interface ErrorDetails {
  fieldErrors: Record<string, string[]>;
  formErrors: string[];
}

/** What may accompany a code. */
export interface ServiceErrorOptions {
  /** In place of the table's text. Never holds a secret. */
  message?: string;
  details?: ErrorDetails;
  /** Response headers, for instance `Retry-After`. */
  headers?: Record<string, string>;
  /** What went wrong inside; logged, never answered. */
  cause?: unknown;
}

/** An error that is answered with its code. */
export class ServiceError extends Error {
  override name = "ServiceError";
  readonly code: ErrorCode;
  readonly status: number;
  readonly details: ErrorDetails | undefined;
  readonly headers: Record<string, string>;

  constructor(code: Exclude<ErrorCode, CodeWithTwoStatuses>, options?: ServiceErrorOptions);
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

/** The body of every error answer. */
export interface ErrorEnvelope {
  error: { code: ErrorCode; message: string; details?: ErrorDetails };
}

/** Builds the envelope; `details` only where the environment shows them. */
export function errorEnvelope(error: ServiceError, showDetails: boolean): ErrorEnvelope {
  const { code, message, details } = error;
  return { error: { code, message, ...(showDetails && details ? { details } : {}) } };
}

/** Stands for a code that is missing or malformed. */
export const UNKNOWN_ERROR = "UNKNOWN_ERROR";

const WIRE_CODE = /^[A-Z0-9_]{1,64}$/;

/**
 * Returns the `code` member of a received envelope, also one that this version does not know, or `UNKNOWN_ERROR` for a
 * value that cannot be a code (D-246). The result is safe to print.
 */
export function errorCodeOf(code: unknown): string {
  return typeof code === "string" && WIRE_CODE.test(code) ? code : UNKNOWN_ERROR;
}

function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
