/**
 * `GET /v1/relay/connect`: upgrades an admitted request to a WebSocket and attaches it to its agent. The only file that
 * uses a WebSocket.
 */
import { ServiceError } from "../../shared/protocol/errors.ts";
import { CLOSE } from "../../shared/protocol/frames.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import type { Answer, Input } from "../../shared/server/http/route.ts";
import type { AdmittedAgent } from "../caller.ts";
import type { ConnectedAgent, RelaySocket } from "./agent_sockets.ts";
import type { ConnectedAgents } from "./connected_agents.ts";
import type { MessageForwarder } from "./message_forwarder.ts";
import type { Revalidation } from "./revalidation.ts";

/** Returns a socket and the response that opens it; `Deno.upgradeWebSocket` in the service. */
export type UpgradeWebSocket = (request: Request) => { socket: WebSocket; response: Response };

/** The version of the WebSocket protocol. */
const VERSION = "13";

interface ConnectDeps {
  dispatch: MessageForwarder;
  hub: ConnectedAgents;
  lingering: ClosedSocketBytes;
  revalidation: Revalidation;
  upgrade: UpgradeWebSocket;
}

export async function relayConnect(
  deps: ConnectDeps,
  { caller, exchange }: Input<undefined, undefined, undefined, AdmittedAgent | undefined>,
): Promise<Answer> {
  if (!caller) throw new ServiceError("PROXY_RELAY_AUTH_CONTEXT_MISSING");
  if (!opensWebSocket(exchange.request)) throw upgradeRequired();
  if (deps.lingering.bytes > LIMITS.lingeringBytes) throw new ServiceError("PROXY_RELAY_UNAVAILABLE");
  const { agentDid, ownerDid, aitJti, aitExpiresAt, signedAt, admittedAt } = caller;
  try {
    await deps.dispatch.claim(agentDid, { signedAt, admittedAt });
  } catch (cause) {
    throw new ServiceError("PROXY_RELAY_UNAVAILABLE", { cause, headers: { "Retry-After": "1" } });
  }
  let upgraded: ReturnType<UpgradeWebSocket>;
  try {
    upgraded = deps.upgrade(exchange.request);
  } catch (cause) {
    deps.hub.upgradeFailed(agentDid);
    throw upgradeRequired(cause);
  }
  bind(upgraded.socket, deps, { agentDid, ownerDid, aitJti, aitExpiresAt });
  return { status: 101, headers: {}, body: null, upgrade: upgraded.response };
}

/** Checks what Deno does not check of an upgrade: the method and the version (RFC 6455 section 4.2.1). */
function opensWebSocket({ method, headers }: Request): boolean {
  return method === "GET" && headers.get("upgrade")?.toLowerCase() === "websocket" &&
    (headers.get("sec-websocket-version") ?? VERSION) === VERSION;
}

function upgradeRequired(cause?: unknown): ServiceError {
  return new ServiceError("PROXY_RELAY_UPGRADE_REQUIRED", {
    cause,
    headers: { Upgrade: "websocket", Connection: "Upgrade", "Sec-WebSocket-Version": VERSION },
  });
}

/** Sockets that are closing: a peer that does not read keeps the sent bytes in memory. */
export class ClosedSocketBytes {
  readonly #sockets = new Set<WebSocket>();

  add(socket: WebSocket): void {
    this.#sockets.add(socket);
  }

  delete(socket: WebSocket): void {
    this.#sockets.delete(socket);
  }

  /** Returns the bytes that all closing sockets hold. */
  get bytes(): number {
    let bytes = 0;
    for (const socket of this.#sockets) bytes += socket.bufferedAmount;
    return bytes;
  }
}

/** Attaches the socket when it opens, and forwards its messages and its end. */
function bind(socket: WebSocket, { hub, lingering, revalidation }: ConnectDeps, agent: ConnectedAgent): void {
  let link: RelaySocket | undefined;
  socket.onopen = () => {
    link = hub.attach(agent, {
      send: (text) => socket.send(text),
      close(code, reason) {
        lingering.add(socket);
        socket.close(code, reason);
      },
      get unsentBytes() {
        return socket.bufferedAmount;
      },
    });
    void revalidation.attached(link);
  };
  socket.onmessage = ({ data }) => {
    if (typeof data === "string") link?.receive(data);
    else link?.misuse();
  };
  socket.onclose = () => {
    lingering.delete(socket);
    if (link) link.lost();
    else hub.upgradeFailed(agent.agentDid);
  };
  socket.onerror = () => link?.end(CLOSE.misuse, "socket error");
}
