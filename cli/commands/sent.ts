/** `svc sent`: the messages that an agent has sent, or one with its receipts and its reply. */
import { sleep, timeLeft } from "../../shared/clock.ts";
import { utf8Bytes } from "../../shared/protocol/base64url.ts";
import { isRequestId, REQUEST_ID_FORM } from "../../shared/protocol/ids.ts";
import { ApiError } from "../../shared/client/errors.ts";
import { call, callForText, get, post, sentMessage } from "../../shared/client/local_client.ts";
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
import { CliError, describeFor, EXIT } from "../errors.ts";
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
      const sent = new SentList(ctx, folder, connector);
      if (id === null) return await sent.list(options.to, limit);
      if (options.cancel) return await sent.cancel(id, options.to) ? EXIT.done : EXIT.failed;
      await sent.show(id, options.to);
    },
  }),
];

/** The narrowest column for a text, because fewer characters of it tell nothing. */
const TEXT_COLUMNS = 10;

/** How long this command waits for the connector that it runs to try what waits, and how often it looks. */
const TRY_MS = 3_000, LOOK_MS = 100;

/** What an agent has sent, as its connector tells it. */
class SentList {
  constructor(readonly ctx: Context, readonly folder: AgentFolder, readonly connector: Access) {}

  async list(named: string | undefined, limit: number): Promise<void> {
    const { ctx, folder } = this;
    const to = named === undefined ? undefined : findPeerEver(readPeers(folder), named) ?? named;
    const read = () => call(this.connector, SentPage, get("/v1/sent", { limit, to }));
    const { messages, more } = await this.#afterTry(read, ({ messages }) => messages);
    const now = ctx.clock.now(), hostOf = hostsOfPeers(folder);
    const state = (message: SentPage["messages"][number]) =>
      stateText(this.#asHere(message), now, message.to.alias ?? undefined, hostOf(message.to.agentDid));
    ctx.out.list({ agent: folder.name, messages, more }, messages, "No sent messages.", [
      { head: "SENT", rank: 2, of: ({ sentAt }) => ctx.out.time(sentAt) },
      { head: "TO", of: ({ to }) => to.alias ?? idCell(to.agentDid) },
      { head: "STATE", rank: 1, of: state },
      { head: "REQUEST ID", rank: 1, of: ({ requestId }) => idCell(requestId) },
      { head: "TEXT", rank: 3, cut: TEXT_COLUMNS, of: ({ text }) => text?.replaceAll("\n", " ") ?? null },
      { head: "REPLY TO", isWide: true, of: ({ inReplyTo }) => inReplyTo },
    ]);
    if (more) ctx.out.more("older messages", limit < MAX_LISTED, `svc log --export --agent ${folder.name} prints all`);
    this.#showWaiting(messages);
  }

  async show(requestId: string, to: string | undefined): Promise<void> {
    const { ctx, connector } = this;
    const read = () => sentMessage(connector, { requestId, to });
    const { result, json } = await this.#afterTry(read, ({ result }) => [result]);
    const receipts = await this.#receiptsOf(result);
    if (ctx.out.json) ctx.out.jsonLine(`${json.trimEnd().slice(0, -1)},"receipts":${JSON.stringify(receipts)}}`);
    else ctx.out.peerLines(this.#lines(this.#asHere(result), json, receipts));
    this.#showWaiting([result]);
    if (!ctx.out.json) await this.#showRepeat(result);
  }

  /** Cancels a message that waits in the connector. If it does not wait there, prints its state and returns false. */
  async cancel(requestId: string, to: string | undefined): Promise<boolean> {
    const { out, clock } = this.ctx;
    const target = `/v1/outbound/${encodeURIComponent(requestId)}/cancel${searchOf({ to })}`;
    const { body: result, json } = await callForText(this.connector, OutboundResult, post(target, {}));
    const isCancelled = result.problem === CANCELLED;
    const done = result.state === "unknown" ? "Cancelled; an earlier attempt may have arrived." : "Cancelled.";
    const state = `${out.shown(idCell(requestId))}: ${stateText(result, clock.now())}`;
    if (out.json) out.jsonLine(json);
    out.note(isCancelled ? done : `Not cancelled: ${state}`);
    return isCancelled;
  }

  /**
   * Reads messages, once the connector that this command runs has tried those that wait. Without the wait, a message
   * that cannot be sent would be shown as on its way.
   */
  async #afterTry<T>(read: () => Promise<T>, messagesOf: (found: T) => readonly State[]): Promise<T> {
    const { clock } = this.ctx, left = timeLeft(clock, this.connector.isHost ? TRY_MS : 0);
    while (true) {
      const found = await read();
      if (left() === 0 || !messagesOf(found).some(({ state }) => state === "sending")) return found;
      await sleep(clock, LOOK_MS);
    }
  }

  /** The message without the time of its next try when no connector goes on after this command, so that none comes. */
  #asHere<T extends Pick<OutboundResult, "nextTryAt">>(message: T): T {
    return this.connector.isHost ? { ...message, nextTryAt: null } : message;
  }

  /** Tells how messages that wait here are sent, when no connector goes on after this command. */
  #showWaiting(messages: readonly State[]): void {
    if (!this.connector.isHost || !messages.some(({ state }) => state === "kept")) return;
    this.ctx.out.next(["connector", "start", this.folder.name], { when: "to send what waits here" });
  }

  /**
   * Returns the receipts of a message. If the proxy does not give them, warns and returns `null`, because the rest is
   * stored here and can still be shown.
   */
  async #receiptsOf({ to, requestId }: OutboundResult): Promise<CheckedReceipt[] | null> {
    try {
      return (await call(this.connector, CheckedReceipts, get("/v1/receipts", { to, requestId }))).receipts;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      const { code, cause, fix } = describeFor(this.folder.name, error);
      this.ctx.out.warn(`The receipts could not be requested: ${code}: ${cause}. ${fix}`);
      return null;
    }
  }

  #lines(result: OutboundResult, json: string, receipts: CheckedReceipt[] | null): string[] {
    const { requestId, to, problem, expiresAt, until, reply } = result;
    const { out, clock } = this.ctx, peer = shownAliases(this.folder).get(to) ?? to;
    return [
      `${requestId} to ${peer}`,
      ...fields([
        ["state", stateText(result, clock.now(), peer, hostsOfPeers(this.folder)(to))],
        ["problem", problem ?? undefined],
        ["expires", expiresAt ?? until ?? undefined],
        ...(receipts ?? []).map((receipt) => ["receipt", receiptText(receipt)] as const),
      ]),
      ...reply === null
        ? []
        : ["", ...messageLines({ message: reply, json: memberOf(json, "reply") }, out.columns, clock.now())],
    ];
  }

  /** Tells how to repeat a message that was not sent, or of which it is not known whether it arrived. */
  async #showRepeat({ requestId, to, state, problem }: OutboundResult): Promise<void> {
    if (state !== "unknown" && !problem?.startsWith(NOT_SENT)) return;
    const { ctx: { out }, folder } = this;
    const { messages } = await call(this.connector, SentPage, get("/v1/sent", { limit: MAX_LISTED, to }));
    const { text, bytes, auto, inReplyTo, conversationId } = messages.find((sent) => sent.requestId === requestId) ??
      {};
    // The server refuses other content under the same ID, so a command is printed only if it sends exactly this text.
    const isWhole = text != null && utf8Bytes(JSON.stringify({ message: text })).length === bytes;
    if (!isWhole || printable(text) !== text || text.startsWith("-") || auto || inReplyTo !== null) {
      return out.note(`To send it again, repeat its command with --request-id ${requestId}.`);
    }
    const words = ["send", shownAliases(folder).get(to) ?? to, text, "--request-id", requestId, "--agent", folder.name];
    if (conversationId != null) words.push("--conversation", conversationId);
    out.next(words, { when: "to send it again" });
  }
}

type State = Pick<OutboundResult, "state">;

/** Returns the request ID in an argument; the end of one is looked up in the sent messages. @throws as `wholeId` */
async function requestIdOf(ctx: Context, folder: AgentFolder, text: string): Promise<string> {
  const known = async () => {
    await using connector = await access(ctx, folder);
    const { messages } = await call(connector, SentPage, get("/v1/sent", { limit: MAX_LISTED }));
    return messages.map(({ requestId: id }) => ({ id }));
  };
  const what = `a request ID, which has ${REQUEST_ID_FORM}`;
  return await wholeId(text, known, {
    what,
    named: "sent message",
    list: `svc sent --agent ${folder.name}`,
    isWhole: isRequestId,
  });
}

function receiptText({ status, receivedAt, verified, problem }: CheckedReceipt): string {
  const by = verified === "signed" ? "signed by its recipient" : "by the word of the server";
  return `${status}, ${receivedAt}, ${by}${problem === undefined ? "" : `: ${problem}`}`;
}
