/** The route table of the proxy: one complete row per route. */
import * as z from "zod";
import { AgentDid, NoQuery } from "../shared/protocol/api/fields.ts";
import * as metaApi from "../shared/protocol/api/meta.ts";
import * as pairingApi from "../shared/protocol/api/pairing.ts";
import * as relayAdminApi from "../shared/protocol/api/relay_admin.ts";
import * as receiptsApi from "../shared/protocol/api/receipts.ts";
import * as relayApi from "../shared/protocol/api/relay.ts";
import type { RouteHeader } from "../shared/openapi.ts";
import { LIMITS } from "../shared/protocol/limits.ts";
import { HEADERS } from "../shared/protocol/proof.ts";
import { openApiRoute } from "../shared/server/http/api_docs.ts";
import { type DocumentPart, operationsOf } from "../shared/server/http/openapi.ts";
import { pageRoutes } from "../shared/server/http/pages.ts";
import { probeRoutes } from "../shared/server/http/probes.ts";
import { type Authenticators, type Route, routeFor, type RouteLimit } from "../shared/server/http/route.ts";
import { type Admin, ADMIN_TOKEN } from "./admin/authenticator.ts";
import * as admin from "./admin/handlers.ts";
import { overview } from "./admin/overview.ts";
import { series } from "./admin/series.ts";
import { admission, type PROFILES } from "./admission/admit.ts";
import type { AdmittedAgent } from "./caller.ts";
import type { ProxyDeps } from "./deps.ts";
import * as meta from "./meta/handlers.ts";
import { FRAMES_PER_SECOND } from "./owner_budgets.ts";
import * as receipts from "./receipts/handlers.ts";
import { relayConnect } from "./relay/connect.ts";
import { postMessage } from "./relay/deliver.ts";
import * as trust from "./trust/handlers.ts";

export type ProxyCallers = { none: null; admin_token: Admin } & Record<keyof typeof PROFILES, AdmittedAgent>;

export const AUTHENTICATORS: Authenticators<ProxyDeps, ProxyCallers> = {
  none: { stage: "before_body", credential: "none", errors: [], run: () => Promise.resolve(null) },
  message: admission("message"),
  receipt: admission("receipt"),
  connect: admission("connect"),
  pairing: admission("pairing"),
  query: admission("query"),
  visit: admission("visit"),
  admin_token: ADMIN_TOKEN,
};

const route = routeFor<ProxyDeps, ProxyCallers>();

const perAdmin: RouteLimit = {
  name: "admin",
  requests: LIMITS.adminRequests,
  windowMs: LIMITS.limitWindowMs,
  per: "admin",
};

const ADMIN_LIST = { auth: "admin_token", limit: perAdmin, invalid: "PROXY_ADMIN_INVALID_QUERY" } as const;

/** Common to the pairing routes that ask the registry about the caller. */
const PAIRING = { auth: "pairing", limit: null, invalid: "PROXY_PAIR_INVALID_BODY" } as const;
const OWNERSHIP = ["PROXY_PAIR_OWNERSHIP_FORBIDDEN", "PROXY_PAIR_OWNERSHIP_UNAVAILABLE"] as const;

const HOOK_HEADERS: readonly RouteHeader[] = [
  { name: HEADERS.recipient, required: true, schema: AgentDid, what: "the recipient; a pair with it must exist" },
  {
    name: HEADERS.conversationId,
    required: false,
    schema: relayApi.ConversationId,
    what: "the conversation, whose messages the recipient's connector hands over in the order in which they came",
  },
  {
    name: HEADERS.inReplyTo,
    required: false,
    schema: relayApi.InReplyToHeader,
    what: "request ID of the message that this one answers",
  },
  { name: HEADERS.auto, required: false, schema: relayApi.AutoHeader, what: "no person or model decided to send it" },
  {
    name: "Prefer",
    required: false,
    schema: relayApi.PreferHeader,
    what: "respond-async: queue the message while the recipient is offline; a longer header counts as absent",
  },
  {
    name: "Content-Type",
    required: true,
    schema: relayApi.ContentTypeHeader,
    what: "application/json, with or without parameters",
  },
];

const UPGRADE_HEADERS: readonly RouteHeader[] = [
  { name: "Connection", required: true, schema: z.string(), what: "Upgrade" },
  { name: "Upgrade", required: true, schema: z.string(), what: "websocket" },
  { name: "Sec-WebSocket-Version", required: true, schema: z.enum(["13"]), what: "version of RFC 6455" },
  { name: "Sec-WebSocket-Key", required: true, schema: z.string(), what: "key of RFC 6455" },
];

export const PROXY_ROUTES: readonly Route<ProxyDeps>[] = [
  route("GET", "/health", "Health of the proxy", {
    auth: "none",
    limit: null,
    response: { status: 200, body: metaApi.ProxyHealth, mayBeUnready: true },
    handler: meta.health,
  }),
  ...probeRoutes<ProxyDeps>(meta.proxyReady, ({ links }) => links.missing),
  route("POST", "/hooks/agent", "Deliver a message to a paired agent", {
    auth: "message",
    limit: null,
    maxBodyBytes: LIMITS.hookBodyBytes,
    rawQuery: relayApi.HookQuery,
    rawBody: relayApi.HookBody,
    headers: HOOK_HEADERS,
    response: { status: 202, body: relayApi.HookAnswer, headers: ["Preference-Applied"] },
    errors: [
      "PROXY_HOOK_UNSUPPORTED_MEDIA_TYPE",
      "PROXY_HOOK_INVALID_JSON",
      "PROXY_HOOK_RECIPIENT_REQUIRED",
      "PROXY_HOOK_RECIPIENT_INVALID",
      "PROXY_HOOK_CONVERSATION_INVALID",
      "PROXY_HOOK_REPLY_INVALID",
      "PROXY_HOOK_CONTEXT_INVALID",
      "PROXY_HOOK_REQUEST_ID_REUSED",
      "PROXY_RELAY_CONNECTOR_OFFLINE",
      "PROXY_RELAY_DELIVERY_FAILED",
      "PROXY_RELAY_MAILBOX_FULL",
      "PROXY_RELAY_UNAVAILABLE",
      "PROXY_RELAY_AUTH_CONTEXT_MISSING",
    ],
    handler: postMessage,
  }),
  route("GET", "/v1/relay/connect", "Open the relay socket on which an agent receives messages", {
    auth: "connect",
    limit: null,
    rawQuery: relayApi.ConnectQuery,
    headers: UPGRADE_HEADERS,
    bounds: [
      `${LIMITS.socketsPerAgent} sockets per agent`,
      `${LIMITS.framesPerSecond} frames per second and socket`,
      `${FRAMES_PER_SECOND} frames per second and owner`,
    ],
    response: { status: 101 },
    errors: ["PROXY_RELAY_UPGRADE_REQUIRED", "PROXY_RELAY_UNAVAILABLE", "PROXY_RELAY_AUTH_CONTEXT_MISSING"],
    handler: relayConnect,
  }),
  route("POST", "/v1/relay/delivery-receipts", "Record a receipt of a received message", {
    auth: "receipt",
    limit: null,
    body: receiptsApi.ReceiptBody,
    invalid: "PROXY_RELAY_RECEIPT_INVALID",
    response: { status: 201, body: receiptsApi.ReceiptAnswer },
    errors: ["PROXY_RELAY_RECEIPT_FORBIDDEN", "PROXY_RECEIPT_DELIVERY_NOT_FOUND"],
    handler: receipts.submitReceipt,
  }),
  route("GET", "/v1/relay/delivery-receipts", "Receipts of a message, for its sender and its recipient", {
    auth: "query",
    limit: null,
    query: receiptsApi.ReceiptQuery,
    invalid: "PROXY_RELAY_RECEIPT_INVALID_QUERY",
    response: { status: 200, body: receiptsApi.ReceiptList },
    handler: receipts.queryReceipts,
  }),
  route("POST", "/v1/relay/deliveries", "Outcomes of messages that the caller has sent", {
    auth: "query",
    limit: null,
    body: receiptsApi.DeliveriesBody,
    invalid: "PROXY_RELAY_RECEIPT_INVALID",
    response: { status: 200, body: receiptsApi.DeliveriesAnswer },
    handler: receipts.queryDeliveries,
  }),
  route("POST", "/pair/start", "Create a pairing ticket that another agent can confirm", {
    ...PAIRING,
    body: pairingApi.PairStartBody,
    response: { status: 200, body: pairingApi.PairStartAnswer },
    errors: OWNERSHIP,
    handler: trust.pairStart,
  }),
  route("POST", "/pair/confirm", "Confirm a ticket and create the pair", {
    ...PAIRING,
    auth: "visit",
    body: pairingApi.PairConfirmBody,
    response: { status: 201, body: pairingApi.PairConfirmAnswer },
    errors: [
      "PROXY_PAIR_TICKET_NOT_FOUND",
      "PROXY_PAIR_TICKET_ALREADY_CONFIRMED",
      "PROXY_PAIR_TICKET_EXPIRED",
      "PROXY_PAIR_RESPONDER_FORBIDDEN",
      ...OWNERSHIP,
      "QUOTA_EXCEEDED",
    ],
    handler: trust.pairConfirm,
  }),
  route("POST", "/pair/accept", "Let an agent of another server write to the caller", {
    ...PAIRING,
    body: pairingApi.PairAcceptBody,
    response: { status: 201, body: pairingApi.PairAcceptAnswer },
    errors: [
      "PROXY_PAIR_RESPONDER_FORBIDDEN",
      ...OWNERSHIP,
      "QUOTA_EXCEEDED",
    ],
    handler: trust.pairAccept,
  }),
  route("POST", "/pair/status", "Status of a ticket, for its participants", {
    ...PAIRING,
    body: pairingApi.PairStatusBody,
    response: { status: 200, body: pairingApi.PairStatusAnswer },
    errors: [
      "PROXY_PAIR_TICKET_NOT_FOUND",
      "PROXY_PAIR_TICKET_EXPIRED",
      ...OWNERSHIP,
    ],
    handler: trust.pairStatus,
  }),
  route("GET", "/pair/peers", "List the peers of the caller in pages", {
    ...PAIRING,
    query: pairingApi.PeerListQuery,
    response: { status: 200, body: pairingApi.PeerList },
    errors: OWNERSHIP,
    handler: trust.listPeers,
  }),
  route("POST", "/pair/remove", "End a pair in both directions", {
    ...PAIRING,
    auth: "visit",
    body: pairingApi.PairRemoveBody,
    response: { status: 204 },
    errors: OWNERSHIP,
    handler: trust.removePeer,
  }),
  route(
    "GET",
    "/v1/admin/relay/overview",
    "Connected agents and queued messages, with memory and disk of the instance that answers",
    {
      ...ADMIN_LIST,
      query: NoQuery,
      response: { status: 200, body: relayAdminApi.RelayOverview },
      handler: overview,
    },
  ),
  route("GET", "/v1/admin/relay/connections", "Which agents are connected, and when each was connected last", {
    ...ADMIN_LIST,
    query: relayAdminApi.ConnectionQuery,
    response: { status: 200, body: relayAdminApi.ConnectionList },
    handler: admin.connections,
  }),
  route("GET", "/v1/admin/relay/queues", "How many messages wait for each recipient", {
    ...ADMIN_LIST,
    query: relayAdminApi.QueueQuery,
    response: { status: 200, body: relayAdminApi.QueueList },
    handler: admin.queues,
  }),
  route(
    "GET",
    "/v1/admin/relay/issuers",
    "Other registries whose agents have pairs here, with what the instance that answers knows of them",
    {
      ...ADMIN_LIST,
      query: NoQuery,
      response: { status: 200, body: relayAdminApi.IssuerList },
      handler: admin.issuers,
    },
  ),
  route("GET", "/v1/admin/relay/deliveries", "What happened to a message, by its request ID", {
    ...ADMIN_LIST,
    query: relayAdminApi.DeliveryQuery,
    response: { status: 200, body: relayAdminApi.DeliveryList },
    handler: admin.deliveries,
  }),
  route("GET", "/v1/admin/relay/refusals", "The newest refusals of the instance that answers, kept in memory", {
    ...ADMIN_LIST,
    query: relayAdminApi.RefusalQuery,
    response: { status: 200, body: relayAdminApi.RefusalList },
    handler: admin.refusals,
  }),
  route(
    "GET",
    "/v1/admin/relay/series",
    "What passed in the last hour or day at the instance that answers, kept in memory",
    {
      ...ADMIN_LIST,
      query: relayAdminApi.SeriesQuery,
      response: { status: 200, body: relayAdminApi.RelaySeriesAnswer },
      handler: series,
    },
  ),
  openApiRoute<ProxyDeps>(),
  ...pageRoutes<ProxyDeps>(meta.proxyReady),
];

export const PROXY_DOCUMENT: DocumentPart = {
  title: "svc proxy",
  operations: operationsOf(PROXY_ROUTES, AUTHENTICATORS),
};
