/**
 * The hub: which agents are connected to this instance. Adds and drops links, keeps them alive with heartbeats, closes
 * the silent ones and those whose identity token has expired. Holds memory between requests, and nothing else does.
 */
import type { Cancel, Clock } from "../../shared/clock.ts";
import type { PairingProfile } from "../../shared/protocol/api/pairing.ts";
import { CLOSE } from "../../shared/protocol/frames.ts";
import type { NewId } from "../../shared/protocol/ids.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { AgentSockets, type ConnectedAgent, RelaySocket, type SocketTransport } from "./agent_sockets.ts";

export class ConnectedAgents {
  readonly #clock: Clock;
  readonly #newId: NewId;
  readonly #heartbeatMs: number;
  readonly #sessions = new Map<string, AgentSockets>();
  /** Live links, each with the end of its timer. */
  readonly #watches = new Map<RelaySocket, Cancel>();
  /** Called when an agent has a new link. */
  onAttached: (agentDid: string) => void = () => {};
  /** Called when an agent's last link is gone. */
  onGone: (agentDid: string) => void = () => {};

  constructor(clock: Clock, newId: NewId, heartbeatMs: number) {
    this.#clock = clock;
    this.#newId = newId;
    this.#heartbeatMs = heartbeatMs;
  }

  /** Live links of all agents. */
  get size(): number {
    return this.#watches.size;
  }

  /** Deliveries that wait for an ack, over all agents. */
  get inFlight(): number {
    let count = 0;
    for (const link of this.#watches.keys()) count += link.inFlight;
    return count;
  }

  /** The session of an agent, when it has a live link here. */
  session(agentDid: string): AgentSockets | undefined {
    return this.#sessions.get(agentDid);
  }

  /** Adds a link; the fifth of an agent closes its oldest. */
  attach(agent: ConnectedAgent, connection: SocketTransport): RelaySocket {
    const { agentDid } = agent;
    const session = this.#sessions.get(agentDid) ?? new AgentSockets(this.#clock);
    this.#sessions.set(agentDid, session);
    const deps = { clock: this.#clock, newId: this.#newId, onSlow: () => this.#endSlowest() };
    const link = new RelaySocket(deps, agent, connection, (ended) => this.#drop(agentDid, session, ended));
    session.links.push(link);
    this.#watch(link);
    if (session.links.length > LIMITS.socketsPerAgent) session.links[0]?.end(CLOSE.replaced, "replaced by a newer one");
    this.onAttached(agentDid);
    return link;
  }

  /** A connection that was prepared did not come about: unless its agent is here by another, it is gone. */
  upgradeFailed(agentDid: string): void {
    if (!this.#sessions.has(agentDid)) this.onGone(agentDid);
  }

  /** Tells an agent, if it is connected, that it has a new peer. */
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

  /** Every live link, of one agent or of all. */
  links(agentDid?: string): RelaySocket[] {
    return agentDid === undefined ? [...this.#watches.keys()] : [...this.#sessions.get(agentDid)?.links ?? []];
  }

  /** Closes every link of an agent whose session has moved to another instance. */
  replace(agentDid: string): void {
    for (const link of this.links(agentDid)) link.end(CLOSE.replaced, "replaced by a newer one elsewhere");
  }

  /** Tells an agent that it is no longer authorised, and closes the link. */
  revoke(link: RelaySocket, reason: string): void {
    link.send({ v: 1, type: "revoked", id: this.#newId(), ts: toIso(this.#clock.now()), reason });
    link.end(CLOSE.notAuthorised, reason);
  }

  /** Closes everything, for a shut-down. */
  closeAll(): void {
    for (const link of [...this.#watches.keys()]) link.end(CLOSE.shuttingDown, "shutting down");
  }

  /** When all links together have too much unsent, the one with the most is closed. */
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

  /** Looks after a link at its next heartbeat, or when its identity token ends if that comes first. */
  #watch(link: RelaySocket): void {
    const expiresAt = link.agent.aitExpiresAt * 1000;
    const wait = Math.max(0, Math.min(this.#heartbeatMs, expiresAt - this.#clock.now()));
    const look = () => {
      const now = this.#clock.now();
      if (now >= expiresAt) return link.end(CLOSE.notAuthorised, "the identity token has expired");
      // With rarer heartbeats than usual a connector may have had nothing to answer for longer.
      const patienceMs = Math.max(LIMITS.silentSocketMs, 2 * this.#heartbeatMs);
      if (link.silence(now) >= patienceMs) return link.end(CLOSE.silent, "silent for too long");
      this.#watch(link);
      link.heartbeat();
    };
    this.#watches.set(link, this.#clock.after(wait, look));
  }
}
