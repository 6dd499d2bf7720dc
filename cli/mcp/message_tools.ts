/** Tools for messages: send one, read the inbox, wait. Texts of peers are data, which no tool acts on. */
import { Conversation, MessageId, Peer, RequestId, tool, type ToolCall, type ToolRow } from "./tool.ts";
import { ApiError, LocalDown, wasRefused } from "../../shared/client/errors.ts";
import { sendAndWait, type SendResult } from "../../shared/client/local_client.ts";
import { type OutboundResult, SENT_STATES } from "../../shared/client/local_shapes.ts";
import { sleep } from "../../shared/clock.ts";
import { CONNECTOR_LIMITS as LIMIT } from "../connector/limits.ts";
import { statusOf } from "../connector/status.ts";
import { CliError, describe, fixOf } from "../errors.ts";
import { memberOf } from "../messages/received.ts";
import { fitting, ModelMessage, modelMessage } from "./model_message.ts";
import { CALL_SECONDS, type McpAgent } from "./mcp_agent.ts";
import { failureText, forPerson, localError, PROBLEM_CHARACTERS_MAX, shownText, ToolError } from "./tool_result.ts";
import { LONG_WAIT_SECONDS, WAIT_DEFAULT_SECONDS, WAIT_SECONDS } from "./waits.ts";
import * as z from "zod";

/** With more, the JSON of a text could be larger than the largest payload, which the sender would learn late. */
const TEXT_CHARACTERS_MAX = 100_000;
/** With more, one call fills the context of a model that asked for no number. */
const READ_MESSAGES_DEFAULT = 10;
/** With more, the last messages would not fit into a result anyway. */
const READ_MESSAGES_MAX = 20;
/**
 * How often a page is read until a free message is found. With more, a model waits longer when other MCP servers take
 * every message. With less, it is told that there is none although some are free.
 */
const READ_TRIES = 5;

const Text = z.string();
/** Any object, unchanged, because `z.record` would drop a member `__proto__`, and the peer would not get it. */
const Data = z.unknown().refine((data) => data instanceof Object && !Array.isArray(data), {
  error: "must be an object",
})
  .transform((data) => data as Record<string, unknown>).meta({ type: "object", additionalProperties: {} });
/** What a model reads about waits. */
const LONG_WAITS = `Over ${WAIT_SECONDS} only if your program shows progress and waits as long; else it ends earlier`;
const Wait = z.int().min(0).max(LONG_WAIT_SECONDS).describe(`${LONG_WAITS}, without an answer`);

export const SEND_MESSAGE: ToolRow = tool({
  name: "send_message",
  description:
    "Send a text, data or both to a peer; one that is offline gets it later. With wait_seconds the reply is in the " +
    "result. Set reply_to to answer a message of the inbox. The same request_id is the same message: use it to try again.",
  input: z.strictObject({
    to: Peer,
    text: z.string().min(1).max(TEXT_CHARACTERS_MAX).optional(),
    data: Data.optional().describe("Members of the message beside its text, for programs"),
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
  hasPeerText: true,
  errorOf: ({ reply }) => reply?.error ?? null,
  absent: ({ options }) => options.isReadOnly,
  async run(mcp, args, call) {
    const { clock, connector } = mcp.options;
    const payload = payloadOf(args);
    const did = mcp.peer(args.to);
    // The connector says of an alias that its pair has ended. A server of few peers keeps to the one that it has checked.
    const to = mcp.allowed() === null ? args.to : did;
    // Throws for a message of a peer that this server may not see, because the model's answer would go to that peer.
    if (args.reply_to !== undefined && mcp.allowed() !== null) await mcp.message(args.reply_to);
    const requestId = args.request_id ?? mcp.newId();
    const sent = await sendAndWait(connector, clock, {
      members: {
        to,
        requestId,
        prefer: "respond-async",
        keep: true,
        origin: "model",
        ...args.conversation === undefined ? {} : { conversationId: args.conversation },
        ...args.reply_to === undefined ? {} : { replyTo: args.reply_to },
      },
      payload,
      waitSeconds: Math.min(args.wait_seconds, call.maxWaitSeconds),
      callSeconds: CALL_SECONDS,
      signal: call.signal,
    }).catch((error) => {
      throw withRepeat(error, requestId, mcp.options.named);
    });
    const { state, problem } = sent.result;
    const { reply, next } = await replyOf(sent, call);
    return {
      requestId,
      to: mcp.nameOf(sent.result.to),
      state,
      problem: problem === null ? null : shownText(problem, PROBLEM_CHARACTERS_MAX),
      reply,
      next: next ?? nextAfter(mcp, sent.result),
    };
  },
});

/** The reply, held for the model, and what to do next; no reply when another program has read it. */
async function replyOf(
  { result: { reply }, json }: SendResult,
  { signal, answer }: ToolCall,
): Promise<{ reply: ModelMessage | null; next: string | null }> {
  if (reply === null || signal.aborted) return { reply: null, next: null };
  const [held] = await answer.hold([reply.id]);
  if (held === undefined) {
    const next = `The reply is message ${reply.id}, which has been read already: read_inbox with id shows it.`;
    return { reply: null, next };
  }
  const message = modelMessage({ message: reply, json: memberOf(json, "reply") });
  const next = message.error === null
    ? "The peer has answered. Go on; write again only if you need more."
    : "The peer could not answer: reply.error has its reason. Ask again only if that can change.";
  return { reply: message, next };
}

/** The payload of a message as JSON text. @throws {ApiError} `CONNECTOR_INVALID_BODY` */
function payloadOf({ text, data }: { text?: string | undefined; data?: Record<string, unknown> | undefined }): string {
  if (text === undefined && data === undefined) {
    throw localError("CONNECTOR_INVALID_BODY", "Invalid arguments: text is missing", "Give text, data or both.");
  }
  if (text !== undefined && data !== undefined && Object.hasOwn(data, "message")) {
    throw localError("CONNECTOR_INVALID_BODY", "Invalid arguments: data has a message", "Give it as text only.");
  }
  return JSON.stringify(text === undefined ? data : { message: text, ...data });
}

function nextAfter({ options: { isPush, named } }: McpAgent, { state, problem, requestId }: OutboundResult): string {
  const forUser = forPerson(fixOf(problem ?? ""), named);
  switch (state) {
    case "refused":
    case "dead_lettered":
      return "The peer did not get it: problem has the reason. Do not send it again without a change.";
    case "kept":
      return `The server does not take it now: it is kept and sent later. Do not send it again. ${forUser}`.trim();
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
function withRepeat(error: unknown, requestId: string, named: (text: string) => string): unknown {
  // The proxy has another message with that ID, so it would refuse this one each time.
  const isReused = error instanceof ApiError && error.code === "PROXY_HOOK_REQUEST_ID_REUSED";
  const isLoopGuard = error instanceof ApiError && error.status === 429;
  const isKnown = error instanceof ApiError || error instanceof CliError || error instanceof LocalDown;
  if (wasRefused(error) || isLoopGuard || isReused || !isKnown) return error;
  const { code, cause, fix } = describe(error);
  // Each attempt would fail until a person has done this.
  const before = code === "CONNECTOR_DISK_FULL"
    ? `Tell your user: ${fix}`
    : error instanceof LocalDown
    ? ""
    : forPerson(fix, named);
  const again = `Send the same text with request_id ${requestId} again: the message is delivered once`;
  return new ToolError(failureText(code, [cause, before], again));
}

export const READ_INBOX: ToolRow = tool({
  name: "read_inbox",
  description:
    "Take unread messages, oldest first; each is returned once. unread_only:false shows the newest that were read. " +
    "With id: that message; with offset too: more of a text that was cut.",
  descriptionWhenReadOnly:
    "Show the newest unread messages. They stay unread, so the next call shows them again. unread_only:false shows the " +
    "newest that were read. With id: that message; with offset too: more of a text that was cut.",
  input: z.strictObject({
    unread_only: z.boolean().default(true),
    from: Peer.optional(),
    conversation: Conversation.optional(),
    limit: z.int().min(1).max(READ_MESSAGES_MAX).default(READ_MESSAGES_DEFAULT),
    id: MessageId.optional(),
    offset: z.int().min(0).max(Number.MAX_SAFE_INTEGER).optional().describe("Needs id; nextOffset of a cut text"),
  }),
  output: z.object({ messages: z.array(ModelMessage), more: z.boolean(), next: Text.describe("What to do now") }),
  hasPeerText: true,
  absent: ({ options }) => options.isPush,
  async run(mcp, { unread_only, from, conversation, limit, id, offset }, call) {
    if (offset !== undefined && id === undefined) {
      throw localError("CONNECTOR_INVALID_BODY", "Invalid arguments: offset needs id", "Give the id of the message.");
    }
    if (id !== undefined) {
      const messages = await oneMessage(mcp, id, offset ?? 0, call);
      const isHeld = "Another program reads this message now. If it does not take it, it is unread again soon.";
      return { messages, more: false, next: messages.length === 0 ? isHeld : afterMessages(mcp) };
    }
    if (!unread_only) {
      const page = await mcp.page({ unread: false, newest: true, from, conversation, limit });
      const newest = fitting(page.messages.map((received) => modelMessage(received)).reverse()).reverse();
      const more = page.more || newest.length < page.messages.length;
      return { messages: newest, more, next: more ? "from, conversation or id shows older ones." : "These are all." };
    }
    const { isReadOnly } = mcp.options;
    for (let tries = 1;; tries++) {
      const read = await mcp.unread({ from, conversation, limit, newest: isReadOnly }, call);
      if (read.messages.length > 0) return { ...read, next: afterMessages(mcp) };
      // Reads again when another server has taken the whole page.
      const isOver = tries === READ_TRIES || !read.more && (tries > 1 || !await isArriving(mcp, call));
      if (isOver) return { ...read, next: `No unread message. ${await whyMissing(mcp)}`.trim() };
    }
  },
});

function afterMessages({ options: { isReadOnly } }: McpAgent): string {
  return isReadOnly
    ? "The messages stay unread: this server only reads."
    : "To answer a message, call send_message with reply_to.";
}

/**
 * Returns false when nothing is to come from a link that is new; else waits for it. Without the wait, a model that begins
 * with its inbox would be told that it is empty, while the server still sends what has waited there.
 */
async function isArriving({ options: { connector, clock } }: McpAgent, { signal }: ToolCall): Promise<boolean> {
  const { connection: { state, since } } = await statusOf(connector);
  // Without the absolute value, each look would wait for as long as the clock was set back.
  const isNew = state === "connected" && Math.abs(clock.now() - Date.parse(since)) < LIMIT.queuedWaitMs;
  // A link that failed is opened again after a pause, for which each look would wait in vain.
  if (!isNew && state !== "connecting") return false;
  await sleep(clock, LIMIT.queuedWaitMs, signal);
  return true;
}

/** Says why an inbox may lack messages, because a model would otherwise take it that no peer has written. */
async function whyMissing({ options: { connector } }: McpAgent): Promise<string> {
  const { connection: { state, problem }, inbox } = await statusOf(connector);
  const shown = (text: string) => shownText(text, PROBLEM_CHARACTERS_MAX);
  if (inbox.problem !== null) {
    return `New ones cannot be stored here, which your user must know: ${shown(inbox.problem)}. `;
  }
  if (state === "connected") return "";
  return `New ones may wait at the server, to which there is no link${problem === null ? "" : `: ${shown(problem)}`}. `;
}

/** Returns the message with this ID; none while another server holds it, because two models could then act on it. */
async function oneMessage(mcp: McpAgent, id: number, offset: number, { answer }: ToolCall): Promise<ModelMessage[]> {
  const received = await mcp.message(id);
  const isFree = received.message.readAt !== null || mcp.options.isReadOnly || (await answer.hold([id])).includes(id);
  return isFree ? [modelMessage(received, offset)] : [];
}

export const WAIT_FOR_MESSAGE: ToolRow = tool({
  name: "wait_for_message",
  description: "Wait for the next unread messages and take them. Returns at once when there are some.",
  descriptionWhenReadOnly:
    "Wait for unread messages that this tool has not returned yet. They stay unread. Returns at once when there are some.",
  input: z.strictObject({
    from: Peer.optional(),
    conversation: Conversation.optional(),
    timeout_seconds: z.int().min(1).max(LONG_WAIT_SECONDS).default(WAIT_DEFAULT_SECONDS).describe(LONG_WAITS),
  }),
  output: z.object({
    messages: z.array(ModelMessage),
    timedOut: z.boolean(),
    next: Text.describe("What to do now"),
  }),
  hasPeerText: true,
  absent: ({ options }) => options.isPush,
  async run(mcp, { from, conversation, timeout_seconds }, call) {
    const wanted = { from, conversation, limit: READ_MESSAGES_MAX };
    const messages = await mcp.next(wanted, Math.min(timeout_seconds, call.maxWaitSeconds), call);
    const timedOut = messages.length === 0;
    const next = timedOut
      ? `No message came. ${await whyMissing(mcp)}Go on with your task, or call wait_for_message again.`
      : afterMessages(mcp);
    return { messages, timedOut, next };
  },
});
