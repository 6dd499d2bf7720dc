/**
 * The rules of an agent's session: what follows from a refresh and from the check of an access token. The functions
 * only decide; their callers apply the results.
 */
import type { ProvenAgent } from "../callers.ts";
import type { AgentRecord, SessionRecord, SpentRefresh } from "../schema/records.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { equalDigests } from "../../shared/server/crypto.ts";

/** The error for each refusal of a refresh, except `suspended`, whose message names the owner that store.ts reads. */
export const REFRESH_REFUSALS = {
  // This is not the code of a wrong proof, because the owner would then search for a fault of the machine instead of
  // registering the agent again.
  no_agent: () =>
    new ServiceError("AGENT_NOT_FOUND", {
      message: "The registry has no such agent. It may have been restored from an older backup",
    }),
  revoked: () => new ServiceError("AGENT_AUTH_REFRESH_REVOKED"),
  superseded: () =>
    new ServiceError("AGENT_AUTH_REFRESH_UNAUTHORIZED", { message: "The AIT was superseded by a newer one" }),
  invalid: () => new ServiceError("AGENT_AUTH_REFRESH_INVALID", { status: 401 }),
  reused: () =>
    new ServiceError("AGENT_AUTH_REFRESH_INVALID", {
      status: 401,
      message: "The refresh token was used before; the session is revoked",
    }),
  expired: () => new ServiceError("AGENT_AUTH_REFRESH_EXPIRED"),
  conflict: () => new ServiceError("AGENT_AUTH_REFRESH_CONFLICT"),
} as const satisfies Record<string, () => ServiceError>;

type RefreshDecision =
  | { done: "rotate" | "recover"; session: SessionRecord }
  | { refused: keyof typeof REFRESH_REFUSALS | "suspended" };

export function isLive(session: SessionRecord | null, now: number): session is SessionRecord {
  return session !== null && session.status === "active" && now < session.refreshExpiresAt;
}

export function sessionState(session: SessionRecord, now: number): "active" | "revoked" | "expired" {
  if (session.status === "revoked") return "revoked";
  return isLive(session, now) ? "active" : "expired";
}

/** As `sessionState`, for a person, who would otherwise reissue what the restore brings back. */
export function shownState(session: SessionRecord, now: number): ReturnType<typeof sessionState> | "suspended" {
  return session.suspended ? "suspended" : sessionState(session, now);
}

/** Returns the session as a suspension or restore of its owner leaves it, or `null` when nothing changes. */
export function sessionFor(
  wanted: "suspended" | "active",
  session: SessionRecord | null,
  now: number,
): SessionRecord | null {
  if (session === null) return null;
  if (wanted === "suspended") {
    const isUsable = session.status === "active" && now < Math.max(session.accessExpiresAt, session.refreshExpiresAt);
    return isUsable ? { ...session, status: "revoked", revokedAt: now, suspended: true } : null;
  }
  if (!session.suspended) return null;
  const { suspended: _, revokedAt: __, ...rest } = session;
  return { ...rest, status: "active" };
}

/**
 * Decides a refresh. The current token is accepted (`rotate`). The previous one is accepted after a lost answer
 * (`recover`), as long as its successor is unused. Any older token comes from a copy, so it ends the session.
 *
 * @param spent the record of an older token with this digest
 */
export function evaluateRefresh(
  agent: AgentRecord | null,
  session: SessionRecord | null,
  spent: SpentRefresh | null,
  { aitJti, timestamp }: ProvenAgent,
  { digest, recovery }: { digest: string; recovery: boolean },
  now: number,
): RefreshDecision {
  if (agent === null) return { refused: "no_agent" };
  // This comes before the check for `revoked`, whose advice is a reissue. For a suspended person a reissue would be
  // refused too, so the connector must wait for the restore instead.
  if (session?.suspended) return { refused: "suspended" };
  if (agent.status === "revoked" || session === null || session.status === "revoked") return { refused: "revoked" };
  if (agent.currentJti !== aitJti) return { refused: "superseded" };
  if (equalDigests(session.refreshDigest, digest)) {
    return now < session.refreshExpiresAt ? { done: "rotate", session } : { refused: "expired" };
  }
  if (session.previousDigest !== null && equalDigests(session.previousDigest, digest)) {
    if (!recovery) return { refused: "invalid" };
    if (now >= session.previousExpiresAt) return { refused: "expired" };
    // A refresh in the future was signed before the clock stepped back, and would refuse this one for as long as the step.
    const isAhead = session.refreshedAtSeconds > now / 1000 + LIMITS.timestampSkewSeconds;
    return isAhead || timestamp > session.refreshedAtSeconds ? { done: "recover", session } : { refused: "conflict" };
  }
  const isOwn = spent?.agentId === agent.id && spent.sessionCreatedAt === session.createdAt;
  return { refused: isOwn && now < spent.expiresAt ? "reused" : "invalid" };
}

/**
 * Decides whether an access token is valid. A wrong token gets `wrong` even when the session has expired.
 *
 * @param isTokenOf compares the token with a session
 */
export function evaluateAccessToken(
  session: SessionRecord | null,
  isTokenOf: (session: SessionRecord) => boolean,
  now: number,
): "good" | "wrong" | "expired" {
  if (session?.status !== "active" || !isTokenOf(session)) return "wrong";
  return now < session.accessExpiresAt ? "good" : "expired";
}
