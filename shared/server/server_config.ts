/**
 * Where the services run: the part of the configuration that registry and proxy share (PROTOCOL section 7).
 */
import type { Environment } from "../protocol/api/meta.ts";
import { authorityOf } from "../protocol/did.ts";
import { TrustedProxies } from "./http/client_ip.ts";
import { type ConfigReader, list, oneOf, origin, wholeNumber } from "./config_reader.ts";

/** Addresses and version that both services know. */
export interface ServiceAddresses {
  environment: Environment;
  /** Public origin of the registry: the issuer. */
  registryUrl: string;
  /** Public origin of the proxy. */
  proxyUrl: string;
  version: string;
}

/** What the process runs with, before it listens. */
export interface ServerConfig {
  service: "all" | "registry" | "proxy";
  environment: Environment;
  host: string;
  /** 0: any free one. */
  port: number;
  /** `null`: the address that is listened on. */
  registryUrl: string | null;
  proxyUrl: string | null;
  /** A path, `:memory:`, an `http(s)` address; `null`: the database attached on Deno Deploy. */
  kvUrl: string | null;
  trustedProxies: TrustedProxies;
}

/** Names of the variables, for the permission that reading them needs. */
export const SERVER_VARIABLES = [
  "SVC_SERVICE",
  "ENVIRONMENT",
  "HOST",
  "PORT",
  "REGISTRY_URL",
  "PROXY_URL",
  "KV_URL",
  "TRUSTED_PROXIES",
] as const;

/** Reads the variables; problems stay with the reader. */
export function readServerConfig(reader: ConfigReader, onDeploy: boolean): ServerConfig {
  return {
    service: reader.read("SVC_SERVICE", oneOf("all", "registry", "proxy"), "all"),
    environment: reader.read("ENVIRONMENT", oneOf("local", "dev", "production"), "local"),
    host: reader.read("HOST", hostName, "127.0.0.1"),
    port: reader.read("PORT", wholeNumber(0, 65_535), 8787),
    registryUrl: reader.read<string | null>("REGISTRY_URL", origin, null),
    proxyUrl: reader.read<string | null>("PROXY_URL", origin, null),
    kvUrl: reader.read<string | null>("KV_URL", (text) => text, onDeploy ? null : ".data/svc.kv"),
    trustedProxies: reader.read("TRUSTED_PROXIES", (text) => new TrustedProxies(list(text)), new TrustedProxies([])),
  };
}

/** What only a whole configuration can get wrong. */
export function validateServerConfig(
  reader: ConfigReader,
  config: ServerConfig,
  secrets: { signingKeysGiven: boolean; serviceCredentialGiven: boolean },
): void {
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
  const isNetworked = config.kvUrl === null || /^https?:/.test(config.kvUrl);
  if (config.service !== "proxy" && isNetworked && !secrets.signingKeysGiven) {
    reader.problem("REGISTRY_SIGNING_KEYS", "must be set in production when the store is reached over the network");
  }
  if (config.service === "proxy" && !secrets.serviceCredentialGiven) {
    reader.problem("REGISTRY_INTERNAL_SERVICE_ID", "must be set in production when the proxy runs alone");
  }
}

/**
 * The origins that a proof may name (D-24): the public one, and in `local` the loopback ones with the listening port.
 */
export function acceptedOrigins(environment: Environment, publicOrigin: string, port: number): readonly string[] {
  if (environment !== "local") return [publicOrigin];
  const loopback = ["127.0.0.1", "localhost", "[::1]"].map((host) => `http://${host}:${port}`);
  return [...new Set([publicOrigin, ...loopback])];
}

function hostName(text: string): string {
  if (!/^[A-Za-z0-9.:_-]+$/.test(text)) throw new TypeError("must be a host name or an address");
  return text;
}
