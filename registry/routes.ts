/**
 * The route table of the registry: one complete row per route.
 */
import { HEADERS } from "../shared/protocol/proof.ts";
import * as accountsApi from "../shared/protocol/api/accounts.ts";
import * as adminApi from "../shared/protocol/api/admin.ts";
import * as agentsApi from "../shared/protocol/api/agents.ts";
import * as auditApi from "../shared/protocol/api/audit.ts";
import { AdminPageQuery, PageQuery } from "../shared/protocol/api/fields.ts";
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
import { openConsole } from "./console/handlers.ts";
import type { RegistryDeps } from "./deps.ts";
import * as invites from "./invites/handlers.ts";
import * as meta from "./meta/handlers.ts";
import { joinPage } from "./meta/join_page.ts";
import { getCrl } from "./revocation/handlers.ts";
import * as people from "./people/handlers.ts";
import * as services from "./internal_services/handlers.ts";
import * as sessions from "./sessions/handlers.ts";

const route = routeFor<RegistryDeps, RegistryCallers>();
const windowMs = LIMITS.limitWindowMs;
/** Counts per person, because more keys would otherwise give more requests. `app.ts` sets the configured number. */
const perHuman: RouteLimit = { name: "api-key", requests: LIMITS.apiKeyRequests, windowMs, per: "person" };
const perIp = (name: string, requests: number): RouteLimit => ({ name, requests, windowMs, per: "ip" });
const byPerson = { auth: "api_key", limit: perHuman } as const;
const byAdmin = { auth: "admin", limit: perHuman } as const;
const ofAgent = { params: agentsApi.AgentPath, invalidPath: "AGENT_REVOKE_INVALID_PATH" } as const;

export const REGISTRY_ROUTES: readonly Route<RegistryDeps>[] = [
  // No authentication
  route({
    method: "GET",
    path: "/health",
    summary: "Health of the registry",
    auth: "none",
    limit: null,
    response: { status: 200, body: metaApi.RegistryHealth, mayBeUnready: true },
    handler: meta.health,
  }),
  ...probeRoutes<RegistryDeps>(meta.registryReady),
  route({
    method: "GET",
    path: "/.well-known/svc-keys.json",
    summary: "Public keys that verify identity tokens and revocation lists",
    auth: "none",
    limit: null,
    response: { status: 200, body: KeyDocument, isCacheable: true },
    handler: meta.keys,
  }),
  route({
    method: "GET",
    path: "/v1/crl",
    summary: "The signed list of revoked identity tokens",
    auth: "crl_service",
    limit: perIp("crl", LIMITS.crlRequests),
    response: { status: 200, body: metaApi.CrlAnswer, isCacheable: true },
    errors: ["CRL_NOT_FOUND", "CRL_BUILD_FAILED"],
    handler: getCrl,
  }),
  route({
    method: "GET",
    path: "/v1/resolve/:id",
    summary: "Public record of an agent",
    auth: "none",
    limit: perIp("resolve", LIMITS.resolveRequests),
    params: agentsApi.AgentPath,
    invalidPath: "AGENT_RESOLVE_INVALID_PATH",
    response: { status: 200, body: agentsApi.ResolvedAgent },
    errors: ["AGENT_NOT_FOUND"],
    handler: agents.resolveAgent,
  }),
  route({
    method: "GET",
    path: "/v1/metadata",
    summary: "Public addresses, environment and version",
    auth: "none",
    limit: null,
    response: { status: 200, body: metaApi.Metadata },
    handler: meta.metadata,
  }),
  route({
    method: "POST",
    path: "/v1/invites/redeem",
    summary: "Turn an invite code into an account with an API key",
    auth: "none",
    limit: { ...perIp("redeem", LIMITS.redeemFailures), counts: ["INVITE_REDEEM_CODE_INVALID"] },
    body: invitesApi.RedeemInviteBody,
    invalid: "INVITE_REDEEM_INVALID",
    response: { status: 201, body: invitesApi.RedeemInviteAnswer },
    errors: ["INVITE_REDEEM_CODE_INVALID", "INVITE_REDEEM_EXPIRED", "INVITE_REDEEM_ALREADY_USED"],
    handler: invites.redeemInvite,
  }),
  // Agents
  route({
    method: "POST",
    path: "/v1/agents/auth/refresh",
    summary: "Refresh an agent's session: new access and refresh tokens",
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
    ],
    handler: sessions.refresh,
  }),
  route({
    method: "POST",
    path: "/v1/agents/auth/validate",
    summary: "Check an access token of an agent",
    auth: "validate_service",
    limit: perIp("validate", LIMITS.validateRequests),
    headers: [{
      name: HEADERS.access,
      required: true,
      schema: sessionsApi.AccessHeader,
      what: "the access token to check",
    }],
    body: sessionsApi.ValidateBody,
    invalid: "AGENT_AUTH_VALIDATE_INVALID",
    response: { status: 204 },
    errors: ["AGENT_AUTH_VALIDATE_UNAUTHORIZED", "AGENT_AUTH_VALIDATE_EXPIRED"],
    handler: sessions.validate,
  }),
  // Humans, by API key
  route({
    method: "GET",
    path: "/v1/me",
    summary: "The caller's account",
    ...byPerson,
    response: { status: 200, body: accountsApi.AccountProfile },
    handler: accounts.me,
  }),
  route({
    method: "POST",
    path: "/v1/me/api-keys",
    summary: "Create an API key",
    ...byPerson,
    body: accountsApi.CreateApiKeyBody,
    emptyBody: true,
    invalid: "API_KEY_CREATE_INVALID",
    response: { status: 201, body: accountsApi.CreateApiKeyAnswer },
    errors: ["QUOTA_EXCEEDED"],
    handler: credentials.createApiKey,
  }),
  route({
    method: "GET",
    path: "/v1/me/api-keys",
    summary: "The caller's API keys, without their tokens",
    ...byPerson,
    query: PageQuery,
    invalid: "LIST_INVALID_QUERY",
    response: { status: 200, body: accountsApi.ApiKeyList },
    handler: credentials.listApiKeys,
  }),
  route({
    method: "DELETE",
    path: "/v1/me/api-keys/:id",
    summary: "Revoke one API key",
    ...byPerson,
    params: accountsApi.ApiKeyPath,
    invalidPath: "API_KEY_REVOKE_INVALID_PATH",
    response: { status: 204 },
    errors: ["API_KEY_NOT_FOUND"],
    handler: credentials.revokeApiKey,
  }),
  route({
    method: "GET",
    path: "/v1/agents",
    summary: "The caller's agents, newest first",
    ...byPerson,
    query: agentsApi.AgentListQuery,
    invalid: "AGENT_LIST_INVALID_QUERY",
    response: { status: 200, body: agentsApi.AgentList },
    handler: agents.listAgents,
  }),
  route({
    method: "POST",
    path: "/v1/agents/challenge",
    summary: "Create a challenge for the registration of an agent",
    ...byPerson,
    body: agentsApi.ChallengeBody,
    invalid: "AGENT_REGISTRATION_CHALLENGE_INVALID",
    response: { status: 201, body: agentsApi.Challenge },
    errors: ["QUOTA_EXCEEDED"],
    handler: agents.createChallenge,
  }),
  route({
    method: "POST",
    path: "/v1/agents",
    summary: "Register an agent: identity token and session",
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
  route({
    method: "GET",
    path: "/v1/agents/:id",
    summary: "One of the caller's agents",
    ...byPerson,
    ...ofAgent,
    response: { status: 200, body: agentsApi.AgentAnswer },
    errors: ["AGENT_NOT_FOUND"],
    handler: agents.getAgent,
  }),
  route({
    method: "POST",
    path: "/v1/agents/:id/reissue",
    summary: "Issue a new identity token and revoke the previous one",
    ...byPerson,
    ...ofAgent,
    response: { status: 200, body: agentsApi.ReissueAnswer },
    errors: ["AGENT_NOT_FOUND", "AGENT_REISSUE_INVALID_STATE", "QUOTA_EXCEEDED"],
    handler: agents.reissueAgent,
  }),
  route({
    method: "DELETE",
    path: "/v1/agents/:id/auth/revoke",
    summary: "Revoke an agent's session; its identity token stays valid",
    ...byPerson,
    ...ofAgent,
    response: { status: 204 },
    errors: ["AGENT_NOT_FOUND"],
    handler: agents.revokeAgentAuth,
  }),
  route({
    method: "DELETE",
    path: "/v1/agents/:id",
    summary: "Revoke an agent permanently",
    ...byPerson,
    ...ofAgent,
    response: { status: 204 },
    errors: ["AGENT_NOT_FOUND", "AGENT_REVOKE_INVALID_STATE"],
    handler: agents.deleteAgent,
  }),
  // Admins
  route({
    method: "POST",
    path: "/v1/admin/bootstrap",
    summary: "Create the first admin, its API key and the proxy's service credential; works once",
    auth: "bootstrap_secret",
    precondition: accounts.bootstrapEnabled,
    limit: { ...perIp("bootstrap", LIMITS.bootstrapFailures), counts: ["ADMIN_BOOTSTRAP_UNAUTHORIZED"] },
    body: accountsApi.BootstrapBody,
    emptyBody: true,
    invalid: "ADMIN_BOOTSTRAP_INVALID",
    response: { status: 201, body: accountsApi.BootstrapAnswer },
    errors: ["ADMIN_BOOTSTRAP_ALREADY_COMPLETED"],
    handler: accounts.bootstrap,
  }),
  route({
    method: "POST",
    path: "/v1/invites",
    summary: "Create a single-use invite code",
    auth: "invite_admin",
    limit: perHuman,
    body: invitesApi.CreateInviteBody,
    emptyBody: true,
    invalid: "INVITE_CREATE_INVALID",
    response: { status: 201, body: invitesApi.CreateInviteAnswer },
    errors: ["QUOTA_EXCEEDED"],
    handler: invites.createInvite,
  }),
  route({
    method: "GET",
    path: "/v1/invites",
    summary: "All invites, without their codes",
    ...byAdmin,
    query: AdminPageQuery,
    invalid: "LIST_INVALID_QUERY",
    response: { status: 200, body: invitesApi.InviteList },
    handler: invites.listInvites,
  }),
  route({
    method: "DELETE",
    path: "/v1/invites/:id",
    summary: "Delete an invite",
    ...byAdmin,
    params: invitesApi.InvitePath,
    invalidPath: "INVITE_NOT_FOUND",
    response: { status: 204 },
    handler: invites.deleteInvite,
  }),
  route({
    method: "POST",
    path: "/v1/admin/internal-services",
    summary: "Create a credential for an internal service",
    auth: "service_admin",
    limit: perHuman,
    body: servicesApi.CreateServiceBody,
    invalid: "INTERNAL_SERVICE_INVALID",
    response: { status: 201, body: servicesApi.IssuedServiceAnswer },
    errors: ["INTERNAL_SERVICE_ALREADY_EXISTS"],
    handler: services.createService,
  }),
  route({
    method: "GET",
    path: "/v1/admin/internal-services",
    summary: "All internal services, without their secrets",
    auth: "service_admin",
    limit: perHuman,
    query: AdminPageQuery,
    invalid: "LIST_INVALID_QUERY",
    response: { status: 200, body: servicesApi.ServiceList },
    handler: services.listServices,
  }),
  route({
    method: "POST",
    path: "/v1/admin/internal-services/:id/rotate",
    summary: "Create a new secret; the old one works for one more hour",
    auth: "service_admin",
    limit: perHuman,
    params: servicesApi.ServicePath,
    invalidPath: "INTERNAL_SERVICE_NOT_FOUND",
    response: { status: 200, body: servicesApi.IssuedServiceAnswer },
    handler: services.rotateService,
  }),
  route({
    method: "DELETE",
    path: "/v1/admin/internal-services/:id",
    summary: "Revoke an internal service",
    auth: "service_admin",
    limit: perHuman,
    params: servicesApi.ServicePath,
    invalidPath: "INTERNAL_SERVICE_NOT_FOUND",
    response: { status: 204 },
    handler: services.deleteService,
  }),
  route({
    method: "POST",
    path: "/v1/admin/keys/rotate",
    summary: "Create a new signing key; the response says when it begins to sign",
    ...byAdmin,
    response: { status: 200, body: metaApi.RotateKeysAnswer },
    errors: ["SIGNING_KEYS_CONFIGURED", "SIGNING_KEYS_TOO_MANY"],
    handler: meta.rotateKeys,
  }),
  route({
    method: "POST",
    path: "/v1/admin/tokens",
    summary: "A token with which an admin reads the relay state of the proxy for five minutes",
    ...byAdmin,
    response: { status: 201, body: AdminTokenAnswer },
    handler: issueAdminToken,
  }),
  route({
    method: "POST",
    path: "/v1/admin/console-codes",
    summary: "An address that opens the console once, within a minute",
    ...byAdmin,
    response: { status: 201, body: adminApi.ConsoleCode },
    errors: ["CONSOLE_OFF", "QUOTA_EXCEEDED"],
    handler: openConsole,
  }),
  route({
    method: "GET",
    path: "/v1/admin/audit",
    summary: "Audit events with filters, newest or oldest first",
    ...byAdmin,
    query: auditApi.AuditQuery,
    invalid: "AUDIT_INVALID_QUERY",
    response: { status: 200, body: auditApi.AuditList },
    handler: listAudit,
  }),
  route({
    method: "GET",
    path: "/v1/admin/counts",
    summary: "How many people and agents there are, counted at most once in 10 s",
    ...byAdmin,
    response: { status: 200, body: adminApi.AdminCounts },
    handler: people.counts,
  }),
  route({
    method: "GET",
    path: "/v1/admin/people",
    summary: "All people, newest first",
    ...byAdmin,
    query: adminApi.PeopleQuery,
    invalid: "ADMIN_INVALID_QUERY",
    response: { status: 200, body: adminApi.PeopleList },
    handler: people.listPeople,
  }),
  route({
    method: "GET",
    path: "/v1/admin/people/:id",
    summary: "A person, with its API keys and the number of its agents",
    ...byAdmin,
    params: adminApi.PersonPath,
    invalidPath: "PERSON_NOT_FOUND",
    response: { status: 200, body: adminApi.PersonAnswer },
    handler: people.getPerson,
  }),
  route({
    method: "POST",
    path: "/v1/admin/people/:id/suspend",
    summary: "Refuse a person's API keys and end the sessions of its agents, until it is restored",
    ...byAdmin,
    params: adminApi.PersonPath,
    invalidPath: "PERSON_NOT_FOUND",
    body: adminApi.SuspensionBody,
    emptyBody: true,
    invalid: "ADMIN_INVALID_BODY",
    response: { status: 200, body: adminApi.SuspensionAnswer },
    errors: ["ADMIN_SUSPEND_FORBIDDEN"],
    handler: people.suspendPerson,
  }),
  route({
    method: "POST",
    path: "/v1/admin/people/:id/restore",
    summary: "End a suspension; the sessions that it ended are active again",
    ...byAdmin,
    params: adminApi.PersonPath,
    invalidPath: "PERSON_NOT_FOUND",
    body: adminApi.SuspensionBody,
    emptyBody: true,
    invalid: "ADMIN_INVALID_BODY",
    response: { status: 200, body: adminApi.SuspensionAnswer },
    handler: people.restorePerson,
  }),
  route({
    method: "GET",
    path: "/v1/admin/agents",
    summary: "All agents with the status of their sessions, newest first",
    ...byAdmin,
    query: adminApi.AdminAgentQuery,
    invalid: "ADMIN_INVALID_QUERY",
    response: { status: 200, body: adminApi.AdminAgentList },
    handler: people.listAgents,
  }),
  route({
    method: "GET",
    path: "/v1/admin/agents/:id",
    summary: "Any agent, with its session",
    ...byAdmin,
    ...ofAgent,
    response: { status: 200, body: adminApi.AdminAgentAnswer },
    errors: ["AGENT_NOT_FOUND"],
    handler: people.getAgent,
  }),
  route({
    method: "DELETE",
    path: "/v1/admin/agents/:id",
    summary: "Revoke any agent permanently",
    ...byAdmin,
    ...ofAgent,
    response: { status: 204 },
    errors: ["AGENT_NOT_FOUND", "AGENT_REVOKE_INVALID_STATE"],
    handler: people.deleteAgent,
  }),
  route({
    method: "DELETE",
    path: "/v1/admin/agents/:id/auth/revoke",
    summary: "Revoke the session of any agent; its identity token stays valid",
    ...byAdmin,
    ...ofAgent,
    response: { status: 204 },
    errors: ["AGENT_NOT_FOUND"],
    handler: people.revokeAgentAuth,
  }),
  // Services
  route({
    method: "POST",
    path: "/internal/v1/identity/agent-ownership",
    summary: "Whether a human owns an agent, and the status of the agent",
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

/** The registry's part of the OpenAPI document. */
export const REGISTRY_DOCUMENT: DocumentPart = {
  title: "svc registry",
  operations: operationsOf(REGISTRY_ROUTES, AUTHENTICATORS),
};
