/**
 * The relay sockets of one agent (D-67, D-70), at most four. They send frames and receive acknowledgements. Each
 * delivery gets a result, even when its socket is lost. A WebSocket is only a `SocketTransport` here, so tests need no
 * network.
 */
import type { Message } from "../schema/records.ts";
import type { Cancel, Clock } from "../../shared/clock.ts";
import {
  CLOSE,
  decodeFrame,
  encodeFrame,
  FrameError,
  isOversize,
  type ProxyFrame,
} from "../../shared/protocol/frames.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { toIso } from "../../shared/protocol/time.ts";
import type { Update } from "../../shared/server/store/batch.ts";
import { TokenBucket } from "../../shared/server/token_bucket.ts";
import type { ServiceDeps } from "../../shared/server/http/app.ts";
import type { OwnerBudgets } from "../owner_budgets.ts";

/** Heartbeats that wait for an ack. With more, a connector could send more acks at once that count against no limit. */
const HEARTBEATS_IN_FLIGHT = 8;
/**
 * How many malformed frames close a socket. With more, a faulty connector goes on for longer. With 1, a single fault
 * ends the connection.
 */
const MALFORMED_FRAMES_MAX = 3;
/** Unsent bytes that end a socket. With more, a slow reader takes the memory of others; with less, a burst ends it. */
export const UNSENT_BYTES_MAX = 8_388_608;
/** Unsent bytes from which a send sums up those of all sockets. With less, each large message costs that sum. */
const UNSENT_NOTED_BYTES = 65_536;

/** The members of a WebSocket that a relay socket uses. */
export interface SocketTransport {
  send(text: string): void;
  /** Asks the peer to end the connection, and drops it after 2 s, because unsent bytes would stay in memory. */
  close(code: number, reason: string): void;
  /** Ends the connection at once. */
  drop(): void;
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

export type DeliveryResult = { acked: true; accepted: boolean; reason?: string } | { acked: false };

const NOT_ACKED: DeliveryResult = { acked: false };

/**
 * Largest heartbeat, and largest acknowledgement that costs its owner nothing because it was asked for, in bytes.
 * Honest frames of these kinds have about 150 bytes. With more, padding would use up the core that reads it.
 */
const SMALL_FRAME_BYTES = 512;
/** A connector sends a heartbeat every 30 s. With more, a program could make the proxy answer all the time. */
const HEARTBEATS_PER_SECOND = 1;
/** Wait for the answer to a probe. With less, a busy connector loses its socket; with more, messages wait in vain. */
const PROBE_MS = 10_000;
/**
 * Wait for an ack after which a socket counts as silent. With less, messages for a busy connector are queued in vain.
 * With more, those behind a lost message wait longer.
 */
const SILENT_MS = 1_000;

const FRAME_TOO_LARGE = `frame over ${LIMITS.connectorFrameBytes / 1024} KiB`;

interface RelaySocketDeps extends Pick<ServiceDeps, "clock" | "metrics" | "newId"> {
  owners: OwnerBudgets;
  /** Called before a frame is sent to a socket with many unsent bytes. */
  onSlow(): void;
}

export class RelaySocket {
  /** The reason with which the socket closes after its last delivery; `null` while it takes messages. */
  #farewell: { code: number; reason: string } | null = null;
  /** Messages without an ack by the ID of their frame, oldest first. */
  readonly #inFlight = new Map<string, WaitingMessage>();
  /** IDs of heartbeats without an ack, oldest first. */
  readonly #heartbeats = new Set<string>();
  readonly #frames = new TokenBucket(LIMITS.framesPerSecond);
  readonly #asked = new TokenBucket(HEARTBEATS_PER_SECOND);
  #malformed = 0;
  /** When a whole message arrived last, milliseconds since the Unix epoch. */
  lastHeard: number;
  /** Ends the probe; `null` while there is none. */
  #cancelProbe: Cancel | null = null;
  #open = true;

  constructor(
    private readonly deps: RelaySocketDeps,
    readonly agent: ConnectedAgent,
    private readonly connection: SocketTransport,
    private readonly onEnd: (link: RelaySocket) => void,
  ) {
    this.lastHeard = deps.clock.now();
  }

  /** Returns the number of deliveries without an ack. */
  get inFlight(): number {
    return this.#inFlight.size;
  }

  get unsentBytes(): number {
    return this.connection.unsentBytes;
  }

  /**
   * Closes the socket with 4408 when nothing arrived for two heartbeats and for the limit of silence. The limit alone
   * would also close honest sockets where heartbeats are rarer, because a connector has nothing to answer between them.
   *
   * @returns true when the socket was closed
   */
  endIfSilent(now: number, heartbeatMs: number): boolean {
    // After a step back of the clock the silence would otherwise last for as long as the step.
    this.lastHeard = Math.min(this.lastHeard, now);
    const isSilent = now - this.lastHeard >= Math.max(LIMITS.silentSocketMs, 2 * heartbeatMs);
    if (isSilent) this.end(CLOSE.silent, "silent for too long");
    return isSilent;
  }

  /** True when the peer may be gone: during a probe, and when nothing came for 1 s after a message without an ack. */
  get isSilent(): boolean {
    const [oldest] = this.#inFlight.values();
    const isLate = oldest !== undefined && this.deps.clock.now() - oldest.sentAt >= SILENT_MS;
    return this.#cancelProbe !== null || isLate && this.lastHeard <= oldest.sentAt;
  }

  /**
   * Sends a heartbeat after a missing acknowledgement, and closes the socket with 4408 when nothing arrives within 10
   * s. A machine that is gone would otherwise count as online until the limit of silence.
   */
  probe(): void {
    if (!this.#open || this.#cancelProbe !== null) return;
    this.#cancelProbe = this.deps.clock.after(PROBE_MS, () => this.end(CLOSE.silent, "silent after a missing ack"));
    this.heartbeat();
  }

  #heard(): number {
    this.#cancelProbe?.();
    this.#cancelProbe = null;
    return this.lastHeard = this.deps.clock.now();
  }

  /** Sends a frame. Returns false when the socket is closed already, or is closed now because it is too slow. */
  send(frame: ProxyFrame): boolean {
    const { unsentBytes } = this;
    if (unsentBytes > UNSENT_NOTED_BYTES) this.deps.onSlow();
    if (!this.#open) return false;
    if (unsentBytes > UNSENT_BYTES_MAX) {
      this.end(CLOSE.tooSlow, "too slow");
      return false;
    }
    try {
      const text = encodeFrame(frame);
      this.connection.send(text);
      this.#count(frame.type, "out", text.length);
      return true;
    } catch {
      this.end(CLOSE.tooSlow, "cannot be written to");
      return false;
    }
  }

  heartbeat(): void {
    const id = this.deps.newId();
    this.#heartbeats.add(id);
    const [oldest] = this.#heartbeats;
    // The set is bounded, because a connector that never acknowledges would otherwise make it grow.
    if (oldest && this.#heartbeats.size > HEARTBEATS_IN_FLIGHT) this.#heartbeats.delete(oldest);
    this.send({ v: 1, type: "heartbeat", id, ts: toIso(this.deps.clock.now()) });
  }

  /** Sends a message, which then waits for its ack. Returns the ID of its frame. */
  deliver(waiting: WaitingMessage, attempt: number): string {
    const id = this.deps.newId(), ts = toIso(waiting.sentAt);
    this.#inFlight.set(id, waiting);
    const isSent = this.send({ v: 1, type: "deliver", id, ts, attempt, ...waiting.message });
    // If this frame closed the socket, the message is no longer in flight, and `lost()` was called already.
    if (!isSent && this.#inFlight.delete(id)) queueMicrotask(() => waiting.lost());
    return id;
  }

  /** Ends the wait of a message for the ack of a frame. A leaving socket closes after its last wait. */
  forget(id: string): void {
    this.#inFlight.delete(id);
    if (this.#farewell && this.#inFlight.size === 0) this.end(this.#farewell.code, this.#farewell.reason);
  }

  /** Handles a text message of the connector. */
  receive(text: string): void {
    if (!this.#open) return;
    const now = this.#heard();
    // The size is checked before parsing, because even within the limit the worst JSON takes about 0.3 ms.
    if (isOversize(text, "connector")) return this.end(CLOSE.tooLarge, FRAME_TOO_LARGE);
    try {
      const frame = decodeFrame(text, "connector");
      this.#count(frame.type, "in", text.length);
      const isAwaited = frame.type === "heartbeat_ack" && this.#heartbeats.delete(frame.ackId) ||
        frame.type === "deliver_ack" && this.#inFlight.get(frame.ackId)?.isOver === false;
      if (!(isAwaited && text.length <= SMALL_FRAME_BYTES) && this.#floods(now, text.length)) return;
      if (frame.type === "deliver_ack") {
        const waiting = this.#inFlight.get(frame.ackId);
        if (!waiting) return;
        const { accepted, reason } = frame;
        this.deps.metrics.observe("relay_ack_seconds", (now - waiting.sentAt) / 1000);
        waiting.end(reason === undefined ? { acked: true, accepted } : { acked: true, accepted, reason });
      } else if (frame.type === "heartbeat") {
        const isTooMuch = text.length > SMALL_FRAME_BYTES || !this.#asked.take(1, now);
        if (isTooMuch) return void this.#endFlood("too many heartbeats, or too large ones");
        this.send({ v: 1, type: "heartbeat_ack", id: this.deps.newId(), ts: toIso(now), ackId: frame.id });
      }
    } catch (error) {
      if (!(error instanceof FrameError)) throw error;
      this.#count("other", "in", text.length);
      this.misuse(text.length);
    }
  }

  /** Counts a message that is not a frame. The third one closes the socket. */
  misuse(bytes: number): void {
    if (this.#floods(this.#heard(), bytes)) return;
    if (++this.#malformed >= MALFORMED_FRAMES_MAX) this.end(CLOSE.misuse, "malformed frames");
  }

  /** Closes the socket and removes it from its agent. Its deliveries go over the next socket, or end. Idempotent. */
  end(code: number, reason: string): void {
    if (!this.#open) return;
    this.#leave(String(code));
    this.connection.close(code, reason);
  }

  /** Ends the connection at once, because a peer that is sending would otherwise go on sending. Idempotent. */
  drop(code: number, reason: string): void {
    this.end(code, reason);
    this.connection.drop();
  }

  /** True once the socket takes no further message. */
  get isLeaving(): boolean {
    return this.#farewell !== null;
  }

  /** Takes no further message, and closes the socket when each delivery has its result. */
  leave(code: number, reason: string): void {
    this.#farewell = { code, reason };
    if (this.#inFlight.size === 0) this.end(code, reason);
  }

  /** Handles a closed connection: what `end()` does without a close. Idempotent. */
  lost(): void {
    if (this.#open) this.#leave("other");
  }

  #leave(code: string): void {
    this.#open = false;
    this.#cancelProbe?.();
    this.deps.metrics.count("relay_closes_total", code);
    this.onEnd(this);
    const waiting = [...this.#inFlight.values()];
    this.#inFlight.clear();
    for (const message of waiting) message.lost();
  }

  #count(type: string, direction: "in" | "out", length: number): void {
    this.deps.metrics.count("relay_frames_total", type, direction);
    this.deps.metrics.add("relay_frame_bytes_total", length, type, direction);
  }

  /** Counts a frame. Returns true, and closes the socket, when the socket or its owner has sent too many. */
  #floods(now: number, bytes: number): boolean {
    if (!this.#frames.take(1, now)) return this.#endFlood("too many frames");
    if (this.deps.owners.takeFrame(this.agent.ownerDid, bytes)) return false;
    return this.#endFlood("too many frames of one owner");
  }

  /** Closes the socket. The owner's next connect waits, because the socket would otherwise be open again at once. */
  #endFlood(reason: string): true {
    this.deps.owners.holdConnects(this.agent.ownerDid);
    this.end(CLOSE.misuse, reason);
    return true;
  }
}

export interface DeliveryOptions {
  /** Milliseconds for all attempts together. */
  timeoutMs: number;
  /** Is called before each attempt but the first, because the pair may have ended. */
  isStillAllowed(): Promise<boolean>;
  /** Attempts of this message before this delivery. */
  triedBefore?: number;
  /** Is called with the result; a leaving socket stays open until the returned promise has settled. */
  after?: (result: DeliveryResult) => Promise<void> | undefined;
}

/** A message that waits for its acknowledgement, over one socket after another. */
class WaitingMessage {
  /** When it was sent over its present socket, milliseconds since the Unix epoch. */
  sentAt = 0;
  readonly #tried: RelaySocket[] = [];
  readonly #cancel: Cancel;
  #link: RelaySocket | undefined;
  #frameId = "";
  /** True once it has its result. It may still be in flight then, while it is removed from the mailbox. */
  isOver = false;

  constructor(
    readonly message: Message,
    readonly sockets: AgentSockets,
    readonly options: DeliveryOptions,
    readonly resolve: (result: DeliveryResult) => void,
    readonly reject: (error: unknown) => void,
  ) {
    this.#cancel = sockets.clock.after(options.timeoutMs, () => {
      this.end(NOT_ACKED);
      this.#link?.probe();
    });
    this.#send(this.#next());
  }

  /** Handles the loss of its socket: sends the message over the next one if that is still allowed. */
  lost(): void {
    if (this.isOver || !this.#next()) return this.end(NOT_ACKED);
    const send = (isAllowed: boolean) => this.#send(isAllowed ? this.#next() : undefined);
    this.options.isStillAllowed().then(send).catch((error) => {
      this.reject(error);
      this.end(NOT_ACKED);
    });
  }

  end(result: DeliveryResult): void {
    if (this.isOver) return;
    this.isOver = true;
    this.#cancel();
    const forget = () => this.#link?.forget(this.#frameId);
    const rest = this.options.after?.(result);
    if (rest) void rest.then(forget, forget);
    else forget();
    this.resolve(result);
  }

  #next(): RelaySocket | undefined {
    return this.sockets.links.findLast((link) => !this.#tried.includes(link));
  }

  #send(link: RelaySocket | undefined): void {
    if (this.isOver) return;
    if (!link) return this.end(NOT_ACKED);
    this.#tried.push(link);
    this.sentAt = this.sockets.clock.now();
    this.#link = link;
    this.#frameId = link.deliver(this, (this.options.triedBefore ?? 0) + this.#tried.length);
  }
}

/** The sockets of one agent, oldest first. */
export class AgentSockets {
  readonly links: RelaySocket[] = [];
  /** Refuses a message when another instance holds the agent's sockets. All messages to the agent share this update. */
  heldHere: Update<"moved"> | null = null;

  constructor(readonly clock: Clock) {}

  /** Adds a socket. Closes the oldest with 4409 when the agent then has too many. */
  add(link: RelaySocket): void {
    this.links.push(link);
    if (this.links.length > LIMITS.socketsPerAgent) this.links[0]?.end(CLOSE.replaced, "replaced by a newer one");
  }

  get isSilent(): boolean {
    return this.links.length > 0 && this.links.every(({ isSilent }) => isSilent);
  }

  /** Delivers a message to the newest socket, and to the next newest if that one is lost before its acknowledgement. */
  deliver(message: Message, options: DeliveryOptions): Promise<DeliveryResult> {
    return new Promise((resolve, reject) => void new WaitingMessage(message, this, options, resolve, reject));
  }
}
