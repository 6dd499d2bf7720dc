/**
 * HTTP as bytes on a TCP connection: sends exactly the given bytes, well formed or not, and keeps the answer. For
 * requests that `fetch` would normalise: case and order of headers, duplicate headers, broken framing, endless bodies.
 */
import { Buffer } from "node:buffer";
import { signedHeaders } from "./agent_client.ts";
import { utf8Bytes } from "../../shared/protocol/base64url.ts";
import { HEADERS } from "../../shared/protocol/proof.ts";
import type { ProxyFrame } from "../../shared/protocol/frames.ts";
import { deps, eventually, type LiveAgent, newId, SOON_MS, within } from "./process.ts";

/** A header of a request. */
export type HeaderLine = readonly [name: string, value: string];

/** An answer without interpretation. */
export interface RawAnswer {
  status: number;
  /** By name in lower case; a repeated one is joined by a comma. */
  headers: Map<string, string>;
  body: string;
  /** The complete answer. */
  text: string;
}

/** Code of an error envelope. */
export function codeOf({ body }: Pick<RawAnswer, "body">): string {
  return (JSON.parse(body) as { error: { code: string } }).error.code;
}

/** A TCP connection to a server. */
export class RawConnection implements AsyncDisposable {
  readonly #conn: Deno.TcpConn;
  readonly #ended: Promise<void>;
  #received: Uint8Array<ArrayBufferLike> = new Uint8Array();
  #closed = false;
  #paused: Promise<void> | null = null;
  #resume = () => {};
  #waiting: (() => void)[] = [];

  private constructor(conn: Deno.TcpConn) {
    this.#conn = conn;
    this.#ended = this.#read();
  }

  static async open(address: string): Promise<RawConnection> {
    const { hostname, port } = new URL(address);
    const conn = await Deno.connect({ hostname, port: Number(port) });
    conn.setNoDelay(true);
    return new RawConnection(conn);
  }

  /** All received bytes, one character for each byte. */
  get received(): string {
    return latin1(this.#received);
  }

  /** Sends bytes, or text as UTF-8. False when the other side has closed. */
  async send(data: string | Uint8Array): Promise<boolean> {
    const bytes = typeof data === "string" ? utf8Bytes(data) : data;
    try {
      for (let sent = 0; sent < bytes.length;) sent += await this.#conn.write(bytes.subarray(sent));
      return true;
    } catch {
      return false;
    }
  }

  /** Stops reading: the other side's bytes stay there when the system's buffers are full. */
  stopReading(): void {
    this.#paused ??= new Promise((resolve) => this.#resume = resolve);
  }

  /** Returns the next complete answer, or `null` when the connection ends first. */
  answer(withinMs = SOON_MS, toHead = false): Promise<RawAnswer | null> {
    return within(withinMs, "an answer", this.take((bytes) => cutAnswer(bytes, toHead)));
  }

  /** Waits until something can be taken from the received bytes. Returns `null` when the connection ends first. */
  async take<T>(cut: (bytes: Uint8Array) => { value: T; length: number } | null): Promise<T | null> {
    while (true) {
      const found = cut(this.#received);
      if (found) {
        this.#received = this.#received.subarray(found.length);
        return found.value;
      }
      if (this.#closed) return null;
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }

  /** Every answer until the other side closes. */
  async answers(withinMs = SOON_MS): Promise<RawAnswer[]> {
    await within(withinMs, "the server closes the connection", this.#ended);
    const answers: RawAnswer[] = [];
    for (let next = await this.answer(); next; next = await this.answer()) answers.push(next);
    return answers;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#close();
    await this.#ended;
  }

  #close(): void {
    this.#resume();
    try {
      this.#conn.close();
    } catch (error) {
      if (!(error instanceof Deno.errors.BadResource)) throw error;
    }
  }

  async #read(): Promise<void> {
    const chunk = new Uint8Array(65_536);
    try {
      for (let size = await this.#conn.read(chunk); size !== null; size = await this.#conn.read(chunk)) {
        const more = new Uint8Array(this.#received.length + size);
        more.set(this.#received);
        more.set(chunk.subarray(0, size), this.#received.length);
        this.#received = more;
        this.#wake();
        await this.#paused;
      }
    } catch {
      // Reset by the other side or closed here: in both cases the connection has ended.
    }
    this.#closed = true;
    this.#close();
    this.#wake();
  }

  #wake(): void {
    for (const wake of this.#waiting.splice(0)) wake();
  }
}

/** Takes the first complete answer from the received bytes. Interim answers (1xx) are skipped. */
function cutAnswer(bytes: Uint8Array, toHead: boolean): { value: RawAnswer; length: number } | null {
  const all = latin1(bytes);
  let start = 0;
  while (/^HTTP\/1\.1 1(?!01)\d\d /.test(all.slice(start, start + 13))) {
    const end = all.indexOf("\r\n\r\n", start);
    if (end === -1) return null;
    start = end + 4;
  }
  const headEnd = all.indexOf("\r\n\r\n", start);
  if (headEnd === -1) return null;
  const [statusLine = "", ...lines] = all.slice(start, headEnd).split("\r\n");
  const headers = new Map<string, string>();
  for (const line of lines) {
    const [, name = "", value = ""] = line.match(/^([^:]*):[ \t]*(.*?)[ \t]*$/) ?? [];
    const before = headers.get(name.toLowerCase());
    headers.set(name.toLowerCase(), before === undefined ? value : `${before}, ${value}`);
  }
  const bodyStart = headEnd + 4;
  const status = Number(statusLine.split(" ")[1]);
  const bodiless = toHead || status === 204 || status === 304 || status === 101;
  const body = bodiless ? { text: "", end: bodyStart } : cutBody(all, bodyStart, headers);
  if (!body) return null;
  const text = all.slice(start, body.end);
  return { value: { status, headers, body: utf8(body.text), text: utf8(text) }, length: body.end };
}

function cutBody(all: string, start: number, headers: Map<string, string>): { text: string; end: number } | null {
  if (headers.get("transfer-encoding") !== "chunked") {
    const end = start + Number(headers.get("content-length") ?? 0);
    return all.length < end ? null : { text: all.slice(start, end), end };
  }
  let text = "";
  for (let at = start;;) {
    const line = all.indexOf("\r\n", at);
    if (line === -1) return null;
    const size = parseInt(all.slice(at, line), 16);
    const next = line + 2 + size + 2;
    if (all.length < next) return null;
    text += all.slice(line + 2, line + 2 + size);
    at = next;
    if (size === 0) return { text, end: at };
  }
}

function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
}

function utf8(characters: string): string {
  return new TextDecoder().decode(Uint8Array.from(characters, (character) => character.charCodeAt(0)));
}

/** A request as text: request line, headers in their order, body. Adds nothing. */
export function rawRequest(method: string, target: string, lines: readonly HeaderLine[], body = ""): string {
  return `${method} ${target} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n${body}`;
}

/** `Host` and, for a body, `Content-Type` and `Content-Length`. */
export function usualLines(address: string, body?: string): HeaderLine[] {
  const host: HeaderLine = ["Host", new URL(address).host];
  if (body === undefined) return [host];
  return [host, ["Content-Type", "application/json"], ["Content-Length", String(utf8Bytes(body).length)]];
}

/** Sends one request on a new connection. Returns its answer, or `null` when the connection closes without one. */
export async function rawExchange(address: string, request: string | Uint8Array): Promise<RawAnswer | null> {
  await using connection = await RawConnection.open(address);
  await connection.send(request);
  const isHead = typeof request === "string" && request.startsWith("HEAD ");
  return await connection.answer(SOON_MS, isHead);
}

/** The parts of a signed request. */
export interface SignedParts {
  method?: string;
  /** The signed values. The caller decides what is sent. */
  target?: string;
  body?: string;
  recipient?: string;
}

/** The header lines of a signed request: `Host`, the body's, the proof's and the access token. */
export async function signedLines(address: string, agent: LiveAgent, parts: SignedParts = {}): Promise<HeaderLine[]> {
  const { method = "POST", target = "/hooks/agent", body, recipient } = parts;
  const signed = await signedHeaders(deps, agent.identity, {
    method,
    url: address,
    target,
    ...(body === undefined ? {} : { body }),
    ...(recipient === undefined ? {} : { recipient }),
  });
  return [
    ...usualLines(address, body),
    ...Object.entries(signed),
    [HEADERS.access, agent.identity.accessToken],
  ];
}

/** Opcodes of WebSocket frames. */
export const OPCODE = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const;

/** A WebSocket on bytes: sends any frame, well formed or not, and keeps every text message. */
export class RawSocket implements AsyncDisposable {
  readonly texts: string[] = [];
  /** When false, it does not agree to the end of the connection, and goes on. */
  answersClose = true;
  /** Close code; 1006 when the connection ended without one. */
  readonly closed: Promise<number>;
  readonly #connection: RawConnection;

  private constructor(connection: RawConnection, readonly opening: RawAnswer) {
    this.#connection = connection;
    this.closed = this.#read();
  }

  /** Sends an upgrade. Returns the socket, or the answer that refused it. */
  static async open(address: string, target: string, lines: readonly HeaderLine[]): Promise<RawSocket | RawAnswer> {
    const connection = await RawConnection.open(address);
    await connection.send(rawRequest("GET", target, [...lines, ...UPGRADE]));
    const answer = await connection.answer();
    if (answer?.status === 101) return new RawSocket(connection, answer);
    await connection[Symbol.asyncDispose]();
    if (!answer) throw new Error("The connection was closed without an answer to the upgrade");
    return answer;
  }

  /** Stops reading. */
  stopReading(): void {
    this.#connection.stopReading();
  }

  /** Sends one frame, masked with zeros. False when the other side has closed. */
  async send(opcode: number, payload: string | Uint8Array, final = true): Promise<boolean> {
    const bytes = typeof payload === "string" ? utf8Bytes(payload) : payload;
    const { length } = bytes;
    const sizeOfLength = length < 126 ? 0 : length < 65_536 ? 2 : 8;
    const head = new DataView(new ArrayBuffer(2 + sizeOfLength + 4));
    head.setUint8(0, (final ? 0x80 : 0) | opcode);
    head.setUint8(1, 0x80 | (sizeOfLength === 0 ? length : sizeOfLength === 2 ? 126 : 127));
    if (sizeOfLength === 2) head.setUint16(2, length);
    if (sizeOfLength === 8) head.setBigUint64(2, BigInt(length));
    return await this.#connection.send(new Uint8Array(head.buffer)) && await this.#connection.send(bytes);
  }

  /** Closes the TCP connection without a close frame. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#connection[Symbol.asyncDispose]();
    await this.closed;
  }

  async #read(): Promise<number> {
    for (let frame = await this.#next(); frame; frame = await this.#next()) {
      if (frame.opcode === OPCODE.text) this.texts.push(new TextDecoder().decode(frame.payload));
      if (frame.opcode === OPCODE.ping) await this.send(OPCODE.pong, frame.payload);
      if (frame.opcode !== OPCODE.close) continue;
      if (!this.answersClose) continue;
      await this.send(OPCODE.close, frame.payload);
      return frame.payload.length < 2 ? 1005 : ((frame.payload[0] ?? 0) << 8) | (frame.payload[1] ?? 0);
    }
    return 1006;
  }

  #next(): Promise<{ opcode: number; payload: Uint8Array } | null> {
    return this.#connection.take((bytes) => {
      const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      if (bytes.length < 2) return null;
      const size = view.getUint8(1) & 127;
      const start = size === 126 ? 4 : size === 127 ? 10 : 2;
      if (bytes.length < start) return null;
      const length = size === 126 ? view.getUint16(2) : size === 127 ? Number(view.getBigUint64(2)) : size;
      if (bytes.length < start + length) return null;
      const payload = bytes.slice(start, start + length);
      return { value: { opcode: view.getUint8(0) & 15, payload }, length: start + length };
    });
  }
}

/** Header lines of an upgrade to a WebSocket. */
export const UPGRADE: readonly HeaderLine[] = [
  ["Connection", "Upgrade"],
  ["Upgrade", "websocket"],
  ["Sec-WebSocket-Version", "13"],
  ["Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="],
];

/** Address of the relay route. */
export const CONNECT = "/v1/relay/connect";

/** Header lines of a new signed upgrade. */
export function upgradeLines(url: string, agent: LiveAgent): Promise<HeaderLine[]> {
  return signedLines(url, agent, { method: "GET", target: CONNECT });
}

/** A connector that sends only the frames of the test. */
export class BareConnector implements AsyncDisposable {
  constructor(readonly socket: RawSocket) {}

  static async open(url: string, agent: LiveAgent, more: readonly HeaderLine[] = []): Promise<BareConnector> {
    const socket = await RawSocket.open(url, CONNECT, [...await upgradeLines(url, agent), ...more]);
    if (!(socket instanceof RawSocket)) throw new Error(socket.text);
    return new BareConnector(socket);
  }

  get frames(): ProxyFrame[] {
    return this.socket.texts.map((text) => JSON.parse(text) as ProxyFrame);
  }

  /** Waits for the n-th frame of a type. */
  frame<T extends ProxyFrame["type"]>(type: T, n = 1): Promise<Extract<ProxyFrame, { type: T }>> {
    const isWanted = (frame: ProxyFrame): frame is Extract<ProxyFrame, { type: T }> => frame.type === type;
    return eventually(SOON_MS, `${type} ${n}`, () => this.frames.filter(isWanted)[n - 1]);
  }

  /** Sends a frame. */
  async say(frame: Record<string, unknown>): Promise<void> {
    const head = { v: 1, id: newId(), ts: new Date().toISOString() };
    await this.socket.send(OPCODE.text, JSON.stringify({ ...head, ...frame }));
  }

  /** Closes the TCP connection without a close frame. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.socket[Symbol.asyncDispose]();
  }
}
