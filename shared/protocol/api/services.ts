/** Request and response bodies between the services. */
import * as z from "zod";
import { ActiveOrRevoked, AgentDid, HumanDid, IsoTime, Pagination, Ulid } from "./fields.ts";

export const SERVICE_SCOPES = ["identity.read", "auth.validate", "crl.read"] as const;
export type ServiceScope = (typeof SERVICE_SCOPES)[number];

export type OwnershipBody = z.output<typeof OwnershipBody>;
export const OwnershipBody = z.object({ ownerDid: HumanDid, agentDid: AgentDid });

export type Ownership = z.output<typeof Ownership>;
export const Ownership = z.object({
  ownsAgent: z.boolean(),
  /** `null` when the registry does not know the agent. */
  agentStatus: ActiveOrRevoked.nullable(),
  /** State of the agent's session; `null` if it has none. `suspended`: an admin has suspended its owner. */
  session: z.enum(["active", "revoked", "expired", "suspended"]).nullable(),
});

export type CreateServiceBody = z.output<typeof CreateServiceBody>;
export const CreateServiceBody = z.object({
  name: z.string().regex(
    /^[a-z0-9][a-z0-9_-]{1,63}$/,
    "must be 2 to 64 of a-z, 0-9, '_' and '-', a letter or digit first",
  ),
  scopes: z.array(z.enum(SERVICE_SCOPES)).min(1).refine((all) => new Set(all).size === all.length, "must not repeat")
    .meta({ uniqueItems: true }),
});

export type InternalService = z.output<typeof InternalService>;
export const InternalService = z.object({
  id: Ulid,
  name: z.string(),
  scopes: z.array(z.enum(SERVICE_SCOPES)),
  status: ActiveOrRevoked,
  createdAt: IsoTime,
  /** `null` before the first rotation. */
  rotatedAt: IsoTime.nullable(),
  /** `null` before the first use. */
  lastUsedAt: IsoTime.nullable(),
});

/** Response to the creation or rotation of a service. The secret is shown only once. */
export type IssuedServiceAnswer = z.output<typeof IssuedServiceAnswer>;
export const IssuedServiceAnswer = z.object({
  internalService: InternalService.extend({ secret: z.string() }),
});

export type ServiceList = z.output<typeof ServiceList>;
export const ServiceList = z.object({
  internalServices: z.array(InternalService),
  pagination: Pagination,
});
