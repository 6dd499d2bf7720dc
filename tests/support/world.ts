/**
 * Both services in one process over a store in memory, with a clock that tests move and random bytes from a seed.
 * Requests use the apps' own `fetch`: no socket and no permission.
 */
import { connectRequest } from "./connect_request.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { COMMITS_IN_FLIGHT, RELIED_MS } from "../../shared/server/store/open_store.ts";
import { AgentClient, type AgentIdentity, type HttpDeps, RegistryClient } from "./agent_client.ts";
import { createProxy, type Proxy } from "../../proxy/app.ts";
import type { ProxyExternals } from "../../proxy/deps.ts";
import { type ProxyConfig, readProxyConfig } from "../../proxy/config.ts";
import type { RelaySocket, SocketTransport } from "../../proxy/relay/agent_sockets.ts";
import { createRegistry, type Registry } from "../../registry/app.ts";
import { type Quotas, readRegistryConfig, type RegistryConfig } from "../../registry/config.ts";
import type { AgentAuth } from "../../shared/protocol/api/sessions.ts";
import type { Agent } from "../../shared/protocol/api/agents.ts";
import { type KeyPair, keyPairFromSeed, sign } from "../../shared/protocol/ed25519.ts";
import { sha256, toBase64Url, utf8Bytes } from "../../shared/protocol/base64url.ts";
import { decodeFrame, type DeliverFrame, type ProxyFrame } from "../../shared/protocol/frames.ts";
import { type NewId, ulidSource } from "../../shared/protocol/ids.ts";
import { ContextError, messageTarget } from "../../shared/protocol/message_context.ts";
import { canonicalProof, HEADERS, type ProofFields } from "../../shared/protocol/proof.ts";
import { toIso, unixSeconds } from "../../shared/protocol/time.ts";
import type { Random } from "../../shared/random.ts";
import { type Peer, TrustedProxies } from "../../shared/server/http/client_ip.ts";
import { apiDocsOf } from "../../shared/server/http/api_docs.ts";
import { PROXY_DOCUMENT } from "../../proxy/routes.ts";
import { REGISTRY_DOCUMENT } from "../../registry/routes.ts";
import { ConfigReader } from "../../shared/server/config_reader.ts";
import type { DiskSpace } from "../../shared/server/machine.ts";
import { wrapStoreErrors } from "../../shared/server/store/store_errors.ts";
import { Metrics } from "../../shared/server/metrics/metrics.ts";
import { WriteWatch } from "../../shared/server/write_watch.ts";
import { flushTasks, ManualClock } from "./manual_clock.ts";
import { LinkNetwork } from "./link_network.ts";
import { seededRandom } from "./seeded_random.ts";
import { IS_REMOTE, MAX_CHECKS, openTestKv } from "./test_store.ts";

export const REGISTRY_URL = "https://registry.example.test";
export const PROXY_URL = "https://proxy.example.test";
export const BOOTSTRAP_SECRET = "bootstrap-secret-of-the-tests";

/** Quotas that no test reaches. */
export const AMPLE_QUOTAS: Quotas = {
  agents: 100_000,
  apiKeys: 100_000,
  registrationsPerDay: 100_000,
  agentReissuesPerDay: 100_000,
  reissuesPerDay: 100_000,
  challenges: 100_000,
  revocations: 100_000,
};

/** Options of a world. */
export interface WorldOptions {
  registry?: Partial<RegistryConfig>;
  proxy?: Partial<ProxyConfig>;
  trustedProxies?: string[];
  seed?: number;
  /** A store to use; without it a new one in memory. */
  kv?: Deno.Kv;
  /** The writes of `kv`, when nothing else uses it. */
  writes?: WriteWatch;
  maxChecks?: number;
  /** Size of a revocation list that counts as full (default: that of verifiers). */
  crlBytes?: number;
  /** What the proxy learns of the store's disk. */
  diskSpace?: () => DiskSpace;
  /** The proxy checks access tokens by the registry's records, as when both share a process, without a request. */
  sharedProcess?: boolean;
  /** A clock to share with another world over the same store. */
  clock?: ManualClock;
  /** Addresses of this server (default: those of the constants). */
  at?: { registryUrl: string; proxyUrl: string };
  /** How the proxy reaches registries of other servers. */
  abroad?: ProxyExternals["abroad"];
  /** Where other worlds over the same store open links to this one. */
  network?: LinkNetwork;
}

/** A person with an API key. */
export interface Person {
  id: string;
  did: string;
  apiKey: string;
}

/** An agent with its client. */
export interface TestAgent {
  owner: Person;
  agent: Agent;
  keys: KeyPair;
  identity: AgentIdentity;
  agentAuth: AgentAuth;
  client: AgentClient;
}

/** A log line. */
export interface LogLine {
  level: string;
  event: string;
  fields: Record<string, unknown>;
}

/** Parts of a signed request that a test replaces. `null` omits a header. */
export interface RequestParts {
  method?: string;
  /** Where it is sent (default: the proxy). */
  base?: string;
  target?: string;
  body?: string | Uint8Array<ArrayBuffer>;
  recipient?: string;
  timestamp?: string;
  nonce?: string;
  /** Fields that are signed with other values than are sent. */
  signed?: Partial<ProofFields>;
  headers?: Record<string, string | null>;
}

export class World implements AsyncDisposable {
  readonly clock: ManualClock;
  readonly random: Random;
  readonly newId: NewId;
  readonly log: LogLine[] = [];
  /** Peer of the following requests. */
  peer: Peer = { from: "socket", address: "192.0.2.1" };
  /** Answers the proxy's calls in place of the registry when a test sets it. */
  registryAnswer: ((request: Request) => Promise<Response | null> | Response | null) | null = null;
  registry!: Registry;
  metrics!: Metrics;
  proxy!: Proxy;
  #names = 0;
  /** Sockets that are being attached to this instance, as the upgrade does before it answers. */
  #claims: Promise<void>[] = [];

  /** Other servers, which `fetch` reaches too. */
  readonly others: World[] = [];
  /** What ends before this world. */
  readonly owned = new AsyncDisposableStack();
  readonly registryUrl: string;
  readonly proxyUrl: string;

  private constructor(
    readonly kv: Deno.Kv,
    readonly options: WorldOptions,
    readonly writes: WriteWatch | null,
  ) {
    ({ registryUrl: this.registryUrl, proxyUrl: this.proxyUrl } = options.at ??
      { registryUrl: REGISTRY_URL, proxyUrl: PROXY_URL });
    this.clock = options.clock ?? new ManualClock();
    this.random = seededRandom(options.seed);
    this.newId = ulidSource(() => this.clock.now(), this.random.bytes);
  }

  static async open(options: WorldOptions = {}): Promise<World> {
    const kv = options.kv ?? await openTestKv();
    const writes = options.writes ?? (options.kv || IS_REMOTE ? null : new WriteWatch(kv));
    if (!options.kv) wrapStoreErrors(kv);
    const world = new World(kv, options, writes);
    await world.start();
    return world;
  }

  /** Lets the time pass in which the proxy relies on what it has read of a store over the network: an end takes effect then. */
  passRelied(): void {
    if ((this.options.maxChecks ?? MAX_CHECKS) === LIMITS.commitChecksConnect) this.clock.step(RELIED_MS + 1);
  }

  /** Composes both services again over the same store: a restart. */
  async start(): Promise<void> {
    this.registry?.stop();
    await this.proxy?.stop();
    const reader = new ConfigReader(() => undefined);
    const place = {
      environment: "dev",
      registryUrl: this.registryUrl,
      proxyUrl: this.proxyUrl,
      version: "0.0.0-test",
    } as const;
    const maxChecks = this.options.maxChecks ?? MAX_CHECKS;
    const isRemote = maxChecks === LIMITS.commitChecksConnect;
    const deps = {
      kv: this.kv,
      place: "of the test",
      maxChecks,
      // A store with the checks of one over the network is used like one.
      commitsInFlight: isRemote ? COMMITS_IN_FLIGHT : 1,
      reliedMs: isRemote ? RELIED_MS : 0,
      writes: this.writes,
      clock: this.clock,
      random: this.random,
      newId: this.newId,
      log: (level: string, event: string, fields: Record<string, unknown> = {}) =>
        this.log.push({ level, event, fields }),
      metrics: this.metrics = new Metrics(),
      trustedProxies: new TrustedProxies(this.options.trustedProxies ?? []),
      documents: apiDocsOf([REGISTRY_DOCUMENT, PROXY_DOCUMENT], place.version),
    };
    this.registry = await createRegistry({
      ...deps,
      origins: [this.registryUrl],
      crlBytes: this.options.crlBytes,
      ...this.options.sharedProcess ? { onDeleted: () => this.proxy.deps.crl.refreshAgain() } : {},
      callProxy: (request) => this.callProxy(request),
    }, {
      ...readRegistryConfig(reader, place),
      bootstrapSecret: BOOTSTRAP_SECRET,
      ...this.options.registry,
    });
    this.proxy = createProxy({
      ...deps,
      origins: [this.proxyUrl],
      send: async (request) =>
        await this.registryAnswer?.(request) ?? await this.registry.fetch(request, { from: "process" }),
      ...this.options.diskSpace ? { diskSpace: this.options.diskSpace } : {},
      ...this.options.sharedProcess ? { judgeAccess: this.registry.judgeAccess } : {},
      abroad: this.options.abroad ?? {
        send: async (request) => await this.fetch(request),
        lookup: () => Promise.resolve(this.others.length > 0 ? [{ address: "93.184.215.14", family: 4 }] : []),
      },
      upgrade: this.options.network?.upgrade ?? (() => {
        throw new TypeError("No sockets here: see tests/e2e");
      }),
      dial: this.options.network ?? new LinkNetwork(),
    }, { ...readProxyConfig(reader, place), ownerRequests: 1_000_000, ...this.options.proxy });
    const { connectedAgents, presence } = this.proxy.deps, { onAttached } = connectedAgents;
    // In the service a socket is attached after the agent was claimed.
    connectedAgents.onAttached = (agentDid) => {
      if (connectedAgents.isOpening(agentDid)) return onAttached(agentDid);
      const claim = presence.claim(agentDid, connectRequest(this.clock));
      this.#claims.push(claim);
      claim.catch(() => {}).then(() => onAttached(agentDid));
    };
    if (this.options.sharedProcess) this.registry.deps.signing.onChanged = () => this.proxy.deps.keys.forget();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.owned.disposeAsync();
    this.registry.stop();
    await this.proxy.stop();
    this.proxy.closeSockets();
    await flushTasks();
    if (!this.options.kv) this.kv.close();
  }

  /** How the console reaches the proxy. */
  callProxy = (request: Request): Promise<Response> => this.proxy.fetch(request, { from: "process" });

  /** `fetch` that reaches the two services by their public origins. */
  readonly fetch = (async (input: string | URL | Request, init?: RequestInit): Promise<Response> => {
    const request = new Request(input, init);
    const { origin } = new URL(request.url);
    for (const { registryUrl, proxyUrl, registry, proxy, peer } of [this, ...this.others]) {
      if (origin === registryUrl) return await registry.fetch(request, peer);
      if (origin === proxyUrl) return await proxy.fetch(request, peer);
    }
    throw new TypeError(`No service has the origin ${origin}`);
  }) as typeof fetch;

  get deps(): HttpDeps {
    return { fetch: this.fetch, clock: this.clock, random: this.random };
  }

  get client(): RegistryClient {
    return new RegistryClient(this.deps, this.registryUrl);
  }

  /** A request to the registry with a JSON body, answered. */
  async ask(
    method: string,
    path: string,
    { apiKey, body, headers = {} }: { apiKey?: string | undefined; body?: unknown; headers?: Record<string, string> } =
      {},
  ): Promise<Response> {
    return await this.fetch(this.registryUrl + path, {
      method,
      headers: { ...(apiKey === undefined ? {} : { Authorization: `Bearer ${apiKey}` }), ...headers },
      body: body === undefined ? null : typeof body === "string" ? body : JSON.stringify(body),
    });
  }

  #admin: Promise<Person> | undefined;

  /** The first admin. */
  admin(): Promise<Person> {
    this.#admin ??= this.client.bootstrap(BOOTSTRAP_SECRET).then(({ human, apiKey }) => ({
      id: human.id,
      did: human.did,
      apiKey: apiKey.token,
    }));
    return this.#admin;
  }

  /** Creates a person through an invite. */
  async person(displayName = "Someone"): Promise<Person> {
    const { apiKey } = await this.admin();
    const { invite } = await this.client.createInvite(apiKey);
    const { human, apiKey: own } = await this.client.redeemInvite(invite.code, displayName);
    return { id: human.id, did: human.did, apiKey: own.token };
  }

  /** Registers an agent. Its owner is a new person unless one is given. */
  async agent(
    owner?: Person,
    name = `agent-${++this.#names}`,
    keys?: KeyPair,
    wanted: { ttlDays?: number; framework?: string } = {},
  ): Promise<TestAgent> {
    const person = owner ?? await this.person();
    const pair = keys ?? await keyPairFromSeed(this.random.bytes(32));
    const { agent, ait, agentAuth } = await this.client.registerAgent(person.apiKey, pair, { name, ...wanted });
    const identity = { did: agent.did, ait, privateKey: pair.privateKey, accessToken: agentAuth.accessToken };
    return { owner: person, agent, keys: pair, identity, agentAuth, client: this.clientOf(identity) };
  }

  /** Registers agents of one owner, one after the other. */
  async agents(count: number, owner: Person): Promise<TestAgent[]> {
    const agents: TestAgent[] = [];
    while (agents.length < count) agents.push(await this.agent(owner));
    return agents;
  }

  /** Gives an agent the next tokens of its session. */
  async renew(agent: TestAgent): Promise<void> {
    agent.agentAuth = await this.client.refresh(agent.identity, agent.agentAuth.refreshToken);
    agent.identity.accessToken = agent.agentAuth.accessToken;
  }

  clientOf(identity: AgentIdentity): AgentClient {
    return new AgentClient(this.deps, this.proxyUrl, identity);
  }

  /** Pairs two agents. */
  async pair(a: TestAgent, b: TestAgent): Promise<void> {
    const { ticket } = await a.client.pairStart({ agentName: a.agent.name, humanName: "A" });
    await b.client.pairConfirm(ticket, { agentName: b.agent.name, humanName: "B" });
  }

  /** Creates two paired agents. */
  async pairedAgents(): Promise<{ a: TestAgent; b: TestAgent }> {
    const a = await this.agent();
    const b = await this.agent();
    await this.pair(a, b);
    return { a, b };
  }

  /** Creates two paired agents. The second is connected and acknowledges everything. */
  async story(): Promise<{ a: TestAgent; b: TestAgent; socket: TestSocket }> {
    const { a, b } = await this.pairedAgents();
    const socket = this.connect(b);
    // A clock that moves before the commit would end its deadline.
    await this.connected();
    return { a, b, socket };
  }

  /** Attaches a connector to the connected agents, as an admitted upgrade does. */
  connect(agent: TestAgent, behaviour: SocketBehaviour = "ack"): TestSocket {
    const socket = new TestSocket(this, behaviour);
    socket.link = this.proxy.deps.connectedAgents.attach({
      agentDid: agent.agent.did,
      ownerDid: agent.agent.ownerDid,
      aitJti: agent.agent.currentJti,
      aitExpiresAt: unixSeconds(Date.parse(agent.agent.expiresAt)),
    }, socket);
    return socket;
  }

  /**
   * Waits until the store has a record of every connection so far, and their mailboxes are read: before that a message that may
   * wait is queued.
   */
  async connected(): Promise<void> {
    const claims = this.#claims.splice(0);
    if (claims.length === 0) return;
    await Promise.all(claims);
    await flushTasks();
  }

  /** Builds a signed request, with any part replaced. */
  async signed(agent: Pick<TestAgent, "identity">, parts: RequestParts = {}): Promise<Request> {
    const { method = "POST", base = this.proxyUrl, target = "/hooks/agent", recipient = "" } = parts;
    const body = typeof parts.body === "string" ? utf8Bytes(parts.body) : parts.body ?? new Uint8Array();
    const { ait, privateKey, accessToken } = agent.identity;
    const timestamp = parts.timestamp ?? String(unixSeconds(this.clock.now()));
    const nonce = parts.nonce ?? toBase64Url(this.random.bytes(18));
    const fields: ProofFields = {
      method,
      origin: base,
      target,
      timestamp,
      nonce,
      bodySha256: await sha256(body),
      recipient,
      aitSha256: await sha256(ait),
      ...parts.signed,
    };
    const headers = new Headers({
      [HEADERS.authorization]: `Svc ${ait}`,
      [HEADERS.timestamp]: timestamp,
      [HEADERS.nonce]: nonce,
      [HEADERS.bodySha256]: await sha256(body),
      [HEADERS.proof]: await sign(privateKey, utf8Bytes(canonicalProof(fields))),
      [HEADERS.access]: accessToken,
      "Content-Type": "application/json",
    });
    if (recipient) headers.set(HEADERS.recipient, recipient);
    for (const [name, value] of Object.entries(parts.headers ?? {})) {
      if (value === null) headers.delete(name);
      else headers.set(name, value);
    }
    const sent = method === "GET" || method === "HEAD" ? null : body;
    return new Request(base + target, { method, headers, body: sent });
  }

  /** Sends a message from one agent to another, with any part replaced. */
  async message(from: TestAgent, to: Pick<TestAgent, "agent">, parts: RequestParts = {}): Promise<Response> {
    await this.connected();
    const context = parts.target === undefined ? await this.#inContext(parts.headers ?? {}) : {};
    return await this.fetch(
      await this.signed(from, {
        recipient: to.agent.did,
        body: JSON.stringify({ message: "hi" }),
        ...parts,
        ...context,
      }),
    );
  }

  /** The parts that sign the headers of a message, if it is in a conversation or a reply: a connector drops unsigned ones. */
  async #inContext(parts: NonNullable<RequestParts["headers"]>): Promise<Pick<RequestParts, "target" | "headers">> {
    if (!Object.keys(parts).some((name) => /^x-svc-(conversation-id|in-reply-to|auto)$/i.test(name))) return {};
    const headers = Object.fromEntries(
      Object.entries({ "Content-Type": "application/json", "x-request-id": this.newId(), ...parts })
        .flatMap(([name, value]) => value === null ? [] : [[name, value]]),
    );
    try {
      return { target: await messageTarget(headers), headers };
    } catch (error) {
      if (error instanceof ContextError) return {};
      throw error;
    }
  }
}

/** How a connector handles a message: acknowledge it, refuse it, have no space for it, or stay silent. */
export type SocketBehaviour = "ack" | "nack" | "full" | "silent";

/** The far end of a connection. It keeps every frame. */
export class TestSocket implements SocketTransport {
  readonly frames: ProxyFrame[] = [];
  closed: { code: number; reason: string } | null = null;
  unsentBytes = 0;
  /** Whether it answers the proxy's heartbeats. */
  alive = false;
  link!: RelaySocket;

  constructor(readonly world: World, public behaviour: SocketBehaviour) {}

  /** The messages among the frames. */
  get delivered(): DeliverFrame[] {
    return this.frames.filter((frame) => frame.type === "deliver");
  }

  send(text: string): void {
    const frame = decodeFrame(text, "proxy");
    this.frames.push(frame);
    if (frame.type === "heartbeat" && this.alive) {
      const head = { v: 1, id: this.world.newId(), ts: toIso(this.world.clock.now()) };
      this.link.receive(JSON.stringify({ ...head, type: "heartbeat_ack", ackId: frame.id }));
    }
    if (frame.type === "deliver" && this.behaviour !== "silent") {
      const accepted = this.behaviour === "ack";
      queueMicrotask(() => this.ack(frame.id, accepted));
    }
  }

  /** Acknowledges a frame. */
  ack(ackId: string, accepted = true): void {
    const head = { v: 1, id: this.world.newId(), ts: toIso(this.world.clock.now()) };
    const reason = accepted ? {} : { reason: this.behaviour === "full" ? "inbox_full" : "payload_invalid" };
    this.link.receive(JSON.stringify({ ...head, type: "deliver_ack", ackId, accepted, ...reason }));
  }

  close(code: number, reason: string): void {
    this.closed = { code, reason };
  }

  drop(): void {}
}

/** Code of an error answer. */
export async function codeOf(response: Response): Promise<string> {
  const { error } = await response.json() as { error: { code: string } };
  return error.code;
}
