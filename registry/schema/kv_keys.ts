/**
 * All keys of the registry in the store. No other file builds a key, because an export would miss the records under it.
 *
 * | key | value | written by | expiry |
 * |---|---|---|---|
 * | issuer | string | start | none |
 * | signing_keys | SigningKeySet | start, key rotation | none |
 * | bootstrap | BootstrapRecord | bootstrap | none |
 * | human, id | HumanRecord | bootstrap, redeem, suspend, restore, recover, console | none |
 * | suspension, human | SuspensionRecord | suspend, restore, recover | deleted when its sessions are changed |
 * | quota, human | QuotaRecord | every change that counts against a quota | none |
 * | api_key, digest | ApiKeyRecord | bootstrap, redeem, API keys, recover | 90 days after its revocation |
 * | api_key_of, human, id | digest | the same | with its API key |
 * | invite, id | InviteRecord | invites, redeem | 90 days after its expiry or redemption |
 * | invite_code, digest | id | invites, redeem | with its invite |
 * | challenge, id | ChallengeRecord | challenge, registration | 24 h after its end |
 * | agent, id | AgentRecord | registration, reissue, delete | 90 days after its deletion |
 * | agent_of, human, id | true, or its end in ms since the Unix epoch | registration, delete | with its agent |
 * | session, agent | SessionRecord | changes of its agent, refresh, revoke, suspend, restore | 90 days after its end |
 * | spent_refresh, digest | SpentRefresh | refresh | the token's own |
 * | revocation, jti | RevocationRecord | reissue, delete | AIT's exp + 1 h |
 * | crl_head | CrlHead | reissue, delete | none |
 * | service, id | ServiceRecord | bootstrap, internal services | 90 days after its deletion |
 * | service_name, name | id | the same | deleted with its service |
 * | audit, id | AuditRecord | most changes above, admin tokens, console | 400 days, of a refresh 7 days |
 * | nonce, agent, nonce | NonceRecord | refresh, visit, through group commit | when no valid request can use it again |
 * | window, rule, who | WindowRecord | limits, through group commit | two windows |
 * | commit_mark, instance, slot, generation | number of the commit | group commit | 1 h |
 * | console, digest | ConsoleRecord | codes and sessions of the console | the code's or session's own |
 * | probe | moment, milliseconds since the Unix epoch | health | 1 h |
 */
import type { KvKey, KvKeyPart } from "../../shared/server/kv.ts";
import { digest } from "../../shared/server/crypto.ts";
import { COMMIT_MARK } from "../../shared/server/store/commit_marks.ts";

const key = (...parts: KvKeyPart[]): KvKey => ["registry", ...parts];

export const KEYS = {
  issuer: () => key("issuer"),
  signingKeys: () => key("signing_keys"),
  bootstrap: () => key("bootstrap"),
  human: (id: string) => key("human", id),
  humans: () => key("human"),
  suspension: (humanId: string) => key("suspension", humanId),
  suspensions: () => key("suspension"),
  quota: (humanId: string) => key("quota", humanId),
  quotas: () => key("quota"),
  apiKey: (digest: string) => key("api_key", digest),
  apiKeyOf: (humanId: string, id: string) => key("api_key_of", humanId, id),
  apiKeysOf: (humanId: string) => key("api_key_of", humanId),
  invite: (id: string) => key("invite", id),
  invites: () => key("invite"),
  inviteCode: (digest: string) => key("invite_code", digest),
  challenge: (id: string) => key("challenge", id),
  agent: (id: string) => key("agent", id),
  agents: () => key("agent"),
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
  nonce: (agentDid: string, nonce: string) => key("nonce", agentDid, digest(nonce)),
  window: (rule: string, who: string) => key("window", rule, digest(who)),
  console: (digest: string) => key("console", digest),
  consoles: () => key("console"),
  commitMark: (instance: string) => key(COMMIT_MARK, instance),
  probe: () => key("probe"),
} as const;
