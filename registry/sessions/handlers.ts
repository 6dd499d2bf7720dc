/** HTTP handlers of agent sessions: refresh, visit tokens, validate. */
import { HOUR_MS } from "../../shared/clock.ts";
import type {
  RefreshAnswer,
  RefreshBody,
  ValidateBody,
  VisitAnswer,
  VisitBody,
} from "../../shared/protocol/api/sessions.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { HEADERS } from "../../shared/protocol/proof.ts";
import { isForeignOrigin } from "../../shared/protocol/origins.ts";
import { signShortToken, VIS } from "../../shared/protocol/signed/short_token.ts";
import { toIso, unixSeconds } from "../../shared/protocol/time.ts";
import { invalidInput } from "../../shared/server/http/app.ts";
import { type Answer, json, noContent, type RequestContext } from "../../shared/server/http/route.ts";
import { type RateLimiter, rateLimitHeaders, type WindowRule } from "../../shared/server/rate_limit.ts";
import type { ProvenAgent, WithBody } from "../callers.ts";
import type { Signing } from "../signing_keys.ts";
import type { RegistryStore } from "../store_deps.ts";
import { checkAccessToken } from "./access_token.ts";
import { refreshSession } from "./store.ts";

/**
 * How many times as often as its connector an agent may refresh. With less, attempts that a failing store leaves
 * without an answer would use up the limit.
 */
const REFRESH_ROOM = 8;

export async function refresh(
  deps: RegistryStore & { limiter: RateLimiter },
  { body, caller, exchange }: WithBody<RefreshBody, ProvenAgent>,
): Promise<Answer> {
  // A connector refreshes 70 s before the end of its token, but waits at least 5 s.
  const everyMs = Math.max(deps.config.accessTokenTtlSeconds * 1000 - 70_000, 5_000);
  const requests = Math.ceil(REFRESH_ROOM * Math.max(1, HOUR_MS / everyMs));
  // The limit per IP alone would let an agent with many addresses fill the store: each refresh leaves records for weeks.
  // Each agent has a limit of its own, because one whose key was stolen would otherwise stop the others of its owner.
  await countOf(deps, { name: "refresh_agent", requests, windowMs: HOUR_MS }, caller);
  return json<RefreshAnswer>({ agentAuth: await refreshSession(deps, caller, body, exchange.requestId) });
}

/**
 * Signs a visit token for an agent with an active session. The agent shows it to other servers in place of its access
 * token, because that is a secret of this registry, which no other server may see.
 */
export async function visit(
  deps: RegistryStore & { limiter: RateLimiter; signing: Signing },
  { body, caller, exchange }: WithBody<VisitBody, ProvenAgent>,
): Promise<Answer> {
  const { agentDid, aitJti } = caller, { audience } = body, { clock, config, signing } = deps;
  if (!isForeignOrigin(audience, config.environment)) {
    throw new ServiceError("AGENT_AUTH_VALIDATE_INVALID", {
      message: "The audience must be the https origin of a proxy, without port or path",
    });
  }
  const rule = { name: "visit_agent", requests: LIMITS.visitRequests, windowMs: LIMITS.limitWindowMs };
  await countOf(deps, rule, caller);
  // The request is counted before this check, because a revoked agent with an unexpired identity token could otherwise
  // ask without limit.
  await requireAccess(deps, exchange, { agentDid, aitJti });
  const iat = unixSeconds(clock.now()), proxy = new URL(config.proxyUrl).origin, jti = deps.newId();
  const claims = { iss: config.registryUrl, sub: agentDid, aud: audience, proxy, aitJti, iat, jti };
  return json<VisitAnswer>({
    token: await signShortToken(VIS, claims, await signing.current()),
    expiresAt: toIso((iat + LIMITS.visitTokenTtlSeconds) * 1000),
  }, 201);
}

/** Counts a request of an agent in its window. @throws {ServiceError} `RATE_LIMIT_EXCEEDED` */
async function countOf(
  { limiter }: { limiter: RateLimiter },
  rule: WindowRule,
  { agentDid }: ProvenAgent,
): Promise<void> {
  const decision = await limiter.hit(rule, agentDid);
  if (!decision.allowed) throw new ServiceError("RATE_LIMIT_EXCEEDED", { headers: rateLimitHeaders(rule, decision) });
}

/** Checks the access token of a request for a proxy in another process. */
export async function validate(
  deps: RegistryStore,
  { body, exchange }: WithBody<ValidateBody, boolean>,
): Promise<Answer> {
  await requireAccess(deps, exchange, body);
  return noContent();
}

/**
 * @throws {ServiceError} `AGENT_AUTH_VALIDATE_INVALID` without a token, `…_UNAUTHORIZED` or `…_EXPIRED` for one that is
 * not valid
 */
async function requireAccess(
  deps: RegistryStore,
  exchange: RequestContext,
  agent: { agentDid: string; aitJti: string },
): Promise<void> {
  const token = exchange.request.headers.get(HEADERS.access);
  if (!token) {
    const fieldErrors = { [HEADERS.access]: [`${HEADERS.access} is missing`] };
    throw invalidInput("AGENT_AUTH_VALIDATE_INVALID", { fieldErrors, formErrors: [] });
  }
  const result = await checkAccessToken(deps, { ...agent, accessToken: token });
  if (result === "wrong") throw new ServiceError("AGENT_AUTH_VALIDATE_UNAUTHORIZED");
  if (result === "expired") throw new ServiceError("AGENT_AUTH_VALIDATE_EXPIRED");
}
