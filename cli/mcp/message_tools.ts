/** Tools for messages: send one, read the inbox, wait (D-128). Texts of peers are data, which no tool acts on (D-129). */
import * as z from "zod";
import { ApiError, wasRefused } from "../../shared/client/errors.ts";
import { SENT_STATES, type SentState } from "../../shared/client/local_shapes.ts";
import { CliError, describe } from "../errors.ts";
import { sendAndWait } from "../messages/outbound_call.ts";
import { memberOf, type SendResult } from "../messages/received.ts";
import { Conversation, MessageId, Peer, RequestId } from "./arguments.ts";
import { MCP_LIMITS as LIMIT } from "./limits.ts";
import { fitting, ModelMessage, modelMessage } from "./model_message.ts";
import type { McpAgent } from "./mcp_agent.ts";
import { tool, type ToolRow } from "./tool.ts";
import { failureText, localError, shownText, ToolError } from "./tool_result.ts";

const Text = z.string();
const Wait = z.int().min(0).max(LIMIT.waitSeconds);

export const SEND_MESSAGE: ToolRow = tool({
  name: "send_message",
  description:
    "Send a text to a peer; one that is offline gets it later. With wait_seconds the reply is in the result. Set " +
    "reply_to to answer a message of the inbox. The same request_id is the same message: use it to try again.",
  input: z.strictObject({
    to: Peer,
    text: z.string().min(1).max(LIMIT.textCharacters),
    conversation: Conversation.optional(),
    reply_to: MessageId.optional(),
    wait_seconds: Wait.default(0),
    request_id: RequestId.optional(),
  }),
  output: z.object({
    requestId: Text,
    to: Text,
    state: z.enum(SENT_STATES),
    problem: Text.nullable(),
    reply: ModelMessage.nullable(),
    next: Text.describe("What to do now"),
  }),
  isLookup: false,
  hasPeerText: true,
  absent: ({ options }) => options.isReadOnly,
  async run(mcp, args, { signal }) {
    const { clock, connector } = mcp.options;
    const to = mcp.peer(args.to);
    // A message of a peer that this server may not see is not answered either.
    if (args.reply_to !== undefined && mcp.allowed() !== null) await mcp.message(args.reply_to);
    const requestId = args.request_id ?? mcp.newId();
    const sent = await sendAndWait(clock, connector.agentName, connector, {
      members: {
        to,
        requestId,
        prefer: "respond-async",
        origin: "model",
        ...args.conversation === undefined ? {} : { conversationId: args.conversation },
        ...args.reply_to === undefined ? {} : { replyTo: args.reply_to },
      },
      payload: JSON.stringify({ message: args.text }),
      waitSeconds: args.wait_seconds,
      callSeconds: LIMIT.callSeconds,
      signal,
    }).catch((error) => {
      throw withRepeat(error, requestId);
    });
    const { state, problem } = sent.result;
    const { reply, next } = await replyOf(mcp, sent, signal);
    return {
      requestId,
      to: mcp.nameOf(sent.result.to),
      state,
      problem: problem === null ? null : shownText(problem, LIMIT.problemCharacters),
      reply,
      next: next ?? nextAfter(mcp, state, requestId),
    };
  },
});

/** The reply, taken by this server; else what to do. */
async function replyOf(
  mcp: McpAgent,
  { result: { reply }, json }: SendResult,
  signal: AbortSignal,
): Promise<{ reply: ModelMessage | null; next: string | null }> {
  if (reply === null || signal.aborted) return { reply: null, next: null };
  const [taken] = await mcp.take([reply.id]);
  if (taken === undefined) {
    const next = `The reply is message ${reply.id}, which has been read already: read_inbox with id shows it.`;
    return { reply: null, next };
  }
  const message = modelMessage({ message: reply, json: memberOf(json, "reply") });
  return { reply: message, next: "The peer has answered. Go on; write again only if you need more." };
}

function nextAfter({ options: { isPush } }: McpAgent, state: SentState, requestId: string): string {
  switch (state) {
    case "refused":
    case "dead_lettered":
      return "The peer did not get it: problem has the reason. Do not send it again without a change.";
    case "unknown":
    case "sending":
      return `It is not known whether it arrived: send the same text with request_id ${requestId} to make sure.`;
    default:
      return isPush
        ? "No reply yet: go on; a reply goes to the runtime of this agent."
        : "No reply yet: call wait_for_message, or go on; it will be in the inbox.";
  }
}

/** Adds how to send the same message again, unless it was certainly not sent. */
function withRepeat(error: unknown, requestId: string): unknown {
  const isLoopGuard = error instanceof ApiError && error.status === 429;
  if (wasRefused(error) || isLoopGuard || !(error instanceof ApiError || error instanceof CliError)) return error;
  const { code, cause } = describe(error);
  const fix = `Send the same text with request_id ${requestId} again: the message is delivered once`;
  return new ToolError(failureText(code, [cause], fix));
}

export const READ_INBOX: ToolRow = tool({
  name: "read_inbox",
  description:
    "Take unread messages, oldest first; each is returned once. unread_only:false shows the newest that were read. " +
    "With id: that message; with offset too: more of a text that was cut.",
  input: z.strictObject({
    unread_only: z.boolean().default(true),
    from: Peer.optional(),
    conversation: Conversation.optional(),
    limit: z.int().min(1).max(LIMIT.readMessages).default(LIMIT.readDefaultMessages),
    id: MessageId.optional(),
    offset: z.int().min(0).max(Number.MAX_SAFE_INTEGER).optional().describe("Needs id; in a cut text, where to go on"),
  }),
  output: z.object({ messages: z.array(ModelMessage), more: z.boolean() }),
  isLookup: false,
  hasPeerText: true,
  absent: ({ options }) => options.isPush,
  async run(mcp, { unread_only, from, conversation, limit, id, offset }, { signal }) {
    if (offset !== undefined && id === undefined) {
      throw localError("CONNECTOR_INVALID_BODY", "Invalid arguments: offset needs id", "Give the id of the message.");
    }
    if (id !== undefined) return { messages: await oneMessage(mcp, id, offset ?? 0), more: false };
    if (!unread_only) {
      const page = await mcp.page({ unread: false, newest: true, from, conversation, limit });
      const newest = fitting(page.messages.map((received) => modelMessage(received)).reverse()).reverse();
      return { messages: newest, more: page.more || newest.length < page.messages.length };
    }
    const { isReadOnly } = mcp.options;
    for (let tries = 1;; tries++) {
      const read = await mcp.unread({ from, conversation, limit, newest: isReadOnly }, signal);
      // Another server has taken the whole page.
      if (read.messages.length > 0 || !read.more || tries === LIMIT.readTries) return read;
    }
  },
});

/** A message by its ID. An unread one is taken first, and not returned when another server takes it. */
async function oneMessage(mcp: McpAgent, id: number, offset: number): Promise<ModelMessage[]> {
  const received = await mcp.message(id);
  const isTaken = received.message.readAt !== null || mcp.options.isReadOnly ||
    (await mcp.take([id])).includes(id);
  return isTaken ? [modelMessage(received, offset)] : [];
}

export const WAIT_FOR_MESSAGE: ToolRow = tool({
  name: "wait_for_message",
  description: "Wait for the next unread messages and take them. Returns at once when there are some.",
  input: z.strictObject({
    from: Peer.optional(),
    conversation: Conversation.optional(),
    timeout_seconds: z.int().min(1).max(LIMIT.waitSeconds).default(LIMIT.waitDefaultSeconds),
  }),
  output: z.object({
    messages: z.array(ModelMessage),
    timedOut: z.boolean(),
    next: Text.describe("What to do now"),
  }),
  isLookup: false,
  hasPeerText: true,
  absent: ({ options }) => options.isPush,
  async run(mcp, { from, conversation, timeout_seconds }, { signal }) {
    const messages = await mcp.next({ from, conversation }, timeout_seconds, signal);
    const timedOut = messages.length === 0;
    const next = timedOut
      ? "No message came. Go on with your task, or call wait_for_message again."
      : mcp.options.isReadOnly
      ? "The messages stay unread: this server only reads."
      : "To answer a message, call send_message with reply_to.";
    return { messages, timedOut, next };
  },
});
