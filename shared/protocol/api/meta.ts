/** Request and response bodies of health and metadata (D-30, D-31, D-78). */
import * as z from "zod";
import type { Shape } from "../shape.ts";
import { IsoTime } from "./fields.ts";

/** Where a service runs. */
export type Environment = "local" | "dev" | "production";
/** Schema of `Environment`. */
export const Environment: Shape<Environment> = z.enum(["local", "dev", "production"]);

/** Response of `GET /v1/metadata`. */
export interface Metadata {
  /** Origin of the registry. */
  registryUrl: string;
  /** Origin of the proxy. */
  proxyUrl: string;
  /** Environment of the service. */
  environment: Environment;
  /** Version of the service. */
  version: string;
}
/** Schema of `Metadata`. */
export const Metadata: Shape<Metadata> = z.object({
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
export interface RegistryHealth {
  /** Present status. */
  status: "ok" | "unavailable";
  /** Version of the service. */
  version: string;
  /** Environment of the service. */
  environment: Environment;
  /** True when the service accepts requests. */
  ready: boolean;
  /** Result of each check. */
  checks: {
    kv: boolean;
    signingKey: boolean;
  };
  /** Size of the revocation list as a share of what verifiers read, 0 to 1, two decimals (D-210). */
  crlFill: number;
}
/** Schema of `RegistryHealth`. */
export const RegistryHealth: Shape<RegistryHealth> = z.object({
  ...health,
  checks: z.object({ kv: z.boolean(), signingKey: z.boolean() }),
  crlFill: z.number().min(0).max(1),
});

/** Response of the proxy's `GET /health`. */
export interface ProxyHealth {
  /** Present status. */
  status: "ok" | "unavailable";
  /** Version of the service. */
  version: string;
  /** Environment of the service. */
  environment: Environment;
  /** True when the service accepts requests. */
  ready: boolean;
  /** Result of each check. */
  checks: {
    kv: boolean;
    registryKeys: boolean;
    crl: boolean;
  };
  /** Relay sockets of this instance. */
  connectedSockets: number;
}
/** Schema of `ProxyHealth`. */
export const ProxyHealth: Shape<ProxyHealth> = z.object({
  ...health,
  checks: z.object({ kv: z.boolean(), registryKeys: z.boolean(), crl: z.boolean() }),
  connectedSockets: z.int(),
});

/** Response of `GET /health` where both services share a process. */
export interface ServiceHealth {
  /** Present status. */
  status: "ok" | "unavailable";
  /** Version of the service. */
  version: string;
  /** Environment of the service. */
  environment: Environment;
  /** True when the service accepts requests. */
  ready: boolean;
  /** Health of the registry. */
  registry: RegistryHealth;
  /** Health of the proxy. */
  proxy: ProxyHealth;
}
/** Schema of `ServiceHealth`. */
export const ServiceHealth: Shape<ServiceHealth> = z.object({
  ...health,
  registry: RegistryHealth,
  proxy: ProxyHealth,
});

/** Response of `GET /healthz` (D-179). */
export interface Liveness {
  /** The process answers. */
  status: "ok";
}
/** Schema of `Liveness`. */
export const Liveness: Shape<Liveness> = z.object({ status: z.literal("ok") });

/** Response of `GET /readyz` (D-179). */
export interface Readiness {
  /** Present status. */
  status: "ok" | "unavailable";
  /** True when the service accepts requests. */
  ready: boolean;
}
/** Schema of `Readiness`. */
export const Readiness: Shape<Readiness> = z.object({ status: health.status, ready: health.ready });

/** Response of `GET /v1/crl` (D-21): the signed list. */
export interface CrlAnswer {
  /** The list, a compact JWS. */
  crl: string;
}
/** Schema of `CrlAnswer`. */
export const CrlAnswer: Shape<CrlAnswer> = z.object({ crl: z.string() });

/** Response of `POST /v1/admin/keys/rotate` (D-53). */
export interface RotateKeysAnswer {
  /** ID of the new key. */
  kid: string;
  /** The key that signed until now. */
  retiredKid: string;
  /** When `kid` begins to sign, and `retiredKid` ends. ISO 8601. */
  signsFrom: string;
}
/** Schema of `RotateKeysAnswer`. */
export const RotateKeysAnswer: Shape<RotateKeysAnswer> = z.object({
  kid: z.string(),
  retiredKid: z.string(),
  signsFrom: IsoTime,
});
