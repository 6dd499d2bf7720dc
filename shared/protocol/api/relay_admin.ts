/** Bodies and queries of the routes with which an admin sees the relay (D-172, D-173). */
import * as z from "zod";
import { LIMITS } from "../limits.ts";
import type { Shape } from "../shape.ts";
import { AgentDid, IsoTime, PageLimit, RequestId, Ulid } from "./fields.ts";

/** Response of `POST /v1/admin/tokens`. */
export interface AdminTokenAnswer {
  /** The admin token, for `Authorization: Bearer`. */
  token: string;
  /** Time of expiry, ISO 8601. */
  expiresAt: string;
  /** Origin of the proxy that accepts it. */
  audience: string;
  /** What it permits. */
  scope: ["relay.read"];
}
/** Schema of `AdminTokenAnswer`. */
export const AdminTokenAnswer: Shape<AdminTokenAnswer> = z.object({
  token: z.string(),
  expiresAt: IsoTime,
  audience: z.string(),
  scope: z.tuple([z.literal("relay.read")]),
});

const limit = PageLimit.default(LIMITS.agentListDefault);
const DidPagination = z.object({ limit: z.int(), nextCursor: AgentDid.nullable() });

/** Query of `GET /v1/admin/relay/connections`. */
export interface ConnectionQuery {
  /** Only agents that are connected, or only agents that are not. */
  online?: boolean | undefined;
  /** Agents per page. */
  limit: number;
  /** `nextCursor` of the previous page. */
  cursor?: string | undefined;
}
/** Schema of `ConnectionQuery`. */
export const ConnectionQuery: Shape<ConnectionQuery> = z.object({
  online: z.enum(["true", "false"]).transform((text) => text === "true").optional(),
  limit,
  cursor: AgentDid.optional(),
});

/** When an agent was connected last. */
export interface AgentConnection {
  /** DID of the agent. */
  agentDid: string;
  /** True while an instance that is alive holds its sockets. */
  online: boolean;
  /** ID of the instance that holds, or last held, its sockets. */
  instance: string;
  /** Start of the last connection, ISO 8601. */
  connectedAt: string;
  /** End of the last connection; `null` while it lasts, and when its instance ended without recording it. */
  disconnectedAt: string | null;
}

/** Response of `GET /v1/admin/relay/connections`: one page, by DID. */
export interface ConnectionList {
  /** One page of agents. */
  connections: AgentConnection[];
  /** Position in the list. A short page need not be the last one. */
  pagination: {
    limit: number;
    nextCursor: string | null;
  };
}
/** Schema of `ConnectionList`. */
export const ConnectionList: Shape<ConnectionList> = z.object({
  connections: z.array(z.object({
    agentDid: AgentDid,
    online: z.boolean(),
    instance: Ulid,
    connectedAt: IsoTime,
    disconnectedAt: IsoTime.nullable(),
  })),
  pagination: DidPagination,
});

/** Query of `GET /v1/admin/relay/queues`. */
export interface QueueQuery {
  /** Recipients per page. */
  limit: number;
  /** `nextCursor` of the previous page. */
  cursor?: string | undefined;
}
/** Schema of `QueueQuery`. */
export const QueueQuery: Shape<QueueQuery> = z.object({ limit, cursor: AgentDid.optional() });

/** The messages that wait for one recipient. */
export interface Queue {
  /** DID of the recipient. */
  recipientAgentDid: string;
  /** Number of messages. */
  messages: number;
  /** Number of senders. */
  senders: number;
  /** Expiry of the oldest message, ISO 8601. */
  oldestExpiresAt: string;
}

/** Response of `GET /v1/admin/relay/queues`: one page, by DID. */
export interface QueueList {
  /** One page of recipients with queued messages. */
  queues: Queue[];
  /** Position in the list. A short page need not be the last one. */
  pagination: {
    limit: number;
    nextCursor: string | null;
  };
}
/** Schema of `QueueList`. */
export const QueueList: Shape<QueueList> = z.object({
  queues: z.array(z.object({
    recipientAgentDid: AgentDid,
    messages: z.int(),
    senders: z.int(),
    oldestExpiresAt: IsoTime,
  })),
  pagination: DidPagination,
});

/** Query of `GET /v1/admin/relay/deliveries`. */
export interface DeliveryQuery {
  /** ID of the request that carried the message. */
  requestId: string;
}
/** Schema of `DeliveryQuery`. */
export const DeliveryQuery: Shape<DeliveryQuery> = z.object({ requestId: RequestId });

/** Every event of a delivery, in the order in which they can occur. */
export const DELIVERY_EVENTS = [
  "began",
  "queued",
  "acked",
  "refused_by_connector",
  "waiting",
  "processed",
  "dead_lettered",
] as const;
/** Event of a delivery. */
export type DeliveryEvent = (typeof DELIVERY_EVENTS)[number];

/** What the proxy's records say about one delivery of a message. */
export interface DeliveryTimeline {
  /** DID of the sender. */
  senderAgentDid: string;
  /** DID of the recipient. */
  recipientAgentDid: string;
  /** The last event. */
  state: DeliveryEvent;
  /** Events, oldest first. `waiting` has the time of this answer. */
  events: { at: string; event: DeliveryEvent; detail?: string | undefined }[];
}

/** Response of `GET /v1/admin/relay/deliveries`; empty for an unknown ID. */
export interface DeliveryList {
  /** Deliveries of the request ID. */
  deliveries: DeliveryTimeline[];
}
/** Schema of `DeliveryList`. */
export const DeliveryList: Shape<DeliveryList> = z.object({
  deliveries: z.array(z.object({
    senderAgentDid: AgentDid,
    recipientAgentDid: AgentDid,
    state: z.enum(DELIVERY_EVENTS),
    events: z.array(
      z.object({ at: IsoTime, event: z.enum(DELIVERY_EVENTS), detail: z.string().optional() }),
    ),
  })),
});

/** Query of `GET /v1/admin/relay/refusals`. */
export interface RefusalQuery {
  /** Only refusals of this request. */
  requestId?: string | undefined;
  /** Only refusals of this agent. */
  agentDid?: string | undefined;
  /** Most refusals in the response. */
  limit: number;
}
/** Schema of `RefusalQuery`. */
export const RefusalQuery: Shape<RefusalQuery> = z.object({
  requestId: RequestId.optional(),
  agentDid: AgentDid.optional(),
  limit,
});

/** A request that the proxy refused. */
export interface Refusal {
  /** Time of the refusal, ISO 8601. */
  at: string;
  /** ID of the request; a secret in it is redacted. */
  requestId: string;
  /** Code of the error. */
  code: string;
  /** Number of the check that refused, 1 to 9; `null` when none of them did. */
  check: number | null;
  /** HTTP method; `other` for an unusual one. */
  method: string;
  /** Path of the route, never of the request; `null` without a route. */
  route: string | null;
  /** DID of the agent, when its identity token was verified. */
  agentDid: string | null;
}

/** Response of `GET /v1/admin/relay/refusals`, newest first. */
export interface RefusalList {
  /** Refusals of one instance. */
  refusals: Refusal[];
  /** ID of the instance that answered. */
  instance: string;
  /** Time from which its refusals are kept, ISO 8601. */
  since: string;
}
/** Schema of `RefusalList`. */
export const RefusalList: Shape<RefusalList> = z.object({
  refusals: z.array(z.object({
    at: IsoTime,
    requestId: z.string(),
    code: z.string(),
    check: z.int().nullable(),
    method: z.string(),
    route: z.string().nullable(),
    agentDid: AgentDid.nullable(),
  })),
  instance: Ulid,
  since: IsoTime,
});
