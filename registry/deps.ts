/**
 * Builds all dependencies of the registry. Only `app.ts` and `routes.ts` import this file. Any other file takes
 * `RegistryStore` of store_deps.ts and names what else it needs, because this file imports many of the others, and
 * they would form a cycle with it.
 */
import type { Kv } from "../shared/server/kv.ts";
import { authorityOf } from "../shared/protocol/did.ts";
import type { ServiceDeps } from "../shared/server/http/app.ts";
import { ConfigError } from "../shared/server/config_reader.ts";
import { GroupCommit } from "../shared/server/store/group_commit.ts";
import { Changes } from "../shared/server/store/changes.ts";
import { BatchedReads } from "../shared/server/store/batched_reads.ts";
import { RateLimiter } from "../shared/server/rate_limit.ts";
import { SharedCount } from "../shared/server/store/shared_count.ts";
import { StoreProbe } from "../shared/server/store/store_probe.ts";
import { readWithFormatCheck } from "../shared/server/store/store_format.ts";
import { Looks } from "./admin_tokens/handlers.ts";
import type { RegistryConfig } from "./config.ts";
import { KEYS } from "./schema/kv_keys.ts";
import { countRegistry } from "./people/store.ts";
import { Suspensions } from "./people/suspensions.ts";
import { CrlPublisher } from "./revocation/crl.ts";
import { Signing } from "./signing_keys.ts";
import type { RegistryStore } from "./store_deps.ts";
import type { SigningKeySet } from "./schema/records.ts";

/**
 * Most API keys and cookies that are looked up at once, and half of that for one address. With more, a flood of invented
 * ones holds up all other reads; with a larger share, the flood of one address would refuse the keys of all people.
 */
const KEY_READS = 200;
/** The same for services. With less, proxies that return together would be refused. */
const SERVICE_READS = 500;

export interface RegistryExternals extends ServiceDeps {
  crlBytes?: number | undefined;
  onDeleted?: RegistryStore["onDeleted"];
  /** Sends a request of the console to the proxy: over the network, or to the proxy in this process. */
  callProxy(request: Request): Promise<Response>;
}

export type RegistryDeps = Awaited<ReturnType<typeof buildRegistry>>;

/**
 * Opens the store of the registry. The first start stores the issuer and makes the signing key; each later start needs
 * only one read.
 *
 * @throws {ConfigError} when the store belongs to another issuer, or when `REGISTRY_URL` or a signing key is invalid
 * @throws {StoreRefused} when the store has another format
 */
export async function buildRegistry(externals: RegistryExternals, config: RegistryConfig) {
  const { kv, maxChecks, clock, random, newId, metrics } = externals;
  const authority = authorityOf(config.registryUrl);
  if (authority === null) throw new ConfigError(["REGISTRY_URL: its host cannot be part of a DID"]);
  const [issuer, stored] = await readWithFormatCheck<[string, SigningKeySet]>(externals, [
    KEYS.issuer(),
    KEYS.signingKeys(),
  ]);
  await fixIssuer(kv, issuer.value, config.registryUrl);
  const reads = new BatchedReads(kv);
  const signing = await Signing.open({ ...externals, reads }, config.signingKeys, stored.value);
  const commits = new GroupCommit(kv, maxChecks, {
    clock,
    markKey: KEYS.commitMark(newId()),
    metrics,
    inFlight: externals.commitsInFlight,
  });
  const changes = new Changes({ kv, reads, clock, random, maxChecks, metrics });
  const counts = new SharedCount(clock, () => countRegistry({ kv, clock, metrics }));
  metrics.beforeRead(() => counts.current());
  return {
    ...externals,
    config,
    authority,
    signing,
    commits,
    changes,
    counts,
    looks: new Looks(clock),
    suspensions: new Suspensions({ ...externals, config, authority, reads, changes }),
    reads,
    keyReads: new BatchedReads(kv, KEY_READS, KEY_READS / 2),
    serviceReads: new BatchedReads(kv, SERVICE_READS, SERVICE_READS / 2),
    probe: new StoreProbe({ kv, clock, commits }, KEYS.probe()),
    crl: new CrlPublisher({ ...externals, config, reads, signing }, externals.crlBytes),
    limiter: new RateLimiter(kv, commits, clock, KEYS.window),
    showDetails: config.environment !== "production",
  };
}

/**
 * Stores the issuer on the first start, and compares it on every later one, because existing DIDs and tokens name it.
 *
 * @throws {ConfigError} when the store belongs to another issuer
 */
async function fixIssuer(kv: Kv, stored: string | null, issuer: string): Promise<void> {
  let value = stored;
  if (value === null) {
    await kv.atomic().check({ key: KEYS.issuer(), versionstamp: null }).set(KEYS.issuer(), issuer).commit();
    value = (await kv.get<string>(KEYS.issuer())).value;
  }
  if (value !== issuer) {
    const [, port] = /^http:\/\/127\.0\.0\.1:(\d+)$/.exec(value ?? "") ?? [];
    const way = `set REGISTRY_URL=${value}`;
    const ways = port === undefined
      ? `${way}, or set KV_URL to a new store`
      : `set PORT=${port} without REGISTRY_URL, or set KV_URL to a new store. If a reverse proxy serves that address, ${way}`;
    throw new ConfigError([
      `REGISTRY_URL: the store belongs to ${value}, and its identities are valid for that address only; ${ways}`,
    ]);
  }
}
