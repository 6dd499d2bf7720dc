/**
 * Handlers of the local A2A address of a peer (D-135): a message of a client is a message of this agent, its task is the
 * row of the sent message, and the peer's reply is the result.
 */
import { settledWithin } from "../../../../shared/clock.ts";
import { UnreachableError } from "../../../../shared/client/errors.ts";
import { wholeSeconds } from "../../../../shared/client/http.ts";
import { sha256 } from "../../../../shared/protocol/base64url.ts";
import { A2A_VERSION_HEADER, RPC_ERROR } from "../../../a2a/protocol.ts";
import type { Connector } from "../../connector.ts";
import { isTaskId } from "../../delivery/asked_tasks.ts";
import { SendRefusedError } from "../../delivery/message_sender.ts";
import type { SentMessage } from "../../delivery/sent_messages.ts";
import { type Change, TooManyWaitsError } from "../../delivery/waits.ts";
import { CONNECTOR_LIMITS as LIMIT } from "../../limits.ts";
import { json, jsonText, laterJsonText, LocalError, type LocalInput } from "../local_route.ts";
import { agentCard } from "./card.ts";
import { a2aPath } from "../a2a_peers.ts";
import { type ClientMessage, parseCall, type RpcCall, RpcError, type RpcId } from "./rpc_request.ts";
import { isOpen, taskJson, viewOf } from "./task_json.ts";

type CardInput = LocalInput<{ alias: string }, undefined, undefined>;

export function card({ connector, params: { alias }, a2aPeers, origin }: CardInput): Response {
  if (a2aPeers().every((peer) => peer.alias !== alias)) throw new LocalError("NOT_FOUND");
  const { agent: { name: agentName }, version } = connector.options;
  return json(agentCard({ alias, agentName, version, url: origin + a2aPath(alias) }));
}

export async function call({ connector, peer, headers, text }: CardInput): Promise<Response> {
  if (peer === null) throw new LocalError("CONNECTOR_UNAUTHORIZED");
  try {
    const wanted = parseCall(text, headers.get(A2A_VERSION_HEADER));
    return await answer(connector, peer.did, wanted);
  } catch (error) {
    if (!(error instanceof RpcError)) throw error;
    const { code, message, id } = error;
    return json({ jsonrpc: "2.0", id, error: { code: RPC_ERROR[code], message } });
  }
}

async function answer(connector: Connector, peerDid: string, wanted: RpcCall): Promise<Response> {
  const { id } = wanted;
  if (wanted.method === "SendMessage") return await sendMessage(connector, peerDid, wanted.message, id);
  const sent = taskOf(connector, peerDid, wanted.taskId);
  if (sent === null) throw new RpcError("taskNotFound", "There is no such task of this peer", id);
  if (wanted.method === "CancelTask") {
    throw new RpcError("taskNotCancelable", "The message has left, so its task cannot be canceled", id);
  }
  if (isOpen(present(connector, sent))) {
    connector.askedTasks.add(sent);
    if (connector.askedTasks.mayLookUp(sent, connector.deps.clock.now())) {
      await settledWithin(connector.deps.clock, connector.receiptLookup.ask(sent), LIMIT.receiptLookupTimeoutMs);
    }
  }
  return jsonText(resultText(id, presentJson(connector, sent)));
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
  const requestId = `a-${await sha256(`${peerDid}\n${message.messageId}`)}`;
  using owned = new DisposableStack();
  const blocked = message.returnImmediately ? null : connector.askedTasks.block();
  if (blocked !== null) owned.use(blocked);
  const task = { toDid: peerDid, requestId };
  // Before the request leaves: the reply can be faster than the response.
  if (!message.returnImmediately) connector.askedTasks.add(task);
  await deliver(connector, task, message, id);
  const sent = connector.sent.find(requestId, peerDid);
  if (sent === null) throw new RpcError("internal", "The message has made room for others", id);
  const written = () => resultText(id, `{"task":${presentJson(connector, sent)}}`);
  const waiting = blocked === null || !isOpen(present(connector, sent)) ? null : beginWait(connector);
  if (waiting === null) return jsonText(written());
  owned.use(waiting);
  const look = () => isOpen(present(connector, sent)) ? null : true;
  const isAffected = (change: Change) => {
    if (change.kind === "sent") return change.message.requestId === requestId;
    return change.kind === "stored" && change.message.inReplyTo === requestId;
  };
  return laterJsonText(connector, owned.move(), async (signal) => {
    using _receipts = connector.receiptLookup.follow(sent);
    await waiting.until(look, isAffected, LIMIT.a2aBlockMs, signal);
    return written();
  });
}

/** Sends the message, unless it was sent. @throws {RpcError} when there is no task */
async function deliver(
  connector: Connector,
  { toDid, requestId }: { toDid: string; requestId: string },
  { payload, contextId }: ClientMessage,
  id: RpcId,
): Promise<void> {
  const { sent, sender, newId } = connector;
  const known = sent.find(requestId, toDid);
  if (known !== null) {
    const isSame = (sent.payloadOf(known) ?? payload) === payload &&
      (contextId ?? known.conversationId) === known.conversationId;
    if (!isSame) throw new RpcError("params", "Another message had this messageId", id);
    // The request of the others is under way, or its result is known. After these states it is safe to send again (D-69).
    if (known.state !== "unknown" && known.state !== "refused") return;
  }
  const conversationId = contextId ?? known?.conversationId ?? newId();
  try {
    const message = { toDid, requestId, conversationId, payload, origin: "model", mayWait: true } as const;
    const { response: { status, headers } } = await sender.send(message);
    if (status === 429) throw tooMany("The proxy limits the messages of this agent", retryAfterOf(headers), id);
  } catch (error) {
    if (error instanceof SendRefusedError) {
      if (error.code === "PAYLOAD_TOO_LARGE") throw new RpcError("params", error.message, id);
      throw tooMany(error.message, error.retryAfter, id);
    }
    // The row says why it is unknown whether the message has left.
    if (!(error instanceof UnreachableError)) throw error;
  }
}

function retryAfterOf(headers: Headers): number | null {
  return wholeSeconds(headers.get("Retry-After"));
}

function tooMany(why: string, seconds: number | null, id: RpcId): RpcError {
  return new RpcError("internal", seconds === null ? why : `${why}. Try again in ${seconds} s`, id);
}

function taskOf({ sent }: Connector, peerDid: string, taskId: string): SentMessage | null {
  return isTaskId(taskId) ? sent.find(taskId, peerDid) : null;
}

/** The task as it is now. Takes the reply, if there is one: the client processes it. */
function present({ sent, inbox, deps: { clock } }: Connector, task: SentMessage) {
  const now = clock.now();
  // The row may have made room for others.
  return viewOf(sent.find(task.requestId, task.toDid) ?? task, inbox.takeReply(task, now), now);
}

function presentJson(connector: Connector, task: SentMessage): string {
  const view = present(connector, task);
  return taskJson(connector.sent.find(task.requestId, task.toDid) ?? task, view);
}

function beginWait({ waits }: Connector) {
  try {
    return waits.begin();
  } catch (error) {
    if (error instanceof TooManyWaitsError) return null;
    throw error;
  }
}

function resultText(id: RpcId, result: string): string {
  return `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${result}}`;
}
