/**
 * Agent sessions in the store. Every change is one commit that checks the session, and a refresh also checks the agent,
 * because a race of a refresh and a revocation could otherwise restore a token that has ended.
 */
import type { AgentAuth } from "../../shared/protocol/api/sessions.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { makeSecret } from "../../shared/protocol/secrets.ts";
import { digest } from "../../shared/server/crypto.ts";
import { toIso } from "../../shared/protocol/time.ts";
import type { StoreDeps } from "../../shared/server/store/open_store.ts";
import type { AgentRecord, HumanRecord, SessionRecord, SpentRefresh } from "../schema/records.ts";
import { audit, audited } from "../audit/record.ts";
import type { Asker, ProvenAgent } from "../callers.ts";
import { KEYS } from "../schema/kv_keys.ts";
import { ENDED_KEPT_MS, sessionEnd } from "../schema/retention.ts";
import type { RegistryStore } from "../store_deps.ts";
import { evaluateRefresh, REFRESH_REFUSALS } from "./session_rules.ts";

/** Creates a session, not stored yet, with its tokens, which are shown once. `before` is the session it continues. */
export function issueSession(
  deps: RegistryStore,
  before: Partial<SessionRecord> = {},
): { record: SessionRecord; agentAuth: AgentAuth } {
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
 * Returns the session, revoked now. It loses its mark of a suspension, because a restore of its owner would otherwise
 * bring back a session that was ended for another reason.
 */
export function revoked({ clock }: Pick<StoreDeps, "clock">, session: SessionRecord): SessionRecord {
  const { suspended: _, ...rest } = session;
  return { ...rest, status: "revoked", revokedAt: clock.now() };
}

/** Returns the options of a write, with which the record is deleted 90 days after the end of the session. */
export function keptFor({ clock }: Pick<StoreDeps, "clock">, session: SessionRecord): { expireIn: number } {
  return { expireIn: Math.max(1, sessionEnd(session) + ENDED_KEPT_MS - clock.now()) };
}

/**
 * Refreshes a session. A token older than the previous one revokes the session, because two parties then have it.
 *
 * @throws {ServiceError} `AGENT_AUTH_REFRESH_UNAUTHORIZED`, `…_REVOKED`, `…_INVALID` (401), `…_EXPIRED`, `…_CONFLICT`,
 * `ACCOUNT_SUSPENDED`, `AGENT_NOT_FOUND`
 */
export async function refreshSession(
  deps: RegistryStore,
  caller: ProvenAgent,
  { refreshToken, recovery }: { refreshToken: string; recovery: boolean },
  requestId: string,
): Promise<AgentAuth> {
  const { agentId, agentDid, timestamp } = caller;
  const count = (result: "rotated" | "recovered" | "refused" | "reuse_detected") =>
    deps.metrics?.count("sessions_refreshed_total", result);
  const request = { digest: digest(refreshToken), recovery };
  const [agent, entry, spent] = await deps.kv.getMany<[AgentRecord, SessionRecord, SpentRefresh]>([
    KEYS.agent(agentId),
    KEYS.session(agentId),
    KEYS.spentRefresh(request.digest),
  ]);
  const decision = evaluateRefresh(agent.value, entry.value, spent.value, caller, request, deps.clock.now());
  if ("refused" in decision) {
    const { refused } = decision;
    if (refused === "reused" && agent.value !== null) {
      await revokeSession(deps, { human: { did: agentDid }, requestId }, agent.value, "session.reuse_detected");
    }
    const error = refused === "suspended" ? await suspended(deps, agent.value) : REFRESH_REFUSALS[refused]();
    count(refused === "reused" ? "reuse_detected" : "refused");
    throw error;
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
  const { ok } = await operation.commit();
  count(!ok ? "refused" : done === "rotate" ? "rotated" : "recovered");
  if (!ok) throw REFRESH_REFUSALS.conflict();
  return next.agentAuth;
}

async function suspended({ kv }: Pick<StoreDeps, "kv">, agent: AgentRecord | null): Promise<ServiceError> {
  const { value: owner } = await kv.get<HumanRecord>(KEYS.human(agent?.ownerId ?? ""));
  const message = `${owner?.displayName ?? "Its owner"}'s account is suspended. Ask the administrator`;
  return new ServiceError("ACCOUNT_SUSPENDED", { message });
}

/** Revokes the active or suspended session of an agent, if there is one. A second call changes nothing. */
export async function revokeSession(
  deps: RegistryStore,
  by: Asker<{ did: string }>,
  { id, did }: Pick<AgentRecord, "id" | "did">,
  event: "session.revoked" | "session.reuse_detected" = "session.revoked",
): Promise<void> {
  await deps.changes.run(async (draft) => {
    const entry = await draft.get<SessionRecord>(KEYS.session(id));
    if (entry.value?.status !== "active" && !entry.value?.suspended) return;
    const ended = revoked(deps, entry.value);
    draft.set(entry.key, ended, keptFor(deps, ended));
    draft.announce([did]);
    await audit(draft, deps, by, event, did);
  });
}
