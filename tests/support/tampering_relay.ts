/**
 * A relay between connectors and a proxy that can change the frames of the proxy, as the operator of a relay could. It
 * forwards requests and sockets unchanged otherwise.
 */
// @ts-types="../../shared/client/ws.d.ts"
import { WebSocket as Client } from "ws";

/** Headers of one connection, which the next connection has of its own. */
const OF_CONNECTION =
  /^(?:host|connection|upgrade|content-length|transfer-encoding|sec-websocket-.*|accept-encoding)$/i;

export class TamperingRelay implements AsyncDisposable {
  readonly #server: Deno.HttpServer<Deno.NetAddr>;
  readonly #links = new Set<Client>();

  /** @param change returns the text of a frame that a connector receives in place of the proxy's */
  constructor(readonly target: string, readonly change: (frame: string) => string) {
    this.#server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, (request) => {
      const { pathname, search } = new URL(request.url);
      const headers = Object.fromEntries([...request.headers].filter(([name]) => !OF_CONNECTION.test(name)));
      return request.headers.has("upgrade")
        ? this.#socket(request, pathname + search, headers)
        : this.#forward(request, pathname + search, headers);
    });
  }

  /** For `--proxy-ws-url`. */
  get wsUrl(): string {
    return `ws://127.0.0.1:${this.#server.addr.port}`;
  }

  async #forward(request: Request, path: string, headers: Record<string, string>): Promise<Response> {
    const body = request.body === null ? null : await request.arrayBuffer();
    const response = await fetch(this.target + path, { method: request.method, headers, body, redirect: "manual" });
    return new Response(response.body, { status: response.status, headers: response.headers });
  }

  #socket(request: Request, path: string, headers: Record<string, string>): Response {
    const { socket, response } = Deno.upgradeWebSocket(request);
    const waiting: string[] = [];
    const link = new Client(this.target.replace(/^http/, "ws") + path, { headers });
    this.#links.add(link);
    const close = () => {
      this.#links.delete(link);
      link.terminate();
      if (socket.readyState <= WebSocket.OPEN) socket.close();
    };
    link.once("open", () => {
      for (const text of waiting.splice(0)) link.send(text);
    });
    link.on("message", (data) => {
      if (socket.readyState === WebSocket.OPEN) socket.send(this.change(new TextDecoder().decode(data)));
    });
    link.on("close", close);
    link.on("error", close);
    socket.onmessage = ({ data }) => {
      if (link.readyState === Client.OPEN) link.send(String(data));
      else waiting.push(String(data));
    };
    socket.onclose = close;
    socket.onerror = close;
    return response;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const link of this.#links) link.terminate();
    await this.#server.shutdown();
  }
}
