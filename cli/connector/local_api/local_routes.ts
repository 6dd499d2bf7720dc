/**
 * All routes of the local API, one complete row per route: caller, shapes, codes, handler. The documents of the API are
 * made from the rows, because a second list would differ after the next change.
 */
import * as z from "zod";
import * as shapes from "../../../shared/client/local_shapes.ts";
import * as pairingApi from "../../../shared/protocol/api/pairing.ts";
import * as a2a from "./a2a/endpoint.ts";
import * as inbox from "./inbox_handlers.ts";
import * as outbound from "./outbound_handlers.ts";
import * as pairing from "./pairing_handlers.ts";
import { HookAnswer } from "../../../shared/protocol/api/relay.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { CONNECTOR_LIMITS } from "../limits.ts";
import { Status } from "../status.ts";
import {
  json,
  type LocalCaller,
  localErrorsOf,
  type LocalInput,
  type LocalRoute,
  localRoute as route,
  Members,
} from "./local_route.ts";
import { type DocumentForm, openApiDocument } from "../../../shared/openapi.ts";
import { LOCAL_ERRORS, type LocalCode, LocalError } from "../../local_errors.ts";

const MEMORY = "because more would fill the memory";
const WAIT_BOUND = `${CONNECTOR_LIMITS.waitingCalls} calls wait at the same time, ${MEMORY}`;
const PAGE_BOUND = "1 MiB of payloads, but at least one message, is on a page";
const PAYLOAD_BOUND = `${LIMITS.payloadBytes} bytes of payload, because a sealed message cannot hold more`;

const Alias = z.strictObject({ alias: z.string().min(1).max(256) });

const Rpc = z.object({ jsonrpc: z.literal("2.0"), id: z.union([z.string(), z.number(), z.null()]) });

export const LOCAL_ROUTES: readonly LocalRoute[] = [
  route("GET /v1/status", "Status of the connector: link, inbox, runtime, session", {
    response: { status: 200, body: Status },
    handler: ({ connector }) => json(connector.status()),
  }),
  route(
    "GET /v1/inbox",
    "Messages, oldest first; with wait: as soon as there is one. Replies that a call awaits are left to it",
    {
      query: inbox.InboxQuery,
      bounds: [`${PAGE_BOUND}, and ${WAIT_BOUND}`],
      response: { status: 200, body: shapes.InboxPage },
      errors: ["CONNECTOR_RUNTIME_PUSHES", "CONNECTOR_PEER_UNKNOWN", "CONNECTOR_BUSY"],
      handler: inbox.inbox,
    },
  ),
  route("GET /v1/inbox/:id", "One message, unread or taken", {
    params: inbox.MessageId,
    invalidPath: "CONNECTOR_MESSAGE_UNKNOWN",
    response: { status: 200, body: shapes.LocalMessage },
    handler: inbox.message,
  }),
  route(
    "POST /v1/inbox/read",
    "Take messages. Act only on those whose ID is in the response, because another program may have the others. With lease: " +
      "hold them for these seconds, hidden from other calls; then take them with leaseId, or release them with lease 0",
    { body: shapes.InboxRead, response: { status: 200, body: shapes.InboxReadResult }, handler: inbox.read },
  ),
  route("GET /v1/sent", "Sent messages, newest first", {
    query: inbox.SentQuery,
    response: { status: 200, body: shapes.SentPage },
    errors: ["CONNECTOR_PEER_UNKNOWN"],
    handler: inbox.sent,
  }),
  route("GET /v1/log", "What the agent and its peers have written, newest first; with after: oldest first", {
    query: inbox.LogQuery,
    bounds: [
      `${PAGE_BOUND}, ${MEMORY}`,
      "100,000 messages are searched, because a longer search could outlast the caller's deadline",
    ],
    response: { status: 200, body: shapes.LogPage },
    errors: ["CONNECTOR_PEER_UNKNOWN"],
    handler: inbox.log,
  }),
  route("POST /v1/log/forget", "Blank the texts of read messages and of sent ones that have ended", {
    body: inbox.LogForget,
    response: { status: 200, body: shapes.Forgotten },
    errors: ["CONNECTOR_PEER_UNKNOWN"],
    handler: inbox.forget,
  }),
  route(
    "POST /v1/outbound",
    "Send a message to a peer. With wait: answer with its reply, or its state when the time is over. With keep: a " +
      "message that the proxy does not take now waits in the connector",
    {
      query: outbound.OutboundQuery,
      body: outbound.Outbound,
      bounds: [PAYLOAD_BOUND, WAIT_BOUND],
      response: { status: 202, body: HookAnswer, headers: ["x-request-id", "X-Svc-Sealed"] },
      otherResponses: [{ status: 200, body: shapes.OutboundResult, headers: ["X-Svc-Sealed"] }],
      errors: [
        "CONNECTOR_MESSAGE_UNKNOWN",
        "CONNECTOR_PEER_UNKNOWN",
        "CONNECTOR_PEER_BLOCKED",
        "CONNECTOR_PEER_UNCONFIRMED",
        "CONNECTOR_LOOP_GUARD",
        "CONNECTOR_OUTBOX_FULL",
        "CONNECTOR_BUSY",
      ],
      passesOnErrors: true,
      handler: outbound.outbound,
    },
  ),
  route(
    "GET /v1/outbound/:requestId",
    "A sent message with its state and its first reply; without to: the newest with this request ID",
    {
      params: outbound.SentId,
      query: outbound.SentIdQuery,
      bounds: [WAIT_BOUND],
      invalidPath: "CONNECTOR_MESSAGE_UNKNOWN",
      response: { status: 200, body: shapes.OutboundResult },
      errors: ["CONNECTOR_PEER_UNKNOWN", "CONNECTOR_BUSY"],
      handler: outbound.sentMessage,
    },
  ),
  route(
    "POST /v1/outbound/:requestId/cancel",
    "End a message that waits in the connector; any other keeps its state",
    {
      params: outbound.SentId,
      query: outbound.CancelQuery,
      invalidPath: "CONNECTOR_MESSAGE_UNKNOWN",
      response: { status: 200, body: shapes.OutboundResult },
      errors: ["CONNECTOR_PEER_UNKNOWN"],
      handler: outbound.cancel,
    },
  ),
  route("POST /v1/pair/start", "Make a pairing ticket for another agent", {
    body: Members,
    shownBody: pairing.PairStart,
    response: { status: 200, body: pairingApi.PairStartAnswer },
    passesOnErrors: true,
    handler: pairing.pairStart,
  }),
  route("POST /v1/pair/confirm", "Pair with the agent that made a ticket", {
    body: Members,
    shownBody: pairing.PairConfirm,
    response: { status: 201, body: pairingApi.PairConfirmAnswer },
    errors: ["CONNECTOR_PEER_KEY_MISMATCH"],
    passesOnErrors: true,
    handler: pairing.pairConfirm,
  }),
  route("POST /v1/pair/status", "Whether a ticket has been confirmed", {
    body: Members,
    shownBody: z.object({ ticket: z.string() }),
    response: { status: 200, body: pairingApi.PairStatusAnswer },
    passesOnErrors: true,
    handler: pairing.pairStatus,
  }),
  route("GET /v1/pair/peers", "All peers of the agent", {
    response: { status: 200, body: shapes.PairPeers },
    passesOnErrors: true,
    handler: pairing.pairPeers,
  }),
  route("POST /v1/pair/remove", "End a pair in both directions", {
    body: Members,
    shownBody: pairing.PairRemove,
    response: { status: 204 },
    errors: ["CONNECTOR_PEER_UNKNOWN"],
    passesOnErrors: true,
    handler: pairing.pairRemove,
  }),
  route("GET /v1/peers", "All peers with their aliases, keys, connections and last messages", {
    response: { status: 200, body: shapes.LocalPeers },
    passesOnErrors: true,
    handler: pairing.listed,
  }),
  route(
    "POST /v1/peers/rename",
    "Give a peer another alias, or with replaces the place of another peer; the old alias still leads to it",
    {
      body: pairing.PeerRename,
      response: { status: 200, body: shapes.ChangedPeer },
      errors: ["CONNECTOR_PEER_UNKNOWN", "CONNECTOR_ALIAS_TAKEN"],
      handler: pairing.renamed,
    },
  ),
  route("POST /v1/peers/block", "Refuse the messages of a peer and send it nothing; the pair stays", {
    body: pairing.PeerNamed,
    response: { status: 200, body: shapes.ChangedPeer },
    errors: ["CONNECTOR_PEER_UNKNOWN"],
    handler: pairing.blocks(true),
  }),
  route("POST /v1/peers/unblock", "Take the messages of a blocked peer again", {
    body: pairing.PeerNamed,
    response: { status: 200, body: shapes.ChangedPeer },
    errors: ["CONNECTOR_PEER_UNKNOWN"],
    handler: pairing.blocks(false),
  }),
  route("GET /v1/receipts", "Receipts of a sent message, each with whether its recipient has signed it", {
    query: pairing.ReceiptsQuery,
    response: { status: 200, body: shapes.CheckedReceipts },
    errors: ["CONNECTOR_PEER_UNKNOWN"],
    passesOnErrors: true,
    handler: pairing.receipts,
  }),
  route("GET /v1/dead-letter", "Messages that the connector gave up on, newest first", {
    query: inbox.DeadLettersQuery,
    bounds: [`4 MiB of payloads, but at least one message, are in a response, ${MEMORY}`],
    response: { status: 200, body: shapes.DeadLetters },
    handler: inbox.deadLetters,
  }),
  route("POST /v1/dead-letter/replay", "Hand dead letters over again, or make them unread", {
    body: inbox.DeadLetterIds,
    response: { status: 200, body: inbox.Replayed },
    handler: inbox.replay,
  }),
  route("POST /v1/dead-letter/purge", "Delete dead letters", {
    body: inbox.DeadLetterIds,
    response: { status: 200, body: inbox.Purged },
    handler: inbox.purge,
  }),
  route("POST /v1/page-codes", "Make an address that opens the connector's web page once, within a minute", {
    bounds: ["5 addresses wait to be opened, because only a program that opens none would make more"],
    response: { status: 201, body: shapes.PageCode },
    errors: ["CONNECTOR_BUSY", "CONNECTOR_OFF_PORT"],
    handler: openPage,
  }),
  route("GET /a2a/:alias/.well-known/agent-card.json", "The A2A agent card of a peer added with svc a2a add", {
    caller: "anyone",
    params: Alias,
    response: { status: 200, body: a2a.AgentCard },
    otherResponses: [{ status: 304 }],
    errors: ["NOT_FOUND", "CONNECTOR_BUSY"],
    handler: a2a.card,
  }),
  route(
    "POST /a2a/:alias",
    "A2A 1.0 as JSON-RPC: SendMessage, GetTask, ListTasks. A task is a sent message, its result the peer's reply",
    {
      caller: "peer",
      params: Alias,
      textBody: Rpc.extend({ method: z.string(), params: z.unknown().optional() }),
      bounds: [
        PAYLOAD_BOUND,
        `${CONNECTOR_LIMITS.a2aBlockingCalls} calls wait for the end of their task, each for ${
          CONNECTOR_LIMITS.a2aBlockMs / 1000
        } s, and others return at once, ${MEMORY}`,
      ],
      response: {
        status: 200,
        body: Rpc.extend({
          result: z.unknown().optional(),
          error: z.object({
            code: z.int(),
            message: z.string(),
            data: z.array(z.object({ "@type": z.string(), reason: z.string(), domain: z.string() })),
          }).optional(),
        }),
      },
      errors: ["CONNECTOR_BUSY"],
      handler: a2a.call,
    },
  ),
  route("GET /openapi.json", "This API as OpenAPI 3.1", {
    response: { status: 200, contentType: "application/json" },
    handler: ({ connector }) => json(localOpenApi(LOCAL_ROUTES, connector.options.version)),
  }),
];

async function openPage({ page }: LocalInput): Promise<Response> {
  if (page === null) throw new LocalError("CONNECTOR_OFF_PORT");
  const opened = await page();
  if (opened !== null) return json(opened, 201);
  throw new LocalError("CONNECTOR_BUSY", "Too many addresses wait to be opened; each ends after a minute", 60);
}

const FORM: DocumentForm<LocalCode, LocalCaller> = {
  errors: LOCAL_ERRORS,
  commonErrors: [],
  schemas: {},
  securitySchemes: {
    token: { type: "http", scheme: "bearer", description: "The token in connector.json; new at each start" },
    peer: { type: "http", scheme: "bearer", description: "The token that svc a2a add printed for this peer" },
  },
  credentials: {
    token: { security: [{ token: [] }], headers: [] },
    peer: { security: [{ peer: [] }], headers: [] },
    anyone: { security: [], headers: [] },
  },
  requestHeaders: [],
  responseHeaders: [],
  errorHeaders: { 429: ["Retry-After"] },
};

function localOpenApi(routes: readonly LocalRoute[], version: string): Record<string, unknown> {
  const operations = routes.map((route) => ({
    ...route,
    credential: route.caller,
    limits: route.bounds ?? [],
    headers: [],
    params: route.params,
    query: route.query,
    body: route.shownBody ?? route.textBody ?? route.body,
    emptyBody: false,
    errors: localErrorsOf(route),
  }));
  return openApiDocument([{ title: "svc connector", operations }], version, FORM);
}
