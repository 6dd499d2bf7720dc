/**
 * The direct way between instances (D-370): one WebSocket for each two of them carries what notes carry. The messages of
 * one turn of the event loop travel together, because a commit of many messages would otherwise send, and the other
 * instance receive, a frame for each. Each has its length 4, its body as JSON, a line feed, and bytes. When a link is
 * missing or full, the caller writes a note to the store. After the loss of a link, a note asks for the results; a
 * message that has not arrived fails or is queued. Both sides prove that they know the key in the lease of the
 * accepting one, because any program that reaches the port could otherwise read and send messages.
 */
import { createHmac } from "node:crypto";
import { joinedBytes, toBase64Url, utf8Bytes, utf8Text } from "../../shared/protocol/base64url.ts";
import { isUlid } from "../../shared/protocol/ids.ts";
import { tryParse } from "../../shared/protocol/json_text.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import type { Cancel } from "../../shared/clock.ts";
import { equalDigests } from "../../shared/server/crypto.ts";
import type { ServiceDeps } from "../../shared/server/http/app.ts";
import type { UpgradeWebSocket } from "../../shared/server/http/open_sockets.ts";
import type { LinkAddress } from "../schema/records.ts";
import type { InstanceLeases } from "./instance_leases.ts";

/** Longest time to open a link. With more, messages take the slower notes while an address does not answer. */
const OPEN_MS = 2_000;
/**
 * Time from one heartbeat to the next. With more, messages to a machine that is gone wait in vain for longer. With
 * less, idle links carry more heartbeats.
 */
const BEAT_MS = 4_000;
/** Silence after which a link is lost. With less, an instance that is busy for some seconds would lose its links. */
const SILENT_MS = 3 * BEAT_MS;
/** Unsent bytes above which messages go as notes. With more, one slow instance would fill the memory of the others. */
const UNSENT_MAX = 8 * LIMITS.frameBytes;
/** Unsent bytes above which no hint is sent. With more, hints to a slow instance would turn messages into notes. */
const UNSENT_FOR_HINTS = LIMITS.frameBytes;
/** Largest frame of a link, with room for a message and its proof. A message that is longer goes as a note. */
const FRAME_MAX = 2 * LIMITS.frameBytes;
const LENGTH_BYTES = 4;
/** How long a challenge may be answered. With more, answered challenges are kept in memory for longer. */
const CHALLENGE_MS = 10_000;
const URL_MAX = 1_000;
const LINE_FEED = 0x0a;

export interface Dial {
  fetch(url: string, init: { signal: AbortSignal }): Promise<Response>;
  open(url: string): WebSocket;
}

interface LinksDeps extends Pick<ServiceDeps, "clock" | "log" | "metrics" | "random"> {
  leases: InstanceLeases;
  /** Returns a socket and the response that opens it. */
  upgrade: UpgradeWebSocket;
  dial: Dial;
}

interface Link {
  socket: WebSocket;
  heardAt: number;
  /** True when the other instance stops. No more messages are passed to it then, but it still sends results. */
  isLeaving: boolean;
  cancelBeat: Cancel;
  /** Parts of the messages of this turn, and their bytes. */
  parts: Uint8Array[];
  bytes: number;
}

/** The two text messages of an open link. All others are binary. */
const BEAT = "", LEAVES = "leaves";

export class InstanceLinks {
  /** Called for each message. Those of one link come in the order in which they were sent. */
  onMessage: (body: unknown, bytes: Uint8Array) => void = () => {};
  /** Called when a link is lost. What was sent over it may not have arrived. */
  onLost: (instance: string) => void = () => {};
  readonly #open = new Map<string, Link>();
  readonly #opening = new Set<string>();
  /** Instances whose links could not be opened, so that each is logged once. */
  readonly #failed = new Set<string>();
  /** Answered challenges with their ends. Each counts once, because a copied answer could otherwise open a link. */
  readonly #used = new Map<string, number>();
  #hasStopped = false;

  constructor(private readonly deps: LinksDeps) {
    deps.leases.onLooked = () => this.#look();
    deps.leases.isLinked = (instance) => this.has(instance);
    deps.metrics.read("instance_links", () => this.#open.size);
    deps.metrics.read("instance_links_missing", () => this.missing.length);
  }

  get size(): number {
    return this.#open.size;
  }

  /** Returns the instances with an address to which there is no link; none when this instance has no address. */
  get missing(): string[] {
    if (!this.deps.leases.link) return [];
    return this.deps.leases.others().flatMap(({ instance }) => this.#open.has(instance) ? [] : [instance]);
  }

  /** Returns true while messages to an instance can take a link: it is open and has room, and the instance stays. */
  has(instance: string): boolean {
    const link = this.#open.get(instance);
    return link !== undefined && !link.isLeaving && hasRoom(link);
  }

  /** Sends a message. Returns false when it was not sent; a message that was sent may still be lost with the link. */
  send(instance: string, body: unknown, bytes: Uint8Array = new Uint8Array()): boolean {
    const link = this.#open.get(instance);
    if (!link || !hasRoom(link)) return false;
    const text = utf8Bytes(`${JSON.stringify(body)}\n`), length = text.length + bytes.length;
    if (LENGTH_BYTES + length > FRAME_MAX) return false;
    if (link.bytes + LENGTH_BYTES + length > FRAME_MAX) this.#flush(instance, link);
    // Checked again, because a message that is added to a link that was just lost would never be sent or asked for.
    if (this.#open.get(instance) !== link) return false;
    if (link.parts.length === 0) queueMicrotask(() => this.#flush(instance, link));
    link.parts.push(lengthBytes(length), text, bytes);
    link.bytes += LENGTH_BYTES + length;
    return true;
  }

  /** Sends the messages of this turn. A link that cannot be written to is lost. */
  #flush(instance: string, link: Link): void {
    const { parts, socket } = link;
    if (parts.length === 0) return;
    [link.parts, link.bytes] = [[], 0];
    try {
      socket.send(joinedBytes(parts));
    } catch {
      this.#end(instance, link);
    }
  }

  /** Sends a hint to each instance. One whose link has much to send gets none. */
  hint(body: unknown, bytes: Uint8Array): void {
    for (const [instance, { socket, isLeaving }] of this.#open) {
      if (!isLeaving && socket.bufferedAmount <= UNSENT_FOR_HINTS) this.send(instance, body, bytes);
    }
  }

  /** Answers a request to the port for links. No socket opens before a proof, because any program can call the port. */
  async answer(request: Request): Promise<Response> {
    const { link } = this.deps.leases;
    if (!link || this.#hasStopped || request.method !== "GET" || request.url.length > URL_MAX) return refused(404);
    const { pathname, searchParams } = new URL(request.url);
    if (pathname === "/challenge") return new Response(this.#challenge(link.key));
    if (pathname !== "/link") return refused(404);
    const sent = (name: string) => searchParams.get(name) ?? "";
    const from = sent("from"), challenge = sent("challenge"), nonce = sent("nonce"), proof = sent("proof");
    const about = [from, this.deps.leases.instance, challenge, nonce];
    const isProven = isUlid(from) && equalDigests(proof, proofOf(link.key, "opens", about)) &&
      this.#isFresh(link.key, challenge);
    if (!isProven) return refused(403);
    try {
      const { socket, response } = await this.deps.upgrade(request);
      socket.binaryType = "arraybuffer";
      socket.onopen = () => {
        // This instance may have stopped since its answer. The timer of the link would then never end.
        if (this.#hasStopped) return socket.close();
        socket.send(proofOf(link.key, "accepts", about));
        this.#use(from, socket);
      };
      return response;
    } catch {
      return refused(426);
    }
  }

  /** Tells the other instances that this one stops. The results of their messages still go over the links. */
  leave(): void {
    for (const { socket } of this.#open.values()) if (socket.readyState === WebSocket.OPEN) socket.send(LEAVES);
  }

  /** Closes every link, after what was sent over it. */
  stop(): void {
    this.#hasStopped = true;
    for (const [instance, link] of this.#open) this.#end(instance, link);
  }

  /** Returns a challenge. It contains the end of its validity, so that an unanswered challenge needs no memory. */
  #challenge(key: string): string {
    const { clock, random } = this.deps;
    const text = `${clock.now() + CHALLENGE_MS}.${toBase64Url(random.bytes(16))}`;
    return `${text}.${proofOf(key, "asks", [text])}`;
  }

  /** Returns true once for a challenge of this instance that has not ended. */
  #isFresh(key: string, challenge: string): boolean {
    const now = this.deps.clock.now(), at = challenge.lastIndexOf(".");
    const text = challenge.slice(0, Math.max(0, at)), until = Number(text.split(".")[0]);
    const isOwn = equalDigests(challenge.slice(at + 1), proofOf(key, "asks", [text]));
    if (!isOwn || !(now < until) || this.#used.has(challenge)) return false;
    for (const [used, end] of this.#used) if (end <= now) this.#used.delete(used);
    this.#used.set(challenge, until);
    return true;
  }

  /**
   * Opens the links that are missing. Of two instances with addresses only the one with the smaller ID opens it,
   * because they would otherwise have two links.
   */
  #look(): void {
    const { leases } = this.deps, others = leases.others();
    for (const instance of this.#failed) {
      if (!others.some((other) => other.instance === instance)) this.#failed.delete(instance);
    }
    for (const { instance, link } of others) {
      const isOurs = leases.link === null || leases.instance < instance;
      const isNeeded = isOurs && !this.#open.has(instance) && !this.#opening.has(instance);
      if (isNeeded && !this.#hasStopped) void this.#openTo(instance, link);
    }
  }

  /** Opens a link. Never rejects. */
  async #openTo(instance: string, link: LinkAddress): Promise<void> {
    const { clock, log, leases } = this.deps;
    const late = new AbortController();
    const cancel = clock.after(OPEN_MS, () => late.abort(new Error(`no answer within ${OPEN_MS / 1000} s`)));
    this.#opening.add(instance);
    try {
      await this.#connect(instance, link, late.signal);
      this.#failed.delete(instance);
    } catch (cause) {
      if (!this.#failed.has(instance)) {
        const message = `messages to it go through the store; check that ${link.at} is reachable from here`;
        log("warn", "instance_link_failed", { instance, address: link.at, own: leases.instance, message, cause });
      }
      this.#failed.add(instance);
    } finally {
      cancel();
      this.#opening.delete(instance);
    }
  }

  /** Opens a WebSocket. @throws {Error} when the other side does not prove the key of the lease in time */
  async #connect(instance: string, { at, key }: LinkAddress, signal: AbortSignal): Promise<void> {
    const { dial, leases, random } = this.deps;
    const response = await dial.fetch(`http://${at}/challenge`, { signal });
    const challenge = await textOf(response);
    const nonce = toBase64Url(random.bytes(16));
    const about = [leases.instance, instance, challenge, nonce];
    const proof = proofOf(key, "opens", about);
    const query = new URLSearchParams({ from: leases.instance, challenge, nonce, proof });
    signal.throwIfAborted();
    const socket = dial.open(`ws://${at}/link?${query}`);
    socket.binaryType = "arraybuffer";
    try {
      await new Promise<void>((resolve, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason));
        socket.onclose = socket.onerror = () => reject(new Error("the connection was refused or closed"));
        socket.onmessage = ({ data }) => {
          const isProven = typeof data === "string" && equalDigests(data, proofOf(key, "accepts", about));
          if (!isProven) return reject(new Error("it does not know the key of its lease"));
          if (this.#hasStopped) return reject(new Error("this instance stops"));
          // Used at once, because the next message may already be one of the link and would otherwise be lost.
          this.#use(instance, socket);
          resolve();
        };
      });
    } catch (cause) {
      // The handler is removed, because a late answer would otherwise use the closing socket, and end a newer link.
      socket.onmessage = null;
      socket.close();
      throw cause;
    }
  }

  /** Uses a new link to an instance. Ends an earlier one, because the other instance no longer has that link. */
  #use(instance: string, socket: WebSocket): void {
    const { clock } = this.deps;
    const before = this.#open.get(instance);
    if (before) this.#end(instance, before);
    const link: Link = { socket, heardAt: clock.now(), isLeaving: false, cancelBeat: () => {}, parts: [], bytes: 0 };
    this.#open.set(instance, link);
    const end = () => this.#end(instance, link);
    socket.onclose = socket.onerror = end;
    socket.onmessage = ({ data }) => {
      link.heardAt = clock.now();
      link.isLeaving ||= data === LEAVES;
      if (data instanceof ArrayBuffer && !this.#receive(new Uint8Array(data))) end();
    };
    const beat = () => {
      // After a step back of the clock a lost link would otherwise stay for as long as the step.
      link.heardAt = Math.min(link.heardAt, clock.now());
      if (clock.now() - link.heardAt >= SILENT_MS) return end();
      if (socket.readyState === WebSocket.OPEN) socket.send(BEAT);
      link.cancelBeat = clock.after(BEAT_MS, beat);
    };
    beat();
  }

  /** Passes on the messages of a frame. Returns false for bytes that are no message. */
  #receive(frame: Uint8Array): boolean {
    if (frame.length > FRAME_MAX) return false;
    const view = new DataView(frame.buffer, frame.byteOffset, frame.byteLength);
    for (let at = 0, end = 0; at < frame.length; at = end) {
      const start = at + LENGTH_BYTES;
      if (start > frame.length) return false;
      end = start + view.getUint32(at);
      if (end > frame.length || !this.#pass(frame.subarray(start, end))) return false;
    }
    return true;
  }

  #pass(message: Uint8Array): boolean {
    const at = message.indexOf(LINE_FEED);
    const body = tryParse(utf8Text(message.subarray(0, Math.max(0, at))));
    if (body === null) return false;
    // A copy, because a message that waits for its recipient would otherwise keep the whole frame in memory.
    this.onMessage(body, message.slice(at + 1));
    return true;
  }

  #end(instance: string, link: Link): void {
    if (this.#open.get(instance) !== link) return;
    this.#open.delete(instance);
    link.cancelBeat();
    const { socket } = link;
    if (socket.readyState === WebSocket.OPEN) this.#flush(instance, link);
    socket.onmessage = socket.onclose = socket.onerror = null;
    socket.close();
    this.onLost(instance);
  }
}

function lengthBytes(length: number): Uint8Array {
  const bytes = new Uint8Array(LENGTH_BYTES);
  new DataView(bytes.buffer).setUint32(0, length);
  return bytes;
}

function hasRoom({ socket }: Link): boolean {
  return socket.readyState === WebSocket.OPEN && socket.bufferedAmount <= UNSENT_MAX;
}

/** Returns the proof that a side knows the key. Without `role`, a proof of one step could be used for another step. */
function proofOf(key: string, role: "asks" | "opens" | "accepts", about: readonly string[]): string {
  return createHmac("sha256", key).update(["svc link", role, ...about].join("\n")).digest("base64url");
}

/** Returns the text of a challenge. @throws {Error} for any other response */
async function textOf(response: Response): Promise<string> {
  const length = Number(response.headers.get("content-length") ?? Infinity);
  if (response.ok && length <= URL_MAX) return await response.text();
  await response.body?.cancel();
  throw new Error(`it answered ${response.status} to the first request`);
}

function refused(status: number): Response {
  return new Response(null, { status, headers: { Connection: "close" } });
}
