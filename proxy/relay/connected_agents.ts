/**
 * Tracks the agents connected to this instance. Adds and removes sockets, sends heartbeats, and closes sockets that are
 * silent or whose identity token has expired.
 */
import { type Cancel, type Clock, settledWithin, sleep } from "../../shared/clock.ts";
import type { PairingProfile } from "../../shared/protocol/api/pairing.ts";
import { CLOSE, type DeliveryFrame, type FrameHead, shutdownReason } from "../../shared/protocol/frames.ts";
import type { NewId } from "../../shared/protocol/ids.ts";
import { toIso } from "../../shared/protocol/time.ts";
import type { Metrics } from "../../shared/server/metrics/metrics.ts";
import type { OwnerBudgets } from "../owner_budgets.ts";
import { AgentSockets, type ConnectedAgent, RelaySocket, type SocketTransport } from "./agent_sockets.ts";

/** Most unsent bytes of all sockets. With more, many slow readers together would take the memory of the process. */
const UNSENT_ALL_BYTES = 67_108_864;

/** Longest wait of a message for a socket that is about to open. With more, a client that is gone would delay it. */
const OPENING_MS = 2_000;
/** In how many parts a shutdown closes the sockets. With fewer, more agents would come back at once. */
const WAVES = 10;

export type DeliveryNews = Omit<DeliveryFrame, keyof FrameHead | "type">;

export class ConnectedAgents {
  readonly #sockets = new Map<string, AgentSockets>();
  /** Sockets that are about to open, by agent. Each promise resolves when its socket has opened or failed. */
  readonly #opening = new Map<string, Set<Promise<void>>>();
  /** Open sockets, each with the cancel function of its timer. */
  readonly #watches = new Map<RelaySocket, Cancel>();
  /** Called when an agent has a new socket. */
  onAttached: (agentDid: string) => void = () => {};
  /** Called when an agent has no socket left that takes messages, or its only socket did not open. */
  onGone: (agentDid: string) => void = () => {};

  constructor(
    private readonly clock: Clock,
    private readonly newId: NewId,
    private readonly heartbeatMs: number,
    private readonly metrics: Metrics,
    private readonly owners: OwnerBudgets,
  ) {
    metrics.read("relay_sockets", () => this.size);
    metrics.read("relay_agents", () => this.agents);
    metrics.read("unsent_bytes", () => this.links().reduce((sum, { unsentBytes }) => sum + unsentBytes, 0));
  }

  /** Returns the number of agents with a socket. */
  get agents(): number {
    return this.#sockets.size;
  }

  /** Returns the number of open sockets. */
  get size(): number {
    return this.#watches.size;
  }

  /** Returns the sockets of an agent, or `undefined` when it is not connected here. */
  socketsOf(agentDid: string): AgentSockets | undefined {
    return this.#sockets.get(agentDid);
  }

  /** Adds a socket and returns it. If the agent then has too many, its oldest one is closed. */
  attach(agent: ConnectedAgent, connection: SocketTransport): RelaySocket {
    const { agentDid } = agent;
    const sockets = this.#sockets.getOrInsertComputed(agentDid, () => new AgentSockets(this.clock));
    const { clock, newId, metrics, owners } = this, onSlow = () => this.#endSlowest();
    const link = new RelaySocket(
      { clock, newId, metrics, owners, onSlow },
      agent,
      connection,
      (ended) => this.#drop(ended),
    );
    this.#watch(link);
    sockets.add(link);
    this.onAttached(agentDid);
    return link;
  }

  /** Notes that a socket of an agent is about to open. Returns the idempotent function that ends this state. */
  opening(agentDid: string): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    const all = this.#opening.get(agentDid) ?? new Set();
    this.#opening.set(agentDid, all.add(promise));
    return () => {
      if (all.delete(promise) && all.size === 0) this.#opening.delete(agentDid);
      resolve();
    };
  }

  /** Returns true while a socket of an agent is about to open; its presence may already name this instance. */
  isOpening(agentDid: string): boolean {
    return this.#opening.has(agentDid);
  }

  /** Returns the sockets of an agent. When some are about to open, waits for the first, at most `OPENING_MS`. */
  async opened(agentDid: string): Promise<AgentSockets | undefined> {
    if (this.#opening.has(agentDid)) await settledWithin(this.clock, this.#firstOpens(agentDid), OPENING_MS);
    return this.#sockets.get(agentDid);
  }

  /** Waits on after one that failed, because the agent would otherwise seem offline while another is about to open. */
  async #firstOpens(agentDid: string): Promise<void> {
    for (let all; !this.#sockets.has(agentDid) && (all = this.#opening.get(agentDid));) await Promise.race(all);
  }

  /** Reports an agent whose upgrade failed as gone, unless it has another socket. */
  upgradeFailed(agentDid: string): void {
    if (!this.#sockets.has(agentDid)) this.onGone(agentDid);
  }

  tellPaired(agentDid: string, peerAgentDid: string, profile: PairingProfile, proxy?: string): void {
    this.#sockets.get(agentDid)?.links.at(-1)?.send({
      v: 1,
      type: "paired",
      id: this.newId(),
      ts: toIso(this.clock.now()),
      peerAgentDid,
      profile,
      ...proxy === undefined ? {} : { proxy },
    });
  }

  /** Sends a delivery frame to each socket of an agent that is connected here. */
  tellDelivery(agentDid: string, news: DeliveryNews): void {
    const head = { v: 1, type: "delivery", id: this.newId(), ts: toIso(this.clock.now()) } as const;
    for (const link of this.links(agentDid)) link.send({ ...head, ...news });
  }

  /** Returns the open sockets of one agent, or of all. */
  links(agentDid?: string): RelaySocket[] {
    return agentDid === undefined ? [...this.#watches.keys()] : [...this.#sockets.get(agentDid)?.links ?? []];
  }

  /** Closes every socket of an agent whose presence has moved to another instance. */
  replace(agentDid: string): void {
    for (const link of this.links(agentDid)) link.end(CLOSE.replaced, "replaced by a newer one elsewhere");
  }

  revoke(link: RelaySocket, reason: string): void {
    link.send({ v: 1, type: "revoked", id: this.newId(), ts: toIso(this.clock.now()), reason });
    link.end(CLOSE.notAuthorised, reason);
  }

  /** Closes every socket, for a shutdown. The agents are asked to come back within `returnMs` milliseconds. */
  closeAll(returnMs: number): void {
    for (const link of [...this.#watches.keys()]) link.end(CLOSE.shuttingDown, shutdownReason(returnMs));
  }

  /**
   * Closes every socket after its last delivery, in equal parts over `withinMs` milliseconds, because all agents would
   * otherwise connect to the other instances at the same moment.
   */
  async closeInWaves({ withinMs, returnMs }: { withinMs: number; returnMs: number }): Promise<void> {
    for (let waves = WAVES; waves > 0; waves--) {
      await sleep(this.clock, withinMs / WAVES);
      const staying = this.links().filter((link) => !link.isLeaving);
      for (const link of staying.slice(0, Math.ceil(staying.length / waves))) {
        this.#detach(link);
        link.leave(CLOSE.shuttingDown, shutdownReason(returnMs));
      }
    }
  }

  /**
   * When all sockets together have too many unsent bytes, closes the slowest socket of the owner that has most of these
   * bytes. Without the choice of the owner, many slow sockets of one person could close the only one of another.
   */
  #endSlowest(): void {
    let unsent = 0;
    const byOwner = new Map<string, number>();
    for (const { agent: { ownerDid }, unsentBytes } of this.#watches.keys()) {
      unsent += unsentBytes;
      byOwner.set(ownerDid, (byOwner.get(ownerDid) ?? 0) + unsentBytes);
    }
    if (unsent <= UNSENT_ALL_BYTES) return;
    const slowest = this.links().reduce((one, other) => {
      const more = (byOwner.get(other.agent.ownerDid) ?? 0) - (byOwner.get(one.agent.ownerDid) ?? 0);
      return more > 0 || more === 0 && other.unsentBytes > one.unsentBytes ? other : one;
    });
    slowest.end(CLOSE.tooSlow, "the slowest of many");
  }

  #drop(link: RelaySocket): void {
    this.#watches.get(link)?.();
    this.#watches.delete(link);
    this.#detach(link);
  }

  /** Removes a socket from its agent, and reports the agent as gone after its last one. */
  #detach(link: RelaySocket): void {
    const { agentDid } = link.agent, sockets = this.#sockets.get(agentDid);
    const at = sockets?.links.indexOf(link) ?? -1;
    if (at === -1) return;
    sockets?.links.splice(at, 1);
    if (sockets && sockets.links.length > 0) return;
    this.#sockets.delete(agentDid);
    this.onGone(agentDid);
  }

  /** Checks a socket at its next heartbeat, or when its identity token expires if that is earlier. */
  #watch(link: RelaySocket): void {
    const expiresAt = link.agent.aitExpiresAt * 1000;
    const began = this.clock.now();
    const wait = Math.max(0, Math.min(this.heartbeatMs, expiresAt - began));
    const look = () => {
      const now = this.clock.now();
      if (now >= expiresAt) return link.end(CLOSE.notAuthorised, "the identity token has expired");
      // A late look counts as one in time, because a clock that was set ahead would otherwise close every socket.
      if (link.endIfSilent(Math.min(now, began + wait), this.heartbeatMs)) return;
      this.#watch(link);
      link.heartbeat();
    };
    this.#watches.set(link, this.clock.after(wait, look));
  }
}
