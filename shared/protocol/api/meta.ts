/**
 * Request and response bodies of health and metadata. The origins in the metadata come from the configuration and never
 * from `Host`, because clients sign them, and a caller chooses `Host`.
 */
import * as z from "zod";
import { IsoTime } from "./fields.ts";

export type Environment = z.output<typeof Environment>;
export const Environment = z.enum(["local", "dev", "production"]);

/** What both services know of their server. `registryUrl` is also the issuer of the registry's tokens. */
export type Metadata = z.output<typeof Metadata>;
export const Metadata = z.object({
  registryUrl: z.string(),
  proxyUrl: z.string(),
  environment: Environment,
  version: z.string(),
});

const health = {
  status: z.enum(["ok", "unavailable"]),
  version: z.string(),
  environment: Environment,
  ready: z.boolean(),
};

/** Response of the registry's `GET /health`. */
export type RegistryHealth = z.output<typeof RegistryHealth>;
export const RegistryHealth = z.object({
  ...health,
  checks: z.object({ kv: z.boolean(), signingKey: z.boolean() }),
  /** Size of the revocation list as a share of the largest that verifiers accept, 0 to 1, two decimals. */
  crlFill: z.number().min(0).max(1),
});

/** Response of the proxy's `GET /health`. */
export type ProxyHealth = z.output<typeof ProxyHealth>;
export const ProxyHealth = z.object({
  ...health,
  checks: z.object({ kv: z.boolean(), registryKeys: z.boolean(), crl: z.boolean() }),
  connectedSockets: z.int(),
});

/** Response of `GET /health` if both services share a process. */
export type ServiceHealth = z.output<typeof ServiceHealth>;
export const ServiceHealth = z.object({
  ...health,
  registry: RegistryHealth,
  proxy: ProxyHealth,
});

export const Liveness = z.object({ status: z.literal("ok") });

export const Readiness = z.object({
  status: health.status,
  ready: health.ready,
  /** Instances to which this one has no link, so messages to them go through the store. Absent if there are none. */
  linksMissing: z.array(z.string()).optional(),
});

/** Response of `GET /v1/crl`: the signed list. */
export type CrlAnswer = z.output<typeof CrlAnswer>;
export const CrlAnswer = z.object({ crl: z.string() });

export type RotateKeysAnswer = z.output<typeof RotateKeysAnswer>;
export const RotateKeysAnswer = z.object({
  kid: z.string(),
  /** The key that signs until `signsFrom`. */
  retiredKid: z.string(),
  /** When `kid` begins to sign, and `retiredKid` stops. */
  signsFrom: IsoTime,
});
