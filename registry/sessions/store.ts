/**
 * Agent sessions in the store. Every change is one commit that checks agent and session, so that neither a race of two
 * refreshes nor one of refresh and revoke can bring anything back to life.
 */
import type { AgentAuth } from "../../shared/protocol/api/sessions.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { makeSecret } from "../../shared/protocol/secrets.ts";
import { digest } from "../../shared/server/crypto.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { announceTrustChange } from "../../shared/server/store/trust_changes.ts";
import { commitOptimistically } from "../../shared/server/store/optimistic_commit.ts";
import type { AgentRecord, AuditEvent, SessionRecord, SpentRefresh } from "../schema/records.ts";
import { audited } from "../audit/record.ts";
import type { RegistryDeps } from "../deps.ts";
import { ENDED_KEPT_MS, KEYS } from "../schema/kv_keys.ts";
import { evaluateRefresh, type RefreshRequest, sessionEnd } from "./session_rules.ts";

/** A session not yet stored, with the tokens that are shown once. */
export interface IssuedSession {
  record: SessionRecord;
  agentAuth: AgentAuth;
}

/** Makes new tokens; `before` is the session they continue. */
export function issueSession(
  deps: RegistryDeps,
  before: Partial<SessionRecord> = {},
): IssuedSession {
  const now = deps.clock.now();
  const accessToken = makeSecret("access", deps.random.bytes);
  const refreshToken = makeSecret("refresh", deps.random.bytes);
  const record: SessionRecord = {
    previousDigest: null,
    previousExpiresAt: 0,
    refreshedAtSeconds: 0,
    createdAt: now,
    ...before,
    status: "active",
    accessDigest: digest(accessToken),
    accessExpiresAt: now + deps.config.accessTokenTtlSeconds * 1000,
    refreshDigest: digest(refreshToken),
    refreshExpiresAt: now + deps.config.refreshTokenTtlSeconds * 1000,
  };
  const agentAuth: AgentAuth = {
    tokenType: "Bearer",
    accessToken,
    accessExpiresAt: toIso(record.accessExpiresAt),
    refreshToken,
    refreshExpiresAt: toIso(record.refreshExpiresAt),
  };
  return { record, agentAuth };
}

/** The session, revoked now. */
export function revoked({ clock }: Pick<RegistryDeps, "clock">, session: SessionRecord): SessionRecord {
  return { ...session, status: "revoked", revokedAt: clock.now() };
}

/** Options of a write: the record is deleted 90 days after the session's end (D-218). */
export function keptFor({ clock }: Pick<RegistryDeps, "clock">, session: SessionRecord): { expireIn: number } {
  return { expireIn: Math.max(1, sessionEnd(session) + ENDED_KEPT_MS - clock.now()) };
}

export async function findSession(deps: RegistryDeps, agentId: string): Promise<SessionRecord | null> {
  return (await deps.kv.get<SessionRecord>(KEYS.session(agentId))).value;
}

/** Who refreshes: the identity that the AIT and its proof have shown. */
export interface Refresher {
  agentId: string;
  agentDid: string;
  aitJti: string;
  timestamp: number;
}

/**
 * Carries a refresh out (D-42 to D-44).
 *
 * @throws {ServiceError} `AGENT_AUTH_REFRESH_UNAUTHORIZED`, `…_REVOKED`, `…_INVALID` (401), `…_EXPIRED`, `…_CONFLICT`
 */
export async function refreshSession(
  deps: RegistryDeps,
  refresher: Refresher,
  { refreshToken, recovery }: { refreshToken: string; recovery: boolean },
  requestId: string,
): Promise<AgentAuth> {
  const { agentId, agentDid, aitJti, timestamp } = refresher;
  const request: RefreshRequest = { digest: digest(refreshToken), recovery, timestamp };
  const [agent, entry, spent] = await deps.kv.getMany<[AgentRecord, SessionRecord, SpentRefresh]>([
    KEYS.agent(agentId),
    KEYS.session(agentId),
    KEYS.spentRefresh(request.digest),
  ]);
  if (agent.value?.did !== agentDid) throw new ServiceError("AGENT_AUTH_REFRESH_UNAUTHORIZED");
  const session = entry.value;
  if (agent.value.status === "revoked" || session === null || session.status === "revoked") {
    throw new ServiceError("AGENT_AUTH_REFRESH_REVOKED");
  }
  if (agent.value.currentJti !== aitJti) {
    throw new ServiceError("AGENT_AUTH_REFRESH_UNAUTHORIZED", { message: "The AIT was superseded by a newer one" });
  }
  const isOwn = spent.value?.agentId === agentId && spent.value.sessionCreatedAt === session.createdAt;
  const own = isOwn ? spent.value : null;
  const verdict = evaluateRefresh(session, own, request, deps.clock.now());
  switch (verdict) {
    case "rotate":
    case "recover":
      break;
    case "reused":
      await revokeSession(deps, agentId, {
        event: "session.reuse_detected",
        actor: agentDid,
        subject: agentDid,
        requestId,
      });
      throw new ServiceError("AGENT_AUTH_REFRESH_INVALID", {
        status: 401,
        message: "The refresh token was used before; the session is revoked",
      });
    case "invalid":
      throw new ServiceError("AGENT_AUTH_REFRESH_INVALID", { status: 401 });
    case "expired":
      throw new ServiceError("AGENT_AUTH_REFRESH_EXPIRED");
    case "revoked":
      throw new ServiceError("AGENT_AUTH_REFRESH_REVOKED");
    case "conflict":
      throw new ServiceError("AGENT_AUTH_REFRESH_CONFLICT");
  }
  const rotated = { previousDigest: session.refreshDigest, previousExpiresAt: session.refreshExpiresAt };
  const next = issueSession(deps, {
    ...session,
    ...(verdict === "rotate" ? rotated : {}),
    refreshedAtSeconds: timestamp,
  });
  const operation = deps.kv.atomic().check(agent).check(entry).set(entry.key, next.record, keptFor(deps, next.record));
  if (verdict === "rotate" && session.previousDigest !== null) {
    const { createdAt: sessionCreatedAt, previousExpiresAt: expiresAt } = session;
    const old: SpentRefresh = { agentId, sessionCreatedAt, expiresAt };
    const expireIn = Math.max(1, session.previousExpiresAt - deps.clock.now());
    operation.set(KEYS.spentRefresh(session.previousDigest), old, { expireIn });
  }
  const event = verdict === "rotate" ? "session.refreshed" : "session.recovered";
  audited(operation, deps, { event, actor: agentDid, subject: agentDid, requestId });
  if (!(await operation.commit()).ok) throw new ServiceError("AGENT_AUTH_REFRESH_CONFLICT");
  return next.agentAuth;
}

/** Revokes a session, if there is one that is not; again changes nothing. */
export async function revokeSession(
  deps: RegistryDeps,
  agentId: string,
  audit: { event: AuditEvent; actor: string; subject: string; requestId: string },
): Promise<void> {
  await commitOptimistically(deps, async () => {
    const entry = await deps.kv.get<SessionRecord>(KEYS.session(agentId));
    if (entry.value?.status !== "active") return { done: undefined };
    const ended = revoked(deps, entry.value);
    const operation = deps.kv.atomic().check(entry).set(entry.key, ended, keptFor(deps, ended));
    audited(announceTrustChange(operation, deps.newId, [audit.subject]), deps, audit);
    return { operation, result: undefined };
  });
}
