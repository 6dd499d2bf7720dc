/**
 * What the tools of one MCP server share (D-128): the agent, its connector, which peers it may see, and which messages it
 * has taken. A message is taken before it is returned, so of two servers one gets it (D-117).
 */
import { type Clock, sleep } from "../../shared/clock.ts";
import type { Identity } from "../../shared/client/agent_files.ts";
import { InboxReadResult, LocalMessage } from "../../shared/client/local_shapes.ts";
import { ulidSource } from "../../shared/protocol/ids.ts";
import type { Random } from "../../shared/random.ts";
import { CONNECTOR_LIMITS } from "../connector/limits.ts";
import { bodyOf, checkedBody } from "../connector/local_api/client.ts";
import { CliError } from "../errors.ts";
import { aliasesOf, findPeerEver, type Peers } from "../connector/peers.ts";
import { parsePage, type Received, type ReceivedPage } from "../messages/received.ts";
import { Approvals } from "./approvals.ts";
import type { LocalConnector } from "./kept_connector.ts";
import { MCP_LIMITS as LIMIT } from "./limits.ts";
import { fitting, type ModelMessage, modelMessage, shownAlias } from "./model_message.ts";
import { localError, ToolError } from "./tool_result.ts";

/** What the tools need. */
export interface McpAgentOptions {
  identity: Pick<Identity, "name" | "did" | "ownerDid" | "registryUrl">;
  connector: LocalConnector;
  /** The peers by alias. */
  peers(): Peers;
  clock: Clock;
  random: Random;
  /** Whether the messages of the agent go to its runtime, so that no tool can read them. */
  isPush: boolean;
  isReadOnly: boolean;
  /** Aliases or DIDs of the only peers that the tools know; `null`: all. */
  only: readonly string[] | null;
}

/** Which messages of the inbox. */
export interface Wanted {
  unread: boolean;
  from?: string | undefined;
  conversation?: string | undefined;
  after?: number;
  newest?: boolean;
  limit: number;
  /** Seconds to wait for the first one. */
  wait?: number;
}

export class McpAgent {
  readonly approvals: Approvals;
  readonly newId: () => string;
  /** The highest ID that a read-only server has shown by waiting. */
  #shown = 0;

  constructor(readonly options: McpAgentOptions) {
    const { clock, random } = options;
    this.approvals = new Approvals(options);
    this.newId = ulidSource(() => clock.now(), (count) => random.bytes(count));
  }

  /** The only peers of this server; `null`: all. A peer that is not known yet is not among them. */
  allowed(): readonly string[] | null {
    const { only, peers } = this.options;
    if (only === null) return null;
    const known = peers();
    return only.map((name) => findPeerEver(known, name)).filter((did) => did !== null);
  }

  allows(did: string): boolean {
    return this.allowed()?.includes(did) ?? true;
  }

  /**
   * The DID of a peer, from a DID, an alias or an alias as results show it. An alias that is not known here stays: the
   * connector may know it.
   *
   * @throws {import("../../shared/client/errors.ts").ApiError} `CONNECTOR_PEER_UNKNOWN` for a peer that is not allowed
   */
  peer(name: string): string {
    const peers = this.options.peers();
    const shown = Object.keys(peers).filter((alias) => shownAlias(alias) === name);
    const did = findPeerEver(peers, name) ?? (shown.length === 1 ? findPeerEver(peers, shown[0] ?? "") : null);
    const allowed = this.allowed();
    if (allowed !== null && (did === null || !allowed.includes(did))) {
      throw localError("CONNECTOR_PEER_UNKNOWN", `No peer has the alias "${name}"`, "list_peers lists the peers.");
    }
    return did ?? name;
  }

  /** How results name a peer: by its alias, else by its DID, also when the aliases cannot be read. */
  nameOf(did: string): string {
    try {
      const alias = aliasesOf(this.options.peers()).get(did);
      return alias === undefined ? did : shownAlias(alias);
    } catch (error) {
      if (!(error instanceof CliError)) throw error;
      return did;
    }
  }

  /** A page of the inbox; empty when none of the allowed peers is known. */
  async page(
    { unread, from, conversation, after = 0, newest = false, limit, wait = 0 }: Wanted,
  ): Promise<ReceivedPage> {
    const { connector, clock } = this.options;
    const senders = from === undefined ? this.allowed() : [this.peer(from)];
    if (senders?.length === 0) {
      if (wait > 0) await sleep(clock, wait * 1000);
      return { messages: [], more: false };
    }
    const query = new URLSearchParams({ unread: `${unread}`, after: `${after}`, limit: `${limit}`, wait: `${wait}` });
    // A connector of an earlier version does not know it.
    if (newest) query.set("newest", "true");
    if (senders !== null) query.set("from", senders.join(","));
    if (conversation !== undefined) query.set("conversation", conversation);
    const withinMs = CONNECTOR_LIMITS.callTimeoutMs + wait * 1000;
    return parsePage(connector.agentName, await connector.send("GET", `/v1/inbox?${query}`, undefined, withinMs));
  }

  /** One message. @throws {import("../../shared/client/errors.ts").ApiError} `CONNECTOR_MESSAGE_UNKNOWN` */
  async message(id: number): Promise<Received> {
    const { connector } = this.options;
    const response = await connector.send("GET", `/v1/inbox/${id}`);
    const message = checkedBody(connector.agentName, LocalMessage, bodyOf(connector.agentName, response));
    if (!this.allows(message.from.agentDid)) throw localError("CONNECTOR_MESSAGE_UNKNOWN");
    return { message, json: response.text };
  }

  /** Marks messages read. Returns the IDs that this server has taken. */
  async take(ids: readonly number[]): Promise<number[]> {
    if (ids.length === 0) return [];
    const { connector } = this.options;
    const within = CONNECTOR_LIMITS.callTimeoutMs;
    const body = await connector.call("POST", "/v1/inbox/read", { ids }, within, true);
    return checkedBody(connector.agentName, InboxReadResult, body).read;
  }

  /**
   * The unread messages that fit into a result, taken unless the server is read-only. Of messages that another server
   * takes at the same time none is returned.
   *
   * @param signal aborted when the caller has gone; then nothing is taken
   */
  async unread(
    wanted: Omit<Wanted, "unread">,
    signal: AbortSignal,
  ): Promise<{ messages: ModelMessage[]; more: boolean }> {
    const { isReadOnly } = this.options;
    const page = await this.page({ ...wanted, unread: true });
    if (signal.aborted) throw new ToolError("The call was cancelled.");
    const messages = fitting(page.messages.map((received) => modelMessage(received)));
    const more = page.more || messages.length < page.messages.length;
    if (isReadOnly) return { messages, more };
    const taken = await this.take(messages.map(({ id }) => id));
    return { messages: messages.filter(({ id }) => taken.includes(id)), more };
  }

  /** The first unread messages, waiting for one. A read-only server shows each once. */
  async next(
    wanted: Pick<Wanted, "from" | "conversation">,
    seconds: number,
    signal: AbortSignal,
  ): Promise<ModelMessage[]> {
    const { clock, isReadOnly } = this.options;
    const end = clock.now() + seconds * 1000;
    for (let left = seconds; left > 0 && !signal.aborted; left = Math.ceil((end - clock.now()) / 1000)) {
      const wait = Math.min(left, LIMIT.callSeconds);
      const after = isReadOnly ? this.#shown : 0;
      const { messages } = await this.unread({ ...wanted, after, limit: LIMIT.readMessages, wait }, signal);
      if (messages.length > 0) {
        this.#shown = Math.max(this.#shown, ...messages.map(({ id }) => id));
        return messages;
      }
      await sleep(clock, CONNECTOR_LIMITS.waitPauseMs, signal);
    }
    return [];
  }
}
