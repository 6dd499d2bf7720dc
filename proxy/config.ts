/** Reads and validates the proxy's configuration from environment variables (docs/operations.md#configuration). */
import { DAY_MS } from "../shared/clock.ts";
import type { Metadata } from "../shared/protocol/api/meta.ts";
import { isUlid } from "../shared/protocol/ids.ts";
import { LIMITS } from "../shared/protocol/limits.ts";
import { isSecret } from "../shared/protocol/secrets.ts";
import { type ConfigReader, oneOf, wholeNumber } from "../shared/server/config_reader.ts";
import { type FederationRules, federationRules } from "./issuer_policy.ts";
import { RECEIPT_KEPT_SECONDS_MAX } from "./schema/retention.ts";

/** More than a process handles in a minute, so a larger value would be no limit. */
const REQUESTS_MAX = 1_000_000;
/** What the longest list of peers counts as. With less for an owner, it and every pairing would always be refused. */
const OWNER_REQUESTS_MIN = 11;
/** A revoked session stays usable for this long, so with more a revocation would no longer be quick. */
const ACCESS_CACHE_MAX_MS = 5_000;
/** With less, a sender that polls each hour would miss receipts. */
const RECEIPT_KEPT_SECONDS_MIN = 3_600;

/** Configuration of the proxy. Names with `Ms` are milliseconds. */
export type ProxyConfig = ReturnType<typeof readProxyConfig>;

/** Most bytes of a variable: a petabyte. With more, sums of bytes would no longer be exact numbers. */
const MAX_BYTES = 2 ** 50;

/** Returns the proxy's configuration. The reader collects all problems. */
export function readProxyConfig(reader: ConfigReader, place: Metadata) {
  const number = (name: string, least: number, most: number, otherwise: number): number =>
    reader.read(name, wholeNumber(least, most), otherwise);
  // With less, as with a number meant as seconds, the proxy would ask the registry, or end sockets, many times a second.
  const ms = (name: string, otherwise: number): number => number(name, 1_000, DAY_MS, otherwise);
  const flag = (name: string, otherwise: "true" | "false"): boolean =>
    reader.read(name, oneOf("true", "false"), otherwise) === "true";
  const problemsBefore = reader.problems.length;
  const crlRefreshIntervalMs = ms("CRL_REFRESH_INTERVAL_MS", LIMITS.crlRefreshIntervalMs);
  const crlMaxAgeMs = ms("CRL_MAX_AGE_MS", LIMITS.crlMaxAgeMs);
  // Otherwise each list is too old before the next one is fetched, and until then the proxy refuses all signed requests.
  // A value that was refused is not compared, because the message would name a default that the operator did not set.
  if (reader.problems.length === problemsBefore && crlMaxAgeMs <= crlRefreshIntervalMs) {
    reader.problem("CRL_MAX_AGE_MS", `must be over CRL_REFRESH_INTERVAL_MS, which is ${crlRefreshIntervalMs}`);
  }
  return {
    ...place,
    /** Credential for the registry; `null` when the registry runs in the same process. */
    serviceCredential: readServiceCredential(reader),
    injectIdentity: flag("INJECT_IDENTITY_INTO_MESSAGE", "true"),
    agentRequests: number("AGENT_RATE_LIMIT_REQUESTS_PER_MINUTE", 1, REQUESTS_MAX, LIMITS.agentRequests),
    agentWindowMs: ms("AGENT_RATE_LIMIT_WINDOW_MS", LIMITS.agentWindowMs),
    /** Requests of all agents of an owner in a minute. */
    ownerRequests: number(
      "OWNER_RATE_LIMIT_REQUESTS_PER_MINUTE",
      OWNER_REQUESTS_MIN,
      REQUESTS_MAX,
      LIMITS.ownerRequests,
    ),
    crlRefreshIntervalMs,
    crlMaxAgeMs,
    registryKeysTtlMs: ms("REGISTRY_KEYS_TTL_MS", LIMITS.keysTtlMs),
    ackTimeoutMs: ms("RELAY_ACK_TIMEOUT_MS", LIMITS.ackTimeoutMs),
    heartbeatIntervalMs: ms("RELAY_HEARTBEAT_INTERVAL_MS", LIMITS.heartbeatIntervalMs),
    accessCacheMs: number("AGENT_ACCESS_CACHE_MS", 0, ACCESS_CACHE_MAX_MS, 0),
    mailboxTtlSeconds: number("RELAY_MAILBOX_TTL_SECONDS", 1, LIMITS.mailboxTtlMaxSeconds, LIMITS.mailboxTtlSeconds),
    receiptKeptMs: 1000 * number(
      "RECEIPT_RETENTION_SECONDS",
      RECEIPT_KEPT_SECONDS_MIN,
      RECEIPT_KEPT_SECONDS_MAX,
      LIMITS.receiptKeptSeconds,
    ),
    sessionRevalidateMs: ms("SESSION_REVALIDATE_INTERVAL_MS", LIMITS.sessionRevalidateMs),
    /** Most bytes of queued messages to all agents of an owner. The same number counts for messages from them. */
    mailboxOwnerBytes: number("QUOTA_MAILBOX_BYTES", 1_048_576, MAX_BYTES, LIMITS.quotaMailboxBytes),
    /** Bytes of the store's disk that messages, receipts and pairs leave free; `null`: 1 GiB, or a tenth if less. */
    storeReserveBytes: reader.read<number | null>("STORE_RESERVE_BYTES", wholeNumber(0, MAX_BYTES), null),
    /** Bytes of memory above which sockets that answer no heartbeat are closed; `null` for 70 % of what there is. */
    memoryGuardBytes: reader.read<number | null>("MEMORY_GUARD", wholeNumber(67_108_864, MAX_BYTES), null),
    /** Most pairs of one agent. */
    pairQuota: number("QUOTA_PAIRS", 1, 1_000_000, LIMITS.pairsPerAgent),
    /** Which registries' agents may visit. */
    federation: reader.read<FederationRules>("FEDERATION", federationRules, { mode: "except", hosts: [] }),
    /** True when registries at addresses inside a network are asked too. */
    federationPrivate: flag("FEDERATION_PRIVATE", "false"),
  };
}

function readServiceCredential(reader: ConfigReader): { id: string; secret: string } | null {
  // A file of secrets often ends in a line feed.
  const text = (value: string) => value.trim();
  const id = reader.read<string | null>("REGISTRY_INTERNAL_SERVICE_ID", text, null);
  const secret = reader.read<string | null>("REGISTRY_INTERNAL_SERVICE_SECRET", text, null);
  const names = ["REGISTRY_INTERNAL_SERVICE_ID", "REGISTRY_INTERNAL_SERVICE_SECRET"] as const;
  if (id !== null && secret !== null) {
    // With a text that was cut while it was pasted, the registry would refuse the proxy, and the proxy every agent.
    if (!isUlid(id)) reader.problem(names[0], "must be the ID that svc admin service create printed, 26 characters");
    if (!isSecret("service", secret)) {
      reader.problem(names[1], "must be the secret that svc admin service create printed, svc_srv_ and 43 characters");
    }
    return { id, secret };
  }
  const [missing, present] = id === null ? names : names.toReversed();
  if (id !== null || secret !== null) reader.problem(missing, `must be set beside ${present}`);
  return null;
}
