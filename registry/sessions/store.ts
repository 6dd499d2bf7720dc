/**
 * Agent sessions in the store. Every change is one commit that checks agent and session, so that no race of refreshes and
 * revocations restores a token that has ended.
 */
import type { AgentAuth } from "../../shared/protocol/api/sessions.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { makeSecret } from "../../shared/protocol/secrets.ts";
import { digest } from "../../shared/server/crypto.ts";
import { toIso } from "../../shared/protocol/time.ts";
import type { Changes } from "../../shared/server/store/changes.ts";
import type { StoreDeps } from "../../shared/server/store/open_store.ts";
import type { AgentRecord, HumanRecord, SessionRecord, SpentRefresh } from "../schema/records.ts";
import { audited, type AuditFacts } from "../audit/record.ts";
import type { ProvenAgent } from "../callers.ts";
import type { RegistryConfig } from "../config.ts";
import { KEYS } from "../schema/kv_keys.ts";
import { ENDED_KEPT_MS, sessionEnd } from "../schema/retention.ts";
import { evaluateRefresh, REFRESH_REFUSALS, type RefreshRequest } from "./session_rules.ts";

export interface SessionDeps extends StoreDeps {
  config: Pick<RegistryConfig, "accessTokenTtlSeconds" | "refreshTokenTtlSeconds">;
  changes: Changes;
}

/** A session that is not stored yet, with the tokens that are shown once. */
export interface IssuedSession {
  record: SessionRecord;
  agentAuth: AgentAuth;
}

/** Creates new tokens. `before` is the session that they continue. */
export function issueSession(
  deps: Pick<SessionDeps, "clock" | "random" | "config">,
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

/**
 * Returns the session, revoked now. A restore of its owner does not bring it back, because it was ended for a reason of
 * its own.
 */
export function revoked({ clock }: Pick<StoreDeps, "clock">, session: SessionRecord): SessionRecord {
  const { suspended: _, ...rest } = session;
  return { ...rest, status: "revoked", revokedAt: clock.now() };
}

/** Returns the options of a write: the record is deleted 90 days after the end of the session. */
export function keptFor({ clock }: Pick<StoreDeps, "clock">, session: SessionRecord): { expireIn: number } {
  return { expireIn: Math.max(1, sessionEnd(session) + ENDED_KEPT_MS - clock.now()) };
}

export async function findSession(deps: Pick<StoreDeps, "kv">, agentId: string): Promise<SessionRecord | null> {
  return (await deps.kv.get<SessionRecord>(KEYS.session(agentId))).value;
}

/**
 * Refreshes a session. A reused token revokes the session, because there is a copy of it.
 *
 * @throws {ServiceError} `AGENT_AUTH_REFRESH_UNAUTHORIZED`, `…_REVOKED`, `…_INVALID` (401), `…_EXPIRED`, `…_CONFLICT`,
 * `ACCOUNT_SUSPENDED`, `AGENT_NOT_FOUND`
 */
export async function refreshSession(
  deps: SessionDeps,
  caller: ProvenAgent,
  request: { refreshToken: string; recovery: boolean },
  requestId: string,
): Promise<AgentAuth> {
  let result: RefreshResult | null = "refused";
  try {
    return await refreshOnce(deps, caller, request, requestId, (known) => result = known);
  } catch (error) {
    if (!(error instanceof ServiceError)) result = null;
    throw error;
  } finally {
    if (result) deps.metrics?.count("sessions_refreshed_total", result);
  }
}

type RefreshResult = "rotated" | "recovered" | "refused" | "reuse_detected";

async function refreshOnce(
  deps: SessionDeps,
  caller: ProvenAgent,
  { refreshToken, recovery }: { refreshToken: string; recovery: boolean },
  requestId: string,
  report: (result: RefreshResult) => void,
): Promise<AgentAuth> {
  const { agentId, agentDid, timestamp } = caller;
  const request: RefreshRequest = { digest: digest(refreshToken), recovery, timestamp };
  const [agent, entry, spent] = await deps.kv.getMany<[AgentRecord, SessionRecord, SpentRefresh]>([
    KEYS.agent(agentId),
    KEYS.session(agentId),
    KEYS.spentRefresh(request.digest),
  ]);
  const decision = evaluateRefresh(agent.value, entry.value, spent.value, caller, request, deps.clock.now());
  if ("refused" in decision) {
    const { refused } = decision;
    if (refused === "reused" && agent.value !== null) {
      report("reuse_detected");
      await revokeSession(deps, agent.value, { event: "session.reuse_detected", actor: agentDid, requestId });
    }
    if (refused !== "suspended") throw REFRESH_REFUSALS[refused]();
    const { value: owner } = await deps.kv.get<HumanRecord>(KEYS.human(agent.value?.ownerId ?? ""));
    const message = `${owner?.displayName ?? "Its owner"}'s account is suspended. Ask the administrator`;
    throw new ServiceError("ACCOUNT_SUSPENDED", { message });
  }
  const { done, session } = decision;
  const rotated = { previousDigest: session.refreshDigest, previousExpiresAt: session.refreshExpiresAt };
  const next = issueSession(deps, {
    ...session,
    ...(done === "rotate" ? rotated : {}),
    refreshedAtSeconds: timestamp,
  });
  const operation = deps.kv.atomic().check(agent).check(entry).set(entry.key, next.record, keptFor(deps, next.record));
  if (done === "rotate" && session.previousDigest !== null) {
    const { createdAt: sessionCreatedAt, previousExpiresAt: expiresAt } = session;
    const old: SpentRefresh = { agentId, sessionCreatedAt, expiresAt };
    const expireIn = Math.max(1, session.previousExpiresAt - deps.clock.now());
    operation.set(KEYS.spentRefresh(session.previousDigest), old, { expireIn });
  }
  const event = done === "rotate" ? "session.refreshed" : "session.recovered";
  audited(operation, deps, { event, actor: agentDid, subject: agentDid, requestId });
  if (!(await operation.commit()).ok) throw new ServiceError("AGENT_AUTH_REFRESH_CONFLICT");
  report(done === "rotate" ? "rotated" : "recovered");
  return next.agentAuth;
}

/** Revokes the active or suspended session of an agent, if there is one. Idempotent. */
export async function revokeSession(
  deps: Pick<SessionDeps, "clock" | "newId" | "changes">,
  { id, did }: Pick<AgentRecord, "id" | "did">,
  why: Pick<AuditFacts, "event" | "actor" | "requestId">,
): Promise<void> {
  await deps.changes.run(async (draft) => {
    const entry = await draft.get<SessionRecord>(KEYS.session(id));
    if (entry.value?.status !== "active" && !entry.value?.suspended) return;
    const ended = revoked(deps, entry.value);
    draft.set(entry.key, ended, keptFor(deps, ended));
    draft.announce([did]);
    draft.also((operation) => audited(operation, deps, { ...why, subject: did }));
  });
}
