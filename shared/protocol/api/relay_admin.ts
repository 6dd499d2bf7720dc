/** Bodies and queries of the routes with which an admin looks at the relay (D-172). */
import * as z from "zod";
import { LIMITS } from "../limits.ts";
import { isUlid } from "../ids.ts";
import { AgentDid, IsoTime, PageLimit, RequestId, strictQuery, Ulid, ULID_PATTERN } from "./fields.ts";

export type AdminTokenAnswer = z.output<typeof AdminTokenAnswer>;
export const AdminTokenAnswer = z.object({
  /** Sent as `Authorization: Bearer`. */
  token: z.string(),
  expiresAt: IsoTime,
  /** Origin of the only proxy that accepts it. */
  audience: z.string(),
  // No tuple, because programs that read the document would take its schema for one of an older JSON Schema draft.
  scope: z.array(z.literal("relay.read")).length(1),
});

const limit = PageLimit.default(LIMITS.adminListDefault);
/** Most agents of a request. With less, the connections of one page of agents would take more than one request. */
const AGENT_IDS_MAX = 100;
const AgentIds = z.string().refine(
  (text) => text.length <= AGENT_IDS_MAX * 27 && text.split(",").every(isUlid),
  "must be 1 to 100 ULIDs, separated by commas",
).meta({ pattern: `^${ULID_PATTERN}(?:,${ULID_PATTERN}){0,99}$` }).transform((text) => text.split(","));
const DidPagination = z.object({ limit: z.int(), nextCursor: AgentDid.nullable() });

export type QueueQuery = z.output<typeof QueueQuery>;
export const QueueQuery = strictQuery({
  limit,
  /** Only these agents, or the queues of these agents: their IDs, separated by commas. */
  agents: AgentIds.optional(),
  cursor: AgentDid.optional(),
});

export type ConnectionQuery = z.output<typeof ConnectionQuery>;
export const ConnectionQuery = strictQuery({
  /** Only agents that are connected, or only agents that are not. */
  online: z.enum(["true", "false"]).transform((text) => text === "true").optional(),
  ...QueueQuery.shape,
});

/** When an agent was last connected. */
export type AgentConnection = z.output<typeof AgentConnection>;
export const AgentConnection = z.object({
  agentDid: AgentDid,
  /** True while an instance that is alive holds its sockets. */
  online: z.boolean(),
  /** The instance that holds the agent's sockets, or held them last. */
  instance: Ulid,
  connectedAt: IsoTime,
  /** End of the last connection; `null` while it lasts, and if its instance ended without recording the end. */
  disconnectedAt: IsoTime.nullable(),
});

/** One page, sorted by DID. */
export type ConnectionList = z.output<typeof ConnectionList>;
export const ConnectionList = z.object({
  connections: z.array(AgentConnection),
  /** A page may be short although it is not the last. */
  pagination: DidPagination,
});

export type Queue = z.output<typeof Queue>;
export const Queue = z.object({
  recipientAgentDid: AgentDid,
  messages: z.int(),
  senders: z.int(),
  /** Expiry of the oldest message. */
  oldestExpiresAt: IsoTime,
});

/** One page, sorted by DID. */
export type QueueList = z.output<typeof QueueList>;
export const QueueList = z.object({
  queues: z.array(Queue),
  /** A page may be short although it is not the last. */
  pagination: DidPagination,
});

/** Another registry whose agents have pairs at this server. */
export type IssuerView = z.output<typeof IssuerView>;
export const IssuerView = z.object({
  /** The authority in the DIDs of its agents. */
  authority: z.string(),
  /** How many of its agents have pairs here, and how many pairs these are. */
  agents: z.int(),
  pairs: z.int(),
  /** Whether the setting `FEDERATION` lets its agents in. */
  allowed: z.boolean(),
  /** Age of the registry's keys that the answering instance holds, in seconds; `null` while it holds none. */
  keysAgeSeconds: z.number().nullable(),
  listAgeSeconds: z.number().nullable(),
  /** Why the registry could not be asked the last time; `null` if it answered, or was not asked yet. */
  problem: z.string().nullable(),
});

/** Sorted by authority. */
export type IssuerList = z.output<typeof IssuerList>;
export const IssuerList = z.object({
  issuers: z.array(IssuerView),
  /** False when there are more agents of other registries than the proxy counts. */
  areAll: z.boolean(),
});

export type DeliveryQuery = z.output<typeof DeliveryQuery>;
export const DeliveryQuery = strictQuery({ requestId: RequestId });

/** Every event of a delivery, in the order in which they can occur. */
export const DELIVERY_EVENTS = [
  "began",
  "queued",
  "acked",
  "refused_by_connector",
  "waiting",
  "handed_over",
  "processed",
  "dead_lettered",
] as const;
export type DeliveryEvent = (typeof DELIVERY_EVENTS)[number];

/** What the proxy's records say about one delivery of a message. */
export type DeliveryTimeline = z.output<typeof DeliveryTimeline>;
export const DeliveryTimeline = z.object({
  senderAgentDid: AgentDid,
  recipientAgentDid: AgentDid,
  state: z.enum(DELIVERY_EVENTS),
  /** Oldest first. The event `waiting` has the time of this answer. */
  events: z.array(
    z.object({ at: IsoTime, event: z.enum(DELIVERY_EVENTS), detail: z.string().optional() }),
  ),
});

/** Empty for an unknown request ID. */
export type DeliveryList = z.output<typeof DeliveryList>;
export const DeliveryList = z.object({
  deliveries: z.array(DeliveryTimeline),
});

export type RefusalQuery = z.output<typeof RefusalQuery>;
export const RefusalQuery = strictQuery({
  requestId: RequestId.optional(),
  agentDid: AgentDid.optional(),
  /** If present, the answer also says how often each agent was refused. */
  group: z.literal("agent").optional(),
  limit,
});

export type Refusal = z.output<typeof Refusal>;
export const Refusal = z.object({
  at: IsoTime,
  /** If it contained a secret, that part is redacted. */
  requestId: z.string(),
  code: z.string(),
  /** Number of the check that refused it, 1 to 9; `null` when none of them did. */
  check: z.int().nullable(),
  /** The HTTP method, or `other` for an unusual one. */
  method: z.string(),
  /** Path of the route; `null` without one. Never the path of the request, because that may contain a secret. */
  route: z.string().nullable(),
  /** `null` unless the identity token of the request was verified. */
  agentDid: AgentDid.nullable(),
});

/** How often an agent was refused with a code, in this hour and the one before. `check` is that of the last request. */
export type RefusalGroup = z.output<typeof RefusalGroup>;
export const RefusalGroup = Refusal.pick({ code: true, check: true, agentDid: true }).extend({
  count: z.int(),
  lastAt: IsoTime,
});

/** Newest first. */
export type RefusalList = z.output<typeof RefusalList>;
export const RefusalList = z.object({
  refusals: z.array(Refusal),
  instance: Ulid,
  /** Time since which the instance keeps refusals. */
  since: IsoTime,
  /** Present with `group=agent`; the most frequent ones come first. */
  groups: z.object({
    /** Time since which they are counted. */
    since: IsoTime,
    byAgent: z.array(RefusalGroup),
    /** Refusals counted together, because only 1,000 pairs of code and agent are counted by themselves in an hour. */
    others: z.int(),
  }).optional(),
});

/** What the store and the answering instance know. */
export type RelayOverview = z.output<typeof RelayOverview>;
export const RelayOverview = z.object({
  version: z.string(),
  /** The instance that answered, and when it started. */
  instance: Ulid,
  startedAt: IsoTime,
  /** When agents and queues were counted, which happens at most once in 10 s. */
  at: IsoTime,
  /** False when there are over 100,000 agents or queues, because the others are not counted. */
  complete: z.boolean(),
  /** Agents that were connected in the last 90 days and are not revoked. */
  agents: z.object({ online: z.int(), offlineOver1d: z.int() }),
  queues: z.object({
    messages: z.int(),
    recipients: z.int(),
    /** When the oldest message was queued; `null` if none waits. */
    oldestAt: IsoTime.nullable(),
  }),
  memoryBytes: z.int(),
  /** Size of the store's file and space on its disk; `null` for a store without a file. */
  store: z.object({ bytes: z.int(), freeBytes: z.int(), reserveBytes: z.number() }).nullable(),
  /** The other instances: how many links to them are open, and the IDs of those that have an address but no link. */
  links: z.object({ open: z.int(), missing: z.array(Ulid) }),
  /** Messages that this instance has passed to others since it started: over a link, or as a note in the store. */
  crossed: z.object({ link: z.int(), note: z.int() }),
  agentLimit: z.object({ requests: z.int(), windowMs: z.int() }),
  /** Other limits in force. `mailboxBytes` counts once for what is sent to a person's agents, and once for what they send. */
  limits: z.object({
    ownerRequests: z.int(),
    pairs: z.int(),
    mailboxBytes: z.int(),
    mailboxSeconds: z.int(),
    receiptSeconds: z.int(),
  }),
});

export type SeriesQuery = z.output<typeof SeriesQuery>;
export const SeriesQuery = strictQuery({
  /** The span of the answer: 60 steps of one minute, or 96 steps of 15 minutes. */
  span: z.enum(["hour", "day"]).default("hour"),
});

/** Stands for a time to acknowledgement over 10 s, the last bucket of the metric. */
export const ACK_OVER_MS = 10_001;

export type RelayPoint = z.output<typeof RelayPoint>;
export const RelayPoint = z.object({
  /** The end of the step. */
  at: IsoTime,
  delivered: z.int(),
  queued: z.int(),
  failed: z.int(),
  refusals: z.object({ rate: z.int(), pair: z.int(), identity: z.int(), other: z.int() }),
  /** Queued messages at the end of the step; `null` when the store could not be counted. */
  waiting: z.int().nullable(),
  /** Connected agents at the end of the step. */
  agents: z.int().nullable(),
  /** Time within which half of the acknowledgements came. 10001 means more than 10 s, `null` that there were none. */
  ackP50Ms: z.number().nullable(),
  ackP95Ms: z.number().nullable(),
});

/** What the answering instance has counted, oldest first. */
export type RelaySeriesAnswer = z.output<typeof RelaySeriesAnswer>;
export const RelaySeriesAnswer = z.object({
  instance: Ulid,
  since: IsoTime,
  stepSeconds: z.int(),
  points: z.array(RelayPoint),
});
