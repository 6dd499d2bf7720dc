/** Reads and validates the proxy's configuration from environment variables (docs/operations.md#configuration). */
import { DAY_MS } from "../shared/clock.ts";
import { LIMITS } from "../shared/protocol/limits.ts";
import { type ConfigReader, oneOf, wholeNumber } from "../shared/server/config_reader.ts";
import type { ServiceAddresses } from "../shared/server/server_config.ts";

/** Configuration of the proxy. Names with `Ms` are milliseconds. */
export interface ProxyConfig extends ServiceAddresses {
  /** Credential for the registry; `null` when the registry runs in the same process. */
  serviceCredential: { id: string; secret: string } | null;
  injectIdentity: boolean;
  agentRequests: number;
  agentWindowMs: number;
  crlRefreshIntervalMs: number;
  crlMaxAgeMs: number;
  registryKeysTtlMs: number;
  ackTimeoutMs: number;
  heartbeatIntervalMs: number;
  accessCacheMs: number;
  mailboxTtlSeconds: number;
  receiptKeptMs: number;
  sessionRevalidateMs: number;
  /** Most pairs of one agent. */
  pairQuota: number;
}

/** Names of the variables, for the permission to read them. */
export const PROXY_VARIABLES = [
  "REGISTRY_INTERNAL_SERVICE_ID",
  "REGISTRY_INTERNAL_SERVICE_SECRET",
  "INJECT_IDENTITY_INTO_MESSAGE",
  "AGENT_RATE_LIMIT_REQUESTS_PER_MINUTE",
  "AGENT_RATE_LIMIT_WINDOW_MS",
  "CRL_REFRESH_INTERVAL_MS",
  "CRL_MAX_AGE_MS",
  "REGISTRY_KEYS_TTL_MS",
  "RELAY_ACK_TIMEOUT_MS",
  "RELAY_HEARTBEAT_INTERVAL_MS",
  "AGENT_ACCESS_CACHE_MS",
  "RELAY_MAILBOX_TTL_SECONDS",
  "RECEIPT_RETENTION_SECONDS",
  "SESSION_REVALIDATE_INTERVAL_MS",
  "QUOTA_PAIRS",
] as const;

/** Returns the proxy's configuration. The reader collects all problems. */
export function readProxyConfig(reader: ConfigReader, place: ServiceAddresses): ProxyConfig {
  const ms = wholeNumber(1, DAY_MS);
  return {
    ...place,
    serviceCredential: readServiceCredential(reader),
    injectIdentity: reader.read("INJECT_IDENTITY_INTO_MESSAGE", oneOf("true", "false"), "true") === "true",
    agentRequests: reader.read(
      "AGENT_RATE_LIMIT_REQUESTS_PER_MINUTE",
      wholeNumber(1, LIMITS.agentRequestsMax),
      LIMITS.agentRequests,
    ),
    agentWindowMs: reader.read("AGENT_RATE_LIMIT_WINDOW_MS", ms, LIMITS.agentWindowMs),
    crlRefreshIntervalMs: reader.read("CRL_REFRESH_INTERVAL_MS", ms, LIMITS.crlRefreshIntervalMs),
    crlMaxAgeMs: reader.read("CRL_MAX_AGE_MS", ms, LIMITS.crlMaxAgeMs),
    registryKeysTtlMs: reader.read("REGISTRY_KEYS_TTL_MS", ms, LIMITS.keysTtlMs),
    ackTimeoutMs: reader.read("RELAY_ACK_TIMEOUT_MS", ms, LIMITS.ackTimeoutMs),
    heartbeatIntervalMs: reader.read("RELAY_HEARTBEAT_INTERVAL_MS", ms, LIMITS.heartbeatIntervalMs),
    accessCacheMs: reader.read("AGENT_ACCESS_CACHE_MS", wholeNumber(0, LIMITS.accessCacheMaxMs), 0),
    mailboxTtlSeconds: reader.read("RELAY_MAILBOX_TTL_SECONDS", wholeNumber(1, 604_800), LIMITS.mailboxTtlSeconds),
    receiptKeptMs: 1000 * reader.read(
      "RECEIPT_RETENTION_SECONDS",
      wholeNumber(LIMITS.receiptKeptSecondsMin, LIMITS.receiptKeptSecondsMax),
      LIMITS.receiptKeptSeconds,
    ),
    sessionRevalidateMs: reader.read("SESSION_REVALIDATE_INTERVAL_MS", ms, LIMITS.sessionRevalidateMs),
    pairQuota: reader.read("QUOTA_PAIRS", wholeNumber(1, 1_000_000), LIMITS.pairsPerAgent),
  };
}

function readServiceCredential(reader: ConfigReader): ProxyConfig["serviceCredential"] {
  const text = (value: string) => value;
  const id = reader.read<string | null>("REGISTRY_INTERNAL_SERVICE_ID", text, null);
  const secret = reader.read<string | null>("REGISTRY_INTERNAL_SERVICE_SECRET", text, null);
  if (id !== null && secret !== null) return { id, secret };
  if (id !== null) {
    reader.problem("REGISTRY_INTERNAL_SERVICE_SECRET", "must be set beside REGISTRY_INTERNAL_SERVICE_ID");
  }
  if (secret !== null) {
    reader.problem("REGISTRY_INTERNAL_SERVICE_ID", "must be set beside REGISTRY_INTERNAL_SERVICE_SECRET");
  }
  return null;
}
