/**
 * Both services in the process of the test, behind a front that can lose, change or delay answers. The front gives every
 * request another address, so that limits per address do not end a test.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import {
  BOOTSTRAP_SECRET,
  freePort,
  type ServerHere,
  type ServerOptions,
  startServerHere,
  tempFolder,
} from "../support/process.ts";
import type { Machine } from "./program.ts";

/** Handles a request of the front; `null` breaks the connection off. */
type Tamper = (request: Request, forward: () => Promise<Response>) => Promise<Response | null>;

/** Both services behind a front that a test controls. */
export class Place implements AsyncDisposable {
  /** Answers instead of the services, or after them, when a test sets it. */
  tamper: Tamper | null = null;
  apiKey = "";

  private constructor(
    readonly url: string,
    readonly folder: AsyncDisposable & { path: string },
    readonly options: ServerOptions,
    public server: ServerHere,
    readonly front: Server,
  ) {}

  /**
   * Starts the services.
   *
   * @param isProxyDirect agents reach the proxy at `server.address`: the front does not pass on sockets
   */
  static async open(env: Record<string, string> = {}, isProxyDirect = false): Promise<Place> {
    const folder = await tempFolder();
    const front = createServer((incoming, outgoing) => void place.#answer(incoming, outgoing));
    // Another process may take a port that was free, so the front has its port before the services start.
    const port = await listenOnFree(front), own = freePort();
    const url = `http://127.0.0.1:${port}`;
    const options = {
      folder: folder.path,
      env: {
        ...env,
        PORT: String(own),
        REGISTRY_URL: url,
        PROXY_URL: isProxyDirect ? `http://127.0.0.1:${own}` : url,
        TRUSTED_PROXIES: "127.0.0.1",
      },
    };
    const server = await startServerHere(options);
    const place: Place = new Place(url, folder, options, server, front);
    const headers = { "x-bootstrap-secret": BOOTSTRAP_SECRET };
    const answer = await fetch(`${url}/v1/admin/bootstrap`, { method: "POST", headers });
    place.apiKey = ((await answer.json()) as { apiKey: { token: string } }).apiKey.token;
    return place;
  }

  /** Ends the services and starts them again at the same address. */
  async restart(): Promise<void> {
    await this.server[Symbol.asyncDispose]();
    this.server = await startServerHere(this.options);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.front.closeAllConnections();
    await new Promise((resolve) => this.front.close(resolve));
    await this.server[Symbol.asyncDispose]();
    await this.folder[Symbol.asyncDispose]();
  }

  async #answer(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const chunks: Uint8Array[] = [];
    for await (const chunk of incoming) chunks.push(chunk);
    const body = await new Blob(chunks as BlobPart[]).arrayBuffer();
    const { method = "GET", headers } = incoming;
    const request = new Request(this.url + incoming.url, {
      method,
      headers: Object.entries(headers).map(([name, value]) => [name, String(value)]),
      body: body.byteLength > 0 ? body : null,
    });
    const forward = () => forwarded(this.server.address, request);
    // A stopped server breaks the connection off, too.
    const response = await Promise.resolve(this.tamper?.(request, forward) ?? forward()).catch(() => null);
    if (response === null) return void outgoing.socket?.destroy();
    outgoing.writeHead(response.status, Object.fromEntries(response.headers));
    outgoing.end(new Uint8Array(await response.arrayBuffer()));
  }

  /** Another API key of the admin: limits count per key. */
  async newKey(): Promise<{ url: string; apiKey: string }> {
    const headers = { Authorization: `Bearer ${this.apiKey}`, "Content-Type": "application/json" };
    const answer = await fetch(`${this.url}/v1/me/api-keys`, { method: "POST", headers, body: "{}" });
    return { url: this.url, apiKey: ((await answer.json()) as { apiKey: { token: string } }).apiKey.token };
  }

  /** Loses the answers to the next `times` requests for a path after the services have applied them. */
  lose(path: RegExp, times = 1): void {
    this.tamper = async (request, forward) => {
      const response = await forward();
      if (times === 0 || !path.test(new URL(request.url).pathname)) return response;
      times--;
      await response.body?.cancel();
      return null;
    };
  }

  /** True when the registry accepts an agent's access token. */
  async works(machine: Machine, name: string): Promise<boolean> {
    const { did } = JSON.parse(machine.read(`agents/${name}/identity.json`)) as { did: string };
    const { accessToken } = JSON.parse(machine.read(`agents/${name}/registry-auth.json`)) as { accessToken: string };
    const payload = machine.read(`agents/${name}/ait.jwt`).split(".")[1] ?? "";
    const { jti } = JSON.parse(atob(payload.replaceAll("-", "+").replaceAll("_", "/"))) as { jti: string };
    const answer = await fetch(`${this.url}/v1/agents/auth/validate`, {
      method: "POST",
      headers: { "X-Svc-Agent-Access": accessToken, "Content-Type": "application/json" },
      body: JSON.stringify({ agentDid: did, aitJti: jti }),
    });
    await answer.body?.cancel();
    return answer.status === 204;
  }
}

async function forwarded(address: string, request: Request): Promise<Response> {
  const { pathname, search } = new URL(request.url);
  const headers = new Headers(request.headers);
  headers.set("X-Forwarded-For", `10.${[0, 0, 0].map(() => Math.floor(Math.random() * 256)).join(".")}`);
  const body = request.body === null ? null : await request.arrayBuffer();
  return await fetch(address + pathname + search, { method: request.method, headers, body, redirect: "manual" });
}

/** Lets a server listen on a free port, and returns the port. */
async function listenOnFree(server: Server): Promise<number> {
  for (;;) {
    const port = freePort(), { promise, resolve, reject } = Promise.withResolvers<void>();
    server.once("error", reject).listen(port, "127.0.0.1", resolve);
    const isListening = await promise.then(() => true, (error) => {
      if (error.code !== "EADDRINUSE") throw error;
      return false;
    });
    server.off("error", reject);
    if (isListening) return port;
  }
}
