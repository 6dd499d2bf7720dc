/**
 * Every key of the registry in the store. No other file spells one.
 *
 * | key | value | written by | expiry |
 * |---|---|---|---|
 * | issuer | string | start | none |
 * | signing_keys | SigningKeySet | start, key rotation | none |
 * | bootstrap | BootstrapRecord | bootstrap | none |
 * | human, id | HumanRecord | bootstrap, redeem, recover | none |
 * | api_key, digest | ApiKeyRecord | bootstrap, redeem, API keys, recover | none |
 * | api_key_of, human, id | digest | the same | none |
 * | invite, id | InviteRecord | invites, redeem | none |
 * | invite_code, digest | id | invites | none |
 * | challenge, id | ChallengeRecord | challenge, registration | 24 h |
 * | agent, id | AgentRecord | registration, reissue, delete | none |
 * | agent_of, human, id | true | registration | none |
 * | session, agent | SessionRecord | registration, refresh, reissue, revoke | none |
 * | spent_refresh, digest | SpentRefresh | refresh | the token's own |
 * | revocation, jti | RevocationRecord | reissue, delete | AIT's exp + 1 h |
 * | crl_head | CrlHead | reissue, delete | none |
 * | service, id | ServiceRecord | bootstrap, internal services | none |
 * | service_name, name | id | the same | none |
 * | audit, id | AuditRecord | everything above | 400 days |
 * | nonce, agent, nonce | NonceRecord | refresh, through group commit | D-25 |
 * | window, rule, who | WindowRecord | limits, through group commit | two windows |
 */
import { LIMITS } from "../shared/protocol/limits.ts";
import { parseIso } from "../shared/protocol/time.ts";
import type { NonceRecord } from "../shared/server/nonces.ts";
import { keyPart } from "../shared/server/kv.ts";
import type { StoredKinds } from "../shared/server/transfer.ts";
import type { ChallengeRecord } from "./agents/registration.ts";
import type { AuditRecord } from "./audit/record.ts";
import type { RevocationRecord } from "./revocation/store.ts";
import type { SpentRefresh } from "./sessions/session.ts";

const key = (...parts: Deno.KvKeyPart[]): Deno.KvKey => ["registry", ...parts];

export const KEYS = {
  issuer: () => key("issuer"),
  signingKeys: () => key("signing_keys"),
  bootstrap: () => key("bootstrap"),
  human: (id: string) => key("human", id),
  apiKey: (digest: string) => key("api_key", digest),
  apiKeyOf: (humanId: string, id: string) => key("api_key_of", humanId, id),
  apiKeysOf: (humanId: string) => key("api_key_of", humanId),
  invite: (id: string) => key("invite", id),
  invites: () => key("invite"),
  inviteCode: (digest: string) => key("invite_code", digest),
  challenge: (id: string) => key("challenge", id),
  agent: (id: string) => key("agent", id),
  agentOf: (humanId: string, id: string) => key("agent_of", humanId, id),
  agentsOf: (humanId: string) => key("agent_of", humanId),
  session: (agentId: string) => key("session", agentId),
  spentRefresh: (digest: string) => key("spent_refresh", digest),
  revocation: (jti: string) => key("revocation", jti),
  revocations: () => key("revocation"),
  crlHead: () => key("crl_head"),
  service: (id: string) => key("service", id),
  services: () => key("service"),
  serviceName: (name: string) => key("service_name", name),
  audit: (id: string) => key("audit", id),
  auditLog: () => key("audit"),
  nonce: (agentDid: string, nonce: string) => key("nonce", agentDid, keyPart(nonce)),
  window: (rule: string, who: string) => key("window", rule, keyPart(who)),
} as const;

/** How long each kind is kept when a store is moved: the expiry of the table above. */
export const STORED: StoredKinds = {
  issuer: "forever",
  signing_keys: "forever",
  bootstrap: "forever",
  human: "forever",
  api_key: "forever",
  api_key_of: "forever",
  invite: "forever",
  invite_code: "forever",
  challenge: (value: ChallengeRecord) => value.expiresAt + LIMITS.challengeKeptSeconds * 1000,
  agent: "forever",
  agent_of: "forever",
  session: "forever",
  spent_refresh: (value: SpentRefresh) => value.expiresAt,
  revocation: (value: RevocationRecord) => value.keptUntil * 1000,
  crl_head: "forever",
  service: "forever",
  service_name: "forever",
  audit: (value: AuditRecord) => (parseIso(value.at) ?? NaN) + LIMITS.auditKeptSeconds * 1000,
  nonce: (value: NonceRecord) => value.expiresAt + LIMITS.nonceKeptSeconds * 1000,
  window: (_: unknown, now: number) => now + LIMITS.limitWindowMs * 2,
};
