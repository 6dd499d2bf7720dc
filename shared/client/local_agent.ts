/// <reference lib="esnext.disposable" />
/**
 * An agent, used through the local API of its connector, which keeps its messages on disk. A class with keys and a link
 * of its own would be a second connector without the disk, so a crash would lose messages that it has acknowledged.
 */
import { join } from "node:path";
import { sleep } from "../clock.ts";
import { PairConfirmAnswer, PairStartAnswer } from "../protocol/api/pairing.ts";
import { isAgentDid } from "../protocol/did.ts";
import { type NewId, ulidSource } from "../protocol/ids.ts";
import { isAgentName } from "../protocol/names.ts";
import { call, get, type LocalClient, type LocalRequest, post, sendAndWait, STATUS_MS } from "./local_client.ts";
import { CheckedReceipts, LocalPeers } from "./local_shapes.ts";
import type {
  AgentEvent,
  AgentEventName,
  AskOptions,
  Content,
  IncomingMessage,
  LocalAgentOptions,
  MessageHandler,
  Peer,
  Receipt,
  SendOptions,
  Sent,
  Ticket,
} from "./agent_api.ts";
import { AgentDirectory, agentNames } from "./directory_store.ts";
import { EventHandlers, InboxReader, messageParts } from "./inbox_reader.ts";
import { askThrough, localClient, orSvcError } from "./connector_calls.ts";
import { SvcError } from "./svc_error.ts";
import { type ClientSystem, hostSystem } from "./system.ts";
import { DEFAULT_PROFILE, isProfileName, profileFolder, usualConfigDir } from "./user_folder.ts";
import * as z from "zod";

/**
 * Time that `ask` waits for the reply. With less, a model that answers would be too slow for it; with more, a program
 * waits long for an agent that is gone.
 */
const ASK_MS = 60_000;
/** Time that `close` gives running handlers. With more, a host kills the process before they have ended. */
const CLOSE_MS = 4_000;

const Status = z.object({ agent: z.object({ did: z.string().refine(isAgentDid) }) });

/**
 * An agent whose connector runs on this machine. Messages reach its handler only if the connector's platform is
 * `inbox`. A recipient is given as alias or DID. Every method rejects with a `SvcError`.
 */
export class LocalAgent implements AsyncDisposable {
  readonly #system: ClientSystem;
  readonly #directory: AgentDirectory;
  readonly #local: LocalClient;
  readonly #closed: AbortController;
  readonly #events = new EventHandlers();
  readonly #inbox: InboxReader;
  readonly #newId: NewId;
  #closing: Promise<void> | null = null;

  private constructor(
    system: ClientSystem,
    directory: AgentDirectory,
    local: LocalClient,
    closed: AbortController,
    readonly did: string,
  ) {
    const { clock, random } = system;
    [this.#system, this.#directory, this.#local, this.#closed] = [system, directory, local, closed];
    this.#newId = ulidSource(() => clock.now(), random.bytes);
    this.#inbox = new InboxReader(
      local,
      clock,
      this.#events,
      (message, content, requestId) => this.#post({ ...answerTo(message), auto: true }, content, { requestId }),
    );
  }

  get name(): string {
    return this.#directory.name;
  }

  /**
   * Opens an agent whose connector runs.
   *
   * @throws {SvcError} such as `CONNECTOR_DOWN`, `CLI_AGENT_UNKNOWN`, or `CLI_USAGE` when there are several agents and
   * none is named
   */
  static async open(options: LocalAgentOptions = {}): Promise<LocalAgent> {
    const system = hostSystem();
    const configDir = options.configDir ?? chosenDir(system);
    const name = await chosenName(system, configDir, options.name);
    const directory = await AgentDirectory.open(system, join(configDir, "agents", name));
    const closed = new AbortController();
    const local = localClient(system, directory, closed.signal);
    const request = { ...get("/v1/status"), timeoutMs: STATUS_MS };
    const { agent } = await orSvcError(call(local, Status, request));
    return new LocalAgent(system, directory, local, closed, agent.did);
  }

  /** Sends a message. Its state is `refused` when the recipient did not accept it. */
  async send(to: string, content: Content, options: SendOptions = {}): Promise<Sent> {
    return await this.#post({ to }, content, options);
  }

  /** Answers a message. Recipient and conversation are those of that message. */
  async reply(to: IncomingMessage, content: Content, options: SendOptions = {}): Promise<Sent> {
    return await this.#post(answerTo(to), content, options);
  }

  /** Sends a message and returns the first reply. Rejects with `NO_REPLY` when none comes in time. */
  async ask(to: string, content: Content, options: AskOptions = {}): Promise<IncomingMessage> {
    const { requestId = this.#newId(), timeoutMs = ASK_MS } = options;
    const { members, payload } = messageParts(content, { ...options, requestId });
    const question = { members: { ...members, to }, payload };
    this.#inbox.expect(requestId);
    let reply: IncomingMessage | null = null;
    try {
      reply = await askThrough(this.#local, this.#system.clock, question, timeoutMs, this.#closed.signal);
    } finally {
      this.#inbox.release(requestId, reply);
    }
    if (reply.error === null) return reply;
    const { code, message: why } = reply.error;
    throw new SvcError("REPLY_ERROR", `${to} could not answer: ${code}: ${why}`, { requestId, reply });
  }

  /**
   * Passes every message for which no `ask` waits to this handler: at most four at once, and one per conversation. An
   * agent can have only one handler at a time.
   *
   * @returns a function that removes the handler
   */
  onMessage(handler: MessageHandler): () => void {
    if (this.#inbox.handler !== null) throw new SvcError("CLI_USAGE", "The agent has a handler already");
    this.#inbox.handler = handler;
    return () => {
      if (this.#inbox.handler === handler) this.#inbox.handler = null;
    };
  }

  /** Returns the receipts of a message that this agent has sent. */
  async receipts(requestId: string, to: string): Promise<Receipt[]> {
    return (await this.#call(CheckedReceipts, get("/v1/receipts", { requestId, to }))).receipts;
  }

  async peers(): Promise<Peer[]> {
    const { peers } = await this.#call(LocalPeers, get("/v1/peers"));
    return peers.map(({ agentDid, agentName: name, humanName, alias, pairedAt }) => {
      return { agentDid, name, humanName, alias, pairedAt };
    });
  }

  readonly pair = {
    /** Makes a ticket for another agent. By default it is valid for 5 min. */
    start: async (ttlSeconds?: number): Promise<Ticket> => {
      const body = ttlSeconds === undefined ? {} : { ttlSeconds };
      const { ticket, expiresAt } = await this.#call(PairStartAnswer, post("/v1/pair/start", body));
      return { ticket, expiresAt };
    },
    /** Pairs with the agent that made the ticket. */
    confirm: async (ticket: string): Promise<Peer> => {
      const answer = await this.#call(PairConfirmAnswer, post("/v1/pair/confirm", { ticket }));
      const { initiatorAgentDid: agentDid } = answer;
      const peer = (await this.peers()).find((one) => one.agentDid === agentDid);
      if (peer === undefined) throw new SvcError("CONNECTOR_PEER_UNKNOWN", `The pair with ${agentDid} has ended`);
      return peer;
    },
    /** Ends a pair in both directions. */
    remove: async (peer: string): Promise<void> => {
      await this.#call(z.unknown(), post("/v1/pair/remove", { to: peer }));
    },
  };

  /** Calls the handler for each event of this kind. @returns a function that removes the handler */
  on(event: AgentEventName, handler: (event: AgentEvent) => void): () => void {
    return this.#events.add(event, handler);
  }

  /**
   * Stops receiving, gives running handlers 4 s to end, and ends all calls: an `ask` that waits rejects with `NO_REPLY`.
   * A second call changes nothing.
   */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    const late = new AbortController();
    await Promise.race([this.#inbox.stop(), sleep(this.#system.clock, CLOSE_MS, late.signal)]);
    late.abort();
    this.#closed.abort();
  }

  async #post(target: object, content: Content, options: SendOptions): Promise<Sent> {
    const { members, payload } = messageParts(content, { ...options, requestId: options.requestId ?? this.#newId() });
    const message = { members: { ...members, ...target }, payload, waitSeconds: 0 };
    const { result } = await orSvcError(sendAndWait(this.#local, this.#system.clock, message));
    const { requestId, state, expiresAt, problem } = result;
    return { requestId, state, expiresAt, problem };
  }

  #call<S extends z.ZodType>(schema: S, request: LocalRequest): Promise<z.output<S>> {
    return orSvcError(call(this.#local, schema, request));
  }
}

/**
 * The members that address the reply to a message. The connector compares them, because a new database gives the number
 * of a message to another one, and its sender would get the reply.
 */
function answerTo({ id, from, requestId }: IncomingMessage) {
  return { replyTo: id, to: from.agentDid, inReplyTo: requestId };
}

/** The folder that the commands of `svc` would use, because a program would otherwise act for another account. */
function chosenDir(system: ClientSystem): string {
  const baseDir = system.env("SVC_CONFIG_DIR") ?? usualConfigDir(system);
  if (baseDir === undefined) throw new SvcError("CLI_NO_CONFIG_DIR", "No home directory is set");
  const profile = system.env("SVC_PROFILE") ?? DEFAULT_PROFILE;
  if (isProfileName(profile)) return profileFolder(baseDir, profile);
  throw new SvcError("CLI_USAGE", `SVC_PROFILE is "${profile}", which is not the name of a profile`);
}

/** Returns the name of the agent to open. @throws {SvcError} `CLI_USAGE` */
async function chosenName(system: ClientSystem, configDir: string, given: string | undefined): Promise<string> {
  const named = given ?? system.env("SVC_AGENT");
  if (named !== undefined) {
    if (isAgentName(named)) return named;
    throw new SvcError("CLI_USAGE", `"${named}" is not the name of an agent`);
  }
  const names = await agentNames(configDir);
  const [only] = names;
  if (only !== undefined && names.length === 1) return only;
  const found = only === undefined ? `There is no agent in ${configDir}` : `Name one of the agents ${names.join(", ")}`;
  throw new SvcError("CLI_USAGE", found);
}
