/**
 * One agent's relay session (D-67, D-70): up to four connections, newest first; frames out, acks in. Knows no WebSocket,
 * only what it needs of one. Whatever happens to a connection, whoever waits on it is answered.
 */
import type { Message } from "../schema/records.ts";
import type { Clock } from "../../shared/clock.ts";
import {
  CLOSE,
  decodeFrame,
  encodeFrame,
  FrameError,
  isOversize,
  type ProxyFrame,
} from "../../shared/protocol/frames.ts";
import type { NewId } from "../../shared/protocol/ids.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { toIso } from "../../shared/protocol/time.ts";

/** What the session needs of a socket. */
export interface SocketTransport {
  send(text: string): void;
  close(code: number, reason: string): void;
  /** Bytes handed over and not yet sent. */
  readonly unsentBytes: number;
}

/** Who connected, as admitted. */
export interface ConnectedAgent {
  agentDid: string;
  ownerDid: string;
  aitJti: string;
  /** Unix seconds. */
  aitExpiresAt: number;
}

/** How a delivery ended. */
export type DeliveryResult = { acked: true; accepted: boolean; reason?: string } | { acked: false };

type AttemptResult = DeliveryResult | "lost";

const FRAME_TOO_LARGE = `frame over ${LIMITS.connectorFrameBytes / 1024} KiB`;

interface LinkDeps {
  clock: Clock;
  newId: NewId;
  /** Called before something is sent to a connection that has not kept up. */
  onSlow(): void;
}

/** One connection of an agent. */
export class RelaySocket {
  readonly #deps: LinkDeps;
  readonly #connection: SocketTransport;
  readonly #onEnd: (link: RelaySocket) => void;
  readonly #inFlight = new Map<string, (fate: AttemptResult) => void>();
  /** Heartbeats that wait for their ack, oldest first. */
  readonly #heartbeats = new Set<string>();
  #malformed = 0;
  #countedSince = 0;
  #counted = 0;
  #lastHeard: number;
  #open = true;

  constructor(
    deps: LinkDeps,
    readonly agent: ConnectedAgent,
    connection: SocketTransport,
    onEnd: (link: RelaySocket) => void,
  ) {
    this.#deps = deps;
    this.#connection = connection;
    this.#onEnd = onEnd;
    this.#lastHeard = deps.clock.now();
  }

  /** Deliveries that wait for their ack. */
  get inFlight(): number {
    return this.#inFlight.size;
  }

  /** Bytes handed over and not yet sent. */
  get unsentBytes(): number {
    return this.#connection.unsentBytes;
  }

  /** Milliseconds since anything was heard. */
  silence(now: number): number {
    return now - this.#lastHeard;
  }

  /** Sends a frame; a connection that does not keep up is closed instead. */
  send(frame: ProxyFrame): boolean {
    if (this.unsentBytes > LIMITS.unsentNotedBytes) this.#deps.onSlow();
    if (!this.#open) return false;
    if (this.unsentBytes > LIMITS.unsentBytes) {
      this.end(CLOSE.tooSlow, "too slow");
      return false;
    }
    try {
      this.#connection.send(encodeFrame(frame));
      return true;
    } catch {
      this.end(CLOSE.tooSlow, "cannot be written to");
      return false;
    }
  }

  /** Sends a heartbeat. */
  heartbeat(): void {
    const id = this.#deps.newId();
    this.#heartbeats.add(id);
    const [oldest] = this.#heartbeats;
    // A connector that never acknowledges must not make the set grow.
    if (oldest && this.#heartbeats.size > LIMITS.heartbeatsInFlight) this.#heartbeats.delete(oldest);
    this.send({ v: 1, type: "heartbeat", id, ts: toIso(this.#deps.clock.now()) });
  }

  /** Sends a message and waits for its ack, its loss with the connection, or `cancelled`. */
  deliver(message: Message, attempt: number, cancelled: Promise<DeliveryResult>): Promise<AttemptResult> {
    const id = this.#deps.newId();
    const ts = toIso(this.#deps.clock.now());
    const fate = new Promise<AttemptResult>((resolve) => this.#inFlight.set(id, resolve));
    const { payload, ...head } = message;
    if (!this.send({ v: 1, type: "deliver", id, ts, ...head, attempt, payload })) this.#settle(id, "lost");
    return Promise.race([fate, cancelled]).finally(() => this.#inFlight.delete(id));
  }

  /** Takes in a text message of the connector. */
  receive(text: string): void {
    if (!this.#open) return;
    const { clock, newId } = this.#deps;
    const now = this.#lastHeard = clock.now();
    // Before it is parsed: the worst JSON of this size takes about 0.3 ms (D-213).
    if (isOversize(text, "connector")) return this.end(CLOSE.tooLarge, FRAME_TOO_LARGE);
    try {
      const frame = decodeFrame(text, "connector");
      if (frame.type === "heartbeat_ack" && this.#heartbeats.delete(frame.ackId)) return;
      if (frame.type === "deliver_ack" && this.#inFlight.has(frame.ackId)) {
        const { accepted, reason } = frame;
        return this.#settle(frame.ackId, { acked: true, accepted, ...(reason === undefined ? {} : { reason }) });
      }
      if (this.#floods(now)) return this.end(CLOSE.misuse, "too many frames");
      if (frame.type === "heartbeat") {
        this.send({ v: 1, type: "heartbeat_ack", id: newId(), ts: toIso(now), ackId: frame.id });
      }
    } catch (error) {
      if (!(error instanceof FrameError)) throw error;
      this.misuse(now);
    }
  }

  /** Notes a message that is no frame; the third closes. */
  misuse(now = this.#deps.clock.now()): void {
    this.#lastHeard = now;
    if (this.#floods(now) || ++this.#malformed >= LIMITS.malformedFrames) this.end(CLOSE.misuse, "malformed frames");
  }

  /** Ends the link: out of the session at once, waiters answered, the socket asked to close. */
  end(code: number, reason: string): void {
    if (!this.#open) return;
    this.lost();
    this.#connection.close(code, reason);
  }

  /** The connection is gone. */
  lost(): void {
    if (!this.#open) return;
    this.#open = false;
    this.#onEnd(this);
    for (const id of [...this.#inFlight.keys()]) this.#settle(id, "lost");
  }

  #settle(id: string, fate: AttemptResult): void {
    this.#inFlight.get(id)?.(fate);
    this.#inFlight.delete(id);
  }

  #floods(now: number): boolean {
    if (now - this.#countedSince >= 1000 || now < this.#countedSince) {
      this.#countedSince = now;
      this.#counted = 0;
    }
    return ++this.#counted > LIMITS.framesPerSecond;
  }
}

/** The links of one agent, oldest first. */
export class AgentSockets {
  readonly links: RelaySocket[] = [];
  readonly #clock: Clock;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Delivers a message: to the newest link, to the next when that is lost before the ack, within `timeoutMs` over all
   * tries. `isWelcome` is asked before each try but the first, as the message may be no more by then.
   *
   * @param triedBefore tries of this message before these
   */
  async deliver(
    message: Message,
    timeoutMs: number,
    isStillAllowed = () => Promise.resolve(true),
    triedBefore = 0,
  ): Promise<DeliveryResult> {
    let cancel = () => {};
    const timeout = new Promise<DeliveryResult>((resolve) => {
      cancel = this.#clock.after(timeoutMs, () => resolve({ acked: false }));
    });
    try {
      const tried = new Set<RelaySocket>();
      for (let attempt = 1;; attempt++) {
        const link = this.links.findLast((candidate) => !tried.has(candidate));
        if (!link || attempt > 1 && !(await isStillAllowed())) return { acked: false };
        tried.add(link);
        const fate = await link.deliver(message, triedBefore + attempt, timeout);
        if (fate !== "lost") return fate;
      }
    } finally {
      cancel();
    }
  }
}
