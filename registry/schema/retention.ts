/** How long the registry's records are kept, and which of them an export contains. */
import { KEYS } from "./kv_keys.ts";
import type {
  AgentRecord,
  ApiKeyRecord,
  AuditRecord,
  ChallengeRecord,
  InviteRecord,
  RevocationRecord,
  ServiceRecord,
  SessionRecord,
  SpentRefresh,
} from "./records.ts";
import type { AuditEvent } from "../../shared/protocol/api/audit.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { parseIso } from "../../shared/protocol/time.ts";
import { nonceEnd } from "../../shared/server/nonces.ts";
import type { StoredKinds } from "../../shared/server/store/transfer.ts";

export const ENDED_KEPT_MS = LIMITS.endedKeptSeconds * 1000;

/** The events of a refresh, which an agent causes as often as it likes, up to its limit in a minute. */
const REFRESHES: readonly AuditEvent[] = ["session.refreshed", "session.recovered"];

/** Returns how long an audit event is kept. Refreshes are kept for less time, because they would fill the store. */
export const auditKeptMs = (event: AuditEvent): number =>
  (REFRESHES.includes(event) ? LIMITS.refreshAuditKeptSeconds : LIMITS.auditKeptSeconds) * 1000;

/** Returns when a record that ended at this ISO time is deleted, or `null` while it has not ended. */
const endedAt = (time: string | null | undefined): number | null =>
  time === null || time === undefined ? null : (parseIso(time) ?? NaN) + ENDED_KEPT_MS;

/**
 * Returns when the session ends or ended, milliseconds since the Unix epoch. A suspended session ends no earlier than
 * its refresh token, because until then it may become active again.
 */
export function sessionEnd({ revokedAt, refreshExpiresAt, suspended }: SessionRecord): number {
  return suspended ? Math.max(revokedAt ?? 0, refreshExpiresAt) : revokedAt ?? refreshExpiresAt;
}

export const STORED: StoredKinds = {
  issuer: "forever",
  signing_keys: "forever",
  bootstrap: "forever",
  human: "forever",
  suspension: "forever",
  quota: "forever",
  api_key: (value: ApiKeyRecord) => endedAt(value.revokedAt),
  api_key_of: { as: KEYS.apiKey },
  invite: (value: InviteRecord) => endedAt(value.redeemedAt ?? value.expiresAt),
  invite_code: { as: KEYS.invite },
  challenge: (value: ChallengeRecord) => value.expiresAt + LIMITS.challengeKeptSeconds * 1000,
  agent: (value: AgentRecord) => endedAt(value.status === "revoked" ? value.updatedAt : null),
  agent_of: (value: true | number) => value === true ? null : value,
  session: (value: SessionRecord) => sessionEnd(value) + ENDED_KEPT_MS,
  spent_refresh: (value: SpentRefresh) => value.expiresAt,
  revocation: (value: RevocationRecord) => value.keptUntil * 1000,
  crl_head: "forever",
  service: (value: ServiceRecord) => endedAt(value.deletedAt),
  service_name: "forever",
  audit: (value: AuditRecord) => (parseIso(value.at) ?? NaN) + auditKeptMs(value.event),
  nonce: nonceEnd,
  window: (_: unknown, now: number) => now + LIMITS.limitWindowMs * 2,
  commit_mark: "never",
  console: "never",
  probe: "never",
};
