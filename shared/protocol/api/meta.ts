/** Wire bodies of health and metadata (D-30, D-31, D-78). */
import * as z from "zod";
import { IsoTime } from "./fields.ts";

/** Where a service runs. */
export const Environment = z.enum(["local", "dev", "production"]);
export type Environment = z.infer<typeof Environment>;

/** Answer of `GET /v1/metadata`. */
export const Metadata = z.object({
  registryUrl: z.string(),
  proxyUrl: z.string(),
  environment: Environment,
  version: z.string(),
});
export type Metadata = z.infer<typeof Metadata>;

const health = {
  status: z.enum(["ok", "unavailable"]),
  version: z.string(),
  environment: Environment,
  ready: z.boolean(),
};

/** Answer of the registry's `GET /health`. */
export const RegistryHealth = z.object({
  ...health,
  checks: z.object({ kv: z.boolean(), signingKey: z.boolean() }),
  /** Size of the revocation list as a share of what verifiers read, two decimals (D-210). */
  crlFill: z.number().min(0).max(1),
});
export type RegistryHealth = z.infer<typeof RegistryHealth>;

/** Answer of the proxy's `GET /health`. */
export const ProxyHealth = z.object({
  ...health,
  checks: z.object({ kv: z.boolean(), registryKeys: z.boolean(), crl: z.boolean() }),
  connectedSockets: z.int(),
});
export type ProxyHealth = z.infer<typeof ProxyHealth>;

/** Answer of `GET /health` where both services share a process. */
export const ServiceHealth = z.object({ ...health, registry: RegistryHealth, proxy: ProxyHealth });
export type ServiceHealth = z.infer<typeof ServiceHealth>;

/** Answer of `GET /v1/crl` (D-21): the signed list. */
export const CrlAnswer = z.object({ crl: z.string() });

/** Answer of `POST /v1/admin/keys/rotate` (D-53). */
export const RotateKeysAnswer = z.object({
  kid: z.string(),
  /** The key that signed until now. */
  retiredKid: z.string(),
  /** When `kid` begins to sign, and `retiredKid` ends. */
  signsFrom: IsoTime,
});
