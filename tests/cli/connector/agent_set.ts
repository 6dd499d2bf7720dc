/** Many agents of one machine: their files, a runtime with one path for each, and a peer that sends to all of them. */
import { knowPeer } from "../../support/known_peer.ts";
import { eventually, type LiveAgent, type Service } from "../../support/process.ts";
import { clientFromFiles, svcHere } from "./people.ts";

/** Messages that are on their way at the same time. */
const SENDERS = 4;

/** A message that a runtime received. */
export interface Handed {
  agent: string;
  text: string;
  at: number;
}

/** The runtime of every agent: a listener with the path `/in/<name>` for each. */
export class SharedRuntime implements AsyncDisposable {
  readonly handed: Handed[] = [];
  /** Agents whose requests get no answer. */
  readonly hanging = new Set<string>();
  readonly #release = Promise.withResolvers<void>();
  readonly #server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, async (request) => {
    const agent = new URL(request.url).pathname.replace("/in/", "");
    if (request.method !== "POST") return new Response();
    const { text } = await request.json() as { text: string };
    this.handed.push({ agent, text, at: performance.now() });
    if (this.hanging.has(agent)) await this.#release.promise;
    return new Response();
  });

  get url(): string {
    return `http://127.0.0.1:${this.#server.addr.port}`;
  }

  /** What an agent received with this text. */
  of(agent: string, text: string): Handed | undefined {
    return this.handed.find((handed) => handed.agent === agent && handed.text === text);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#release.resolve();
    await this.#server.shutdown();
  }
}

/** Agents with files in `dir`, and one peer of all of them. */
export class AgentSet {
  private constructor(
    readonly dir: string,
    readonly service: Service,
    readonly runtime: SharedRuntime,
    readonly peer: LiveAgent,
  ) {}
  /** The DID of each agent by name. */
  readonly dids = new Map<string, string>();

  static async create(dir: string, service: Service, runtime: SharedRuntime, count: number): Promise<AgentSet> {
    const set = new AgentSet(dir, service, runtime, await service.agent("peer"));
    await set.svc("config", "init");
    for (let n = 1; n <= count; n++) await set.add(`agent-${n}`);
    return set;
  }

  /** Creates an agent and pairs it with the peer. */
  async add(name: string): Promise<void> {
    await this.svc("agent", "create", name);
    const file = { platform: "generic", baseUrl: this.runtime.url, hookPath: `/in/${name}` };
    await Deno.writeTextFile(`${this.dir}/agents/${name}/runtime.json`, JSON.stringify(file), { mode: 0o600 });
    const client = await clientFromFiles(this.dir, name, this.service.url);
    const { ticket } = await this.peer.client.pairStart({ agentName: "peer", humanName: "P" });
    await client.pairConfirm(ticket, { agentName: name, humanName: "H" });
    await knowPeer(this.dir, name, { did: this.peer.agent.did, agentName: "peer", humanName: "P" });
    this.dids.set(name, client.agent.did);
  }

  svc(...argv: string[]): Promise<void> {
    const { apiKey, url } = this.service;
    return svcHere(this.dir, argv, { SVC_API_KEY: apiKey, SVC_REGISTRY_URL: url });
  }

  /** Sends one message to each agent. Returns the milliseconds until the runtime received each, in ascending order. */
  async deliverToEach(names: readonly string[], text: string): Promise<number[]> {
    const left = [...names];
    const times: number[] = [];
    const sender = async () => {
      for (let agent = left.pop(); agent !== undefined; agent = left.pop()) {
        times.push(await this.#deliver(agent, `${text} ${agent}`));
      }
    };
    await Promise.all(Array.from({ length: SENDERS }, sender));
    return times.sort((x, y) => x - y);
  }

  async #deliver(agent: string, text: string): Promise<number> {
    const began = performance.now();
    await this.send(agent, text);
    const handed = await eventually(30_000, `${agent} has "${text}"`, () => this.runtime.of(agent, text));
    return handed.at - began;
  }

  /** Sends a message to an agent, in a conversation if one is given. */
  async send(agent: string, text: string, conversationId?: string): Promise<void> {
    const to = { recipientDid: this.dids.get(agent) ?? "", payload: JSON.stringify({ text }) };
    const more = conversationId === undefined ? {} : { conversationId };
    await this.peer.client.sendMessage({ ...to, ...more, prefer: "respond-async" });
  }
}
