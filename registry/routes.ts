/** The route table of the registry: one complete row per route. */
import { HEADERS } from "../shared/protocol/proof.ts";
import * as accountsApi from "../shared/protocol/api/accounts.ts";
import * as adminApi from "../shared/protocol/api/admin.ts";
import * as agentsApi from "../shared/protocol/api/agents.ts";
import * as auditApi from "../shared/protocol/api/audit.ts";
import { IdPath, NoQuery, PageQuery } from "../shared/protocol/api/fields.ts";
import * as invitesApi from "../shared/protocol/api/invites.ts";
import * as metaApi from "../shared/protocol/api/meta.ts";
import { AdminTokenAnswer } from "../shared/protocol/api/relay_admin.ts";
import * as servicesApi from "../shared/protocol/api/services.ts";
import * as sessionsApi from "../shared/protocol/api/sessions.ts";
import { KeyDocument } from "../shared/protocol/signed/key_document.ts";
import { LIMITS } from "../shared/protocol/limits.ts";
import { openApiRoute } from "../shared/server/http/api_docs.ts";
import { type DocumentPart, operationsOf } from "../shared/server/http/openapi.ts";
import { pageRoute, pageRoutes } from "../shared/server/http/pages.ts";
import { probeRoutes } from "../shared/server/http/probes.ts";
import { type Route, routeFor, type RouteLimit } from "../shared/server/http/route.ts";
import * as accounts from "./accounts/handlers.ts";
import { issueAdminToken } from "./admin_tokens/handlers.ts";
import * as agents from "./agents/handlers.ts";
import { listAudit } from "./audit/handlers.ts";
import { AUTHENTICATORS, type RegistryCallers } from "./auth.ts";
import * as credentials from "./api_keys/handlers.ts";
import { openConsole } from "./console/console.ts";
import type { RegistryDeps } from "./deps.ts";
import * as invites from "./invites/handlers.ts";
import * as meta from "./meta/handlers.ts";
import { joinPage } from "./meta/join_page.ts";
import * as people from "./people/handlers.ts";
import * as services from "./internal_services/handlers.ts";
import * as sessions from "./sessions/handlers.ts";

const route = routeFor<RegistryDeps, RegistryCallers>();
const windowMs = LIMITS.limitWindowMs;
/** Counts per person, because more keys would otherwise allow more requests. `app.ts` sets the configured number. */
const perHuman: RouteLimit = { name: "api-key", requests: LIMITS.apiKeyRequests, windowMs, per: "person" };
const perIp = (name: string, requests: number): RouteLimit => ({ name, requests, windowMs, per: "ip" });
const byPerson = { auth: "api_key", limit: perHuman } as const;
const byAdmin = { auth: "admin", limit: perHuman } as const;
const byServiceAdmin = { auth: "service_admin", limit: perHuman } as const;
const byNobody = { auth: "none", limit: null } as const;
const accessHeader = (what: string) => [
  { name: HEADERS.access, required: true, schema: sessionsApi.AccessHeader, what },
];
const ofAgent = { params: IdPath, invalidPath: "AGENT_REVOKE_INVALID_PATH", errors: ["AGENT_NOT_FOUND"] } as const;
const ofPerson = { params: IdPath, invalidPath: "PERSON_NOT_FOUND" } as const;
const suspension = {
  ...byAdmin,
  ...ofPerson,
  body: adminApi.SuspensionBody,
  emptyBody: true,
  invalid: "ADMIN_INVALID_BODY",
  response: { status: 200, body: adminApi.SuspensionAnswer },
} as const;
const ofService = { params: IdPath, invalidPath: "INTERNAL_SERVICE_NOT_FOUND" } as const;

export const REGISTRY_ROUTES: readonly Route<RegistryDeps>[] = [
  // No authentication
  route("GET", "/health", "Health of the registry", {
    ...byNobody,
    response: { status: 200, body: metaApi.RegistryHealth, mayBeUnready: true },
    handler: meta.health,
  }),
  ...probeRoutes<RegistryDeps>(meta.registryReady),
  route("GET", "/.well-known/svc-keys.json", "Public keys that verify identity tokens and revocation lists", {
    ...byNobody,
    response: { status: 200, body: KeyDocument, isCacheable: true },
    handler: meta.keys,
  }),
  route("GET", "/v1/crl", "The signed list of revoked identity tokens", {
    auth: "crl_service",
    limit: perIp("crl", LIMITS.crlRequests),
    response: { status: 200, body: metaApi.CrlAnswer, isCacheable: true },
    errors: ["CRL_NOT_FOUND", "CRL_BUILD_FAILED"],
    handler: meta.crl,
  }),
  route("GET", "/v1/resolve/:id", "Public record of an agent", {
    auth: "none",
    limit: perIp("resolve", LIMITS.resolveRequests),
    params: IdPath,
    invalidPath: "AGENT_RESOLVE_INVALID_PATH",
    response: { status: 200, body: agentsApi.ResolvedAgent },
    errors: ["AGENT_NOT_FOUND"],
    handler: agents.resolveAgent,
  }),
  route("GET", "/v1/metadata", "Public addresses, environment and version", {
    ...byNobody,
    response: { status: 200, body: metaApi.Metadata },
    handler: meta.metadata,
  }),
  route("POST", "/v1/invites/redeem", "Turn an invite code into an account with an API key", {
    auth: "none",
    limit: { ...perIp("redeem", LIMITS.redeemFailures), counts: ["INVITE_REDEEM_CODE_INVALID"] },
    body: invitesApi.RedeemInviteBody,
    invalid: "INVITE_REDEEM_INVALID",
    response: { status: 201, body: invitesApi.RedeemInviteAnswer },
    errors: ["INVITE_REDEEM_CODE_INVALID", "INVITE_REDEEM_EXPIRED", "INVITE_REDEEM_ALREADY_USED"],
    handler: invites.redeemInvite,
  }),
  // Agents
  route("POST", "/v1/agents/auth/refresh", "Refresh an agent's session: new access and refresh tokens", {
    auth: "agent_proof",
    limit: perIp("refresh", LIMITS.refreshRequests),
    body: sessionsApi.RefreshBody,
    invalid: "AGENT_AUTH_REFRESH_INVALID",
    response: { status: 200, body: sessionsApi.RefreshAnswer },
    errors: [
      "AGENT_AUTH_REFRESH_REVOKED",
      "AGENT_AUTH_REFRESH_EXPIRED",
      "AGENT_AUTH_REFRESH_CONFLICT",
      "ACCOUNT_SUSPENDED",
      "AGENT_NOT_FOUND",
    ],
    handler: sessions.refresh,
  }),
  route("POST", "/v1/agents/auth/validate", "Check an access token of an agent", {
    auth: "validate_service",
    limit: perIp("validate", LIMITS.validateRequests),
    headers: accessHeader("the access token to check"),
    body: sessionsApi.ValidateBody,
    invalid: "AGENT_AUTH_VALIDATE_INVALID",
    response: { status: 204 },
    errors: ["AGENT_AUTH_VALIDATE_UNAUTHORIZED", "AGENT_AUTH_VALIDATE_EXPIRED"],
    handler: sessions.validate,
  }),
  route("POST", "/v1/agents/auth/visit", "A token with which the agent may visit a proxy of another registry", {
    auth: "agent_proof",
    // Per address, only a wrong proof, an invalid request and one over the limit of its agent count, because many agents
    // may share an address. The handler counts each request of a proven agent for that agent. Without those over that
    // limit, one agent could keep the registry checking proofs and fill the store with nonces.
    limit: {
      ...perIp("visit", LIMITS.refreshRequests),
      counts: ["AGENT_AUTH_REFRESH_UNAUTHORIZED", "AGENT_AUTH_VALIDATE_INVALID", "RATE_LIMIT_EXCEEDED"],
    },
    headers: accessHeader("the access token of the agent's session"),
    body: sessionsApi.VisitBody,
    invalid: "AGENT_AUTH_VALIDATE_INVALID",
    response: { status: 201, body: sessionsApi.VisitAnswer },
    errors: ["AGENT_AUTH_VALIDATE_UNAUTHORIZED", "AGENT_AUTH_VALIDATE_EXPIRED"],
    handler: sessions.visit,
  }),
  // Humans, by API key
  route("GET", "/v1/me", "The caller's account", {
    ...byPerson,
    response: { status: 200, body: accountsApi.AccountProfile },
    handler: accounts.me,
  }),
  route("POST", "/v1/me/api-keys", "Create an API key", {
    ...byPerson,
    body: accountsApi.CreateApiKeyBody,
    emptyBody: true,
    invalid: "API_KEY_CREATE_INVALID",
    response: { status: 201, body: accountsApi.CreateApiKeyAnswer },
    errors: ["QUOTA_EXCEEDED"],
    handler: credentials.createApiKey,
  }),
  route("GET", "/v1/me/api-keys", "The caller's API keys, without their tokens", {
    ...byPerson,
    query: PageQuery,
    invalid: "LIST_INVALID_QUERY",
    response: { status: 200, body: accountsApi.ApiKeyList },
    handler: credentials.listApiKeys,
  }),
  route("DELETE", "/v1/me/api-keys/:id", "Revoke one API key", {
    ...byPerson,
    params: IdPath,
    invalidPath: "API_KEY_REVOKE_INVALID_PATH",
    response: { status: 204 },
    errors: ["API_KEY_NOT_FOUND"],
    handler: credentials.revokeApiKey,
  }),
  route("GET", "/v1/agents", "The caller's agents, newest first", {
    ...byPerson,
    query: agentsApi.AgentListQuery,
    invalid: "AGENT_LIST_INVALID_QUERY",
    response: { status: 200, body: agentsApi.AgentList },
    handler: agents.listAgents,
  }),
  route("POST", "/v1/agents/challenge", "Create a challenge for the registration of an agent", {
    ...byPerson,
    body: agentsApi.ChallengeBody,
    invalid: "AGENT_REGISTRATION_CHALLENGE_INVALID",
    response: { status: 201, body: agentsApi.Challenge },
    errors: ["QUOTA_EXCEEDED"],
    handler: agents.createChallenge,
  }),
  route("POST", "/v1/agents", "Register an agent: identity token and session", {
    ...byPerson,
    body: agentsApi.RegisterBody,
    invalid: "AGENT_REGISTRATION_INVALID",
    response: { status: 201, body: agentsApi.RegisterAnswer },
    errors: [
      "AGENT_REGISTRATION_CHALLENGE_NOT_FOUND",
      "AGENT_REGISTRATION_CHALLENGE_REPLAYED",
      "AGENT_REGISTRATION_CHALLENGE_EXPIRED",
      "AGENT_REGISTRATION_PROOF_MISMATCH",
      "AGENT_REGISTRATION_PROOF_INVALID",
      "QUOTA_EXCEEDED",
    ],
    handler: agents.registerAgent,
  }),
  route("GET", "/v1/agents/:id", "One of the caller's agents", {
    ...byPerson,
    ...ofAgent,
    response: { status: 200, body: agentsApi.AgentAnswer },
    handler: agents.getAgent,
  }),
  route("POST", "/v1/agents/:id/reissue", "Issue a new identity token and revoke the previous one", {
    ...byPerson,
    ...ofAgent,
    response: { status: 200, body: agentsApi.ReissueAnswer },
    errors: ["AGENT_NOT_FOUND", "AGENT_REISSUE_INVALID_STATE", "QUOTA_EXCEEDED"],
    handler: agents.reissueAgent,
  }),
  route("DELETE", "/v1/agents/:id/auth/revoke", "Revoke an agent's session; its identity token stays valid", {
    ...byPerson,
    ...ofAgent,
    response: { status: 204 },
    handler: agents.revokeAgentAuth,
  }),
  route("DELETE", "/v1/agents/:id", "Revoke an agent permanently", {
    ...byPerson,
    ...ofAgent,
    response: { status: 204 },
    errors: ["AGENT_NOT_FOUND", "AGENT_REVOKE_INVALID_STATE"],
    handler: agents.deleteAgent,
  }),
  // Admins
  route(
    "POST",
    "/v1/admin/bootstrap",
    "Create the first admin, its API key and the proxy's service credential; once, so the secret makes no second admin",
    {
      auth: "bootstrap_secret",
      precondition: accounts.bootstrapEnabled,
      limit: { ...perIp("bootstrap", LIMITS.bootstrapFailures), counts: ["ADMIN_BOOTSTRAP_UNAUTHORIZED"] },
      body: accountsApi.BootstrapBody,
      emptyBody: true,
      invalid: "ADMIN_BOOTSTRAP_INVALID",
      response: { status: 201, body: accountsApi.BootstrapAnswer },
      errors: ["ADMIN_BOOTSTRAP_ALREADY_COMPLETED"],
      handler: accounts.bootstrap,
    },
  ),
  route("POST", "/v1/invites", "Create a single-use invite code", {
    auth: "invite_admin",
    limit: perHuman,
    body: invitesApi.CreateInviteBody,
    emptyBody: true,
    invalid: "INVITE_CREATE_INVALID",
    response: { status: 201, body: invitesApi.CreateInviteAnswer },
    errors: ["QUOTA_EXCEEDED"],
    handler: invites.createInvite,
  }),
  route("GET", "/v1/invites", "All invites, without their codes", {
    ...byAdmin,
    query: PageQuery,
    invalid: "LIST_INVALID_QUERY",
    response: { status: 200, body: invitesApi.InviteList },
    handler: invites.listInvites,
  }),
  route("DELETE", "/v1/invites/:id", "Delete an invite that was not redeemed", {
    ...byAdmin,
    params: IdPath,
    invalidPath: "INVITE_NOT_FOUND",
    response: { status: 204 },
    errors: ["INVITE_REDEEM_ALREADY_USED"],
    handler: invites.deleteInvite,
  }),
  route("POST", "/v1/admin/internal-services", "Create a credential for an internal service", {
    ...byServiceAdmin,
    body: servicesApi.CreateServiceBody,
    invalid: "INTERNAL_SERVICE_INVALID",
    response: { status: 201, body: servicesApi.IssuedServiceAnswer },
    errors: ["INTERNAL_SERVICE_ALREADY_EXISTS"],
    handler: services.createService,
  }),
  route("GET", "/v1/admin/internal-services", "All internal services, without their secrets", {
    ...byServiceAdmin,
    query: PageQuery,
    invalid: "LIST_INVALID_QUERY",
    response: { status: 200, body: servicesApi.ServiceList },
    handler: services.listServices,
  }),
  route(
    "POST",
    "/v1/admin/internal-services/:id/rotate",
    "Create a new secret; the old one works for one more hour, so that the proxy can be restarted",
    {
      ...byServiceAdmin,
      ...ofService,
      response: { status: 200, body: servicesApi.IssuedServiceAnswer },
      handler: services.rotateService,
    },
  ),
  route("DELETE", "/v1/admin/internal-services/:id", "Revoke an internal service", {
    ...byServiceAdmin,
    ...ofService,
    response: { status: 204 },
    handler: services.deleteService,
  }),
  route("POST", "/v1/admin/keys/rotate", "Create a new signing key; the response says when it begins to sign", {
    ...byAdmin,
    response: { status: 200, body: metaApi.RotateKeysAnswer },
    errors: ["SIGNING_KEYS_CONFIGURED", "SIGNING_KEYS_TOO_MANY"],
    handler: meta.rotateKeys,
  }),
  route(
    "POST",
    "/v1/admin/tokens",
    "A token with which an admin reads the relay state of the proxy for five minutes, because it cannot be revoked",
    {
      ...byAdmin,
      response: { status: 201, body: AdminTokenAnswer },
      handler: issueAdminToken,
    },
  ),
  route(
    "POST",
    "/v1/admin/console-codes",
    "An address that opens the console once, within a minute, because the browser's history keeps it",
    {
      ...byAdmin,
      response: { status: 201, body: adminApi.ConsoleCode },
      errors: ["CONSOLE_OFF"],
      handler: openConsole,
    },
  ),
  route("GET", "/v1/admin/audit", "Audit events with filters, newest or oldest first", {
    ...byAdmin,
    query: auditApi.AuditQuery,
    invalid: "AUDIT_INVALID_QUERY",
    response: { status: 200, body: auditApi.AuditList },
    handler: listAudit,
  }),
  route(
    "GET",
    "/v1/admin/counts",
    "How many people and agents there are, counted at most once in 10 s, because a count reads much of the store",
    {
      ...byAdmin,
      query: NoQuery,
      invalid: "ADMIN_INVALID_QUERY",
      response: { status: 200, body: adminApi.AdminCounts },
      handler: people.counts,
    },
  ),
  route("GET", "/v1/admin/people", "All people, newest first", {
    ...byAdmin,
    query: adminApi.PeopleQuery,
    invalid: "ADMIN_INVALID_QUERY",
    response: { status: 200, body: adminApi.PeopleList },
    handler: people.listPeople,
  }),
  route("GET", "/v1/admin/people/:id", "A person, with its API keys and the number of its agents", {
    ...byAdmin,
    ...ofPerson,
    response: { status: 200, body: adminApi.PersonAnswer },
    handler: people.getPerson,
  }),
  route(
    "POST",
    "/v1/admin/people/:id/suspend",
    "Refuse a person's API keys and end the sessions of its agents, until a restore",
    { ...suspension, errors: ["ADMIN_SUSPEND_FORBIDDEN"], handler: people.suspendPerson },
  ),
  route("POST", "/v1/admin/people/:id/restore", "End a suspension; the sessions that it ended are active again", {
    ...suspension,
    handler: people.restorePerson,
  }),
  route("GET", "/v1/admin/agents", "All agents with the status of their sessions, newest first", {
    ...byAdmin,
    query: adminApi.AdminAgentQuery,
    invalid: "ADMIN_INVALID_QUERY",
    response: { status: 200, body: adminApi.AdminAgentList },
    handler: people.listAgents,
  }),
  route("GET", "/v1/admin/agents/:id", "Any agent, with its session", {
    ...byAdmin,
    ...ofAgent,
    response: { status: 200, body: adminApi.AdminAgentAnswer },
    handler: people.getAgent,
  }),
  route("DELETE", "/v1/admin/agents/:id", "Revoke any agent permanently", {
    ...byAdmin,
    ...ofAgent,
    response: { status: 204 },
    errors: ["AGENT_NOT_FOUND", "AGENT_REVOKE_INVALID_STATE"],
    handler: people.deleteAgent,
  }),
  route(
    "DELETE",
    "/v1/admin/agents/:id/auth/revoke",
    "Revoke the session of any agent; its identity token stays valid",
    {
      ...byAdmin,
      ...ofAgent,
      response: { status: 204 },
      handler: people.revokeAgentAuth,
    },
  ),
  // Services
  route("POST", "/internal/v1/identity/agent-ownership", "Whether a human owns an agent, and the status of the agent", {
    auth: "ownership_service",
    limit: null,
    body: servicesApi.OwnershipBody,
    invalid: "AGENT_OWNERSHIP_INVALID",
    response: { status: 200, body: servicesApi.Ownership },
    handler: services.agentOwnership,
  }),
  // Documents and pages
  openApiRoute<RegistryDeps>(),
  ...pageRoutes<RegistryDeps>(meta.registryReady),
  pageRoute<RegistryDeps>("/join", "How to use a join link", joinPage),
];

export const REGISTRY_DOCUMENT: DocumentPart = {
  title: "svc registry",
  operations: operationsOf(REGISTRY_ROUTES, AUTHENTICATORS),
};
