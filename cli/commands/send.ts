/**
 * `svc send` and `svc reply`: send a message through the connector that runs, else directly to the proxy, and print the
 * reply. With `--wait`, and for a reply to a stored message, a connector is needed; this process runs one if no other
 * does.
 */
import { dayAndTime } from "../terminal/times.ts";
import { ApiError, LocalDown, UnreachableError } from "../../shared/client/errors.ts";
import {
  type LocalCalls,
  readMessages,
  sendAndWait,
  type SendResult,
  type WaitedMessage,
} from "../../shared/client/local_client.ts";
import type { OutboundResult } from "../../shared/client/local_shapes.ts";
import { ConversationId } from "../../shared/protocol/api/relay.ts";
import { isRequestId, REQUEST_ID_FORM, ulidSource } from "../../shared/protocol/ids.ts";
import { payloadProblem } from "../../shared/protocol/payload_bounds.ts";
import { type AgentFolder, chosenAgent } from "../agents/agent_store.ts";
import { type Access, access, connectorOf, NeedsConnectorError } from "../connector/attach.ts";
import { ConnectorLockedError } from "../connector/connector_lock.ts";
import { hostsOfPeers, shownAliases } from "../connector/peers/peers.ts";
import type { Context } from "../context.ts";
import { statusOf } from "../connector/status.ts";
import { CliError, describe, EXIT } from "../errors.ts";
import { contentLines, memberOf } from "../messages/received.ts";
import { utf8Bytes } from "../../shared/protocol/base64url.ts";
import { readAtMost } from "../files/private_files.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { problemText, refusalText, stateText } from "../connector/states.ts";
import { idCell } from "../terminal/tables.ts";
import { AGENT_OPTION, command, type Input, REGISTRY_OPTIONS } from "../command_line/command.ts";
import { parseCount, parseMessageNumber } from "../command_line/numbers.ts";

/** Default and longest wait for a reply, in seconds. */
const TIMEOUT = 60, MAX_TIMEOUT = 3_600;
const WAITING = "Waiting for the reply";

const TEXT = {
  summary: "The text; - reads standard input, which is also read without a text in a pipe",
  optional: true,
} as const;
const CONTENT = {
  ...AGENT_OPTION,
  data: { value: "json", summary: "JSON payload in place of a text; - reads standard input" },
  file: { value: "path", summary: "Read the text from this file", complete: "files" },
  "request-id": { value: "id", summary: "Request ID; a message with the same one is delivered once" },
  wait: { summary: "Wait for the reply and print it" },
  timeout: { value: "seconds", summary: `How long to wait, 1 to ${MAX_TIMEOUT} (default ${TIMEOUT})` },
  "allow-insecure": REGISTRY_OPTIONS["allow-insecure"],
} as const;

const SEND_OPTIONS = {
  ...CONTENT,
  conversation: { value: "id", summary: "Conversation of the message" },
  "only-online": { summary: "Do not let the message wait for a peer that is offline" },
} as const;

export const COMMANDS = [
  command({
    path: ["send"],
    summary: "Send a message to a peer, and with --wait print the reply",
    details: [
      "The reply goes to standard output, the state of the message to standard error. A peer that is offline gets the",
      "message when it connects; while the server cannot be reached, a connector that runs keeps it and sends it later. Exits with 1 if the peer did not accept it or could not answer, and with 6 if no reply came",
      "in time.",
    ],
    args: { peer: { summary: "Alias or DID of the peer, from svc peers", complete: "peers" }, text: TEXT },
    options: SEND_OPTIONS,
    examples: {
      'svc send beta "Hello beta"': "Send a text",
      'svc send beta --wait "How many tests fail?"': "Ask, and print only the answer to stdout",
    },
    run: (ctx, { args: { peer, text }, options }) => sendMessage(ctx, peer, text, options),
  }),
  command({
    path: ["reply"],
    summary: "Reply to a message of the inbox, which is then read",
    details: ["The reply keeps the conversation of the message."],
    args: { id: { summary: "Number of the message, from svc inbox" }, text: TEXT },
    options: CONTENT,
    examples: { 'svc reply 17 "All tests pass"': "Answer message 17" },
    async run(ctx, { args: { id, text }, options }) {
      // Without the words for this folder, which each fix of an error gets when it is printed, because twice is refused.
      const example = ctx.out.commandLine(["reply", "17", text ?? id], { isHere: false });
      const replyTo = parseMessageNumber(id, `The number comes first, as svc inbox shows it: ${example}`);
      return await sendMessage(ctx, { replyTo }, text, { ...options, conversation: undefined, "only-online": false });
    },
  }),
];

interface Message {
  /** Alias or DID; or the inbox ID of the message that this one answers. */
  to: string | { replyTo: number };
  /** JSON text. */
  payload: string;
  requestId: string;
  conversationId: string | undefined;
  onlyOnline: boolean;
  /** Seconds to wait for the reply; `null` to wait for none. */
  waitSeconds: number | null;
}

type SendOptions = Input<Record<never, never>, typeof SEND_OPTIONS>["options"];

/**
 * Sends a message, waits for the reply if that is wanted, and prints the result. Returns the exit code.
 *
 * @throws {CliError} `CLI_USAGE`, `PAYLOAD_TOO_LARGE`, `CLI_CONNECTOR_DOWN`; `CLI_NO_REPLY` when no reply came in time
 * @throws {ApiError} the refusal of the connector or of the proxy
 */
async function sendMessage(ctx: Context, to: Message["to"], text: string | undefined, options: SendOptions) {
  const { wait, timeout, conversation: conversationId, "only-online": onlyOnline, "request-id": given } = options;
  if (!wait && timeout !== undefined) throw new CliError("CLI_USAGE", "--timeout needs --wait");
  const waitSeconds = wait ? parseCount(timeout ?? `${TIMEOUT}`, "--timeout", MAX_TIMEOUT) : null;
  if (given !== undefined && !isRequestId(given)) {
    throw new CliError("CLI_USAGE", `--request-id must be ${REQUEST_ID_FORM}`);
  }
  if (conversationId !== undefined && !ConversationId.safeParse(conversationId).success) {
    throw new CliError("CLI_USAGE", "--conversation must be 1 to 128 visible ASCII characters without a comma");
  }
  const folder = await chosenAgent(ctx, options.agent);
  const payload = await payloadOf(ctx, text, options);
  const requestId = given ?? ulidSource(() => ctx.clock.now(), (count) => ctx.random.bytes(count))();
  const message: Message = { to, payload, requestId, conversationId, onlyOnline, waitSeconds };
  try {
    const isNow = waitSeconds === null && typeof to === "string";
    return isNow ? await sendNow(ctx, folder, message) : await sendWith(ctx, folder, message);
  } catch (error) {
    if (error instanceof ApiError && error.code === "CONNECTOR_PEER_BLOCKED" && typeof to === "string") {
      error.fix = `To end that: ${
        ctx.out.commandLine(["peers", "unblock", to, "--agent", folder.name], { isHere: false })
      }`;
    }
    throw withRepeat(error, requestId, ctx.out.commandLine(["connector", "start", folder.name], { isHere: false }));
  }
}

async function sendNow(ctx: Context, folder: AgentFolder, message: Message): Promise<number> {
  const client = await connectorOf(ctx, folder);
  if (client !== null) ctx.out.doing(`Waiting for the connector of ${folder.name}`);
  try {
    if (client !== null) return await report(ctx, folder, message, await through(ctx, client, message));
  } catch (error) {
    // The connector ended before it got the message, so this process sends the message to the proxy.
    if (!(error instanceof LocalDown) || error.wasSent) throw error;
  }
  try {
    return await report(ctx, folder, message, await directly(ctx, folder, message));
  } catch (error) {
    // By its DID, because the alias of a peer that proves its key changes.
    if (error instanceof NeedsConnectorError) return await sendWith(ctx, folder, { ...message, to: error.did });
    if (!(error instanceof ConnectorLockedError)) throw error;
    // A connector has started meanwhile, so the message goes through it.
    return await sendWith(ctx, folder, message);
  }
}

/** Sends through a connector that runs, or that this process runs. Marks the reply read after it was printed. */
async function sendWith(ctx: Context, folder: AgentFolder, message: Message): Promise<number> {
  await using connector = await access(ctx, folder);
  const onState = (result: OutboundResult) => {
    const note = waitingNote(folder, result);
    if (note === null) return;
    ctx.out.note(note);
    ctx.out.doing(WAITING);
  };
  const sent = await through(ctx, connector, message, onState);
  return await report(ctx, folder, message, sent, connector);
}

/** Sends through a connector. A repeated call has the same request ID, so the message is delivered once. */
async function through(
  ctx: Context,
  connector: LocalCalls,
  message: Message,
  onState?: (result: OutboundResult) => void,
): Promise<SendResult> {
  const { to, requestId, conversationId, onlyOnline, payload, waitSeconds } = message;
  const members: WaitedMessage["members"] = {
    ...typeof to === "string" ? { to } : to,
    ...conversationId === undefined ? {} : { conversationId },
    ...onlyOnline ? {} : { prefer: "respond-async", keep: true },
    requestId,
    origin: ctx.stdinIsTerminal ? "person" : "program",
  };
  if (waitSeconds === null) return await sendAndWait(connector, ctx.clock, { members, payload, waitSeconds: 0 });
  ctx.out.doing(WAITING);
  const waited = { members, payload, waitSeconds, ...onState === undefined ? {} : { onState } };
  return await sendAndWait(connector, ctx.clock, waited);
}

/** Sends without a connector. @throws {ApiError} the refusal of the proxy, or of this machine (a blocked peer) */
async function directly(
  ctx: Context,
  folder: AgentFolder,
  { to, payload, requestId, conversationId, onlyOnline }: Message,
): Promise<SendResult> {
  // Loaded only here, because a command that uses a running connector needs none of these modules.
  const { sendDirectly } = await import("../messages/send_directly.ts");
  const origin = ctx.stdinIsTerminal ? "person" : "program";
  const message = { to: String(to), payload, requestId, conversationId, mayWait: !onlyOnline, origin } as const;
  try {
    return await sendDirectly(ctx, folder, message);
  } catch (error) {
    // This machine may still know the alias of a peer although the server has ended the pair, so the error says that.
    if (!(error instanceof ApiError && error.code === "PROXY_AUTH_FORBIDDEN")) throw error;
    const { status, code } = error, { name } = folder;
    const ended = new ApiError(status, code, `The agents ${name} and ${to} are not paired`, error.requestId);
    ended.fix = `To pair again: svc connector start ${name}, then press p, or paste a ticket of the other person.`;
    throw ended;
  }
}

/** Prints the reply to standard output and the state to standard error. Returns the exit code. */
async function report(
  ctx: Context,
  folder: AgentFolder,
  { waitSeconds }: Message,
  { result, json }: SendResult,
  connector?: Access,
): Promise<number> {
  const { reply, state, problem, expiresAt, requestId } = result;
  const peer = shownAliases(folder).get(result.to) ?? result.to;
  const received = reply && { message: reply, json: memberOf(json, "reply") };
  const error = reply?.error ?? null;
  if (error !== null) ctx.out.note(`${peer} could not answer: ${error.code}: ${error.message}`);
  // An error is not an answer, so a program that reads standard output must not get it as one.
  const isPrinted = ctx.out.json
    ? ctx.out.jsonLine(json)
    : received === null || error !== null || ctx.out.peerLines(contentLines(received));
  if (reply !== null) {
    // A failure is only a warning, because a reply that stays unread is shown again.
    if (isPrinted && connector) {
      await readMessages(connector, { ids: [reply.id] })
        .catch(() => ctx.out.warn(`The reply ${reply.id} is still unread`));
    }
    return error === null ? EXIT.done : EXIT.failed;
  }
  const why = problem === null ? null : problemText(problem, peer);
  const until = expiresAt === null ? "" : ` until ${ctx.out.showsIds ? expiresAt : dayAndTime(expiresAt)}`;
  const id = ctx.out.shown(idCell(requestId));
  if (state === "kept" && waitSeconds === null) {
    ctx.out.note(`${keptNote(result, hostsOfPeers(folder)(result.to) ?? undefined)} (${id})`);
    return EXIT.done;
  }
  const shown = stateText({ ...result, nextTryAt: null }, ctx.clock.now(), peer, hostsOfPeers(folder)(result.to));
  const what = shown + until + (why !== null && (state === "kept" || state === "unknown") ? `: ${why}` : "");
  if (state === "refused" || state === "dead_lettered" || waitSeconds === null) {
    ctx.out.note(`Sent to ${peer}: ${what} (${id})`);
    if (state === "unknown") return EXIT.unreachable;
    return state === "refused" || state === "dead_lettered" ? EXIT.failed : EXIT.done;
  }
  // The connector of this command ends with it, so no program would send the message.
  const waitsHere = state === "kept" && connector?.isHost === true;
  // Without a link no reply can come, so waiting longer would not help.
  const status = connector && await statusOf(connector).catch(() => null), link = status?.connection;
  const apart = link?.problem && link.problem !== why && link.state !== "connected" ? `, and ${link.problem}` : "";
  throw new CliError("CLI_NO_REPLY", `No reply of ${peer} came within ${waitSeconds} s; ${id}: ${what}${apart}`, {
    fix: waitsHere
      ? `To send what waits here: svc connector start ${folder.name}`
      : status?.runtime.url
      ? `Wait longer with --timeout; a later reply goes to the runtime of ${folder.name}.`
      : undefined,
  });
}

/** Says where a message waits while its sender waits for the reply; `null` when it has arrived or is on its way. */
function waitingNote(folder: AgentFolder, result: OutboundResult): string | null {
  if (result.state === "kept") return keptNote(result, hostsOfPeers(folder)(result.to) ?? undefined);
  if (result.state !== "queued") return null;
  // The recipient may also be online and unable to store it, as with a full disk.
  return `The message waits at the server until ${shownAliases(folder).get(result.to) ?? result.to} takes it.`;
}

function keptNote({ problem, until }: OutboundResult, host = "the server"): string {
  const refusal = problem === null ? null : refusalText(problem);
  // The problem names the server, because that may be the agent's own also for a peer of another server.
  const why = refusal === null ? problem ?? `${host} cannot be reached` : `${host} does not take it now: ${refusal}`;
  return `Kept: ${why}. Sent when it can, until ${dayAndTime(until ?? "")}.`;
}

/** Adds to an error how to send the same message again, if the proxy does not have it, or may not have it. */
function withRepeat(error: unknown, requestId: string, start: string): unknown {
  const fix = `Run the command again with --request-id ${requestId}: the message is delivered once.`;
  if (error instanceof UnreachableError) {
    // This error comes only without a connector, because a connector would keep the message.
    const repeat = error.mayHaveArrived
      ? `It may have arrived, and is not kept here. ${fix}`
      : `Nothing was sent, and nothing here sends it later. Repeat with --request-id ${requestId} when the server answers, or at once while a connector runs, which keeps it: ${start}`;
    return new UnreachableError(error.message, { cause: error, code: error.code, fix: error.fix ?? repeat });
  }
  const isOpen = (code: string | null) =>
    code === "CONNECTOR_PROXY_UNREACHABLE" || code === "PROXY_RELAY_DELIVERY_FAILED";
  if (error instanceof ApiError && isOpen(error.code)) error.fix = fix;
  if (error instanceof LocalDown && error.wasSent) {
    const repeat = error.silentPid === null ? fix : `${describe(error).fix} ${fix}`;
    return new CliError("CLI_CONNECTOR_DOWN", error.message, { cause: error, fix: repeat });
  }
  return error;
}

/** Bytes of a text that are read. A longer text is too large anyway, because its JSON has at least as many bytes. */
const READ_BYTES = LIMITS.payloadBytes + 1;

/**
 * Returns the payload as JSON text: `{"message": text}`, or the JSON of `data` without white space around it. Without
 * text, `file` and `data`, standard input is the text when it is not a terminal. Two of the three are refused, because
 * it would be unclear which one to send.
 *
 * @throws {CliError} `CLI_USAGE`, `PAYLOAD_TOO_LARGE`
 */
async function payloadOf(ctx: Context, text: string | undefined, { data, file }: SendOptions): Promise<string> {
  if (data !== undefined && (text !== undefined || file !== undefined)) {
    throw new CliError("CLI_USAGE", "Give either a text or --data");
  }
  const payload = data === undefined
    ? JSON.stringify({ message: await textOf(ctx, text, file) })
    : jsonOf(data === "-" ? await fromStdin(ctx, "the JSON") : data);
  const { length } = utf8Bytes(payload);
  if (length > LIMITS.payloadBytes) throw tooLarge(`${length}`);
  return payload;
}

async function textOf(ctx: Context, text: string | undefined, file: string | undefined): Promise<string> {
  if (text !== undefined && file !== undefined) throw new CliError("CLI_USAGE", "Give either a text or --file");
  const isPiped = text === undefined && file === undefined && !ctx.stdinIsTerminal;
  const found = file !== undefined
    ? decoded(await readAtMost(file, READ_BYTES), file)
    : text === "-" || isPiped
    ? await fromStdin(ctx, "the text")
    : text;
  if (found === undefined) {
    throw new CliError("CLI_USAGE", "The text is missing: give it, or --file, or --data, or pipe it to standard input");
  }
  if (found.trim() === "") throw new CliError("CLI_USAGE", "The text is empty");
  return found;
}

/** Reads standard input. Without the note, a person at a terminal would wait for the command, and it for the person. */
async function fromStdin(ctx: Context, what: string): Promise<string> {
  if (ctx.stdinIsTerminal) ctx.out.note(`Type ${what}, then press Enter and Ctrl-D.`);
  return decoded(await ctx.stdin(READ_BYTES), "Standard input");
}

function jsonOf(json: string): string {
  try {
    JSON.parse(json);
  } catch {
    throw new CliError("CLI_USAGE", "--data is not JSON");
  }
  // Looked at here, because the fix of the same refusal elsewhere is about requests of programs.
  const problem = payloadProblem(json);
  if (problem !== null) throw new CliError("CLI_USAGE", problem);
  return json.trim();
}

function decoded(bytes: Uint8Array, what: string): string {
  if (bytes.length >= READ_BYTES) throw tooLarge(`at least ${bytes.length}`);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new CliError("CLI_USAGE", `${what} is not UTF-8 text`);
  }
}

function tooLarge(size: string): CliError {
  return new CliError("PAYLOAD_TOO_LARGE", `The payload has ${size} bytes; at most ${LIMITS.payloadBytes} are allowed`);
}
