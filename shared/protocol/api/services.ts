/** Wire bodies between the services (D-46 to D-48). */
import * as z from "zod";
import { ActiveOrRevoked, AgentDid, HumanDid, IsoTime, Pagination, Ulid } from "./fields.ts";

/** What an internal service may do. */
export const SERVICE_SCOPES = ["identity.read", "auth.validate", "crl.read"] as const;
export type ServiceScope = (typeof SERVICE_SCOPES)[number];

/** Body of `POST /internal/v1/identity/agent-ownership`. */
export const OwnershipBody = z.object({ ownerDid: HumanDid, agentDid: AgentDid });

/** Answer of `POST /internal/v1/identity/agent-ownership`. */
export const Ownership = z.object({
  ownsAgent: z.boolean(),
  agentStatus: ActiveOrRevoked.nullable(),
  session: z.enum(["active", "revoked", "expired"]).nullable(),
});
export type Ownership = z.infer<typeof Ownership>;

/** Body of `POST /v1/admin/internal-services`. */
export const CreateServiceBody = z.object({
  name: z.string().regex(/^[a-z0-9][a-z0-9_-]{1,63}$/),
  scopes: z.array(z.enum(SERVICE_SCOPES)).min(1).refine((all) => new Set(all).size === all.length, "must not repeat"),
});

/** Path of `/v1/admin/internal-services/:id`. */
export const ServicePath = z.object({ id: Ulid });

/** An internal service as it is listed. */
export const InternalService = z.object({
  id: Ulid,
  name: z.string(),
  scopes: z.array(z.enum(SERVICE_SCOPES)),
  status: ActiveOrRevoked,
  createdAt: IsoTime,
  rotatedAt: IsoTime.nullable(),
  lastUsedAt: IsoTime.nullable(),
});
export type InternalService = z.infer<typeof InternalService>;

/** Answer of creating or rotating one; the secret is shown this once. */
export const IssuedServiceAnswer = z.object({ internalService: InternalService.extend({ secret: z.string() }) });
export type IssuedServiceAnswer = z.infer<typeof IssuedServiceAnswer>;

/** Answer of `GET /v1/admin/internal-services`. */
export const ServiceList = z.object({ internalServices: z.array(InternalService), pagination: Pagination });
export type ServiceList = z.infer<typeof ServiceList>;
