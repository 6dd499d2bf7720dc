/**
 * What the tools of one MCP server share (D-128): the agent, its connector, which peers it may see, and which messages
 * its answers hold. A message is leased before it is returned, because two servers could otherwise return the same one.
 */
import { type Clock, sleep, timeLeft } from "../../shared/clock.ts";
import type { Identity } from "../../shared/client/agent_files.ts";
import { callForText, get, type LocalCalls } from "../../shared/client/local_client.ts";
import { LocalMessage } from "../../shared/client/local_shapes.ts";
import { ulidSource } from "../../shared/protocol/ids.ts";
import type { Random } from "../../shared/random.ts";
import { BoundedMap } from "../../shared/bounded_map.ts";
import { CONNECTOR_LIMITS } from "../connector/limits.ts";
import { CliError } from "../errors.ts";
import { isShownAlias } from "../connector/peers/aliases.ts";
import { aliasesOf, findPeerEver, findPeersEver, type Peers } from "../connector/peers/peers.ts";
import { readPage, type Received, type ReceivedPage } from "../messages/received.ts";
import { keyOf } from "../connector/unseen.ts";
import { type AnsweredCall, Answers } from "./answers.ts";
import { Approvals } from "./approvals.ts";
import { fitting, type ModelMessage, modelMessage } from "./model_message.ts";
import { localError, ToolError } from "./tool_result.ts";

/** With more, a cancelled call holds one of the connector's waiting calls for longer, so that others are refused. */
export const CALL_SECONDS = 5;

/** With more, a read-only server that runs for long fills the memory; with less than a full inbox, it repeats itself. */
const SHOWN_MAX = 10_000;

export interface McpAgentOptions {
  identity: Pick<Identity, "name" | "did" | "ownerDid" | "registryUrl">;
  connector: LocalCalls;
  peers(): Peers;
  /** The command with which a person pairs without this program; `null` without the file of a running connector. */
  pairingCommand(action: "start" | "confirm", body: Record<string, unknown>): string | null;
  /** A text whose commands name this agent and the folder of this program, without which they would not work. */
  named(text: string): string;
  clock: Clock;
  random: Random;
  /** Whether the messages of the agent go to its runtime, so that no tool can read them. */
  isPush: boolean;
  isReadOnly: boolean;
  /** Aliases or DIDs of the only peers that the tools know; `null`: all. */
  only: readonly string[] | null;
}

export interface PageQuery {
  unread: boolean;
  from?: string | undefined;
  conversation?: string | undefined;
  after?: number;
  newest?: boolean;
  limit: number;
  /** Seconds to wait for the first message. */
  wait?: number;
}

export class McpAgent {
  readonly approvals: Approvals;
  readonly newId: () => string;
  readonly answers: Answers;
  /** The thread of Codex that has called a tool; `null` for another program, and before the first call. */
  codexThread: string | null = null;
  /** The messages that the waits of a read-only server have shown; without them the next wait would return the same. */
  readonly #shown = new BoundedMap<string, true>(SHOWN_MAX);

  constructor(readonly options: McpAgentOptions) {
    const { clock, random } = options;
    this.approvals = new Approvals(options);
    this.newId = ulidSource(() => clock.now(), (count) => random.bytes(count));
    this.answers = new Answers(options.connector, this.newId);
  }

  /** The only peers of this server; `null`: all. A peer that is not known yet is not among them. */
  allowed(): readonly string[] | null {
    const { only, peers } = this.options;
    return only === null ? null : findPeersEver(peers(), only);
  }

  allows(did: string): boolean {
    return this.allowed()?.includes(did) ?? true;
  }

  /**
   * The DID of a peer, from a DID or an alias. An alias that is not known here stays, because the connector may know it.
   *
   * @throws {import("../../shared/client/errors.ts").ApiError} `CONNECTOR_PEER_UNKNOWN` for a peer that is not allowed
   */
  peer(name: string): string {
    const did = findPeerEver(this.options.peers(), name);
    const allowed = this.allowed();
    if (allowed !== null && (did === null || !allowed.includes(did))) {
      throw localError("CONNECTOR_PEER_UNKNOWN", `No peer has the alias "${name}"`);
    }
    return did ?? name;
  }

  /** How results name a peer: by its alias, else by its DID, also when the aliases cannot be read. */
  nameOf(did: string): string {
    try {
      const alias = aliasesOf(this.options.peers()).get(did) ?? null;
      return isShownAlias(alias) ? alias : did;
    } catch (error) {
      if (!(error instanceof CliError)) throw error;
      return did;
    }
  }

  /** A page of the inbox; empty when none of the allowed peers is known. */
  async page({ from, ...query }: PageQuery): Promise<ReceivedPage> {
    const { connector, clock } = this.options;
    const senders = from === undefined ? this.allowed() : [this.peer(from)];
    if (senders?.length === 0) {
      if (query.wait) await sleep(clock, query.wait * 1000);
      return { messages: [], more: false };
    }
    return await readPage(connector, { ...query, from: senders?.join(",") });
  }

  /** One message. @throws {import("../../shared/client/errors.ts").ApiError} `CONNECTOR_MESSAGE_UNKNOWN` */
  async message(id: number): Promise<Received> {
    const { connector } = this.options;
    const { body: message, json } = await callForText(connector, LocalMessage, get(`/v1/inbox/${id}`));
    if (!this.allows(message.from.agentDid)) throw localError("CONNECTOR_MESSAGE_UNKNOWN");
    return { message, json };
  }

  /**
   * Returns the unread messages that fit into a result. Unless the server is read-only, its answer holds them, and
   * messages that another server takes at the same time are left out.
   */
  async unread(
    wanted: Omit<PageQuery, "unread">,
    { signal, answer }: AnsweredCall,
  ): Promise<{ messages: ModelMessage[]; more: boolean }> {
    const { isReadOnly } = this.options;
    const page = await this.page({ ...wanted, unread: true });
    if (signal.aborted) throw new ToolError("The call was cancelled.");
    const messages = fitting(page.messages.map((received) => modelMessage(received)));
    const more = page.more || messages.length < page.messages.length;
    if (isReadOnly) return { messages, more };
    const held = await answer.hold(messages.map(({ id }) => id));
    return { messages: messages.filter(({ id }) => held.includes(id)), more };
  }

  /** Returns the first unread messages; waits up to `seconds` for one. A read-only server shows each message once. */
  async next(
    wanted: Pick<PageQuery, "from" | "conversation" | "limit">,
    seconds: number,
    call: AnsweredCall,
  ): Promise<ModelMessage[]> {
    const { signal } = call;
    const { clock, isReadOnly } = this.options;
    const left = timeLeft(clock, seconds * 1000);
    let after = 0;
    while (left() > 0 && !signal.aborted) {
      const wait = Math.min(Math.ceil(left() / 1000), CALL_SECONDS);
      const { messages } = await this.unread({ ...wanted, after, wait }, call);
      const news = isReadOnly ? messages.filter((message) => !this.#shown.has(keyOf(message))) : messages;
      for (const message of news) if (isReadOnly) this.#shown.set(keyOf(message), true);
      if (news.length > 0) return news;
      after = messages.at(-1)?.id ?? 0;
      if (messages.length === 0) await sleep(clock, CONNECTOR_LIMITS.waitPauseMs, signal);
    }
    return [];
  }
}
