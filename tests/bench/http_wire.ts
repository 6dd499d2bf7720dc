/**
 * An HTTP/1.1 client with very low cost: it sends prepared bytes on a kept connection and reads only the status and the
 * body. It needs a Content-Length, and does not follow, decode or repeat anything.
 */
import { Buffer } from "node:buffer";

/** A response. A body over 64 KiB is counted and dropped. */
export interface WireAnswer {
  status: number;
  bytes: number;
  text: string;
}

const KEPT_BYTES = 65_536;

/** Returns the bytes of a request; `body` is sent as UTF-8. */
export function requestBytes(
  method: string,
  url: string,
  target: string,
  headers: Record<string, string>,
  body?: string,
): Uint8Array<ArrayBuffer> {
  const lines = [`${method} ${target} HTTP/1.1`, `Host: ${new URL(url).host}`];
  for (const [name, value] of Object.entries(headers)) lines.push(`${name}: ${value}`);
  if (body !== undefined) lines.push(`Content-Length: ${Buffer.byteLength(body)}`);
  return new TextEncoder().encode(`${lines.join("\r\n")}\r\n\r\n${body ?? ""}`);
}

/** Opens a TCP connection to the host of an address. */
export async function openTcp(url: string): Promise<Deno.TcpConn> {
  const { hostname, port } = new URL(url);
  const conn = await Deno.connect({ hostname, port: Number(port) });
  conn.setNoDelay(true);
  return conn;
}

/** Writes all bytes. */
export async function writeAll(conn: Deno.Conn, bytes: Uint8Array): Promise<void> {
  for (let sent = 0; sent < bytes.length;) sent += await conn.write(bytes.subarray(sent));
}

/** Returns status and body length from the head of a response. */
export function readHead(head: string): { status: number; length: number } {
  const status = Number(head.slice(9, 12));
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
  if (length === undefined && status !== 101 && status !== 204 && status !== 304) {
    throw new Error(`The answer has no length: ${head}`);
  }
  return { status, length: Number(length ?? 0) };
}

/** A kept connection with one request at a time. */
export class HttpWire {
  readonly #conn: Deno.TcpConn;
  readonly #buffer = Buffer.alloc(KEPT_BYTES);
  #size = 0;

  private constructor(conn: Deno.TcpConn) {
    this.#conn = conn;
  }

  static async open(url: string): Promise<HttpWire> {
    return new HttpWire(await openTcp(url));
  }

  /**
   * Sends a request and returns its response.
   *
   * @throws {Error} when the connection ends before the response
   */
  async exchange(request: Uint8Array): Promise<WireAnswer> {
    await writeAll(this.#conn, request);
    this.#size = 0;
    let headEnd = -1;
    while (headEnd === -1) {
      await this.#read();
      headEnd = this.#buffer.subarray(0, this.#size).indexOf("\r\n\r\n");
    }
    const { status, length } = readHead(this.#buffer.toString("latin1", 0, headEnd + 2));
    const bodyStart = headEnd + 4;
    const kept = bodyStart + length <= this.#buffer.length;
    let got = this.#size - bodyStart;
    while (got < length) {
      if (!kept) this.#size = 0;
      got += await this.#read();
    }
    const text = kept ? this.#buffer.toString("utf8", bodyStart, bodyStart + length) : "";
    return { status, bytes: length, text };
  }

  close(): void {
    this.#conn.close();
  }

  async #read(): Promise<number> {
    const size = await this.#conn.read(this.#buffer.subarray(this.#size));
    if (!size) throw new Error("The server closed the connection");
    this.#size += size;
    return size;
  }
}
