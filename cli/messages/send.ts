/**
 * Sends a message for `svc send` and `svc reply` (D-120): through the connector that runs, else directly to the proxy. With
 * `--wait`, and for a reply to a stored message, a connector is needed; this process runs one if no other does (D-119).
 */
import { apiErrorOf } from "../../shared/client/http.ts";
import { ApiError, UnreachableError } from "../../shared/client/errors.ts";
import type { OutboundResult } from "../../shared/client/local_shapes.ts";
import { answeredState, messageRequest } from "../../shared/client/message_request.ts";
import { ConversationId } from "../../shared/protocol/api/relay.ts";
import { isRequestId, ulidSource } from "../../shared/protocol/ids.ts";
import { chosenAgent } from "../agents/agent_choice.ts";
import type { AgentFolder, AgentStore } from "../agents/agent_store.ts";
import { ConnectorClient, ConnectorEndedError } from "../connector/local_api/client.ts";
import { CONNECTOR_LIMITS as LIMIT } from "../connector/limits.ts";
import { directProxy } from "../connector/link/direct_proxy.ts";
import { shownAliases } from "../connector/peers.ts";
import type { Context } from "../context.ts";
import { CliError, EXIT } from "../errors.ts";
import { type Given, payloadOf } from "./payload.ts";
import { recipientOf } from "./recipient.ts";
import { type LocalCaller, sendAndWait, type Sending } from "./outbound_call.ts";
import { contentLines, memberOf, type SendResult } from "./received.ts";

/** A message that a person or a program wants to send. */
export interface Wanted extends Given {
  agent: string | undefined;
  /** Alias or DID; or the inbox ID of the message that this one answers. */
  to: string | { replyTo: number };
  conversationId?: string | undefined;
  requestId?: string | undefined;
  onlyOnline: boolean;
  /** Seconds to wait for the reply; `null`: does not wait. */
  waitSeconds: number | null;
  allowInsecure: boolean;
}

/**
 * Sends a message, waits for the reply if that is wanted, and prints the result. Returns the exit code.
 *
 * @throws {CliError} `CLI_USAGE`, `PAYLOAD_TOO_LARGE`, `CLI_CONNECTOR_DOWN`; `CLI_NO_REPLY` when no reply came in time
 * @throws {ApiError} the refusal of the connector or of the proxy
 */
export async function sendMessage(ctx: Context, wanted: Wanted): Promise<number> {
  checkHeaders(wanted);
  const agent = await chosenAgent(ctx, wanted.agent);
  const payload = await payloadOf(ctx, wanted);
  const requestId = wanted.requestId ?? ulidSource(() => ctx.clock.now(), (count) => ctx.random.bytes(count))();
  const message = { ...wanted, payload, requestId };
  try {
    const isNow = wanted.waitSeconds === null && typeof wanted.to === "string";
    return isNow ? await sendNow(ctx, agent, message) : await sendWith(ctx, agent.folder, message);
  } catch (error) {
    throw withRepeat(error, requestId);
  }
}

type Message = Wanted & { payload: string; requestId: string };

function checkHeaders({ requestId, conversationId }: Wanted): void {
  if (requestId !== undefined && !isRequestId(requestId)) {
    throw new CliError("CLI_USAGE", "--request-id must be 8 to 128 of A-Z, a-z, 0-9, '.', '_', ':' and '-'");
  }
  if (conversationId !== undefined && !ConversationId.safeParse(conversationId).success) {
    throw new CliError("CLI_USAGE", "--conversation must be 1 to 128 visible ASCII characters without a comma");
  }
}

async function sendNow(
  ctx: Context,
  agent: { store: AgentStore; folder: AgentFolder },
  message: Message,
): Promise<number> {
  const client = await ConnectorClient.of(ctx, agent.folder);
  try {
    if (client !== null) return await report(ctx, agent.folder, message, await through(ctx, client, agent, message));
  } catch (error) {
    // The connector has just ended and has not got the message.
    if (!(error instanceof ConnectorEndedError)) throw error;
  }
  return await report(ctx, agent.folder, message, await directly(ctx, agent, message));
}

/** Sends with access to a connector, and marks the reply read after it was printed. */
async function sendWith(ctx: Context, folder: AgentFolder, message: Message): Promise<number> {
  const { access } = await import("../connector/attach.ts");
  await using connector = await access(ctx, folder, { "allow-insecure": message.allowInsecure });
  const sent = await through(ctx, connector, { folder }, message);
  return await report(ctx, folder, message, sent, async (id) => {
    await connector.call("POST", "/v1/inbox/read", { ids: [id] }, LIMIT.callTimeoutMs, true);
  });
}

/** Sends through a connector. The same request ID makes a repeated call safe (D-69). */
async function through(
  ctx: Context,
  connector: LocalCaller,
  { folder: { name } }: { folder: AgentFolder },
  message: Message,
): Promise<SendResult> {
  const { to, requestId, conversationId, onlyOnline, payload, waitSeconds } = message;
  const members: Sending["members"] = {
    ...typeof to === "string" ? { to } : to,
    ...conversationId === undefined ? {} : { conversationId },
    ...onlyOnline ? {} : { prefer: "respond-async" },
    requestId,
    origin: ctx.stdinIsTerminal ? "person" : "program",
  };
  if (waitSeconds !== null) ctx.out.doing("Waiting for the reply");
  return await sendAndWait(ctx.clock, name, connector, { members, payload, waitSeconds: waitSeconds ?? 0 });
}

/** Signs and posts the message. Takes no lock and leaves no row in `sent`. */
async function directly(
  ctx: Context,
  agent: { store: AgentStore; folder: AgentFolder },
  { to: wanted, payload, requestId, conversationId, onlyOnline, allowInsecure }: Message,
): Promise<SendResult> {
  using direct = await directProxy(ctx, agent, allowInsecure);
  const to = await recipientOf(direct.proxy, agent.folder, String(wanted));
  ctx.out.doing(`Calling ${direct.proxy.place.dialUrl}`);
  const request = await messageRequest({ to, payload, requestId, conversationId, mayWait: !onlyOnline });
  const response = await direct.proxy.call(request);
  const error = apiErrorOf(response);
  if (error) throw error;
  const result: OutboundResult = { requestId, to, ...answeredState(response.text), reply: null };
  return { result, json: JSON.stringify(result) };
}

/** Prints the result: the reply to standard output, the state to standard error. Returns the exit code. */
async function report(
  ctx: Context,
  folder: AgentFolder,
  { waitSeconds }: Message,
  { result, json }: SendResult,
  markRead: (id: number) => Promise<void> = () => Promise.resolve(),
): Promise<number> {
  const { reply, state, problem, expiresAt, requestId } = result;
  const peer = shownAliases(folder).get(result.to) ?? result.to;
  const received = reply && { message: reply, json: memberOf(json, "reply") };
  const isPrinted = ctx.out.json
    ? ctx.out.jsonLine(json)
    : received === null || ctx.out.peerLines(contentLines(received));
  if (reply !== null) {
    // An unread reply is shown again, so a failure loses nothing.
    if (isPrinted) await markRead(reply.id).catch(() => ctx.out.warn(`The reply ${reply.id} is still unread`));
    return EXIT.done;
  }
  const details = [problem, expiresAt === null ? null : `until ${expiresAt}`].filter((part) => part !== null);
  const what = [state.replace("_", "-"), ...details].join(", ");
  if (state === "refused" || state === "dead_lettered" || waitSeconds === null) {
    ctx.out.note(`Sent to ${peer}: ${what} (${requestId})`);
    if (state === "unknown") return EXIT.unreachable;
    return state === "refused" || state === "dead_lettered" ? EXIT.failed : EXIT.done;
  }
  throw new CliError("CLI_NO_REPLY", `No reply of ${peer} came within ${waitSeconds} s; ${requestId} is ${what}`);
}

/** Adds how to send the same message again to an error after which it is not known whether the proxy has it. */
function withRepeat(error: unknown, requestId: string): unknown {
  const fix = `Run the command again with --request-id ${requestId}: the message is delivered once.`;
  if (error instanceof UnreachableError) {
    return new UnreachableError(error.message, { cause: error, code: error.code, fix: error.fix ?? fix });
  }
  if (error instanceof ApiError && error.code === "CONNECTOR_PROXY_UNREACHABLE") error.fix = fix;
  // With a cause a request was under way; without one nothing was sent, and the error has its own fix.
  const isLost = error instanceof CliError && error.code === "CLI_CONNECTOR_DOWN" && error.cause !== undefined;
  if (isLost) return new CliError("CLI_CONNECTOR_DOWN", error.message, { cause: error, fix });
  return error;
}
