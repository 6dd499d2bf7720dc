/** A fake remote end of a relay socket: records every frame and sends what a test wants. */
import { OwnerBudgets } from "../../../proxy/owner_budgets.ts";
import { ConnectedAgents } from "../../../proxy/relay/connected_agents.ts";
import type {
  ConnectedAgent,
  DeliveryOptions,
  RelaySocket,
  SocketTransport,
} from "../../../proxy/relay/agent_sockets.ts";
import type { Message } from "../../../proxy/schema/records.ts";
import { decodeFrame, type FrameType, type ProxyFrame } from "../../../shared/protocol/frames.ts";
import { type NewId, ulidSource } from "../../../shared/protocol/ids.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import type { MessageProof } from "../../../shared/protocol/message_proof.ts";
import { Metrics } from "../../../shared/server/metrics/metrics.ts";
import { ManualClock } from "../../support/manual_clock.ts";
import { seededRandom } from "../../support/seeded_random.ts";

/** ULIDs by the test's clock. */
export function newIds(clock: ManualClock): NewId {
  return ulidSource(() => clock.now(), seededRandom().bytes);
}

/** A connected agent; `letter` distinguishes agents. */
export function agentOf(letter: string): ConnectedAgent {
  const id = (kind: string) => `did:svc:registry.example.test:${kind}:01KHYQ5H00${letter.repeat(16)}`;
  return { agentDid: id("agent"), ownerDid: id("human"), aitJti: `01KHYQ5H00${letter.repeat(15)}Z`, aitExpiresAt: 0 };
}

/** A proof of the right form that proves nothing. */
export const PROOF: MessageProof = {
  ait: "ait",
  timestamp: "1771632010",
  nonce: "bm9uY2UtMDAwMDAwMDAwMQ",
  origin: "https://proxy.example.test",
  target: "/hooks/agent",
  signature: "A".repeat(86),
  context: {},
};

/** A message from one agent to another. */
export function messageTo(to: ConnectedAgent, from: ConnectedAgent, payload = '{"message":"hi"}'): Message {
  const { agentDid, ownerDid, aitJti } = from;
  return {
    requestId: "request-1",
    fromAgentDid: agentDid,
    toAgentDid: to.agentDid,
    identity: { agentDid, ownerDid, issuer: "https://registry.example.test", aitJti, name: "alpha" },
    contentType: "application/json",
    proof: PROOF,
    payload,
  };
}

export class Far implements SocketTransport {
  readonly frames: ProxyFrame[] = [];
  closed: { code: number; reason: string } | null = null;
  closes = 0;
  isDropped = false;
  unsentBytes = 0;
  /** When true, writing to it fails. */
  broken = false;
  link!: RelaySocket;
  readonly newId: NewId = ulidSource(() => 0, seededRandom(2).bytes);

  send(text: string): void {
    if (this.broken) throw new DOMException("The socket is closed", "InvalidStateError");
    this.frames.push(decodeFrame(text, "proxy"));
  }

  close(code: number, reason: string): void {
    this.closes++;
    this.closed = { code, reason };
  }

  drop(): void {
    this.isDropped = true;
  }

  /** The received frames of a type. */
  of<T extends FrameType>(type: T): Extract<ProxyFrame, { type: T }>[] {
    return this.frames.filter((one): one is Extract<ProxyFrame, { type: T }> => one.type === type);
  }

  /** Sends a frame and returns its ID. */
  say(type: string, members: Record<string, unknown> = {}): string {
    const id = this.newId();
    this.link.receive(JSON.stringify({ v: 1, id, ts: "2026-02-21T00:01:00.000Z", type, ...members }));
    return id;
  }
}

/** The connected agents of an instance, on a clock that the test moves. */
export class Relay {
  readonly clock = new ManualClock();
  readonly owners = new OwnerBudgets(this.clock, LIMITS.ownerRequests);
  readonly connectedAgents: ConnectedAgents;

  constructor(heartbeatMs: number = LIMITS.heartbeatIntervalMs) {
    this.connectedAgents = new ConnectedAgents(this.clock, newIds(this.clock), heartbeatMs, new Metrics(), this.owners);
  }

  /** Attaches a socket of the agent. */
  connect(agent = agentOf("A"), aitExpiresAt = this.clock.now() / 1000 + 86_400): Far {
    const far = new Far();
    far.link = this.connectedAgents.attach({ ...agent, aitExpiresAt }, far);
    return far;
  }
}

/** Acknowledges a frame. */
export function ack(far: Far, ackId: string, accepted = true, reason?: string): void {
  far.say("deliver_ack", { ackId, accepted, ...(reason === undefined ? {} : { reason }) });
}

/** A delivery that is allowed all the time. */
export function within(timeoutMs: number): DeliveryOptions {
  return { timeoutMs, isStillAllowed: () => Promise.resolve(true) };
}
