/**
 * Tracks the agents connected to this instance. Adds and removes sockets, sends heartbeats, and closes sockets that are
 * silent or whose identity token has expired.
 */
import type { Cancel, Clock } from "../../shared/clock.ts";
import type { PairingProfile } from "../../shared/protocol/api/pairing.ts";
import { CLOSE } from "../../shared/protocol/frames.ts";
import type { NewId } from "../../shared/protocol/ids.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { Metrics } from "../../shared/server/metrics/metrics.ts";
import { AgentSockets, type ConnectedAgent, RelaySocket, type SocketTransport } from "./agent_sockets.ts";

export class ConnectedAgents {
  readonly #clock: Clock;
  readonly #newId: NewId;
  readonly #heartbeatMs: number;
  readonly #metrics: Metrics;
  readonly #sessions = new Map<string, AgentSockets>();
  /** Open sockets, each with the cancel function of its timer. */
  readonly #watches = new Map<RelaySocket, Cancel>();
  /** Called when an agent has a new socket. */
  onAttached: (agentDid: string) => void = () => {};
  /** Called when an agent's last socket has closed. */
  onGone: (agentDid: string) => void = () => {};

  constructor(clock: Clock, newId: NewId, heartbeatMs: number, metrics = new Metrics()) {
    this.#clock = clock;
    this.#newId = newId;
    this.#heartbeatMs = heartbeatMs;
    this.#metrics = metrics;
    metrics.read("relay_sockets", () => this.size);
    metrics.read("relay_agents", () => this.#sessions.size);
    metrics.read("unsent_bytes", () => this.links().reduce((sum, { unsentBytes }) => sum + unsentBytes, 0));
  }

  /** Returns the number of open sockets. */
  get size(): number {
    return this.#watches.size;
  }

  /** Returns the number of deliveries without an ack, over all agents. */
  get inFlight(): number {
    let count = 0;
    for (const link of this.#watches.keys()) count += link.inFlight;
    return count;
  }

  /** Returns the sockets of an agent, or `undefined` when it is not connected here. */
  session(agentDid: string): AgentSockets | undefined {
    return this.#sessions.get(agentDid);
  }

  /** Adds a socket and returns it. The fifth socket of an agent closes its oldest. */
  attach(agent: ConnectedAgent, connection: SocketTransport): RelaySocket {
    const { agentDid } = agent;
    const session = this.#sessions.get(agentDid) ?? new AgentSockets(this.#clock);
    this.#sessions.set(agentDid, session);
    const deps = { clock: this.#clock, newId: this.#newId, metrics: this.#metrics, onSlow: () => this.#endSlowest() };
    const link = new RelaySocket(deps, agent, connection, (ended) => this.#drop(agentDid, session, ended));
    this.#watch(link);
    session.add(link);
    this.onAttached(agentDid);
    return link;
  }

  /** The upgrade failed. Reports the agent as gone unless it has another socket. */
  upgradeFailed(agentDid: string): void {
    if (!this.#sessions.has(agentDid)) this.onGone(agentDid);
  }

  /** Sends a paired frame to an agent that is connected here. */
  tellPaired(agentDid: string, peerAgentDid: string, profile: PairingProfile): void {
    this.#sessions.get(agentDid)?.links.at(-1)?.send({
      v: 1,
      type: "paired",
      id: this.#newId(),
      ts: toIso(this.#clock.now()),
      peerAgentDid,
      profile,
    });
  }

  /** Returns the open sockets of one agent, or of all. */
  links(agentDid?: string): RelaySocket[] {
    return agentDid === undefined ? [...this.#watches.keys()] : [...this.#sessions.get(agentDid)?.links ?? []];
  }

  /** Closes every socket of an agent whose presence has moved to another instance. */
  replace(agentDid: string): void {
    for (const link of this.links(agentDid)) link.end(CLOSE.replaced, "replaced by a newer one elsewhere");
  }

  /** Sends a revoked frame and closes the socket. */
  revoke(link: RelaySocket, reason: string): void {
    link.send({ v: 1, type: "revoked", id: this.#newId(), ts: toIso(this.#clock.now()), reason });
    link.end(CLOSE.notAuthorised, reason);
  }

  /** Closes every socket, for a shutdown. */
  closeAll(): void {
    for (const link of [...this.#watches.keys()]) link.end(CLOSE.shuttingDown, "shutting down");
  }

  /** Closes the socket with the most unsent bytes when all sockets together have too many. */
  #endSlowest(): void {
    let unsent = 0;
    let slowest: RelaySocket | undefined;
    for (const link of this.#watches.keys()) {
      unsent += link.unsentBytes;
      if (link.unsentBytes > (slowest?.unsentBytes ?? 0)) slowest = link;
    }
    if (unsent > LIMITS.unsentAllBytes) slowest?.end(CLOSE.tooSlow, "the slowest of many");
  }

  #drop(agentDid: string, session: AgentSockets, link: RelaySocket): void {
    this.#watches.get(link)?.();
    this.#watches.delete(link);
    const at = session.links.indexOf(link);
    if (at !== -1) session.links.splice(at, 1);
    if (session.links.length > 0 || this.#sessions.get(agentDid) !== session) return;
    this.#sessions.delete(agentDid);
    this.onGone(agentDid);
  }

  /** Checks a socket at its next heartbeat, or when its identity token expires if that is earlier. */
  #watch(link: RelaySocket): void {
    const expiresAt = link.agent.aitExpiresAt * 1000;
    const wait = Math.max(0, Math.min(this.#heartbeatMs, expiresAt - this.#clock.now()));
    const look = () => {
      const now = this.#clock.now();
      if (now >= expiresAt) return link.end(CLOSE.notAuthorised, "the identity token has expired");
      if (link.endIfSilent(now, this.#heartbeatMs)) return;
      this.#watch(link);
      link.heartbeat();
    };
    this.#watches.set(link, this.#clock.after(wait, look));
  }
}
