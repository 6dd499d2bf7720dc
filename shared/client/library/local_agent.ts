/// <reference lib="esnext.disposable" />
/** An agent through the local API of its connector (D-125): the durable way, because the connector keeps its messages. */
import { isAbsolute, join } from "node:path";
import * as z from "zod";
import { sleep } from "../../clock.ts";
import { PairConfirmAnswer, PairStartAnswer } from "../../protocol/api/pairing.ts";
import { ReceiptList } from "../../protocol/api/receipts.ts";
import { isAgentDid } from "../../protocol/did.ts";
import { type NewId, ulidSource } from "../../protocol/ids.ts";
import { isAgentName } from "../../protocol/names.ts";
import { CLIENT_LIMITS } from "../limits.ts";
import { pageOf } from "../peer_pages.ts";
import type {
  AgentApi,
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
import { EventHandlers } from "./event_handlers.ts";
import { InboxReader } from "./inbox_reader.ts";
import { LocalConnection } from "./local_connection.ts";
import { askThrough, messageBody, postOutbound } from "./local_outbound.ts";
import { SvcError } from "./svc_error.ts";
import { type ClientSystem, hostSystem } from "./system.ts";

const Status = z.object({ agent: z.object({ did: z.string().refine(isAgentDid) }) });
/** An agent whose connector runs on this machine. Messages reach its handler when the connector's platform is `inbox`. */
export class LocalAgent implements AgentApi {
  readonly #local: LocalConnection;
  readonly #events = new EventHandlers();
  readonly #inbox: InboxReader;
  readonly #newId: NewId;
  #closing: Promise<void> | null = null;

  private constructor(local: LocalConnection, readonly name: string, readonly did: string) {
    this.#local = local;
    const { clock, random } = local.system;
    this.#newId = ulidSource(() => clock.now(), random.bytes);
    this.#inbox = new InboxReader(
      local,
      this.#events,
      (message, content, requestId) => this.#post({ replyTo: message.id, auto: true }, content, { requestId }),
    );
  }

  /**
   * Opens an agent whose connector runs.
   *
   * @throws {SvcError} `CONNECTOR_DOWN`; `CLI_USAGE` when several agents are there and none is named; `CLI_AGENT_UNKNOWN`
   */
  static async open(options: LocalAgentOptions = {}): Promise<LocalAgent> {
    const system = hostSystem();
    const configDir = options.configDir ?? defaultConfigDir(system);
    const name = await chosenName(system, configDir, options.name);
    const local = new LocalConnection(system, await AgentDirectory.open(system, join(configDir, "agents", name)));
    const timeoutMs = CLIENT_LIMITS.localStatusMs;
    const { agent } = Status.parse(await local.call("GET", "/v1/status", undefined, { timeoutMs }));
    return new LocalAgent(local, name, agent.did);
  }

  async send(to: string, content: Content, options: SendOptions = {}): Promise<Sent> {
    return await this.#post({ to }, content, options);
  }

  async reply(to: IncomingMessage, content: Content, options: SendOptions = {}): Promise<Sent> {
    const target = to.id === null ? { to: to.from.agentDid, inReplyTo: to.requestId } : { replyTo: to.id };
    return await this.#post(target, content, options);
  }

  async ask(to: string, content: Content, options: AskOptions = {}): Promise<IncomingMessage> {
    const { requestId = this.#newId(), timeoutMs = CLIENT_LIMITS.askMs } = options;
    const message = { ...messageBody(content, { ...options, requestId }), to };
    this.#inbox.expect(requestId);
    let reply: IncomingMessage | null = null;
    try {
      return reply = await askThrough(this.#local, message, timeoutMs);
    } finally {
      this.#inbox.release(requestId, reply);
    }
  }

  onMessage(handler: MessageHandler): () => void {
    if (this.#inbox.handler !== null) throw new SvcError("CLI_USAGE", "The agent has a handler already");
    this.#inbox.handler = handler;
    return () => {
      if (this.#inbox.handler === handler) this.#inbox.handler = null;
    };
  }

  async receipts(requestId: string, to: string): Promise<Receipt[]> {
    const query = new URLSearchParams({ requestId, to });
    return ReceiptList.parse(await this.#local.call("GET", `/v1/receipts?${query}`)).receipts;
  }

  async peers(): Promise<Peer[]> {
    const list = pageOf(await this.#local.call("GET", "/v1/pair/peers"));
    if (list === null) throw new SvcError("CONNECTOR_DOWN", `The connector of ${this.name} answered without peers`);
    const aliases = new Map([...await this.#local.directory.aliases()].map(([alias, did]) => [did, alias]));
    return list.peers.map(({ agentDid, profile, pairedAt }) => {
      const alias = aliases.get(agentDid) ?? null;
      return { agentDid, name: profile.agentName, humanName: profile.humanName, alias, pairedAt };
    });
  }

  readonly pair = {
    start: async (ttlSeconds?: number): Promise<Ticket> => {
      const body = ttlSeconds === undefined ? {} : { ttlSeconds };
      const { ticket, expiresAt } = PairStartAnswer.parse(await this.#local.call("POST", "/v1/pair/start", body));
      return { ticket, expiresAt };
    },
    confirm: async (ticket: string): Promise<Peer> => {
      const answer = PairConfirmAnswer.parse(await this.#local.call("POST", "/v1/pair/confirm", { ticket }));
      const { initiatorAgentDid: agentDid } = answer;
      const peer = (await this.peers()).find((one) => one.agentDid === agentDid);
      if (peer === undefined) throw new SvcError("CONNECTOR_PEER_UNKNOWN", `The pair with ${agentDid} has ended`);
      return peer;
    },
    remove: async (peer: string): Promise<void> => {
      await this.#local.call("POST", "/v1/pair/remove", { to: peer });
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

  async #close(): Promise<void> {
    const late = new AbortController();
    await Promise.race([this.#inbox.stop(), sleep(this.#local.system.clock, CLIENT_LIMITS.closeMs, late.signal)]);
    late.abort();
  }

  async #post(target: object, content: Content, options: SendOptions): Promise<Sent> {
    const result = await postOutbound(this.#local, { ...messageBody(content, options), ...target }, 0);
    const { requestId, state, expiresAt, problem } = result;
    return { requestId, state, expiresAt, problem };
  }
}

/** The agent to open. @throws {SvcError} `CLI_USAGE` */
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

/** The configuration directory, as cli/files/config_dir.ts finds it (D-80). */
function defaultConfigDir({ env, os }: Pick<ClientSystem, "env" | "os">): string {
  const given = env("SVC_CONFIG_DIR");
  if (given !== undefined) return given;
  const xdg = env("XDG_CONFIG_HOME"), home = env("HOME");
  const unixHome = xdg !== undefined && isAbsolute(xdg)
    ? xdg
    : home && (os === "darwin" ? join(home, "Library", "Application Support") : join(home, ".config"));
  const parent = os === "win32" ? env("APPDATA") : unixHome;
  if (parent === undefined) throw new SvcError("CLI_NO_CONFIG_DIR", "No home directory is set");
  return join(parent, "svc");
}
