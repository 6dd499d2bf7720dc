/**
 * The relay sockets of one agent (D-67, D-70): sends frames and receives acks, over up to four sockets. Each delivery
 * gets a result, also when its socket is lost. Does not use a WebSocket directly, only the interface `SocketTransport`.
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
import type { Metrics } from "../../shared/server/metrics/metrics.ts";

/** The members of a WebSocket that a relay socket uses. */
export interface SocketTransport {
  send(text: string): void;
  close(code: number, reason: string): void;
  /** Bytes that are buffered and not yet sent. */
  readonly unsentBytes: number;
}

/** The agent of a socket, as admission verified it. */
export interface ConnectedAgent {
  agentDid: string;
  ownerDid: string;
  aitJti: string;
  /** Unix seconds. */
  aitExpiresAt: number;
}

/** The result of a delivery. */
export type DeliveryResult = { acked: true; accepted: boolean; reason?: string } | { acked: false };

type AttemptResult = DeliveryResult | "lost";

const FRAME_TOO_LARGE = `frame over ${LIMITS.connectorFrameBytes / 1024} KiB`;

interface LinkDeps {
  clock: Clock;
  newId: NewId;
  metrics: Metrics;
  /** Called before a frame is sent to a socket with many unsent bytes. */
  onSlow(): void;
}

/** One socket of an agent. */
export class RelaySocket {
  readonly #deps: LinkDeps;
  readonly #connection: SocketTransport;
  readonly #onEnd: (link: RelaySocket) => void;
  readonly #inFlight = new Map<string, (result: AttemptResult) => void>();
  /** IDs of heartbeats without an ack, oldest first. */
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

  /** Returns the number of deliveries without an ack. */
  get inFlight(): number {
    return this.#inFlight.size;
  }

  /** Returns the bytes that are buffered and not yet sent. */
  get unsentBytes(): number {
    return this.#connection.unsentBytes;
  }

  /**
   * Closes the socket with 4408 when nothing arrived for two heartbeats and for the limit of silence. With a rarer
   * heartbeat a connector may have nothing to answer for longer than the limit.
   *
   * @returns true when the socket was closed
   */
  endIfSilent(now: number, heartbeatMs: number): boolean {
    const isSilent = now - this.#lastHeard >= Math.max(LIMITS.silentSocketMs, 2 * heartbeatMs);
    if (isSilent) this.end(CLOSE.silent, "silent for too long");
    return isSilent;
  }

  /** Sends a frame. Returns false when the socket is closed, or too slow and closed now. */
  send(frame: ProxyFrame): boolean {
    if (this.unsentBytes > LIMITS.unsentNotedBytes) this.#deps.onSlow();
    if (!this.#open) return false;
    if (this.unsentBytes > LIMITS.unsentBytes) {
      this.end(CLOSE.tooSlow, "too slow");
      return false;
    }
    try {
      const text = encodeFrame(frame);
      this.#connection.send(text);
      this.#count(frame.type, "out", text.length);
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
    // The set is bounded, so that a connector that never acknowledges does not grow it.
    if (oldest && this.#heartbeats.size > LIMITS.heartbeatsInFlight) this.#heartbeats.delete(oldest);
    this.send({ v: 1, type: "heartbeat", id, ts: toIso(this.#deps.clock.now()) });
  }

  /** Sends a message. Resolves with its ack, with "lost" when the socket closes, or with `cancelled`. */
  deliver(message: Message, attempt: number, cancelled: Promise<DeliveryResult>): Promise<AttemptResult> {
    const id = this.#deps.newId();
    const ts = toIso(this.#deps.clock.now());
    const began = this.#deps.clock.now();
    const settled = new Promise<AttemptResult>((resolve) =>
      this.#inFlight.set(id, (result) => {
        if (result !== "lost") {
          this.#deps.metrics.observe("relay_ack_seconds", (this.#deps.clock.now() - began) / 1000);
        }
        resolve(result);
      })
    );
    const { payload, ...head } = message;
    if (!this.send({ v: 1, type: "deliver", id, ts, ...head, attempt, payload })) this.#settle(id, "lost");
    return Promise.race([settled, cancelled]).finally(() => this.#inFlight.delete(id));
  }

  /** Handles a text message of the connector. */
  receive(text: string): void {
    if (!this.#open) return;
    const { clock, newId } = this.#deps;
    const now = this.#lastHeard = clock.now();
    // The size is checked before parsing: the worst JSON of this size takes about 0.3 ms (D-213).
    if (isOversize(text, "connector")) return this.end(CLOSE.tooLarge, FRAME_TOO_LARGE);
    try {
      const frame = decodeFrame(text, "connector");
      this.#count(frame.type, "in", text.length);
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
      this.#count("other", "in", text.length);
      this.misuse(now);
    }
  }

  /** Counts a message that is not a frame. The third one closes the socket. */
  misuse(now = this.#deps.clock.now()): void {
    this.#lastHeard = now;
    if (this.#floods(now) || ++this.#malformed >= LIMITS.malformedFrames) this.end(CLOSE.misuse, "malformed frames");
  }

  /** Closes the socket. Removes it from its agent and ends its deliveries at once. Idempotent. */
  end(code: number, reason: string): void {
    if (!this.#open) return;
    this.#leave(String(code));
    this.#connection.close(code, reason);
  }

  /** Handles a closed connection: removes the socket and ends its deliveries. Idempotent. */
  lost(): void {
    if (this.#open) this.#leave("other");
  }

  #leave(code: string): void {
    this.#open = false;
    this.#deps.metrics.count("relay_closes_total", code);
    this.#onEnd(this);
    for (const id of [...this.#inFlight.keys()]) this.#settle(id, "lost");
  }

  #count(type: string, direction: "in" | "out", length: number): void {
    this.#deps.metrics.count("relay_frames_total", type, direction);
    this.#deps.metrics.add("relay_frame_bytes_total", length, type, direction);
  }

  #settle(id: string, result: AttemptResult): void {
    this.#inFlight.get(id)?.(result);
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

/** The sockets of one agent, oldest first. */
export class AgentSockets {
  readonly links: RelaySocket[] = [];
  readonly #clock: Clock;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Adds a socket. Closes the oldest with 4409 when the agent then has too many (D-70). */
  add(link: RelaySocket): void {
    this.links.push(link);
    if (this.links.length > LIMITS.socketsPerAgent) this.links[0]?.end(CLOSE.replaced, "replaced by a newer one");
  }

  /**
   * Delivers a message to the newest socket, and to the next newest when that one is lost before its ack.
   *
   * @param timeoutMs milliseconds for all attempts together
   * @param isStillAllowed is called before each attempt but the first, because the pair may have ended
   * @param triedBefore attempts of this message before this call
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
        const result = await link.deliver(message, triedBefore + attempt, timeout);
        if (result !== "lost") return result;
      }
    } finally {
      cancel();
    }
  }
}
