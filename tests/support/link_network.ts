/** A network in memory between the instances of one test: requests and sockets reach the links of the instance at an address. */
import type { InstanceLinks } from "../../proxy/relay/instance_links.ts";

/** One end of a socket. Messages arrive in order, after the current task. */
class End {
  binaryType = "blob";
  readyState: number = WebSocket.CONNECTING;
  bufferedAmount = 0;
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: unknown }) => void) | null = null;
  onclose: (() => void) | null = null;
  onerror: (() => void) | null = null;
  other!: End;

  constructor(private readonly network: LinkNetwork) {}

  send(data: string | Uint8Array): void {
    if (this.network.isBroken) throw new Error("the socket cannot be written to");
    // A socket that closes drops what is sent, without an error.
    if (this.readyState !== WebSocket.OPEN) return;
    const copy = typeof data === "string" ? data : data.slice().buffer;
    if (typeof copy !== "string") this.network.frames.push(copy.byteLength);
    queueMicrotask(() => {
      if (!this.network.isMute && this.other.readyState === WebSocket.OPEN) this.other.onmessage?.({ data: copy });
    });
  }

  close(): void {
    for (const end of [this, this.other]) {
      if (end.readyState === WebSocket.CLOSED) continue;
      end.readyState = WebSocket.CLOSED;
      queueMicrotask(() => end.onclose?.());
    }
  }
}

/** Addresses are free text. */
export class LinkNetwork {
  readonly at = new Map<string, () => InstanceLinks>();
  /** Requests that were made, without their hosts. */
  readonly requests: string[] = [];
  /** While true no new connection succeeds. */
  isDown = false;
  /** While true every message is lost, and no connection ends. */
  isMute = false;
  /** While true no socket can be written to. */
  isBroken = false;
  /** Bytes of each binary message that was sent. */
  readonly frames: number[] = [];
  readonly #ends: End[] = [];

  /** Breaks every connection. */
  cut(): void {
    for (const end of this.#ends.splice(0)) end.close();
  }

  /** Both ends of each connection receive bytes that no instance has sent. */
  inject(frame: Uint8Array): void {
    for (const end of this.#ends) {
      for (const { onmessage } of [end, end.other]) onmessage?.({ data: frame.slice().buffer });
    }
  }

  /** Makes each connection seem to have this much to send. */
  fill(bytes: number): void {
    for (const end of this.#ends) end.bufferedAmount = end.other.bufferedAmount = bytes;
  }

  readonly fetch = async (url: string): Promise<Response> => {
    const response = await this.#request(url), text = await response.text();
    // The responses of a server have a length.
    return new Response(text, { status: response.status, headers: { "content-length": String(text.length) } });
  };

  readonly open = (url: string): WebSocket => {
    const mine = new End(this), theirs = new End(this);
    [mine.other, theirs.other] = [theirs, mine];
    this.#ends.push(mine);
    this.#upgraded = theirs;
    void this.#request(url.replace(/^ws/, "http")).then((response) => {
      if (response.status !== 200) return mine.close();
      mine.readyState = theirs.readyState = WebSocket.OPEN;
      theirs.onopen?.();
    });
    return mine as unknown as WebSocket;
  };

  #upgraded: End | null = null;

  readonly upgrade = (): { socket: WebSocket; response: Response } => {
    if (this.#upgraded === null) throw new TypeError("no upgrade");
    const socket = this.#upgraded as unknown as WebSocket;
    this.#upgraded = null;
    return { socket, response: new Response("upgraded") };
  };

  #request(url: string): Promise<Response> {
    const { host, pathname, search } = new URL(url), links = this.at.get(host);
    this.requests.push(pathname + search);
    if (!links || this.isDown) throw new TypeError(`no instance at ${host}`);
    return links().answer(new Request(url));
  }
}
