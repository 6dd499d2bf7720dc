/**
 * A connector in the test's process, next to the two services of a World: its link is a socket of the proxy, its
 * runtime a function, its files are in a temporary folder, and its clock is the World's.
 */
import { connectRequest } from "../../support/connect_request.ts";
import { listPeers } from "../../../proxy/trust/store.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { PLATFORMS } from "../../../cli/platforms/table.ts";
import type { Platform, PlatformId, PushPlatform, RuntimeTarget } from "../../../cli/platforms/platform.ts";
import type { OpenLink } from "../../../cli/link/reconnect.ts";
import { Connector } from "../../../cli/connector/connector.ts";
import { Database } from "../../../cli/connector/store/database.ts";
import { ConnectorStore } from "../../../cli/connector/store/store.ts";
import type { EventName } from "../../../cli/connector/events.ts";
import { HISTORY_MS } from "./store/disk.ts";
import type { EventFields } from "../../../cli/link/link_events.ts";
import type { Peers } from "../../../cli/connector/peers/peers.ts";
import { Runtime } from "../../../cli/connector/runtime/runtime.ts";
import type { Ack } from "../../../cli/link/link.ts";
import { ServiceClock } from "../../../cli/link/service_clock.ts";
import type { WatchedCredentials } from "../../../cli/link/agent_credentials.ts";
import type { AgentIdentity } from "../../../cli/link/signed_headers.ts";
import { RegistryTrust, type TrustSource } from "../../../cli/connector/registry_trust.ts";
import { readKeyDocument } from "../../../shared/protocol/signed/key_document.ts";
import { decodeFrame, type DeliverFrame, type DeliveryFrame, encodeFrame } from "../../../shared/protocol/frames.ts";
import { type OpeningKey, openingKey } from "../../../shared/protocol/sealed_body.ts";
import { toIso, unixSeconds } from "../../../shared/protocol/time.ts";
import { UnreachableError } from "../../../shared/client/errors.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import { until } from "../../support/until.ts";
import type { TestAgent, World } from "../../support/world.ts";

/** A world whose limits of requests no test reaches. */
export const MANY = { proxy: { agentRequests: 100_000 } };
/** An agent that reads its messages. */
export const INBOX = { platform: "inbox" } as const;
export const RUNTIME_URL = "http://127.0.0.1:18789";

/**
 * Moves the world's clock in seconds until a condition holds, then waits for it without moving the clock.
 *
 * @param seconds how far the clock moves at most
 * @throws {Error} when the condition does not hold 30 s of real time later
 */
export async function passing(world: World, seconds: number, holds: () => boolean): Promise<void> {
  for (let s = 0; s < seconds; s++) {
    if (holds()) return;
    await world.clock.advance(1_000);
    await flushTasks();
  }
  await until(holds);
}

/** Moves the world's clock in seconds until a connector has stopped, which waits for work in progress. */
export async function stopping(world: World, stopped: Promise<unknown>): Promise<void> {
  let isOver = false;
  stopped.then(() => isOver = true, () => isOver = true);
  for (await flushTasks(); !isOver; await flushTasks()) await world.clock.advance(1_000);
  await stopped;
}

/** A request that the runtime received. */
export interface RuntimeCall {
  url: string;
  headers: Headers;
  body: string;
  redirect: string | undefined;
}

/** Returns the runtime's answer to a request. */
export type Behaviour = (call: RuntimeCall, n: number) => Response | Promise<Response>;

export const accepts: Behaviour = () => Response.json({ ok: true });
export const isDown: Behaviour = () => {
  throw new TypeError("connection refused");
};
/** Never answers. */
export const hangs: Behaviour = () => new Promise(() => {});

/** Credentials that are always accepted. */
export class FixedSession implements WatchedCredentials {
  accessExpiresAt = Date.UTC(2030, 0);
  identityExpiresAt = Date.UTC(2030, 0);
  problem: string | null = null;
  renewed: string[] = [];
  onRenew: (what: "access" | "identity") => boolean | Promise<boolean> = () => false;
  constructor(public identity: AgentIdentity) {}
  current(): Promise<AgentIdentity> {
    return Promise.resolve(this.identity);
  }
  async renew(what: "access" | "identity"): Promise<boolean> {
    this.renewed.push(what);
    return await this.onRenew(what);
  }
  visits: string[] = [];
  visit(audience: string): Promise<string> {
    this.visits.push(audience);
    return this.onVisit(audience);
  }
  onVisit: (audience: string) => Promise<string> = (audience) => Promise.resolve(`visit to ${audience}`);
  endVisit(): boolean {
    return false;
  }
  stop(): void {}
}

export interface BenchOptions {
  folder?: string;
  behaviour?: Behaviour;
  platform?: PlatformId;
  target?: Partial<RuntimeTarget>;
  fetch?: typeof fetch;
  /** Whether another user listens at an address. */
  isOfOtherUser?: (url: string) => Promise<boolean>;
  /** Changes a message between proxy and connector, as a relay could. */
  tamper?: (frame: DeliverFrame) => DeliverFrame | Promise<DeliverFrame>;
  /** Changes the news of messages that the agent has sent. */
  retell?: (frame: DeliveryFrame) => DeliveryFrame;
  /** The peers that an earlier run has left. */
  peers?: Peers;
  /** The origin that it signs; default: that of its peers. */
  origin?: string;
  /** Refuses contacts. */
  strict?: boolean;
  /** What it believes of the registry; replaces what the world's registry says. */
  trust?: RegistryTrust;
  /** Gives visit tokens for other servers. */
  visit?: FixedSession["onVisit"];
  /** Only answers local calls. */
  isOffline?: boolean;
  /** Opens the database in a folder; replaces the plain one. */
  database?: (path: string) => Database;
}

export class Bench implements AsyncDisposable {
  readonly events: { name: EventName; fields: EventFields }[] = [];
  readonly calls: RuntimeCall[] = [];
  readonly session: FixedSession;
  readonly database: Database;
  readonly connector: Connector;
  behaviour: Behaviour;
  peers: Peers = {};
  /** Delivers a frame as the proxy would, and returns the acknowledgement. */
  redeliver: (frame: DeliverFrame) => Promise<Ack> = () => Promise.reject(new Error("no link"));
  /** Ends the link on the proxy's side. */
  endLink: (code: number, reason?: string) => void = () => {};
  /** Refuses links while it is set. */
  refuse: (() => unknown) | null = null;
  links = 0;
  /** How often the connector has asked whether its link still works. */
  checks = 0;
  ended: Promise<unknown> = Promise.resolve();
  readonly #tamper: NonNullable<BenchOptions["tamper"]>;
  readonly #retell: NonNullable<BenchOptions["retell"]>;
  #isStopped = false;

  private constructor(
    readonly world: World,
    readonly agent: TestAgent,
    readonly folder: string,
    options: BenchOptions,
    key: OpeningKey,
  ) {
    this.behaviour = options.behaviour ?? accepts;
    this.peers = options.peers ?? {};
    this.#tamper = options.tamper ?? ((frame) => frame);
    this.#retell = options.retell ?? ((frame) => frame);
    this.session = new FixedSession(agent.identity);
    if (options.visit) this.session.onVisit = options.visit;
    this.database = (options.database ?? Database.open)(`${folder}/connector.db`);
    const { clock, random } = world;
    const runtimeOf = (platform: PushPlatform) => {
      const { hookPath } = platform.defaults;
      const target = { platform: platform.id, baseUrl: RUNTIME_URL, hookPath, hookToken: null, ...options.target };
      const { isOfOtherUser } = options;
      return new Runtime({ fetch: this.#runtime, clock, ...isOfOtherUser && { isOfOtherUser } }, platform, target);
    };
    const platform: Platform = PLATFORMS[options.platform ?? "generic"];
    this.connector = new Connector({
      clock,
      serviceClock: new ServiceClock(clock),
      random,
      fetch: options.fetch ?? world.fetch,
      session: this.session,
      publicKey: agent.keys.publicKey,
      openingKey: key,
      openStore: (options) => new ConnectorStore(this.database, { ...options, historyMs: HISTORY_MS }),
      emit: (name, fields = {}) => void this.events.push({ name, fields }),
      open: this.#open,
      trust: options.trust ?? trustOf(world),
      checkOrigin: () => {},
      runtime: platform.id === "inbox" ? null : runtimeOf(platform),
      peers: this.peers,
      writePeers: (peers) => Promise.resolve(void (this.peers = peers)),
    }, {
      agent: { name: agent.agent.name, did: agent.agent.did },
      profile: { agentName: agent.agent.name, humanName: "Somebody" },
      proxy: { dialUrl: world.proxyUrl, origin: options.origin ?? world.proxyUrl },
      strict: options.strict ?? false,
      version: "0.0.0-test",
      pid: 1,
    });
  }

  /** A running connector of the agent, which ends with the world unless it has ended before. */
  static async open(world: World, agent: TestAgent, options: BenchOptions = {}): Promise<Bench> {
    const folder = options.folder ?? await Deno.makeTempDir({ prefix: "svc_connector_" });
    const peers = options.peers ?? await namedPeers(world, agent);
    const bench = new Bench(world, agent, folder, { ...options, peers }, await openingKey(agent.keys));
    world.owned.use(bench);
    bench.ended = bench.connector.run(options.isOffline);
    if (!options.isOffline) await until(() => bench.connector.status().connection.state === "connected");
    return bench;
  }

  /** Reported events, by name. */
  eventsOf(name: EventName): EventFields[] {
    return this.events.filter((event) => event.name === name).map(({ fields }) => fields);
  }

  /** What the sender of a message learns from its receipts. */
  async receiptsOf(from: TestAgent, requestId: string): Promise<string[]> {
    const { receipts } = await from.client.receipts(requestId, this.agent.agent.did);
    return receipts.map(({ status }) => status);
  }

  /** Bodies of the hand-overs, without probes. */
  get handedOver(): string[] {
    return this.calls.map(({ body }) => body).filter((body) => body !== "");
  }

  /** Stops as a kill does: no record is written afterwards. */
  kill(): void {
    this.#isStopped = true;
    this.behaviour = hangs;
    this.connector.deps.session.current = () => new Promise(() => {});
    this.endLink(1006);
    this.database[Symbol.dispose]();
  }

  async stop(): Promise<void> {
    if (this.#isStopped) return;
    this.#isStopped = true;
    await stopping(this.world, this.connector.stop());
    this.database[Symbol.dispose]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    // A later connector of the agent may have had the same folder.
    await Deno.remove(this.folder, { recursive: true }).catch(() => {});
  }

  readonly #runtime = (async (input: string, init?: RequestInit) => {
    const signal = init?.signal;
    const call = {
      url: input,
      headers: new Headers(init?.headers),
      body: String(init?.body ?? ""),
      redirect: init?.redirect,
    };
    const aborted = new Promise<never>((_, reject) =>
      signal?.addEventListener("abort", () => reject(new DOMException("aborted", "AbortError")))
    );
    aborted.catch(() => {});
    if (init?.method === "POST") this.calls.push(call);
    return await Promise.race([this.behaviour(call, this.calls.length), aborted]);
  }) as typeof fetch;

  readonly #open: OpenLink = async (_identity, events) => {
    this.links++;
    const refusal = await this.refuse?.();
    if (refusal) throw refusal;
    const { proxy, clock, newId } = this.world;
    const tamper = this.#tamper, retell = this.#retell;
    const { did, ownerDid, currentJti, expiresAt } = this.agent.agent;
    await proxy.deps.presence.claim(did, connectRequest(clock));
    let isOpen = true;
    this.redeliver = (frame) => events.deliver(frame);
    const close = (code: number, reason: string) => {
      if (!isOpen) return;
      isOpen = false;
      events.closed(code, reason);
    };
    const aitExpiresAt = unixSeconds(Date.parse(expiresAt));
    const head = () => ({ v: 1, id: newId(), ts: toIso(clock.now()) }) as const;
    const link = proxy.deps.connectedAgents.attach({ agentDid: did, ownerDid, aitJti: currentJti, aitExpiresAt }, {
      send(text) {
        const frame = decodeFrame(text, "proxy");
        if (frame.type === "heartbeat") {
          link.receive(encodeFrame({ ...head(), type: "heartbeat_ack", ackId: frame.id }));
          // A real link sends the connector's heartbeats; here the proxy's replace them.
          events.heartbeat?.(1);
        }
        if (frame.type === "paired") events.paired?.(frame);
        if (frame.type === "delivery") events.delivery?.(retell(frame));
        if (frame.type !== "deliver") return;
        void Promise.resolve(tamper(frame)).then((changed) => events.deliver(changed)).then((ack) => {
          if (isOpen) link.receive(encodeFrame({ ...head(), type: "deliver_ack", ackId: frame.id, ...ack }));
        });
      },
      close,
      drop: () => {},
      unsentBytes: 0,
    });
    this.endLink = (code, reason = "") => {
      link.lost();
      close(code, reason);
    };
    return { close: () => this.endLink(1000), check: () => void this.checks++ };
  };
}

/** The peers of an agent by their own names, as an earlier run may have named them. */
async function namedPeers({ kv }: World, { agent }: TestAgent): Promise<Peers> {
  const { items: peers } = await listPeers(kv, agent.did, { limit: LIMITS.peerListMax, cursor: undefined });
  return Object.fromEntries(
    peers.map(({ agentDid: did, pair }) => [pair.peerProfile.agentName, { did, ...pair.peerProfile }]),
  );
}

/** Keys and list of the world's registry. */
export function trustSource(world: World, isDown = () => false): TrustSource {
  const ask = async (path: string) => {
    if (isDown()) throw new UnreachableError("the registry is down");
    return await (await world.registry.fetch(new Request(world.registryUrl + path), world.peer)).json();
  };
  let saved: string | number | null = null;
  return {
    issuer: world.registryUrl,
    keys: async () => ({
      issuer: world.registryUrl,
      keys: await readKeyDocument(await ask("/.well-known/svc-keys.json")) ?? new Map(),
    }),
    list: async () => (await ask("/v1/crl")).crl ?? null,
    savedList: () => saved,
    saveList: (list) => Promise.resolve(void (saved = list)),
    offsetMs: () => 0,
  };
}

/** What a connector believes of them. `more` replaces parts of it. */
export function trustOf(world: World, more: Partial<TrustSource> = {}, isDown = () => false): RegistryTrust {
  return new RegistryTrust(world.clock, { ...trustSource(world, isDown), ...more });
}

/** Two paired agents, and a connector for the second. */
export async function story(
  world: World,
  options: BenchOptions = {},
): Promise<{ a: TestAgent; b: TestAgent; bench: Bench }> {
  const a = await world.agent();
  const b = await world.agent();
  await world.pair(a, b);
  return { a, b, bench: await Bench.open(world, b, options) };
}
