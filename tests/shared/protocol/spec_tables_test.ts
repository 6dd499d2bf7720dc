/**
 * Holds the errors and limits that were asked for and compares them in both directions with the tables of
 * the code. Also holds the codes that the project adds.
 */
import { assertEquals } from "@std/assert";
import { type ErrorCode, ERRORS } from "../../../shared/protocol/errors.ts";
import { LIMIT_TABLE, type LimitRow } from "../../../shared/protocol/limits.ts";
import { steps } from "../../support/steps.ts";

type Status = number | readonly [number, number];

/** The codes that were asked for. */
const SPEC_ERRORS: [code: string, status: Status][] = [
  ["INVITE_CREATE_INVALID", 400],
  ["INVITE_CREATE_FORBIDDEN", 403],
  ["INVITE_REDEEM_INVALID", 400],
  ["INVITE_REDEEM_CODE_INVALID", 400],
  ["INVITE_REDEEM_EXPIRED", 400],
  ["INVITE_REDEEM_ALREADY_USED", 409],
  ["ADMIN_BOOTSTRAP_DISABLED", 503],
  ["ADMIN_BOOTSTRAP_UNAUTHORIZED", 401],
  ["ADMIN_BOOTSTRAP_INVALID", 400],
  ["ADMIN_BOOTSTRAP_ALREADY_COMPLETED", 409],
  ["AGENT_REGISTRATION_CHALLENGE_INVALID", 400],
  ["AGENT_REGISTRATION_CHALLENGE_NOT_FOUND", 400],
  ["AGENT_REGISTRATION_CHALLENGE_EXPIRED", 400],
  ["AGENT_REGISTRATION_CHALLENGE_REPLAYED", 400],
  ["AGENT_REGISTRATION_INVALID", 400],
  ["AGENT_REGISTRATION_PROOF_MISMATCH", 400],
  ["AGENT_REGISTRATION_PROOF_INVALID", 400],
  ["AGENT_NOT_FOUND", 404],
  ["AGENT_REVOKE_INVALID_PATH", 400],
  ["AGENT_REVOKE_INVALID_STATE", 409],
  ["AGENT_REISSUE_INVALID_STATE", 409],
  ["AGENT_RESOLVE_INVALID_PATH", 400],
  ["AGENT_LIST_INVALID_QUERY", 400],
  ["AGENT_AUTH_VALIDATE_INVALID", 400],
  ["AGENT_AUTH_VALIDATE_UNAUTHORIZED", 401],
  ["AGENT_AUTH_VALIDATE_EXPIRED", 401],
  ["AGENT_AUTH_REFRESH_INVALID", [400, 401]],
  ["AGENT_AUTH_REFRESH_UNAUTHORIZED", 401],
  ["AGENT_AUTH_REFRESH_REVOKED", 401],
  ["AGENT_AUTH_REFRESH_EXPIRED", 401],
  ["AGENT_AUTH_REFRESH_CONFLICT", 409],
  ["API_KEY_CREATE_INVALID", 400],
  ["API_KEY_REVOKE_INVALID_PATH", 400],
  ["API_KEY_NOT_FOUND", 404],
  ["RATE_LIMIT_EXCEEDED", 429],
  ["CRL_NOT_FOUND", 404],
  ["CRL_BUILD_FAILED", 500],
  ["PROXY_AUTH_MISSING_TOKEN", 401],
  ["PROXY_AUTH_INVALID_SCHEME", 401],
  ["PROXY_AUTH_INVALID_AIT", 401],
  ["PROXY_AUTH_INVALID_TIMESTAMP", 401],
  ["PROXY_AUTH_TIMESTAMP_SKEW", 401],
  ["PROXY_AUTH_INVALID_PROOF", 401],
  ["PROXY_AUTH_INVALID_NONCE", 401],
  ["PROXY_AUTH_REPLAY", 401],
  ["PROXY_AUTH_REVOKED", 401],
  ["PROXY_AUTH_FORBIDDEN", 403],
  ["PROXY_AGENT_ACCESS_REQUIRED", 401],
  ["PROXY_AGENT_ACCESS_INVALID", 401],
  ["PROXY_AUTH_DEPENDENCY_UNAVAILABLE", 503],
  ["PROXY_RATE_LIMIT_EXCEEDED", 429],
  ["PROXY_HOOK_UNSUPPORTED_MEDIA_TYPE", 415],
  ["PROXY_HOOK_INVALID_JSON", 400],
  ["PROXY_HOOK_RECIPIENT_REQUIRED", 400],
  ["PROXY_HOOK_RECIPIENT_INVALID", 400],
  ["PROXY_RELAY_UNAVAILABLE", 503],
  ["PROXY_RELAY_DELIVERY_FAILED", 502],
  ["PROXY_RELAY_CONNECTOR_OFFLINE", 502],
  ["PROXY_RELAY_UPGRADE_REQUIRED", 426],
  ["PROXY_RELAY_AUTH_CONTEXT_MISSING", 500],
  ["PROXY_PAIR_OWNERSHIP_FORBIDDEN", 403],
  ["PROXY_PAIR_OWNERSHIP_UNAVAILABLE", 503],
  ["PROXY_PAIR_TICKET_NOT_FOUND", 404],
  ["PROXY_PAIR_TICKET_EXPIRED", 410],
];

/** Codes that the project adds. */
const PROJECT_ERRORS: [code: string, status: Status][] = [
  ["NOT_FOUND", 404],
  ["METHOD_NOT_ALLOWED", 405],
  ["PAYLOAD_TOO_LARGE", 413],
  ["REQUEST_TIMEOUT", 408],
  ["INTERNAL_ERROR", 500],
  ["SERVICE_UNAVAILABLE", 503],
  ["PROXY_HOOK_CONVERSATION_INVALID", 400],
  ["API_KEY_MISSING", 401],
  ["API_KEY_INVALID", 401],
  ["API_KEY_REVOKED", 401],
  ["INVITE_NOT_FOUND", 404],
  ["QUOTA_EXCEEDED", 409],
  ["LIST_INVALID_QUERY", 400],
  ["INTERNAL_SERVICE_INVALID", 400],
  ["INTERNAL_SERVICE_NOT_FOUND", 404],
  ["INTERNAL_SERVICE_ALREADY_EXISTS", 409],
  ["INTERNAL_SERVICE_UNAUTHORIZED", 401],
  ["INTERNAL_SERVICE_FORBIDDEN", 403],
  ["AGENT_OWNERSHIP_INVALID", 400],
  ["AUDIT_INVALID_QUERY", 400],
  ["ADMIN_INVALID_QUERY", 400],
  ["ADMIN_INVALID_BODY", 400],
  ["PERSON_NOT_FOUND", 404],
  ["ADMIN_SUSPEND_FORBIDDEN", 409],
  ["ACCOUNT_SUSPENDED", 403],
  ["ADMIN_REQUIRED", 403],
  ["SIGNING_KEYS_CONFIGURED", 409],
  ["SIGNING_KEYS_TOO_MANY", 409],
  ["CONSOLE_OFF", 404],
  ["PROXY_HOOK_REPLY_INVALID", 400],
  ["PROXY_HOOK_CONTEXT_INVALID", 400],
  ["PROXY_ADMIN_TOKEN_INVALID", 401],
  ["PROXY_ADMIN_INVALID_QUERY", 400],
  ["PROXY_RELAY_MAILBOX_FULL", 507],
  ["PROXY_HOOK_REQUEST_ID_REUSED", 409],
  ["PROXY_RELAY_RECEIPT_FORBIDDEN", 403],
  ["PROXY_RELAY_RECEIPT_INVALID", 400],
  ["PROXY_RELAY_RECEIPT_INVALID_QUERY", 400],
  ["PROXY_RECEIPT_DELIVERY_NOT_FOUND", 404],
  ["PROXY_PAIR_INVALID_BODY", 400],
  ["PROXY_PAIR_TICKET_ALREADY_CONFIRMED", 409],
  ["PROXY_PAIR_RESPONDER_FORBIDDEN", 403],
];

/** The numbers that were asked for, in the unit of their constant. */
const SPEC_LIMITS: [scope: string, name: string, value: number, unit: string][] = [
  ["GET /v1/crl", "crlRequests", 30, "requests"],
  ["GET /v1/resolve/:id", "resolveRequests", 10, "requests"],
  ["POST /v1/agents/auth/refresh", "refreshRequests", 20, "requests"],
  ["POST /v1/agents/auth/validate", "validateRequests", 120, "requests"],
  ["requests/minute per IP", "limitWindowMs", 60_000, "ms"],
  ["Proxy, per agent", "agentRequests", 60, "requests"],
  ["Proxy, per agent: window", "agentWindowMs", 60_000, "ms"],
  ["Invite code", "inviteCodeLength", 128, "count"],
  ["displayName, apiKeyName, API key name", "displayName", 64, "code points"],
  ["framework", "framework", 32, "code points"],
  ["Agent list page size: least", "agentListMin", 1, "count"],
  ["Agent list page size: most", "agentListMax", 100, "count"],
  ["Agent list page size: default", "agentListDefault", 20, "count"],
  ["Public key", "publicKeyBytes", 32, "bytes"],
  ["Public key: signature", "signatureBytes", 64, "bytes"],
  ["Challenge", "challengeTtlSeconds", 300, "s"],
  ["Challenge: nonce", "challengeNonceBytes", 24, "bytes"],
  ["AIT ttlDays: least", "aitTtlDaysMin", 1, "days"],
  ["AIT ttlDays: most", "aitTtlDaysMax", 90, "days"],
  ["AIT ttlDays: default", "aitTtlDaysDefault", 30, "days"],
  ["Access token", "accessTokenTtlSeconds", 15 * 60, "s"],
  ["Refresh token", "refreshTokenTtlSeconds", 30 * 86_400, "s"],
  ["CRL client refresh interval", "crlRefreshIntervalMs", 300_000, "ms"],
  ["Proxy timestamp skew", "timestampSkewSeconds", 300, "s"],
  ["Proxy nonce cache", "nonceKeptSeconds", 300, "s"],
  ["Relay heartbeat", "heartbeatIntervalMs", 30_000, "ms"],
  ["Pairing ticket TTL: default", "ticketTtlSeconds", 300, "s"],
  ["Pairing ticket TTL: most", "ticketTtlMaxSeconds", 900, "s"],
  ["Injected identity fields: agentDid", "identityAgentDid", 160, "code points"],
  ["Injected identity fields: ownerDid", "identityOwnerDid", 160, "code points"],
  ["Injected identity fields: issuer", "identityIssuer", 200, "code points"],
  ["Injected identity fields: aitJti", "identityAitJti", 64, "code points"],
];

const limitRows = new Map<string, LimitRow>(Object.entries(LIMIT_TABLE));

Deno.test("the error table has the status of every required code", async (t) => {
  assertEquals(SPEC_ERRORS.length, 64);
  for (const [code, status] of SPEC_ERRORS) {
    await t.step(code, () => assertEquals<Status | undefined>(ERRORS[code as ErrorCode]?.status, status));
  }
});

Deno.test("the error table has the status of every code of the project and no other code", async (t) => {
  const known = [...SPEC_ERRORS, ...PROJECT_ERRORS].map(([code]) => code);
  assertEquals(Object.keys(ERRORS).sort(), known.sort());
  await steps(t, PROJECT_ERRORS, ([code, status]) => {
    assertEquals<Status | undefined>(ERRORS[code as ErrorCode]?.status, status);
  });
});

Deno.test("the limit table holds every required limit", async (t) => {
  for (const [scope, name, value, unit] of SPEC_LIMITS) {
    await t.step(`${scope}: ${value}`, () => {
      assertEquals(limitRows.get(name)?.slice(0, 2), [value, unit]);
    });
  }
});
