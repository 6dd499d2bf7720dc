/** The registry's configuration, read and checked once at the start (docs/operations.md#configuration). */
import { fromBase64Url } from "../shared/protocol/base64url.ts";
import { isPublicKey } from "../shared/protocol/ed25519.ts";
import type { Environment, Metadata } from "../shared/protocol/api/meta.ts";
import { parseOrThrow } from "../shared/protocol/json_text.ts";
import { LIMITS } from "../shared/protocol/limits.ts";
import type { StoredKey } from "./schema/records.ts";
import { type ConfigReader, oneOf, type Parse, wholeNumber } from "../shared/server/config_reader.ts";

/** Largest value of a setting that is a count. A larger one would be no limit, because no human can reach it. */
const COUNT_MAX = 1_000_000;
/** A shorter secret could be guessed, and anyone who guesses it becomes the first admin. */
const BOOTSTRAP_SECRET_LENGTH_MIN = 24;

/** A key with its seed, which is `null` for a retired key that only verifies. */
export interface ConfiguredKey extends Pick<StoredKey, "publicKey" | "seed" | "status"> {
  kid: string | null;
}

const YEAR_SECONDS = 31_536_000;

export type RegistryConfig = ReturnType<typeof readRegistryConfig>;
/** Quotas of one human. */
export type Quotas = RegistryConfig["quotas"];

/** Reads the registry's variables and collects their problems in `reader`. */
export function readRegistryConfig(reader: ConfigReader, place: Metadata) {
  const seconds = wholeNumber(1, YEAR_SECONDS);
  const count = wholeNumber(1, COUNT_MAX);
  return {
    ...place,
    /** With `null`, bootstrap is disabled. */
    bootstrapSecret: reader.read<string | null>("BOOTSTRAP_SECRET", bootstrapSecret(place.environment), null),
    /** With `null`, the first start makes a key and keeps it in the store. */
    signingKeys: reader.read<readonly ConfiguredKey[] | null>("REGISTRY_SIGNING_KEYS", signingKeys, null),
    accessTokenTtlSeconds: reader.read("ACCESS_TOKEN_TTL_SECONDS", seconds, LIMITS.accessTokenTtlSeconds),
    refreshTokenTtlSeconds: reader.read("REFRESH_TOKEN_TTL_SECONDS", seconds, LIMITS.refreshTokenTtlSeconds),
    challengeTtlSeconds: reader.read("CHALLENGE_TTL_SECONDS", seconds, LIMITS.challengeTtlSeconds),
    apiKeyRequestsPerMinute: reader.read("API_KEY_REQUESTS_PER_MINUTE", count, LIMITS.apiKeyRequests),
    console: reader.read("CONSOLE", oneOf("on", "off"), "off") === "on",
    quotas: {
      agents: reader.read("QUOTA_AGENTS", count, LIMITS.quotaAgents),
      apiKeys: reader.read("QUOTA_API_KEYS", count, LIMITS.quotaApiKeys),
      registrationsPerDay: reader.read("QUOTA_REGISTRATIONS_PER_DAY", count, LIMITS.quotaRegistrationsPerDay),
      agentReissuesPerDay: reader.read("QUOTA_AGENT_REISSUES_PER_DAY", count, LIMITS.quotaAgentReissuesPerDay),
      reissuesPerDay: reader.read("QUOTA_REISSUES_PER_DAY", count, LIMITS.quotaReissuesPerDay),
      /** Challenges that are still open: neither answered nor expired. */
      challenges: reader.read("QUOTA_CHALLENGES", count, LIMITS.quotaChallenges),
      /** Entries that the revocation list still holds. */
      revocations: reader.read("QUOTA_REVOCATIONS", count, LIMITS.quotaRevocations),
    },
  };
}

/** In production the secret needs a minimum length, because a short one could be guessed despite the failure limit. */
function bootstrapSecret(environment: Environment): Parse<string> {
  return (text) => {
    // A file of secrets often ends in a line feed. No header can have that, so the secret would never fit.
    const secret = text.trim();
    if (!/^[\x20-\x7e]+$/.test(secret)) throw new TypeError("must be printable ASCII, because a header carries it");
    if (environment === "production" && secret.length < BOOTSTRAP_SECRET_LENGTH_MIN) {
      throw new TypeError(`must have at least ${BOOTSTRAP_SECRET_LENGTH_MIN} characters in production`);
    }
    return secret;
  };
}

function signingKeys(text: string): ConfiguredKey[] {
  const set = parseOrThrow(text, () => new TypeError("must be a JSON Web Key Set"));
  const members = (set as { keys?: unknown } | null)?.keys;
  if (!Array.isArray(members) || members.length === 0) {
    throw new TypeError("must have a member keys with at least one key");
  }
  const problems: string[] = [];
  const keys = members.map((member, i) =>
    configuredKey(member, (problem) => problems.push(`key ${i + 1}: ${problem}`))
  );
  const kids = keys.map((key) => key.kid).filter((kid) => kid !== null);
  if (new Set(kids).size !== kids.length) problems.push("a kid is listed twice");
  if (new Set(keys.map((key) => key.publicKey)).size !== keys.length) problems.push("a key is listed twice");
  if (keys.length > LIMITS.signingKeys) problems.push(`more than ${LIMITS.signingKeys} keys`);
  if (!keys.some((key) => key.status === "active" && key.seed !== null)) problems.push("no active key that can sign");
  if (problems.length > 0) throw new TypeError(problems.join("; "));
  return keys;
}

function configuredKey(member: unknown, problem: (text: string) => void): ConfiguredKey {
  const { kid, kty, crv, x, d, status = "active" } = (member ?? {}) as Record<string, unknown>;
  if (kty !== "OKP" || crv !== "Ed25519") problem("kty must be OKP and crv Ed25519");
  if (!isPublicKey(x)) problem("x must be base64url of a usable Ed25519 public key");
  if (d !== undefined && (typeof d !== "string" || fromBase64Url(d)?.length !== 32)) {
    problem("d must be 32 bytes of base64url");
  }
  if (status !== "active" && status !== "retired") problem("status must be active or retired");
  if (status === "active" && d === undefined) problem("an active key needs its private member d");
  if (kid !== undefined && (typeof kid !== "string" || kid === "" || kid.length > 128)) {
    problem("kid must be 1 to 128 characters");
  }
  return {
    kid: typeof kid === "string" ? kid : null,
    publicKey: String(x),
    seed: typeof d === "string" ? d : null,
    status: status === "retired" ? "retired" : "active",
  };
}
