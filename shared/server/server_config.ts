/** The configuration that registry and proxy share (docs/operations.md#configuration). */
import { Environment } from "../protocol/api/meta.ts";
import { authorityOf } from "../protocol/did.ts";
import { TrustedProxies } from "./http/client_ip.ts";
import { addressText, type ListenAddress } from "./http/listen_address.ts";
import { type ConfigReader, list, oneOf, origin, type Parse, wholeNumber } from "./config_reader.ts";

export const DEFAULT_STORE = ".data/svc.kv";

/**
 * Oldest Deno for a store over a network. In an older one, a cancelled `watch` breaks every later call once the token
 * of the store's server has expired.
 */
const OLDEST_FOR_NETWORK = "2.9.1";

/** Returns the configuration, and adds its problems to the reader. */
export function readServerConfig(reader: ConfigReader, { isOnDeploy }: { isOnDeploy: boolean }) {
  return {
    service: reader.read("SVC_SERVICE", oneOf("all", "registry", "proxy"), "all"),
    environment: reader.read("ENVIRONMENT", oneOf(...Environment.options), "local"),
    host: reader.read("HOST", hostName, "127.0.0.1"),
    /** With 0, the system selects a free port. */
    port: reader.read("PORT", wholeNumber(0, 65_535), 8787),
    /** Public origin; `null` for the address on which the server listens. */
    registryUrl: reader.read<string | null>("REGISTRY_URL", origin, null),
    proxyUrl: reader.read<string | null>("PROXY_URL", origin, null),
    /** A path, `:memory:`, or an `http(s)` URL; `null` for the database attached on Deno Deploy. */
    kvUrl: reader.read<string | null>("KV_URL", storePlace, isOnDeploy ? null : DEFAULT_STORE),
    trustedProxies: reader.read("TRUSTED_PROXIES", (text) => new TrustedProxies(list(text)), new TrustedProxies([])),
    metricsListen: readListen(reader, "METRICS_LISTEN", hostAndPort, { isOnDeploy }),
    /** The address on which other instances open links to this one. */
    instanceListen: readListen(reader, "INSTANCE_LISTEN", reachable, { isOnDeploy }),
    /** True when each successful request is logged. */
    accessLog: reader.read("ACCESS_LOG", oneOf("on", "off"), "off") === "on",
    // Deno itself reads this variable, and for Deno any other value means off.
    exportsTelemetry: reader.read("OTEL_DENO", (text) => text, "") === "true",
  };
}

function readListen(
  reader: ConfigReader,
  name: "METRICS_LISTEN" | "INSTANCE_LISTEN",
  parse: Parse<ListenAddress>,
  { isOnDeploy }: { isOnDeploy: boolean },
): ListenAddress | null {
  const address = reader.read<ListenAddress | null>(name, parse, null);
  if (address && isOnDeploy) reader.problem(name, "is not available on Deno Deploy, which has one listener");
  return isOnDeploy ? null : address;
}

/** What decides whether a configuration is valid, in addition to its own variables. */
interface Surroundings {
  signingKeysGiven: boolean;
  serviceCredentialGiven: boolean;
  denoVersion: string;
  isOnDeploy: boolean;
  /** The store that `KV_URL` or Deno Deploy names, or `null` without one. */
  database: string | null;
}

/** Adds the problems that concern several variables, the version of Deno, or Deno Deploy. */
export function validateServerConfig(
  reader: ConfigReader,
  config: ReturnType<typeof readServerConfig>,
  { denoVersion, isOnDeploy, database, ...secrets }: Surroundings,
): void {
  const isNetworked = isNetworkStore(database);
  if (isOnDeploy && !isNetworked) {
    reader.problem(
      "KV_URL",
      "on Deno Deploy, assign a Deno KV database to the app and leave KV_URL unset: any other store ends with its instance",
    );
  }
  if (isNetworked && !(versionNumber(denoVersion) >= versionNumber(OLDEST_FOR_NETWORK))) {
    const oldest = `${OLDEST_FOR_NETWORK} or newer`;
    reader.problem("KV_URL", `a store over the network needs Deno ${oldest}; this is Deno ${denoVersion}`);
  }
  if (config.registryUrl !== null && authorityOf(config.registryUrl) === null) {
    reader.problem("REGISTRY_URL", "its host cannot be part of a DID: use a DNS name or an IPv4 address");
  }
  if (config.service === "proxy" && config.registryUrl === null) {
    reader.problem("REGISTRY_URL", "must be set when the proxy runs alone");
  }
  if (config.environment !== "production") return;
  for (const [name, url] of [["REGISTRY_URL", config.registryUrl], ["PROXY_URL", config.proxyUrl]] as const) {
    if (!url?.startsWith("https:")) reader.problem(name, "must be an https origin when ENVIRONMENT is production");
  }
  if (config.service !== "proxy" && (isNetworked || isOnDeploy) && !secrets.signingKeysGiven) {
    reader.problem("REGISTRY_SIGNING_KEYS", "must be set in production when the store is reached over the network");
  }
  if (config.service === "proxy" && !secrets.serviceCredentialGiven) {
    reader.problem("REGISTRY_INTERNAL_SERVICE_ID", "must be set in production when the proxy runs alone");
  }
}

export function isNetworkStore(database: string | null): boolean {
  return database !== null && /^https?:/.test(database);
}

/** Returns a number that grows with the version; `NaN` for another form, so that it never counts as new enough. */
function versionNumber(version: string): number {
  const [major = NaN, minor = NaN, patch = NaN] = version.split(".").map((part) => Number.parseInt(part));
  return (major * 1_000 + minor) * 1_000 + patch;
}

/**
 * Returns the origins that a proof may name: the public origin, and in `local` the loopback origins with the listening
 * port. The header `Host` adds none, because a hostile server could otherwise forward requests to this server that were
 * signed for itself.
 */
export function acceptedOrigins(environment: Environment, publicOrigin: string, port: number): readonly string[] {
  if (environment !== "local") return [publicOrigin];
  const loopback = ["127.0.0.1", "localhost", "[::1]"].map((host) => `http://${host}:${port}`);
  return [...new Set([publicOrigin, ...loopback])];
}

/** Parses `<host>:<port>`. An IPv6 address is in brackets. */
function hostAndPort(text: string): ListenAddress {
  const at = text.lastIndexOf(":");
  const host = text.slice(0, at), bare = host.startsWith("[") && host.endsWith("]") ? host.slice(1, -1) : host;
  if (at < 1 || bare === host && host.includes(":") || !URL.canParse(`http://${host}`)) {
    throw new TypeError("must be <host>:<port>, such as 127.0.0.1:9000");
  }
  return { host: hostName(bare), port: wholeNumber(0, 65_535)(text.slice(at + 1)) };
}

function reachable(text: string): ListenAddress {
  const address = hostAndPort(text);
  // Compared as a URL, which has one spelling of each address, because 0 and [0::0] would lead the other instances to
  // themselves too.
  const { hostname } = new URL(`http://${addressText(address)}`);
  if (!["0.0.0.0", "[::]", "[::ffff:0:0]"].includes(hostname)) return address;
  throw new TypeError("must name the address at which other instances reach this one, as 10.0.0.7:8790");
}

/** Refuses spaces around a path, because they would name another store, which is new and empty. */
function storePlace(text: string): string {
  if (text.trim() === text) return text;
  throw new TypeError("begins or ends with a space or a line end: remove it");
}

function hostName(text: string): string {
  if (!/^[A-Za-z0-9.:_-]+$/.test(text)) throw new TypeError("must be a host name or an address");
  return text;
}
