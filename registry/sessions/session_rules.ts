/**
 * The rules of an agent's session (D-42 to D-45): what a refresh may do, what an access token is worth. Pure; the store
 * beside it carries the verdicts out.
 */
import type { SessionRecord, SpentRefresh } from "../schema/records.ts";
import { equalDigests } from "../../shared/server/crypto.ts";

/** A refresh as it is judged. */
export interface RefreshRequest {
  digest: string;
  recovery: boolean;
  /** `X-Svc-Timestamp`, unix seconds. */
  timestamp: number;
}

/** What becomes of a refresh. */
export type RefreshDecision =
  | "rotate"
  | "recover"
  | "invalid"
  | "reused"
  | "expired"
  | "revoked"
  | "conflict";

/** True while the session can still be refreshed. */
export function isLive(session: SessionRecord | null, now: number): session is SessionRecord {
  return session !== null && session.status === "active" && now < session.refreshExpiresAt;
}

/** When the session ends, or has ended; milliseconds since the Unix epoch. */
export function sessionEnd({ revokedAt, refreshExpiresAt }: SessionRecord): number {
  return revokedAt ?? refreshExpiresAt;
}

/** The state that the ownership answer tells. */
export function sessionState(session: SessionRecord, now: number): "active" | "revoked" | "expired" {
  if (session.status === "revoked") return "revoked";
  return isLive(session, now) ? "active" : "expired";
}

/**
 * Judges a refresh. `rotate` takes the current token; `recover` the immediate predecessor after a lost answer, as long
 * as its successor was not used; anything older was copied, and ends the session.
 *
 * @param spent the record of an older token with this digest, if it is of this agent
 */
export function evaluateRefresh(
  session: SessionRecord,
  spent: SpentRefresh | null,
  request: RefreshRequest,
  now: number,
): RefreshDecision {
  if (session.status === "revoked") return "revoked";
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

/** What an access token is worth (D-45): `expired` only for the right token. */
export function evaluateAccessToken(
  session: SessionRecord | null,
  digest: string,
  now: number,
): "good" | "wrong" | "expired" {
  if (session?.status !== "active" || !equalDigests(session.accessDigest, digest)) return "wrong";
  return now < session.accessExpiresAt ? "good" : "expired";
}
