/**
 * The authenticator of the proxy's admin routes (D-172). It verifies the admin token with the registry's published
 * keys, even when both services share a process. It takes no API key, because the proxy's operator could use that at
 * the registry.
 */
import type { Clock } from "../../shared/clock.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { ADM, parseShortToken, verifyShortToken } from "../../shared/protocol/signed/short_token.ts";
import { TokenError } from "../../shared/protocol/signed/jws.ts";
import { unixSeconds } from "../../shared/protocol/time.ts";
import type { Authenticator, RequestContext } from "../../shared/server/http/route.ts";
import { authorizationToken } from "../../shared/server/http/signed_request.ts";
import { asDependencyFailure } from "../admission/commits.ts";
import type { BadProofLimiter } from "../admission/bad_proof_limiter.ts";
import type { KeyCache } from "../admission/key_cache.ts";

export interface Admin {
  /** DID of the human. */
  did: string;
}

interface AdminTokenDeps {
  clock: Clock;
  config: { registryUrl: string };
  /** The first origin is the public one, which a token must name. */
  origins: readonly string[];
  keys: KeyCache;
  guard: BadProofLimiter;
}

export const ADMIN_TOKEN: Authenticator<AdminTokenDeps, Admin> = {
  stage: "before_body",
  credential: "admin_token",
  errors: ["PROXY_ADMIN_TOKEN_INVALID", "PROXY_AUTH_DEPENDENCY_UNAVAILABLE", "PROXY_RATE_LIMIT_EXCEEDED"],
  bucket: ({ did }) => did,
  precheck: (deps, exchange) => deps.guard.rejectIfOver(exchange, "Bearer"),
  async run(deps, exchange) {
    try {
      return { did: await adminOf(deps, exchange) };
    } catch (error) {
      if (!(error instanceof TokenError)) throw asDependencyFailure(error);
      deps.guard.recordFailure(exchange, null);
      throw new ServiceError("PROXY_ADMIN_TOKEN_INVALID", { message: error.message });
    }
  },
};

/**
 * Returns the DID of the admin whose valid token the request has.
 *
 * @throws {TokenError} for any other request
 * @throws {RegistryUnavailable} when no usable key document is available
 */
async function adminOf(deps: AdminTokenDeps, { request }: RequestContext): Promise<string> {
  const token = authorizationToken(request.headers, "Bearer");
  if (!token) throw new TokenError("malformed", "The Authorization header is not of the form Bearer <admin token>");
  const jws = parseShortToken(ADM, token), keys = await deps.keys.withKey(jws.kid);
  const authority = { issuer: deps.config.registryUrl, audience: deps.origins[0] ?? "", keys };
  return (await verifyShortToken(ADM, jws, authority, unixSeconds(deps.clock.now()))).sub;
}
