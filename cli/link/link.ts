/**
 * The connector's link to the proxy: one WebSocket, opened with signed headers, that receives frames and sends
 * acknowledgements. It detects a dead connection and reports why it ended. reconnect.ts opens the next one.
 */
// @ts-types="./ws.d.ts"
import { type UnexpectedResponse, WebSocket } from "ws";
import type { Clock } from "../../shared/clock.ts";
import {
  CLOSE,
  type ConnectorFrame,
  decodeFrame,
  type DeliverFrame,
  type DeliveryFrame,
  encodeFrame,
  FrameError,
  type PairedFrame,
  type RevokedFrame,
} from "../../shared/protocol/frames.ts";
import type { NewId } from "../../shared/protocol/ids.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { HEADERS } from "../../shared/protocol/proof.ts";
import { toIso } from "../../shared/protocol/time.ts";
import type { Random } from "../../shared/random.ts";
import { errorEnvelope, wholeSeconds } from "../../shared/client/http.ts";
import { type AgentIdentity, signedHeaders } from "./signed_headers.ts";
import { ApiError } from "../../shared/client/errors.ts";
import { mayPassWithOtherRoots, rootsToTry, unreachable } from "../../shared/client/tls.ts";

/**
 * Longest wait until the proxy accepts the link. With less, a busy proxy would admit agents that have already given up.
 * With more, a dead address is noticed later.
 */
export const HANDSHAKE_MS = 10_000;
/**
 * Longest wait for a frame after a heartbeat. With less, a busy proxy loses links; with more, dead ones seem to work.
 */
const ANSWER_MS = 10_000;
/** Silence before a heartbeat. With less, idle links carry more frames; with more, their end is noticed later. */
const QUIET_MS = LIMITS.heartbeatIntervalMs / 2 + 1_000;

/**
 * Characters of all messages that are processed at the same time. With more, a proxy could fill the memory while a
 * registry does not answer.
 */
const TAKING_CHARACTERS = 64 * 1024 ** 2;

/** Bytes of answers that the proxy has not read. With more, one that asks without reading could fill the memory. */
const UNREAD_BYTES = 4 * 1024 ** 2;

/** The answer to a received message. `reason` says why it was not accepted. */
export interface Ack {
  accepted: boolean;
  reason?: string;
}

export interface LinkEvents {
  /** Called for each message. The result is sent as its acknowledgement. */
  deliver(frame: DeliverFrame): Promise<Ack>;
  paired?(frame: PairedFrame): void;
  delivery?(frame: DeliveryFrame): void;
  revoked?(frame: RevokedFrame): void;
  /** Called when the proxy has answered a heartbeat. */
  heartbeat?(roundTripMs: number): void;
  /** Called when the link has ended. `code` is the WebSocket close code. */
  closed(code: number, reason: string): void;
}

export type Link = Pick<OpenLink, "close" | "check">;

interface LinkDeps {
  clock: Clock;
  random: Random;
  newId: NewId;
  /** Certificates in PEM form that are trusted in addition to the system's. */
  authority?: { pem: string } | undefined;
  /** Set when the peers of the agent are not told whether it is connected. */
  isHidden?: boolean;
}

export interface ProxyPlace {
  /** Origin to connect to, `http` or `https`. */
  dialUrl: string;
  /** The public origin, which is signed (D-24). */
  origin: string;
}

export class RefusedError extends ApiError {
  override name = "RefusedError";
  date: string | null = null;
}

const TARGET = "/v1/relay/connect";
const MAX_REFUSAL_CHARS = 64 * 1024;
const SILENT = `no answer within ${ANSWER_MS / 1000} s`;
/** The system's error code for an address that does not answer an attempt to connect. */
const NO_WAY = "ETIMEDOUT";
const HANDSHAKE_LATE = `did not answer within ${HANDSHAKE_MS / 1000} s`;

/**
 * Opens a link to the proxy.
 *
 * @param proxy its origin, or its two addresses
 * @throws {RefusedError} with the proxy's code when it refuses the upgrade
 * @throws {import("../../shared/client/errors.ts").UnreachableError} when no proxy answers
 */
export async function openLink(
  deps: LinkDeps,
  proxy: string | ProxyPlace,
  agent: AgentIdentity,
  events: LinkEvents,
): Promise<Link> {
  const { dialUrl, origin } = typeof proxy === "string" ? { dialUrl: proxy, origin: proxy } : proxy;
  const roots = dialUrl.startsWith("https:") ? rootsToTry(deps.authority) : [null];
  while (true) {
    const ca = roots.shift() ?? null;
    const target = deps.isHidden ? `${TARGET}?hidden=1` : TARGET;
    const headers = {
      ...await signedHeaders(deps, agent, { method: "GET", url: origin, target }),
      [HEADERS.access]: agent.accessToken,
    };
    const way = { isOpen: false };
    const socket = new WebSocket(dialUrl.replace(/^http/, "ws") + target, {
      headers,
      maxPayload: LIMITS.frameBytes,
      perMessageDeflate: false,
      followRedirects: false,
      finishRequest: (request) => {
        request.once("socket", (socket) => socket.once("connect", () => way.isOpen = true));
        request.end();
      },
      ...(ca === null ? {} : { ca: [ca] }),
    });
    try {
      return await opened(deps.clock, { socket, dialUrl, way }, () => new OpenLink(deps, socket, events));
    } catch (error) {
      if (roots.length === 0 || !mayPassWithOtherRoots(error)) throw error;
    }
  }
}

class OpenLink {
  #lastHeard: number;
  #cancelWatch = () => {};
  #beat = { id: "", sentAt: 0 };
  /** True from the sending of a heartbeat until any frame comes. */
  #isChecked = false;
  /** Characters of the messages whose acknowledgement has not been sent. */
  #taking = 0;

  constructor(
    private readonly deps: LinkDeps,
    private readonly socket: WebSocket,
    private readonly events: LinkEvents,
  ) {
    this.#lastHeard = deps.clock.now();
    socket.on("message", (data, isBinary) => this.#receive(isBinary ? null : new TextDecoder().decode(data)));
    socket.on("error", () => socket.terminate());
    socket.on("close", (code, reason) => {
      this.#cancelWatch();
      events.closed(code, new TextDecoder().decode(reason));
    });
    this.check();
  }

  close(): void {
    this.socket.close(1000, "done");
  }

  /** Sends a heartbeat, and ends the link when no frame comes within 10 s. */
  check(): void {
    if (this.#isChecked || this.socket.readyState !== WebSocket.OPEN) return;
    const { clock } = this.deps;
    this.#isChecked = true;
    const frame = { ...this.#head(), type: "heartbeat" } as const;
    this.#beat = { id: frame.id, sentAt: clock.now() };
    this.#send(frame);
    this.#cancelWatch();
    this.#cancelWatch = clock.after(ANSWER_MS, () => this.#isChecked ? this.#endSilent() : this.#watch());
  }

  /** Checks the link after some silence, and at least as often as the proxy sends heartbeats. */
  #watch(): void {
    const { clock } = this.deps, now = clock.now();
    const wait = Math.min(this.#lastHeard + QUIET_MS, this.#beat.sentAt + LIMITS.heartbeatIntervalMs) - now;
    if (wait <= 0) return this.check();
    // Without the bound, a clock that was set back would leave the link unchecked.
    this.#cancelWatch = clock.after(Math.min(wait, QUIET_MS), () => this.#watch());
  }

  #receive(text: string | null): void {
    this.#lastHeard = this.deps.clock.now();
    this.#isChecked = false;
    try {
      if (text === null) throw new FrameError("The frame is binary");
      const frame = decodeFrame(text, "proxy");
      switch (frame.type) {
        case "deliver":
          void this.#take(frame, text.length);
          break;
        case "heartbeat":
          this.#send({ ...this.#head(), type: "heartbeat_ack", ackId: frame.id });
          break;
        case "heartbeat_ack":
          if (frame.ackId === this.#beat.id) this.events.heartbeat?.(this.deps.clock.now() - this.#beat.sentAt);
          break;
        case "delivery":
          this.events.delivery?.(frame);
          break;
        case "paired":
          this.events.paired?.(frame);
          break;
        case "revoked":
          this.events.revoked?.(frame);
          break;
      }
    } catch (error) {
      // A proxy of a later version may send unknown frames, so they are ignored.
      if (!(error instanceof FrameError)) throw error;
    }
  }

  async #take(frame: DeliverFrame, length: number): Promise<void> {
    // With this reason the proxy keeps the message, and does not count the refusal.
    let ack: Ack = { accepted: false, reason: "store_failed" };
    if (this.#taking + length <= TAKING_CHARACTERS) {
      this.#taking += length;
      // A message that cannot be processed is not accepted, so the proxy sends it again.
      ack = await this.events.deliver(frame).catch(() => ({ accepted: false, reason: "failed" }));
      this.#taking -= length;
    }
    this.#send({ ...this.#head(), type: "deliver_ack", ackId: frame.id, ...ack });
  }

  #send(frame: ConnectorFrame): void {
    if (this.socket.readyState !== WebSocket.OPEN) return;
    if (this.socket.bufferedAmount > UNREAD_BYTES) return this.socket.terminate();
    this.socket.send(encodeFrame(frame));
  }

  #head() {
    return { v: 1, id: this.deps.newId(), ts: toIso(this.deps.clock.now()) } as const;
  }

  #endSilent(): void {
    // Reported here, because no close frame would be answered, and the socket would report only that it broke.
    this.socket.removeAllListeners();
    this.socket.on("error", () => {});
    this.socket.close(CLOSE.silent, SILENT);
    this.socket.terminate();
    this.events.closed(CLOSE.silent, SILENT);
  }
}

/**
 * Waits for the socket to open, or rejects with the reason why it did not. The link is created as soon as it opens,
 * because the proxy's first frames follow the upgrade directly. The deadline is a timer of this file, because the
 * library's own timer acts on a request that has already failed, and that error ends the process. Errors after the
 * first one are ignored for the same reason.
 */
function opened(
  clock: Clock,
  { socket, dialUrl, way }: { socket: WebSocket; dialUrl: string; way: { isOpen: boolean } },
  makeLink: () => Link,
): Promise<Link> {
  const { promise, resolve, reject } = Promise.withResolvers<Link>();
  let refused = () => reject(unreachable(dialUrl, HANDSHAKE_LATE, way.isOpen ? null : new Error(NO_WAY)));
  const cancel = clock.after(HANDSHAKE_MS, () => refused());
  socket.once("open", () => {
    socket.removeAllListeners();
    resolve(makeLink());
  });
  socket.on("error", (cause) => reject(unreachable(dialUrl, "cannot be reached", cause)));
  socket.once("unexpected-response", (_request, response) => {
    let text = "";
    // If the response breaks off, or does not end in time, it is still a refusal with a status.
    refused = () => reject(refusal(response, text));
    response.on("data", (chunk) => {
      text += new TextDecoder().decode(chunk);
      if (text.length > MAX_REFUSAL_CHARS) refused();
    });
    for (const end of ["end", "error", "aborted", "close"] as const) response.on(end, () => refused());
  });
  promise.catch(() => socket.terminate()).finally(cancel);
  return promise;
}

function refusal({ statusCode: status = 0, headers }: UnexpectedResponse, body: string): RefusedError {
  const header = (name: string) => {
    const value = headers[name];
    return typeof value === "string" ? value : null;
  };
  const { code, message } = errorEnvelope(body) ?? { code: null, message: `The proxy answered with status ${status}` };
  const retryAfter = wholeSeconds(header("retry-after"));
  const error = new RefusedError(status, code, message, header(HEADERS.requestId), retryAfter);
  error.date = header("date");
  return error;
}
