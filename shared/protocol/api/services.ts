/** Request and response bodies between the services (D-46 to D-48). */
import * as z from "zod";
import type { Shape } from "../shape.ts";
import { ActiveOrRevoked, AgentDid, HumanDid, IsoTime, Pagination, Ulid } from "./fields.ts";

/** What an internal service may do. */
export const SERVICE_SCOPES = ["identity.read", "auth.validate", "crl.read"] as const;
/** A scope of an internal service. */
export type ServiceScope = (typeof SERVICE_SCOPES)[number];

/** Body of `POST /internal/v1/identity/agent-ownership`. */
export interface OwnershipBody {
  /** DID of the human. */
  ownerDid: string;
  /** DID of the agent. */
  agentDid: string;
}
/** Schema of `OwnershipBody`. */
export const OwnershipBody: Shape<OwnershipBody> = z.object({ ownerDid: HumanDid, agentDid: AgentDid });

/** Response of `POST /internal/v1/identity/agent-ownership`. */
export interface Ownership {
  /** True when the human owns the agent. */
  ownsAgent: boolean;
  /** Status of the agent; `null` when the human does not own it. */
  agentStatus: "active" | "revoked" | null;
  /** Status of the agent's session; `null` without one. */
  session: "active" | "revoked" | "expired" | null;
}
/** Schema of `Ownership`. */
export const Ownership: Shape<Ownership> = z.object({
  ownsAgent: z.boolean(),
  agentStatus: ActiveOrRevoked.nullable(),
  session: z.enum(["active", "revoked", "expired"]).nullable(),
});

/** Body of `POST /v1/admin/internal-services`. */
export interface CreateServiceBody {
  /** Name of the service: 2 to 64 of a-z, 0-9, `_` and `-`. */
  name: string;
  /** What the service may do. */
  scopes: ("identity.read" | "auth.validate" | "crl.read")[];
}
/** Schema of `CreateServiceBody`. */
export const CreateServiceBody: Shape<CreateServiceBody> = z.object({
  name: z.string().regex(/^[a-z0-9][a-z0-9_-]{1,63}$/),
  scopes: z.array(z.enum(SERVICE_SCOPES)).min(1).refine((all) => new Set(all).size === all.length, "must not repeat"),
});

/** Path of `/v1/admin/internal-services/:id`. */
export interface ServicePath {
  /** ULID of the record. */
  id: string;
}
/** Schema of `ServicePath`. */
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
  /** ULID of the record. */
  id: string;
  /** Name of the service. */
  name: string;
  /** What the service may do. */
  scopes: ("identity.read" | "auth.validate" | "crl.read")[];
  /** Present status. */
  status: "active" | "revoked";
  /** Time of creation, ISO 8601. */
  createdAt: string;
  /** Time of the last rotation, ISO 8601; `null` before it. */
  rotatedAt: string | null;
  /** Time of the last use, ISO 8601; `null` before the first use. */
  lastUsedAt: string | null;
}
/** Schema of `InternalService`. */
export const InternalService: Shape<InternalService> = internalService;

/** Response of creating or rotating one; the secret is shown only once. */
export interface IssuedServiceAnswer {
  /** The service, with its secret. */
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
/** Schema of `IssuedServiceAnswer`. */
export const IssuedServiceAnswer: Shape<IssuedServiceAnswer> = z.object({
  internalService: internalService.extend({ secret: z.string() }),
});

/** Response of `GET /v1/admin/internal-services`. */
export interface ServiceList {
  /** One page of internal services. */
  internalServices: InternalService[];
  /** Position in the list. */
  pagination: Pagination;
}
/** Schema of `ServiceList`. */
export const ServiceList: Shape<ServiceList> = z.object({
  internalServices: z.array(InternalService),
  pagination: Pagination,
});
