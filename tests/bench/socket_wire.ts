/**
 * A WebSocket client on a bare TCP connection: small enough for thousands of sockets, and able to stop reading.
 * Supports text messages of one frame, as the service sends them. Any other frame ends the connection.
 */
import { Buffer } from "node:buffer";
import { openTcp, readHead, requestBytes, writeAll } from "./http_wire.ts";

const FIRST_BYTES = 2_048;
/** Close code of a connection that ended without a close frame. */
export const NO_CODE = 1006;

const TEXT = 1, CLOSE = 8, PING = 9, PONG = 10;

export class SocketWire {
  readonly #conn: Deno.TcpConn;
  readonly #onText: (text: string, socket: SocketWire) => void;
  #buffer = Buffer.alloc(FIRST_BYTES);
  #start = 0;
  #end = 0;
  #outbox: Uint8Array[] = [];
  #sending = false;
  /** The close code, after the end. */
  closeCode: number | null = null;

  private constructor(conn: Deno.TcpConn, onText: (text: string, socket: SocketWire) => void) {
    this.#conn = conn;
    this.#onText = onText;
  }

  /**
   * Opens a socket. With `stalled` it reads nothing until `resume`.
   *
   * @throws {Error} with the response when the upgrade is refused
   */
  static async open(
    url: string,
    target: string,
    headers: Record<string, string>,
    onText: (text: string, socket: SocketWire) => void,
    stalled = false,
  ): Promise<SocketWire> {
    const socket = new SocketWire(await openTcp(url), onText);
    const key = Buffer.from(crypto.getRandomValues(new Uint8Array(16))).toString("base64");
    const upgrade = {
      Upgrade: "websocket",
      Connection: "Upgrade",
      "Sec-WebSocket-Version": "13",
      "Sec-WebSocket-Key": key,
    };
    await writeAll(socket.#conn, requestBytes("GET", url, target, { ...upgrade, ...headers }));
    await socket.#handshake();
    if (!stalled) void socket.resume();
    return socket;
  }

  /** Sends a text message. The mask is zero, which is allowed and costs nothing. */
  send(text: string): void {
    this.#post(TEXT, Buffer.from(text));
  }

  /** Reads until the end. */
  async resume(): Promise<void> {
    try {
      this.#cut();
      while (this.closeCode === null && await this.#read()) this.#cut();
    } catch (error) {
      if (!isEnd(error)) throw error;
    } finally {
      this.closeCode ??= NO_CODE;
      this.end();
    }
  }

  /** Ends the connection without a handshake. */
  end(): void {
    try {
      this.#conn.close();
    } catch (error) {
      if (!isEnd(error)) throw error;
    }
  }

  async #handshake(): Promise<void> {
    let headEnd = -1;
    while (headEnd === -1) {
      if (!await this.#read()) throw new Error("The server closed the connection instead of upgrading it");
      headEnd = this.#buffer.subarray(0, this.#end).indexOf("\r\n\r\n");
    }
    const { status } = readHead(this.#buffer.toString("latin1", 0, headEnd + 2));
    if (status !== 101) {
      const answer = this.#buffer.toString("utf8", 0, this.#end);
      this.end();
      throw new Error(`The upgrade was refused: ${answer}`);
    }
    this.#start = headEnd + 4;
  }

  async #read(): Promise<boolean> {
    if (this.#end === this.#buffer.length) this.#makeRoom(this.#buffer.length);
    const size = await this.#conn.read(this.#buffer.subarray(this.#end));
    if (size === null) return false;
    this.#end += size;
    return true;
  }

  /** Moves the unread bytes to the front, and makes room for at least `bytes` bytes. */
  #makeRoom(bytes: number): void {
    const left = this.#end - this.#start;
    const roomy = left + bytes > this.#buffer.length ? Buffer.alloc(left + bytes) : this.#buffer;
    this.#buffer.copy(roomy, 0, this.#start, this.#end);
    this.#buffer = roomy;
    this.#start = 0;
    this.#end = left;
  }

  /** Handles every complete frame in the buffer. */
  #cut(): void {
    while (this.closeCode === null) {
      const left = this.#end - this.#start;
      if (left < 2) break;
      const short = this.#buffer.readUInt8(this.#start + 1);
      const head = short === 127 ? 10 : short === 126 ? 4 : 2;
      if (left < head) break;
      const at = this.#start + 2;
      const length = head === 2
        ? short
        : head === 4
        ? this.#buffer.readUInt16BE(at)
        : Number(this.#buffer.readBigUInt64BE(at));
      if (left < head + length) {
        this.#makeRoom(head + length - left);
        break;
      }
      const kind = this.#buffer.readUInt8(this.#start);
      const from = this.#start + head;
      this.#start = from + length;
      this.#take(kind, this.#buffer.subarray(from, from + length));
    }
    if (this.#start === this.#end) this.#start = this.#end = 0;
  }

  #take(kind: number, payload: Buffer): void {
    if (kind === (0x80 | TEXT)) return this.#onText(payload.toString(), this);
    if (kind === (0x80 | PING)) return this.#post(PONG, Buffer.from(payload));
    if (kind === (0x80 | PONG)) return;
    if (kind !== (0x80 | CLOSE)) throw new Error(`Unexpected kind of WebSocket frame: ${kind}`);
    this.closeCode = payload.length >= 2 ? payload.readUInt16BE(0) : NO_CODE;
  }

  #post(opcode: number, payload: Buffer): void {
    const { length } = payload;
    const head = Buffer.alloc(length < 126 ? 6 : 8);
    head.writeUInt8(0x80 | opcode, 0);
    if (length < 126) head.writeUInt8(0x80 | length, 1);
    else {
      head.writeUInt8(0x80 | 126, 1);
      head.writeUInt16BE(length, 2);
    }
    this.#outbox.push(head, payload);
    if (!this.#sending) void this.#flush();
  }

  async #flush(): Promise<void> {
    this.#sending = true;
    try {
      while (this.#outbox.length > 0) {
        const all = this.#outbox.length === 1 ? this.#outbox[0] : Buffer.concat(this.#outbox);
        this.#outbox = [];
        if (all) await writeAll(this.#conn, all);
      }
    } catch (error) {
      if (!isEnd(error)) throw error;
    } finally {
      this.#sending = false;
    }
  }
}

/** Returns true for an error that means the end of the connection. */
function isEnd(error: unknown): boolean {
  return error instanceof Deno.errors.BadResource || error instanceof Deno.errors.Interrupted ||
    error instanceof Deno.errors.ConnectionReset || error instanceof Deno.errors.BrokenPipe ||
    error instanceof Deno.errors.ConnectionAborted || error instanceof Deno.errors.NotConnected;
}
