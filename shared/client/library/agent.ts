/// <reference lib="esnext.disposable" />
/**
 * An agent with its own keys and its own link (D-125). It keeps no message on disk: a crash loses messages that it has
 * acknowledged, which their senders see as `delivered` without a receipt. `LocalAgent` is the durable way.
 */
import { sleep } from "../../clock.ts";
import { PairConfirmAnswer, PairStartAnswer } from "../../protocol/api/pairing.ts";
import { ReceiptList } from "../../protocol/api/receipts.ts";
import { isAgentDid } from "../../protocol/did.ts";
import { type NewId, ulidSource } from "../../protocol/ids.ts";
import { StoredCredentials } from "../agent_credentials.ts";
import { apiErrorOf } from "../http.ts";
import { CLIENT_LIMITS } from "../limits.ts";
import { openLink } from "../link.ts";
import type { EventFields, LinkEventName } from "../link_events.ts";
import { messageRequest, stateOf } from "../message_request.ts";
import { readAllPeers } from "../peer_pages.ts";
import { ProxyCaller } from "../proxy_caller.ts";
import { ReconnectingLink, ReplacedError } from "../reconnect.ts";
import { ServiceClock } from "../service_clock.ts";
import type {
  AgentApi,
  AgentAuth,
  AgentEvent,
  AgentEventName,
  AgentOptions,
  AskOptions,
  Content,
  Credentials,
  IncomingMessage,
  MessageHandler,
  Peer,
  Receipt,
  SendOptions,
  Sent,
  Ticket,
} from "./agent_api.ts";
import { type AgentParts, partsOfCredentials, partsOfDirectory } from "./agent_parts.ts";
import { EventHandlers } from "./event_handlers.ts";
import { IncomingMessages } from "./incoming_messages.ts";
import { payloadText } from "./message_values.ts";
import { ReceiptQueue } from "./receipt_queue.ts";
import { asSvcError, withSvcErrors } from "./error_conversion.ts";
import { SvcError } from "./svc_error.ts";
import { hostSystem } from "./system.ts";

/** What a message has in addition to its content and options. */
interface Answering {
  inReplyTo?: string;
  auto?: boolean;
}

type Tell = (event: LinkEventName, fields?: EventFields) => void;

/** An agent with its own keys and its own link, for programs without a connector. */
export class Agent implements AgentApi {
  readonly did: string;
  readonly name: string;
  readonly #parts: AgentParts;
  readonly #credentials: StoredCredentials;
  readonly #proxy: ProxyCaller;
  readonly #link: ReconnectingLink;
  readonly #newId: NewId;
  readonly #events: EventHandlers;
  readonly #incoming: IncomingMessages;
  /** DID → alias, as read last. */
  #aliasOf: ReadonlyMap<string, string> = new Map();
  /** Ends `ask` calls that wait. */
  readonly #asking = new Set<(why: unknown) => void>();
  /** Why the agent has stopped by itself. */
  #end: unknown = null;
  #closing: Promise<void> | null = null;

  private constructor(
    parts: AgentParts,
    base: { clock: ServiceClock; events: EventHandlers; credentials: StoredCredentials; tell: Tell },
  ) {
    const { system: { fetch, random, clock: machine }, did, name, proxy } = parts;
    const { clock, events, credentials, tell } = base;
    this.did = did;
    this.name = name;
    this.#parts = parts;
    this.#credentials = credentials;
    this.#events = events;
    this.#newId = ulidSource(() => clock.now(), random.bytes);
    this.#proxy = new ProxyCaller({ fetch, clock, random, session: credentials, emit: tell }, proxy);
    this.#incoming = new IncomingMessages({
      clock: machine,
      did,
      events,
      receipts: new ReceiptQueue(machine, this.#proxy, did, events),
      aliasOf: (did) => this.#aliasOf.get(did) ?? null,
      reply: (message, content, requestId) => this.#answer(message, content, { requestId }, true),
    });
    this.#link = new ReconnectingLink({
      clock: machine,
      random,
      serviceClock: clock,
      session: credentials,
      open: (agent, events) => openLink({ clock, random, newId: this.#newId }, proxy, agent, events),
      tell,
      whenReplaced: "stop",
    }, {
      deliver: (frame) => Promise.resolve(this.#incoming.take(frame)),
      paired: () => {},
      connected: () => {},
    });
  }

  /**
   * Opens an agent from its folder, `agents/<name>/` in the configuration directory of `svc`. It connects in the background.
   *
   * @throws {SvcError} `CONNECTOR_RUNNING` while the agent's connector runs
   */
  static fromDirectory(path: string, options: AgentOptions = {}): Promise<Agent> {
    return Agent.#start(async () => await partsOfDirectory(hostSystem(), path, options));
  }

  /**
   * Opens an agent from its credentials. It connects in the background. `save` stores new tokens before they are used:
   * without them the session can be continued only once after a crash.
   */
  static connect(
    credentials: Credentials,
    options: AgentOptions & { save(auth: AgentAuth): Promise<void> },
  ): Promise<Agent> {
    return Agent.#start(() => partsOfCredentials(hostSystem(), credentials, options));
  }

  static #start(partsOf: () => AgentParts | Promise<AgentParts>): Promise<Agent> {
    return withSvcErrors(async () => {
      const parts = await partsOf();
      const clock = new ServiceClock(parts.system.clock);
      const events = new EventHandlers();
      const tell: Tell = (event, fields) => tellProgram(events, event, fields);
      const credentials = await StoredCredentials.open({ clock, store: await parts.session(clock), tell });
      const agent = new Agent(parts, { clock, events, credentials, tell });
      credentials.onEnd = (error) => agent.#fail(error);
      credentials.watch();
      // A damaged file fails the calls that need an alias. Messages arrive without them.
      await agent.#readAliases().catch(() => {});
      void agent.#link.run().then((why) => why !== null && agent.#fail(why));
      return agent;
    });
  }

  async send(to: string, content: Content, options: SendOptions = {}): Promise<Sent> {
    return await this.#post(await this.#didOf(to), content, options);
  }

  async reply(to: IncomingMessage, content: Content, options: SendOptions = {}): Promise<Sent> {
    return await this.#answer(to, content, options, false);
  }

  async ask(to: string, content: Content, options: AskOptions = {}): Promise<IncomingMessage> {
    const { timeoutMs = CLIENT_LIMITS.askMs, requestId = this.#newId() } = options;
    const did = await this.#didOf(to);
    const ends: (() => unknown)[] = [];
    const reply = new Promise<IncomingMessage>((resolve, reject) => {
      const late = () => reject(new SvcError("NO_REPLY", `No reply within ${timeoutMs / 1000} s`, { requestId }));
      this.#asking.add(reject);
      ends.push(() => this.#asking.delete(reject));
      ends.push(this.#incoming.expect(did, requestId, resolve), this.#parts.system.clock.after(timeoutMs, late));
    });
    const sent = this.#post(did, content, { ...options, requestId }).then((result) => {
      if (result.state !== "refused") return reply;
      throw new SvcError("NO_REPLY", `The recipient did not accept the message: ${result.problem}`, { requestId });
    });
    try {
      // A reply can come before the answer of the proxy.
      return await Promise.race([sent, reply]);
    } finally {
      for (const end of ends) end();
    }
  }

  onMessage(handler: MessageHandler): () => void {
    if (this.#incoming.handler !== null) throw new SvcError("CLI_USAGE", "The agent has a handler already");
    this.#incoming.handler = handler;
    return () => {
      if (this.#incoming.handler === handler) this.#incoming.handler = null;
    };
  }

  async receipts(requestId: string, to: string): Promise<Receipt[]> {
    const query = new URLSearchParams({ requestId, recipientAgentDid: await this.#didOf(to) });
    return ReceiptList.parse(await this.#call("GET", `/v1/relay/delivery-receipts?${query}`)).receipts;
  }

  async peers(): Promise<Peer[]> {
    return await withSvcErrors(async () => {
      this.#assertRuns();
      const read = await readAllPeers(this.#proxy);
      if ("refused" in read) throw apiErrorOf(read.refused);
      await this.#readAliases();
      return read.peers.map(({ agentDid, profile, pairedAt }) => {
        const alias = this.#aliasOf.get(agentDid) ?? null;
        return { agentDid, name: profile.agentName, humanName: profile.humanName, alias, pairedAt };
      });
    });
  }

  readonly pair = {
    start: async (ttlSeconds?: number): Promise<Ticket> => {
      const body = { ...(ttlSeconds === undefined ? {} : { ttlSeconds }), initiatorProfile: this.#profile };
      const { ticket, expiresAt } = PairStartAnswer.parse(await this.#call("POST", "/pair/start", body));
      return { ticket, expiresAt };
    },
    confirm: async (ticket: string): Promise<Peer> => {
      const body = { ticket, responderProfile: this.#profile };
      const { initiatorAgentDid } = PairConfirmAnswer.parse(await this.#call("POST", "/pair/confirm", body));
      const peer = (await this.peers()).find(({ agentDid }) => agentDid === initiatorAgentDid);
      if (peer) return peer;
      throw new SvcError("CONNECTOR_PEER_UNKNOWN", `The pair with ${initiatorAgentDid} has ended`);
    },
    remove: async (peer: string): Promise<void> => {
      await this.#call("POST", "/pair/remove", { peerAgentDid: await this.#didOf(peer) });
    },
  };

  on(event: AgentEventName, handler: (event: AgentEvent) => void): () => void {
    return this.#events.add(event, handler);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Stops the agent after an error that a retry cannot change. */
  #fail(error: unknown): void {
    if (this.#end !== null || this.#closing !== null) return;
    this.#end = error instanceof ReplacedError ? new SvcError("CONNECTOR_RUNNING", error.message) : asSvcError(error);
    this.#credentials.stop();
    this.#link.stop();
    for (const reject of this.#asking) reject(this.#end);
    this.#events.problem(this.#end);
  }

  async #close(): Promise<void> {
    const late = new AbortController();
    const deadline = sleep(this.#parts.system.clock, CLIENT_LIMITS.closeMs, late.signal);
    this.#link.stop();
    const closed = new SvcError("NO_REPLY", "The agent was closed");
    for (const reject of this.#asking) reject(closed);
    await Promise.race([this.#incoming.close(), deadline]);
    late.abort();
    this.#incoming.stop();
    this.#credentials.stop();
  }

  #assertRuns(): void {
    if (this.#end !== null) throw this.#end;
    if (this.#closing !== null) throw new SvcError("CLI_USAGE", "The agent is closed");
  }

  get #profile() {
    return { agentName: this.name, humanName: this.#parts.humanName };
  }

  /** The DID of a recipient. @throws {SvcError} `CONNECTOR_PEER_UNKNOWN` */
  async #didOf(to: string): Promise<string> {
    const did = isAgentDid(to) ? to : (await this.#readAliases()).get(to);
    if (did !== undefined) return did;
    throw new SvcError("CONNECTOR_PEER_UNKNOWN", `No peer has the alias "${to}"`);
  }

  /** Reads the DIDs of the peers by alias, and keeps the aliases for messages. @throws {SvcError} `CLI_FILE_INVALID` */
  async #readAliases(): Promise<ReadonlyMap<string, string>> {
    const aliases = await this.#parts.aliases();
    this.#aliasOf = new Map([...aliases].map(([alias, did]) => [did, alias]));
    return aliases;
  }

  /** Calls the proxy. @throws {SvcError} */
  async #call(method: "GET" | "POST", target: string, body?: object): Promise<unknown> {
    return await withSvcErrors(() => {
      this.#assertRuns();
      return this.#proxy.ask({ method, target, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
    });
  }

  async #post(to: string, content: Content, options: SendOptions, answering: Answering = {}): Promise<Sent> {
    const { requestId = this.#newId(), conversationId, onlyOnline = false } = options;
    return await withSvcErrors(async () => {
      if (!answering.auto) this.#assertRuns();
      const payload = payloadText(content);
      const message = { to, payload, requestId, conversationId, mayWait: !onlyOnline, ...answering };
      const request = await messageRequest(message);
      this.#incoming.noteSent(to, requestId);
      const response = await this.#proxy.call(request);
      const refusal = apiErrorOf(response);
      if (refusal !== null) throw refusal;
      const { state, expiresAt, problem } = stateOf(response);
      return { requestId, state, expiresAt, problem };
    });
  }

  #answer(to: IncomingMessage, content: Content, options: SendOptions, auto: boolean): Promise<Sent> {
    const { conversationId = to.conversationId ?? undefined } = options;
    const answering = { inReplyTo: to.requestId, auto };
    return this.#post(to.from.agentDid, content, { ...options, conversationId }, answering);
  }
}

/** Reports an event of the link to the program. */
function tellProgram(events: EventHandlers, event: LinkEventName, fields: EventFields = {}): void {
  const why = String(fields.why ?? "");
  switch (event) {
    case "connected":
      return events.emit("connected", "The link to the proxy is open");
    case "disconnected":
      return events.emit("disconnected", why);
    case "refused":
    case "unreachable":
    case "refresh_failed":
    case "revoked":
      return events.emit("problem", why, typeof fields.code === "string" ? fields.code : null);
  }
}
