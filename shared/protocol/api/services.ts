/** Wire bodies between the services (D-46 to D-48). */
import * as z from "zod";
import type { Shape } from "../shape.ts";
import { ActiveOrRevoked, AgentDid, HumanDid, IsoTime, Pagination, Ulid } from "./fields.ts";

/** What an internal service may do. */
export const SERVICE_SCOPES = ["identity.read", "auth.validate", "crl.read"] as const;
export type ServiceScope = (typeof SERVICE_SCOPES)[number];

/** Body of `POST /internal/v1/identity/agent-ownership`. */
export interface OwnershipBody {
  ownerDid: string;
  agentDid: string;
}
/** Shape of `OwnershipBody`. */
export const OwnershipBody: Shape<OwnershipBody> = z.object({ ownerDid: HumanDid, agentDid: AgentDid });

/** Answer of `POST /internal/v1/identity/agent-ownership`. */
export interface Ownership {
  ownsAgent: boolean;
  agentStatus: "active" | "revoked" | null;
  session: "active" | "revoked" | "expired" | null;
}
/** Shape of `Ownership`. */
export const Ownership: Shape<Ownership> = z.object({
  ownsAgent: z.boolean(),
  agentStatus: ActiveOrRevoked.nullable(),
  session: z.enum(["active", "revoked", "expired"]).nullable(),
});

/** Body of `POST /v1/admin/internal-services`. */
export interface CreateServiceBody {
  name: string;
  scopes: ("identity.read" | "auth.validate" | "crl.read")[];
}
/** Shape of `CreateServiceBody`. */
export const CreateServiceBody: Shape<CreateServiceBody> = z.object({
  name: z.string().regex(/^[a-z0-9][a-z0-9_-]{1,63}$/),
  scopes: z.array(z.enum(SERVICE_SCOPES)).min(1).refine((all) => new Set(all).size === all.length, "must not repeat"),
});

/** Path of `/v1/admin/internal-services/:id`. */
export interface ServicePath {
  id: string;
}
/** Shape of `ServicePath`. */
export const ServicePath: Shape<ServicePath> = z.object({ id: Ulid });

const internalService = z.object({
  id: Ulid,
  name: z.string(),
  scopes: z.array(z.enum(SERVICE_SCOPES)),
  status: ActiveOrRevoked,
  createdAt: IsoTime,
  rotatedAt: IsoTime.nullable(),
  lastUsedAt: IsoTime.nullable(),
});

/** An internal service as it is listed. */
export interface InternalService {
  id: string;
  name: string;
  scopes: ("identity.read" | "auth.validate" | "crl.read")[];
  status: "active" | "revoked";
  createdAt: string;
  rotatedAt: string | null;
  lastUsedAt: string | null;
}
/** Shape of `InternalService`. */
export const InternalService: Shape<InternalService> = internalService;

/** Answer of creating or rotating one; the secret is shown this once. */
export interface IssuedServiceAnswer {
  internalService: {
    id: string;
    name: string;
    scopes: ("identity.read" | "auth.validate" | "crl.read")[];
    status: "active" | "revoked";
    createdAt: string;
    rotatedAt: string | null;
    lastUsedAt: string | null;
    secret: string;
  };
}
/** Shape of `IssuedServiceAnswer`. */
export const IssuedServiceAnswer: Shape<IssuedServiceAnswer> = z.object({
  internalService: internalService.extend({ secret: z.string() }),
});

/** Answer of `GET /v1/admin/internal-services`. */
export interface ServiceList {
  internalServices: InternalService[];
  pagination: Pagination;
}
/** Shape of `ServiceList`. */
export const ServiceList: Shape<ServiceList> = z.object({
  internalServices: z.array(InternalService),
  pagination: Pagination,
});
