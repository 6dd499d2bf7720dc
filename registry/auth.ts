/**
 * The authenticators that the route table of the registry names. Each one verifies one kind of caller and lists the
 * error codes with which it refuses.
 */
import { findHuman } from "./accounts/store.ts";
import { touch } from "./api_keys/store.ts";
import type { ApiKeyCaller, ProvenAgent } from "./callers.ts";
import { authenticateService } from "./internal_services/store.ts";
import { KEYS } from "./schema/kv_keys.ts";
import type { ApiKeyRecord } from "./schema/records.ts";
import type { Signing } from "./signing_keys.ts";
import type { RegistryStore } from "./store_deps.ts";
import { verifyAit } from "../shared/protocol/signed/ait.ts";
import type { ServiceScope } from "../shared/protocol/api/services.ts";
import { parseDid } from "../shared/protocol/did.ts";
import { type ErrorCode, ServiceError } from "../shared/protocol/errors.ts";
import { TokenError } from "../shared/protocol/signed/jws.ts";
import { LIMITS } from "../shared/protocol/limits.ts";
import { HEADERS, isNonce } from "../shared/protocol/proof.ts";
import { unixSeconds } from "../shared/protocol/time.ts";
import { digest, equalDigests, readPublicKey } from "../shared/server/crypto.ts";
import type { Authenticator, CallersOf, RequestContext } from "../shared/server/http/route.ts";
import {
  authorizationToken,
  provenOrigin,
  requestTimestamp,
  signedHeaders,
} from "../shared/server/http/signed_request.ts";
import { nonceUpdate } from "../shared/server/nonces.ts";
import type { BatchedReads } from "../shared/server/store/batched_reads.ts";
import type { GroupCommit } from "../shared/server/store/group_commit.ts";

interface AuthDeps extends RegistryStore {
  /**
   * The reads of keys and of services that anyone may invent. Each has a queue of its own, because a flood of them would
   * otherwise hold up the reads of messages for seconds, or have them refused.
   */
  keyReads: BatchedReads;
  serviceReads: BatchedReads;
  origins: readonly string[];
  signing: Signing;
  commits: GroupCommit;
}

export const AUTHENTICATORS = {
  none: { stage: "before_body", credential: "none", errors: [], run: () => Promise.resolve(null) },
  bootstrap_secret: {
    stage: "before_body",
    credential: "bootstrap_secret",
    errors: ["ADMIN_BOOTSTRAP_UNAUTHORIZED"],
    run({ config }, { request }) {
      const given = digest(request.headers.get("x-bootstrap-secret") ?? "");
      const wanted = digest(config.bootstrapSecret ?? "");
      if (!equalDigests(given, wanted)) throw new ServiceError("ADMIN_BOOTSTRAP_UNAUTHORIZED");
      return Promise.resolve(null);
    },
  },
  api_key: apiKey(),
  admin: apiKey("ADMIN_REQUIRED"),
  invite_admin: apiKey("INVITE_CREATE_FORBIDDEN"),
  service_admin: apiKey("INTERNAL_SERVICE_FORBIDDEN"),
  ownership_service: {
    stage: "before_body",
    credential: "service",
    errors: ["INTERNAL_SERVICE_UNAUTHORIZED", "INTERNAL_SERVICE_FORBIDDEN"],
    async run(deps, exchange): Promise<true> {
      if (await isService(deps, exchange, "identity.read")) return true;
      throw new ServiceError("INTERNAL_SERVICE_UNAUTHORIZED");
    },
  },
  /** These two return whether the caller is a service. */
  validate_service: optionalService("auth.validate"),
  crl_service: optionalService("crl.read"),
  agent_proof: {
    stage: "after_input",
    credential: "agent_proof",
    errors: ["AGENT_AUTH_REFRESH_UNAUTHORIZED"],
    run: proveAgent,
  },
} as const satisfies Record<string, Authenticator<AuthDeps, unknown>>;

export type RegistryCallers = CallersOf<typeof AUTHENTICATORS>;

/** Requires an API key. With `adminCode` the key must be an admin's; any other key is refused with that code. */
function apiKey(adminCode?: "ADMIN_REQUIRED" | "INVITE_CREATE_FORBIDDEN" | "INTERNAL_SERVICE_FORBIDDEN"): Authenticator<
  AuthDeps,
  ApiKeyCaller
> {
  const errors: ErrorCode[] = ["API_KEY_MISSING", "API_KEY_INVALID", "API_KEY_REVOKED", "ACCOUNT_SUSPENDED"];
  return {
    stage: "before_body",
    credential: "api_key",
    errors: adminCode ? [...errors, adminCode] : errors,
    bucket: ({ human }) => human.id,
    authorise({ human }) {
      if (human.status === "suspended") throw new ServiceError("ACCOUNT_SUSPENDED");
      if (adminCode && human.role !== "admin") throw new ServiceError(adminCode);
    },
    async run(deps, exchange) {
      const token = authorizationToken(exchange.request.headers, "Bearer");
      if (token === null) throw new ServiceError("API_KEY_MISSING");
      const entry = await deps.keyReads.get<ApiKeyRecord>(KEYS.apiKey(digest(token)), exchange.ip);
      if (!entry.value) throw new ServiceError("API_KEY_INVALID");
      if (entry.value.status === "revoked") throw new ServiceError("API_KEY_REVOKED");
      const human = await findHuman(deps, entry.value.humanId);
      if (!human) throw new ServiceError("API_KEY_INVALID");
      await touch(deps, entry);
      return { human, key: entry.value, requestId: exchange.requestId };
    },
  };
}

/**
 * Admits any caller. A service that proves the scope is exempt from the limit per IP, because a proxy asks once for
 * each message, and under the limit it could serve only two messages a second.
 */
function optionalService(scope: ServiceScope): Authenticator<AuthDeps, boolean> {
  return {
    stage: "before_limit",
    credential: "optional_service",
    errors: ["INTERNAL_SERVICE_UNAUTHORIZED", "INTERNAL_SERVICE_FORBIDDEN"],
    exempt: (fromService) => fromService,
    run: (deps, exchange) => isService(deps, exchange, scope),
  };
}

/**
 * Tells whether a service calls; false when the request names none. Calls within the process need no credential. A
 * service uses headers of its own instead of `Authorization`, because the key of a person and the secret of a service
 * could otherwise be taken for each other.
 *
 * @throws {ServiceError} `INTERNAL_SERVICE_UNAUTHORIZED`, `INTERNAL_SERVICE_FORBIDDEN`
 */
async function isService(deps: AuthDeps, { peer, request, ip }: RequestContext, scope: ServiceScope): Promise<boolean> {
  if (peer.from === "process") return true;
  const id = request.headers.get(HEADERS.serviceId);
  const secret = request.headers.get(HEADERS.serviceSecret);
  if (id === null && secret === null) return false;
  const caller = await authenticateService(deps, { id: id ?? "", secret: secret ?? "", ip });
  if (!caller) throw new ServiceError("INTERNAL_SERVICE_UNAUTHORIZED");
  if (!caller.scopes.includes(scope)) throw new ServiceError("INTERNAL_SERVICE_FORBIDDEN");
  return true;
}

/**
 * Verifies the AIT, proof and nonce of an agent's request, and commits the nonce. It does not read the revocation list,
 * because the handler checks the record of the agent itself.
 *
 * @throws {ServiceError} `AGENT_AUTH_REFRESH_UNAUTHORIZED`
 */
async function proveAgent(deps: AuthDeps, exchange: RequestContext): Promise<ProvenAgent> {
  const refuse = (message: string) => new ServiceError("AGENT_AUTH_REFRESH_UNAUTHORIZED", { message });
  const now = deps.clock.now(), { token, nonce } = signedHeaders(exchange);
  if (!token) throw refuse("The Authorization header is not of the form Svc <ait>");
  const authority = { issuer: deps.config.registryUrl, keys: await deps.signing.verificationKeys() };
  const claims = await verifyAit(token, authority, unixSeconds(now)).catch((error) => {
    throw error instanceof TokenError ? refuse(error.message) : error;
  });
  exchange.agentDid = claims.sub;
  const timestamp = requestTimestamp(exchange, now);
  if (timestamp === "invalid") throw refuse("X-Svc-Timestamp is missing or not a Unix timestamp");
  if (timestamp === "skew") throw refuse(`X-Svc-Timestamp is more than ${LIMITS.timestampSkewSeconds} s off`);
  if (!isNonce(nonce)) throw refuse("The nonce is missing or malformed");
  if (provenOrigin(exchange, readPublicKey(claims.cnf.jwk.x), digest(token), deps.origins) === null) {
    throw refuse(`The proof does not verify for the origin ${deps.origins[0]}`);
  }
  const { taken } = await deps.commits.claim([nonceUpdate(KEYS.nonce(claims.sub, nonce), timestamp, now)]);
  if (!taken) throw refuse("The nonce was used before");
  return { agentId: parseDid(claims.sub)?.id ?? "", agentDid: claims.sub, aitJti: claims.jti, timestamp };
}
