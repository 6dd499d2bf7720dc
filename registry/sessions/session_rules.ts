/**
 * The rules of an agent's session: the result of a refresh and of an access-token check. Pure;
 * `store.ts` applies the results.
 */
import type { SessionRecord, SpentRefresh } from "../schema/records.ts";
import { equalDigests } from "../../shared/server/crypto.ts";

export interface RefreshRequest {
  digest: string;
  recovery: boolean;
  /** `X-Svc-Timestamp`, Unix seconds. */
  timestamp: number;
}

export type RefreshDecision = "rotate" | "recover" | "invalid" | "reused" | "expired" | "conflict";

export function isLive(session: SessionRecord | null, now: number): session is SessionRecord {
  return session !== null && session.status === "active" && now < session.refreshExpiresAt;
}

export function sessionState(session: SessionRecord, now: number): "active" | "revoked" | "expired" {
  if (session.status === "revoked") return "revoked";
  return isLive(session, now) ? "active" : "expired";
}

/** Returns the session as a suspension or restore of its owner leaves it, or `null` when that does not change it. */
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
 * Evaluates a refresh of an active session. `rotate` accepts the current token. `recover` accepts the previous token after a lost response,
 * while its successor is unused. An older token is a copy and ends the session.
 *
 * @param spent the record of an older token of this agent with this digest
 */
export function evaluateRefresh(
  session: SessionRecord,
  spent: SpentRefresh | null,
  request: RefreshRequest,
  now: number,
): RefreshDecision {
  if (equalDigests(session.refreshDigest, request.digest)) {
    return now < session.refreshExpiresAt ? "rotate" : "expired";
  }
  if (session.previousDigest !== null && equalDigests(session.previousDigest, request.digest)) {
    if (!request.recovery) return "invalid";
    if (now >= session.previousExpiresAt) return "expired";
    return request.timestamp > session.refreshedAtSeconds ? "recover" : "conflict";
  }
  return spent !== null && now < spent.expiresAt ? "reused" : "invalid";
}

/**
 * Evaluates an access token. Returns `expired` only for the right token.
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
