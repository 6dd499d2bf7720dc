/** Types of the stored records of the registry; kv_keys.ts lists their keys. */
import type { AuditEntry, AuditEvent } from "../../shared/protocol/api/audit.ts";
import type { ApiKey, Human } from "../../shared/protocol/api/accounts.ts";
import type { Agent } from "../../shared/protocol/api/agents.ts";
import type { Invite } from "../../shared/protocol/api/invites.ts";
import type { InternalService } from "../../shared/protocol/api/services.ts";
import type { Revocation } from "../../shared/protocol/signed/crl.ts";
import type { WindowRecord } from "../../shared/server/rate_limit.ts";

export interface SigningKeySet {
  keys: StoredKey[];
}

export interface BootstrapRecord {
  humanId: string;
  at: string;
}

/** A human as stored; `createdAt` is ISO-8601. */
export interface HumanRecord extends Human {
  createdAt: string;
  /** ISO-8601; absent while active. */
  suspendedAt?: string;
}

/** The state of a suspension or restore whose sessions are not all changed yet. */
export interface SuspensionRecord {
  wanted: Human["status"];
  /** ID of the last agent whose session was handled; `null` at the beginning. */
  cursor: string | null;
}

export interface QuotaRecord {
  agents: number;
  apiKeys: number;
  registrations: WindowRecord;
  reissues: WindowRecord;
  keyCreations: WindowRecord;
  challenges: Expiring;
  /** Entries of the revocation list, by the end of the day on which they leave it. */
  revocations: Expiring;
  /** Open invites of this admin, by their expiry. */
  invites: Expiring;
}

export interface ApiKeyRecord extends ApiKey {
  humanId: string;
  digest: string;
  /** ISO-8601; absent while active. */
  revokedAt?: string;
}

/** An invite as stored; times are ISO-8601. */
export interface InviteRecord extends Omit<Invite, "status"> {
  digest: string;
  redeemedBy: string | null;
  /** ID of the admin whose quota counts it. */
  createdBy: string;
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

export interface AgentRecord extends Agent {
  ownerId: string;
  /** When the agent was reissued in the last 24 h, for the limit. */
  reissues?: WindowRecord;
}

/** A code that opens the console, or a session of it. Times are milliseconds since the Unix epoch. */
export interface ConsoleRecord {
  kind: "code" | "session";
  humanId: string;
  keyId: string;
  createdAt: number;
  seenAt: number;
}

/** A session as stored. Times are milliseconds since the Unix epoch; tokens are digests. */
export interface SessionRecord {
  status: "active" | "revoked";
  accessDigest: string;
  accessExpiresAt: number;
  refreshDigest: string;
  refreshExpiresAt: number;
  /** Digest of the refresh token before the current one. It still works for a recovery after a lost answer. */
  previousDigest: string | null;
  previousExpiresAt: number;
  /** `X-Svc-Timestamp` of the last refresh, Unix seconds. */
  refreshedAtSeconds: number;
  /** When this session began. Spent refresh tokens name it, because they must not end a later session. */
  createdAt: number;
  revokedAt?: number;
  /** Present when a suspension of the owner revoked it; a restore makes it active again. */
  suspended?: true;
}

/** A refresh token older than a session's previous one. Its use shows a copy, because the owner has newer tokens. */
export interface SpentRefresh {
  agentId: string;
  /** `createdAt` of the token's session, because a token of an older session must not end a newer one. */
  sessionCreatedAt: number;
  expiresAt: number;
}

/** A revocation as stored: the entry of the list, and the end of its retention (Unix seconds). */
export interface RevocationRecord extends Revocation {
  keptUntil: number;
}

/** Sequence number of the revocation list. There is no record before the first revocation. */
export interface CrlHead {
  seq: number;
}

export interface ServiceRecord extends InternalService {
  digest: string;
  /** Digest of the secret before the last rotation, valid until `previousUntil` (milliseconds since the Unix epoch). */
  previousDigest: string | null;
  previousUntil: number;
  /** ISO-8601; absent while active. */
  deletedAt?: string;
}

export interface AuditRecord extends AuditEntry {
  event: AuditEvent;
}

export interface StoredKey {
  kid: string;
  publicKey: string;
  seed: string | null;
  status: "active" | "retired";
  /** Milliseconds since the Unix epoch; `null` while active, or when the configuration says that it is retired. */
  retiredAt: number | null;
  /** When a key that is published in advance begins to sign, milliseconds since the Unix epoch. */
  signsFrom?: number;
}

/** How many records end at each time (milliseconds since the Unix epoch), earliest time first. */
export type Expiring = readonly (readonly [until: number, count: number])[];
