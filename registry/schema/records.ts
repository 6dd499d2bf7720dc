/** The records of the registry in the store, as kv_keys.ts lists them. */
import type { ApiKey, Human } from "../../shared/protocol/api/accounts.ts";
import type { Agent } from "../../shared/protocol/api/agents.ts";
import type { InternalService } from "../../shared/protocol/api/services.ts";
import type { Revocation } from "../../shared/protocol/crl.ts";
import type { WindowRecord } from "../../shared/server/rate_limit.ts";

/** The stored keys: the one that signs, those that will sign, the retired ones. */
export interface SigningKeySet {
  keys: StoredKey[];
}

/** That the first admin exists. */
export interface BootstrapRecord {
  humanId: string;
  at: string;
}

/** A human as stored; `createdAt` is ISO-8601. */
export interface HumanRecord extends Human {
  createdAt: string;
}

/** The counts of one human, as stored. */
export interface QuotaRecord {
  /** Active agents. */
  agents: number;
  /** Active API keys. */
  apiKeys: number;
  registrations: WindowRecord;
  reissues: WindowRecord;
  /** API keys created in the last 24 h. Absent before the first one. */
  keyCreations?: WindowRecord;
  /** Open challenges, by their expiry. */
  challenges: Expiring;
  /** Entries of the revocation list, by the end of the day in which they leave it. */
  revocations: Expiring;
  /** Open invites that this admin has made, by their expiry. */
  invites: Expiring;
}

export interface ApiKeyRecord extends ApiKey {
  humanId: string;
  digest: string;
  /** ISO-8601; absent while active, and in records of older versions. */
  revokedAt?: string;
}

/** An invite as stored; times are ISO-8601. */
export interface InviteRecord {
  id: string;
  digest: string;
  expiresAt: string | null;
  createdAt: string;
  redeemedAt: string | null;
  redeemedBy: string | null;
  /** ID of the admin who made it and whose quota it counts in; absent in records of older versions. */
  createdBy?: string;
}

/** A challenge as stored; times are milliseconds since the Unix epoch. */
export interface ChallengeRecord {
  id: string;
  ownerId: string;
  ownerDid: string;
  publicKey: string;
  nonce: string;
  expiresAt: number;
  usedAt: number | null;
}

/** An agent as stored: the record as it is answered, and its owner's id. */
export interface AgentRecord extends Agent {
  ownerId: string;
  /** Its reissues of the last 24 h (D-210). */
  reissues?: WindowRecord;
}

/** A session as stored. Times are milliseconds since the Unix epoch; tokens are digests. */
export interface SessionRecord {
  status: "active" | "revoked";
  accessDigest: string;
  accessExpiresAt: number;
  refreshDigest: string;
  refreshExpiresAt: number;
  /** The refresh token before the current one. */
  previousDigest: string | null;
  previousExpiresAt: number;
  /** `X-Svc-Timestamp` of the last refresh, unix seconds. */
  refreshedAtSeconds: number;
  /** Audit trail: when this session began. */
  createdAt: number;
  /** When it was revoked; absent before, and in records of older versions. */
  revokedAt?: number;
}

/** A refresh token older than the predecessor: presenting it means that it was copied. */
export interface SpentRefresh {
  agentId: string;
  /** `createdAt` of the session that it was of: an older session's tokens do not end a newer one. */
  sessionCreatedAt: number;
  expiresAt: number;
}

/** A revocation as stored: the list's entry, and until when it must be kept (unix seconds). */
export interface RevocationRecord extends Revocation {
  keptUntil: number;
}

/** Where the list stands. `seq` is 0 until the first revocation ever. */
export interface CrlHead {
  seq: number;
}

export interface ServiceRecord extends InternalService {
  digest: string;
  /** The secret before the last rotation, until `previousUntil` (milliseconds since the Unix epoch). */
  previousDigest: string | null;
  previousUntil: number;
  /** ISO-8601; absent while active, and in records of older versions. */
  deletedAt?: string;
}

/** An entry as it is stored and answered. */
export interface AuditRecord {
  id: string;
  at: string;
  event: AuditEvent;
  /** DID or id of who did it. */
  actor: string;
  /** DID or id of what it was done to. */
  subject: string;
  requestId: string;
}

export interface StoredKey {
  kid: string;
  publicKey: string;
  seed: string | null;
  status: "active" | "retired";
  /** Milliseconds since the Unix epoch; `null` while active, or when the configuration retired it. */
  retiredAt: number | null;
  /** A key that is published before it signs (D-249): from when it does, milliseconds since the Unix epoch. */
  signsFrom?: number;
}

/** How many things end at which moment (milliseconds since the Unix epoch), soonest first. */
export type Expiring = readonly (readonly [until: number, count: number])[];

/** Everything that is audited. */
export const AUDIT_EVENTS = [
  "admin.bootstrapped",
  "admin.recovered",
  "invite.created",
  "invite.deleted",
  "invite.redeemed",
  "api_key.created",
  "api_key.revoked",
  "agent.registered",
  "agent.reissued",
  "agent.deleted",
  "session.refreshed",
  "session.recovered",
  "session.revoked",
  "session.reuse_detected",
  "service.created",
  "service.rotated",
  "service.deleted",
  "signing_key.rotated",
] as const;

export type AuditEvent = (typeof AUDIT_EVENTS)[number];
