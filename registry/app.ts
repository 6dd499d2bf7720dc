/**
 * Puts the registry together: dependencies in, an app that answers requests out.
 */
import { authorityOf } from "../shared/protocol/did.ts";
import { type App, createApp, type ServiceSeams } from "../shared/server/app.ts";
import { ConfigError } from "../shared/server/config.ts";
import { GroupCommit } from "../shared/server/group_commit.ts";
import { Nonces } from "../shared/server/nonces.ts";
import { Reads } from "../shared/server/reads.ts";
import { RateLimiter } from "../shared/server/rate_limit.ts";
import { AUTHENTICATORS } from "./auth.ts";
import type { RegistryConfig } from "./config.ts";
import type { RegistryDeps } from "./deps.ts";
import { KEYS } from "./keys.ts";
import { CrlPublisher } from "./revocation/crl.ts";
import { REGISTRY_ROUTES } from "./routes.ts";
import { Signing } from "./signing.ts";

/** A registry that answers. */
export interface Registry extends App {
  deps: RegistryDeps;
}

/**
 * Opens the registry on its store: fixes the issuer at the first start, loads or makes the signing key.
 *
 * @throws {ConfigError} when the store belongs to another issuer
 */
export async function createRegistry(seams: ServiceSeams, config: RegistryConfig): Promise<Registry> {
  const { kv, maxChecks, clock, random, newId } = seams;
  const authority = authorityOf(config.registryUrl);
  if (authority === null) throw new ConfigError(["REGISTRY_URL: its host cannot be part of a DID"]);
  await fixIssuer(kv, config.registryUrl);
  const signing = await Signing.open(seams, config.signingKeys);
  const commits = new GroupCommit(kv, maxChecks);
  const reads = new Reads(kv);
  const deps: RegistryDeps = {
    ...seams,
    config,
    authority,
    signing,
    commits,
    reads,
    crl: new CrlPublisher({ kv, clock, newId, signing }, config.registryUrl),
    nonces: new Nonces(reads, clock, KEYS.nonce),
    limiter: new RateLimiter(kv, commits, clock, KEYS.window),
    random,
    showDetails: config.environment !== "production",
  };
  return { ...createApp(REGISTRY_ROUTES, AUTHENTICATORS, deps), deps };
}

async function fixIssuer(kv: Deno.Kv, issuer: string): Promise<void> {
  await kv.atomic().check({ key: KEYS.issuer(), versionstamp: null }).set(KEYS.issuer(), issuer).commit();
  const { value } = await kv.get<string>(KEYS.issuer());
  if (value !== issuer) {
    throw new ConfigError([
      `REGISTRY_URL: the store was made for ${value}, and its identities are valid for that address only; ` +
      `set REGISTRY_URL=${value}, or KV_URL to a new store`,
    ]);
  }
}
