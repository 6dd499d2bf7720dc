/** `svc sent`: the messages that an agent has sent, or one with its receipts and its reply. */
import { sleep, timeLeft } from "../../shared/clock.ts";
import { utf8Bytes } from "../../shared/protocol/base64url.ts";
import { isRequestId, REQUEST_ID_FORM } from "../../shared/protocol/ids.ts";
import { ApiError } from "../../shared/client/errors.ts";
import {
  call,
  callForText,
  get,
  type LocalCalls,
  post,
  type SendResult,
  sentMessage,
} from "../../shared/client/local_client.ts";
import {
  CANCELLED,
  type CheckedReceipt,
  CheckedReceipts,
  OutboundResult,
  SentPage,
} from "../../shared/client/local_shapes.ts";
import { type AgentFolder, chosenAgent } from "../agents/agent_store.ts";
import { type Access, access } from "../connector/attach.ts";
import { findPeerEver, hostsOfPeers, readPeers, shownAliases } from "../connector/peers/peers.ts";
import type { Context } from "../context.ts";
import { parseCount, wholeId } from "../command_line/numbers.ts";
import { CONNECTOR_LIMITS } from "../connector/limits.ts";
import { AGENT_OPTION, command, REGISTRY_OPTIONS } from "../command_line/command.ts";
import { searchOf } from "../../shared/client/http.ts";
import { CliError, describe, EXIT } from "../errors.ts";
import { printable } from "../terminal/escapes.ts";
import { fields } from "../terminal/output.ts";
import { idCell } from "../terminal/tables.ts";
import { memberOf, messageLines } from "../messages/received.ts";
import { NOT_SENT, stateText } from "../connector/states.ts";

const { pageMessages: LISTED, pageMessagesMax: MAX_LISTED } = CONNECTOR_LIMITS;

export const COMMANDS = [
  command({
    path: ["sent"],
    summary: "List the messages that an agent has sent, or show one with its receipts and reply",
    args: { requestId: { summary: "Request ID, or its last 6 characters, from svc sent", optional: true } },
    options: {
      ...AGENT_OPTION,
      to: { value: "peer", summary: "Only messages to this peer, an alias or a DID", complete: "peers" },
      limit: { value: "count", summary: `Most messages to list, 1 to ${MAX_LISTED} (default ${LISTED})` },
      cancel: { summary: "End this message if it waits in the connector" },
      "allow-insecure": REGISTRY_OPTIONS["allow-insecure"],
    },
    examples: {
      "svc sent --to beta --limit 5": "Show the state of the latest messages to beta",
      "svc sent 01KHYQ5H00AAAAAAAAAAAAAAAA --to beta": "Show the receipts and the reply of a message",
    },
    async run(ctx, { args: { requestId }, options }) {
      const limit = parseCount(options.limit ?? `${LISTED}`, "--limit", MAX_LISTED);
      if (options.cancel && requestId === undefined) {
        throw new CliError("CLI_USAGE", "--cancel needs the request ID of a message");
      }
      const folder = await chosenAgent(ctx, options.agent);
      const id = requestId === undefined ? null : await requestIdOf(ctx, folder, requestId);
      await using connector = await access(ctx, folder);
      if (id === null) return await listSent(ctx, folder, connector, options.to, limit);
      if (options.cancel) return await cancelSent(ctx, connector, id, options.to) ? EXIT.done : EXIT.failed;
      const read = () => sentMessage(connector, { requestId: id, to: options.to });
      const sent = await afterTry(ctx, connector, read, ({ result }) => [result]);
      const result = asHere(connector, sent.result);
      show(ctx, folder, { ...sent, result }, await receiptsOf(ctx, connector, result));
      showWaiting(ctx, connector, [result]);
      if (!ctx.out.json) await showRepeat(ctx, folder, connector, sent.result);
    },
  }),
];

async function listSent(
  ctx: Context,
  folder: AgentFolder,
  connector: Access,
  named: string | undefined,
  limit: number,
): Promise<void> {
  const to = named === undefined ? undefined : findPeerEver(readPeers(folder), named) ?? named;
  const read = () => call(connector, SentPage, get("/v1/sent", { limit, to }));
  const { messages, more } = await afterTry(ctx, connector, read, ({ messages }) => messages);
  const now = ctx.clock.now(), hostOf = hostsOfPeers(folder);
  const state = (message: SentPage["messages"][number]) =>
    stateText(asHere(connector, message), now, message.to.alias ?? undefined, hostOf(message.to.agentDid));
  ctx.out.list({ agent: folder.name, messages, more }, messages, "No sent messages.", [
    { head: "SENT", rank: 2, of: ({ sentAt }) => ctx.out.time(sentAt) },
    { head: "TO", of: ({ to }) => to.alias ?? idCell(to.agentDid) },
    { head: "STATE", rank: 1, of: state },
    { head: "REQUEST ID", rank: 1, of: ({ requestId }) => idCell(requestId) },
    { head: "TEXT", rank: 3, cut: TEXT_COLUMNS, of: ({ text }) => text?.replaceAll("\n", " ") ?? null },
    { head: "REPLY TO", isWide: true, of: ({ inReplyTo }) => inReplyTo },
  ]);
  showWaiting(ctx, connector, messages);
}

/** How long this command waits for the connector that it runs to try what waits, and how often it looks. */
const TRY_MS = 3_000, LOOK_MS = 100;

/**
 * Reads messages, once the connector that this command runs has tried those that wait. Without the wait, a message that
 * cannot be sent would be shown as on its way.
 */
async function afterTry<T>(
  { clock }: Context,
  { isHost }: Access,
  read: () => Promise<T>,
  messagesOf: (found: T) => readonly Pick<OutboundResult, "state">[],
): Promise<T> {
  const left = timeLeft(clock, isHost ? TRY_MS : 0);
  while (true) {
    const found = await read();
    if (left() === 0 || !messagesOf(found).some(({ state }) => state === "sending")) return found;
    await sleep(clock, LOOK_MS);
  }
}

/** The message without the time of its next try when no connector goes on after this command, so that none comes. */
function asHere<T extends Pick<OutboundResult, "nextTryAt">>({ isHost }: Access, message: T): T {
  return isHost ? { ...message, nextTryAt: null } : message;
}

/** Tells how messages that wait here are sent, when no connector goes on after this command. */
function showWaiting(
  { out }: Context,
  { isHost, agentName }: Access,
  messages: readonly Pick<OutboundResult, "state">[],
): void {
  if (!isHost || !messages.some(({ state }) => state === "kept")) return;
  out.next(["connector", "start", agentName], { when: "to send what waits here" });
}

/** The narrowest column for a text, because fewer characters of it tell nothing. */
const TEXT_COLUMNS = 10;

/** Returns the request ID in an argument; the end of one is looked up in the sent messages. @throws as `wholeId` */
async function requestIdOf(ctx: Context, folder: AgentFolder, text: string): Promise<string> {
  const known = async () => {
    await using connector = await access(ctx, folder);
    const { messages } = await call(connector, SentPage, get("/v1/sent", { limit: MAX_LISTED }));
    return messages.map(({ requestId: id }) => ({ id }));
  };
  const what = `a request ID, which has ${REQUEST_ID_FORM}`;
  return await wholeId(text, known, { what, named: "sent message", list: "svc sent", isWhole: isRequestId });
}

/** Cancels a message that waits in the connector. If it does not wait there, prints its state and returns false. */
async function cancelSent(
  ctx: Context,
  connector: LocalCalls,
  requestId: string,
  to: string | undefined,
): Promise<boolean> {
  const target = `/v1/outbound/${encodeURIComponent(requestId)}/cancel${searchOf({ to })}`;
  const { body: result, json } = await callForText(connector, OutboundResult, post(target, {}));
  const isCancelled = result.problem === CANCELLED;
  const done = result.state === "unknown" ? "Cancelled; an earlier attempt may have arrived." : "Cancelled.";
  const state = `${ctx.out.shown(idCell(requestId))} is ${stateText(result, ctx.clock.now())}`;
  if (ctx.out.json) ctx.out.jsonLine(json);
  ctx.out.note(isCancelled ? done : `Not cancelled: ${state}`);
  return isCancelled;
}

/**
 * Returns the receipts of a message. If the proxy does not give them, warns and returns `null`, because the rest is
 * stored here and can still be shown.
 */
async function receiptsOf(
  ctx: Context,
  connector: LocalCalls,
  { to, requestId }: OutboundResult,
): Promise<CheckedReceipt[] | null> {
  try {
    return (await call(connector, CheckedReceipts, get("/v1/receipts", { to, requestId }))).receipts;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const { code, cause, fix } = describe(error);
    ctx.out.warn(`The receipts could not be requested: ${code}: ${cause}. ${fix}`);
    return null;
  }
}

function show(
  ctx: Context,
  folder: AgentFolder,
  { json, result }: SendResult,
  receipts: CheckedReceipt[] | null,
): void {
  if (ctx.out.json) {
    ctx.out.jsonLine(`${json.trimEnd().slice(0, -1)},"receipts":${JSON.stringify(receipts)}}`);
    return;
  }
  const { requestId, to, problem, expiresAt, until, reply } = result;
  const peer = shownAliases(folder).get(to) ?? to;
  ctx.out.peerLines([
    `${requestId} to ${peer}`,
    ...fields([
      ["state", stateText(result, ctx.clock.now(), peer, hostsOfPeers(folder)(to))],
      ["problem", problem ?? undefined],
      ["expires", expiresAt ?? until ?? undefined],
      ...(receipts ?? []).map((receipt) => ["receipt", receiptText(receipt)] as const),
    ]),
    ...reply === null ? [] : [
      "",
      ...messageLines({ message: reply, json: memberOf(json, "reply") }, ctx.out.columns, ctx.clock.now()),
    ],
  ]);
}

/** Tells how to repeat a message that was not sent, or of which it is not known whether it arrived. */
async function showRepeat(
  { out }: Context,
  folder: AgentFolder,
  connector: LocalCalls,
  { requestId, to, state, problem }: OutboundResult,
): Promise<void> {
  if (state !== "unknown" && !problem?.startsWith(NOT_SENT)) return;
  const { messages } = await call(connector, SentPage, get("/v1/sent", { limit: MAX_LISTED, to }));
  const { text, bytes, auto, inReplyTo, conversationId } = messages.find((sent) => sent.requestId === requestId) ?? {};
  // The server refuses other content under the same ID, so a command is printed only if it sends exactly this text.
  const isWhole = text != null && utf8Bytes(JSON.stringify({ message: text })).length === bytes;
  if (!isWhole || printable(text) !== text || text.startsWith("-") || auto || inReplyTo !== null) {
    return out.note(`To send it again, repeat its command with --request-id ${requestId}.`);
  }
  const words = ["send", shownAliases(folder).get(to) ?? to, text, "--request-id", requestId, "--agent", folder.name];
  if (conversationId != null) words.push("--conversation", conversationId);
  out.next(words, { when: "to send it again" });
}

function receiptText({ status, receivedAt, verified, problem }: CheckedReceipt): string {
  const by = verified === "signed" ? "signed by its recipient" : "by the word of the proxy";
  return `${status}, ${receivedAt}, ${by}${problem === undefined ? "" : `: ${problem}`}`;
}
