/**
 * Handlers of the local address at which A2A clients reach a peer (D-135). A client's message becomes a message of this
 * agent. The row of that sent message is the client's task, and the peer's reply is its result.
 */
import * as z from "zod";
import { DAY_MS, settledWithin } from "../../../../shared/clock.ts";
import { UnreachableError } from "../../../../shared/client/errors.ts";
import { wholeSeconds } from "../../../../shared/client/http.ts";
import { sha256 } from "../../../../shared/protocol/base64url.ts";
import { A2A_VERSION, A2A_VERSION_HEADER, rpcError, type TaskState } from "../../../platforms/a2a_protocol.ts";
import type { Connector } from "../../connector.ts";
import { DiskFullError } from "../../store/database.ts";
import type { SentMessage } from "../../store/sent_messages.ts";
import { type InboxMessage, isAbout, isTaskId } from "../../store/received_rows.ts";
import { CONNECTOR_LIMITS as LIMIT } from "../../limits.ts";
import { LOCAL_ERRORS, LocalError } from "../../../local_errors.ts";
import { jsonText, laterJsonText, type LocalInput } from "../local_route.ts";
import { a2aPath } from "../a2a_peers.ts";
import { type ClientMessage, parseCall, type RpcCall, RpcError, type RpcId, type TaskQuery } from "./rpc_request.ts";
import { errorIn } from "../../../../shared/client/local_shapes.ts";
import { topLevelMembers } from "../../../../shared/protocol/json_text.ts";
import { toIso } from "../../../../shared/protocol/time.ts";
import { textOf } from "../message_json.ts";

/** Seconds for which a client may keep the card. With more, a client uses an old address for longer. */
const CARD_AGE_S = 60;

/** Characters at which a page of tasks ends. With more, pages that clients do not read would fill the memory. */
const LIST_CHARACTERS = 1024 ** 2;

const TEXT_MODES = ["text/plain", "application/json"];

const Text = z.string();

export const AgentCard = z.object({
  name: Text,
  description: Text,
  supportedInterfaces: z.array(z.object({ url: Text, protocolBinding: Text, protocolVersion: Text })),
  version: Text,
  capabilities: z.object({ streaming: z.boolean(), pushNotifications: z.boolean(), extendedAgentCard: z.boolean() }),
  securitySchemes: z.object({ bearer: z.object({ httpAuthSecurityScheme: z.object({ scheme: Text }) }) }),
  securityRequirements: z.array(z.object({ schemes: z.object({ bearer: z.object({ list: z.array(Text) }) }) })),
  defaultInputModes: z.array(Text),
  defaultOutputModes: z.array(Text),
  skills: z.array(z.object({ id: Text, name: Text, description: Text, tags: z.array(Text) })),
});

export async function card(
  { connector, params: { alias }, a2aPeers, port, headers }: LocalInput<{ alias: string }>,
): Promise<Response> {
  if (a2aPeers().every((peer) => peer.alias !== alias)) throw new LocalError("NOT_FOUND");
  const { agent: { name: agentName }, version } = connector.options;
  const url = `http://127.0.0.1:${port}${a2aPath(alias)}`;
  const shown: z.infer<typeof AgentCard> = {
    name: alias,
    description: `The agent ${alias}, a peer of ${agentName}. Messages go through svc.`,
    supportedInterfaces: [{ url, protocolBinding: "JSONRPC", protocolVersion: A2A_VERSION }],
    version,
    capabilities: { streaming: false, pushNotifications: false, extendedAgentCard: false },
    securitySchemes: { bearer: { httpAuthSecurityScheme: { scheme: "Bearer" } } },
    securityRequirements: [{ schemes: { bearer: { list: [] } } }],
    defaultInputModes: TEXT_MODES,
    defaultOutputModes: TEXT_MODES,
    skills: [{
      id: "message",
      name: "Message",
      description: `Send a message to ${alias} and get its reply.`,
      tags: ["message"],
    }],
  };
  const text = JSON.stringify(shown);
  const etag = `"${await sha256(text)}"`;
  const caching = { ETag: etag, "Cache-Control": `private, max-age=${CARD_AGE_S}` };
  const isKnown = headers.get("if-none-match")?.split(",").some((tag) => tag.trim().replace(/^W\//, "") === etag);
  if (isKnown) return new Response(null, { status: 304, headers: caching });
  return new Response(text, { headers: { ...caching, "Content-Type": "application/json" } });
}

export async function call({ connector, peer, headers, text }: LocalInput<{ alias: string }>): Promise<Response> {
  if (peer === null) throw new LocalError("CONNECTOR_UNAUTHORIZED");
  try {
    const type = headers.get("content-type") ?? "application/json";
    if (type.split(";")[0]?.trim().toLowerCase() !== "application/json") {
      throw new RpcError("contentType", "The Content-Type must be application/json");
    }
    const wanted = parseCall(text, headers.get(A2A_VERSION_HEADER));
    return await answer(connector, peer.did, wanted);
  } catch (error) {
    if (!(error instanceof RpcError)) throw error;
    return jsonText(errorText(error));
  }
}

async function answer(connector: Connector, peerDid: string, wanted: RpcCall): Promise<Response> {
  const { id } = wanted;
  if (wanted.method === "SendMessage") return await sendMessage(connector, peerDid, wanted.message, id);
  if (wanted.method === "ListTasks") return jsonText(resultText(id, listJson(connector, peerDid, wanted.query)));
  const unknown = new RpcError("taskNotFound", "There is no such task of this peer", id);
  const sent = taskOf(connector, peerDid, wanted.taskId);
  if (sent === null) throw unknown;
  if (wanted.method === "CancelTask") {
    throw new RpcError("taskNotCancelable", "The message has left, so its task cannot be canceled", id);
  }
  if (isOpen(present(connector, sent))) {
    connector.askedTasks.add(sent);
    if (connector.askedTasks.mayLookUp(sent, connector.deps.clock.now())) {
      await settledWithin(connector.deps.clock, connector.sending.ask(sent), LIMIT.receiptLookupTimeoutMs);
    }
  }
  const view = present(connector, sent);
  if (isForgotten(connector, view)) throw unknown;
  return jsonText(resultText(id, taskJson(view)));
}

/**
 * A page of tasks. It may have fewer than `limit`, because `status` selects from the tasks of the page, forgotten
 * ones are left out, and long artifacts end it early.
 */
function listJson(connector: Connector, peerDid: string, query: TaskQuery): string {
  const { store: { sent, received }, askedTasks, deps: { clock } } = connector;
  const { tasks, more, total } = sent.tasks(peerDid, query);
  const now = clock.now(), texts: string[] = [];
  let seen = 0;
  for (let length = 0; seen < tasks.length && length < LIST_CHARACTERS; seen++) {
    const task = (tasks[seen] as typeof tasks[number]).sent;
    const view = viewOf(task, received.taskReply(task), now);
    if (isOpen(view)) askedTasks.add(task);
    if (query.status !== undefined && view.state !== query.status || isForgotten(connector, view)) continue;
    // Only for a reply that the client gets, because another one would count as read although no one has seen it.
    if (query.hasArtifacts) received.takeReply(task, now);
    const text = taskJson(view, query.hasArtifacts);
    texts.push(text);
    length += text.length;
  }
  const last = tasks[seen - 1]?.cursor;
  const nextPageToken = last !== undefined && (more || seen < tasks.length) ? `${last.at}.${last.seq}` : "";
  const numbers = JSON.stringify({ nextPageToken, pageSize: query.limit, totalSize: total });
  return `{"tasks":[${texts.join(",")}],${numbers.slice(1)}`;
}

async function sendMessage(
  connector: Connector,
  peerDid: string,
  message: ClientMessage,
  id: RpcId,
): Promise<Response> {
  if (message.taskId !== undefined) {
    const isKnown = taskOf(connector, peerDid, message.taskId) !== null;
    throw isKnown
      ? new RpcError("unsupported", "A task takes one message: send the next one with the same contextId", id)
      : new RpcError("taskNotFound", "There is no such task of this peer", id);
  }
  const { messageId, contextId = "", payload } = message;
  const requestId = `a-${await sha256([peerDid, messageId, contextId, payload].join("\n"))}`;
  using owned = new DisposableStack();
  const blocked = owned.use(message.returnImmediately ? null : connector.askedTasks.block());
  const task = { toDid: peerDid, requestId };
  // Added before the request leaves, because the reply can come before the response.
  if (!message.returnImmediately) connector.askedTasks.add(task);
  await deliver(connector, task, message, id);
  const sent = connector.store.sent.find(requestId, peerDid);
  if (sent === null) throw new RpcError("internal", "The message has made room for others", id);
  const written = () => resultText(id, `{"task":${taskJson(present(connector, sent))}}`);
  const mayWait = blocked !== null && isOpen(present(connector, sent));
  if (owned.use(mayWait ? connector.waits.begin() : null) === null) return jsonText(written());
  const look = () => isOpen(present(connector, sent)) ? null : true;
  return laterJsonText(connector, owned.move(), async (signal) => {
    using _receipts = connector.sending.follow(sent);
    try {
      await connector.waits.until(look, (change) => isAbout(change, sent), LIMIT.a2aBlockMs, signal);
      return written();
    } catch (error) {
      // The HTTP status is sent already, so the body tells of the full disk. The reply stays, and the client asks for
      // it again.
      if (!(error instanceof DiskFullError)) throw error;
      const { when } = LOCAL_ERRORS.CONNECTOR_DISK_FULL;
      return errorText(new RpcError("internal", when, id));
    }
  });
}

/** Sends the message, unless it was sent. @throws {RpcError} when it is refused here, or by the proxy's rate limit */
async function deliver(
  connector: Connector,
  { toDid, requestId }: { toDid: string; requestId: string },
  { payload, contextId }: ClientMessage,
  id: RpcId,
): Promise<void> {
  const { store: { sent }, sending, newId } = connector;
  const known = sent.find(requestId, toDid);
  // After `unknown` and `refused` the message is sent again, which is safe because it is the same message (D-69).
  if (known !== null && known.state !== "unknown" && known.state !== "refused") return;
  const conversationId = contextId ?? known?.conversationId ?? newId();
  try {
    const message = { toDid, requestId, conversationId, payload, origin: "program", mayWait: true } as const;
    const { response } = await sending.send(message);
    if (response?.status !== 429) return;
    const why = "The proxy limits the messages of this agent",
      seconds = wholeSeconds(response.headers.get("Retry-After"));
    throw new RpcError("internal", seconds === null ? why : `${why}. Try again in ${seconds} s`, id);
  } catch (error) {
    if (error instanceof LocalError) throw new RpcError("params", error.message, id);
    // The client gets no error, because the row of the message says that it was not sent, or may have arrived.
    if (!(error instanceof UnreachableError)) throw error;
  }
}

function taskOf({ store: { sent } }: Connector, peerDid: string, taskId: string): SentMessage | null {
  return isTaskId(taskId) ? sent.find(taskId, peerDid) : null;
}

/** Returns the task as it is now. Takes the reply, if there is one, because the client gets it. */
function present({ store: { sent, received }, deps: { clock } }: Connector, task: SentMessage): TaskView {
  const now = clock.now();
  // The row may have been deleted by now, to make room for others.
  return viewOf(sent.find(task.requestId, task.toDid) ?? task, received.takeReply(task, now), now);
}

function resultText(id: RpcId, result: string): string {
  return `{"jsonrpc":"2.0","id":${id},"result":${result}}`;
}

function errorText({ id, code, message }: RpcError): string {
  return `{"jsonrpc":"2.0","id":${id},"error":${JSON.stringify(rpcError(code, message))}}`;
}

/** After this time a task without a reply fails for its client, which would otherwise wait forever. */
export const A2A_TASK_MS = DAY_MS;

const STATES: Readonly<Record<SentMessage["state"], TaskState>> = {
  sending: "TASK_STATE_WORKING",
  kept: "TASK_STATE_SUBMITTED",
  queued: "TASK_STATE_SUBMITTED",
  delivered: "TASK_STATE_WORKING",
  processed: "TASK_STATE_WORKING",
  dead_lettered: "TASK_STATE_FAILED",
  unknown: "TASK_STATE_FAILED",
  refused: "TASK_STATE_REJECTED",
};
const OPEN: ReadonlySet<TaskState> = new Set(["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"]);

interface TaskView {
  sent: SentMessage;
  state: TaskState;
  /** Why the task has failed or was rejected; `null` in any other state. */
  why: string | null;
  reply: InboxMessage | null;
}

function isOpen({ state }: TaskView): boolean {
  return OPEN.has(state);
}

/**
 * Whether the texts of an ended task are deleted. Its state cannot be told then: without the text of its reply, a failed
 * task would seem completed, and once the reply is gone, a completed task would seem to have failed.
 */
function isForgotten({ store }: Connector, view: TaskView): boolean {
  return !isOpen(view) && (view.reply?.payload ?? "") === "" && store.sent.payloadOf(view.sent) === null;
}

function viewOf(sent: SentMessage, reply: InboxMessage | null, now: number): TaskView {
  const view = (state: TaskState, why: string | null = null): TaskView => ({ sent, reply, state, why });
  if (reply !== null) {
    const error = errorIn(reply.payload);
    return error === null ? view("TASK_STATE_COMPLETED") : view("TASK_STATE_FAILED", `${error.code}: ${error.message}`);
  }
  const state = STATES[sent.state];
  if (!OPEN.has(state)) return view(state, sent.problem ?? "The agent's connector gave up on the message");
  if (now - sent.sentAt < A2A_TASK_MS) return view(state);
  return view("TASK_STATE_FAILED", "The agent has not replied within 24 hours");
}

/**
 * The JSON text of a task.
 *
 * @param hasArtifacts false when the client of a list asked to leave the artifacts out
 */
function taskJson({ sent, state, why, reply }: TaskView, hasArtifacts = true): string {
  const contextId = sent.conversationId ?? sent.requestId;
  const message = why === null
    ? {}
    : { message: { messageId: `${sent.requestId}.status`, contextId, role: "ROLE_AGENT", parts: [{ text: why }] } };
  const timestamp = toIso(reply?.receivedAt ?? sent.stateAt);
  const head = JSON.stringify({ id: sent.requestId, contextId, status: { state, timestamp, ...message }, history: [] });
  if (!hasArtifacts) return head;
  const parts = reply === null || why !== null || reply.payload === "" ? "" : partsJson(reply);
  const id = JSON.stringify(reply?.requestId ?? "");
  const artifacts = parts === "" ? "[]" : `[{"artifactId":${id},"name":"reply","parts":[${parts}]}]`;
  return `${head.slice(0, -1)},"artifacts":${artifacts}}`;
}

/** The parts of a reply: its text without the identity block, and the payload when it has more than that. */
function partsJson(reply: InboxMessage): string {
  const text = textOf(reply);
  const data = `{"data":${reply.payload}}`;
  if (text === null) return data;
  const isTextOnly = topLevelMembers(reply.payload).every(({ key }) => key === "message");
  return isTextOnly ? JSON.stringify({ text }) : `${JSON.stringify({ text })},${data}`;
}
