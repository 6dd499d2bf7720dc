/**
 * `GET /v1/relay/connect`: upgrades an admitted request to a WebSocket and attaches it to its agent. No other file uses
 * a WebSocket of an agent, so the others can be tested without a network.
 */
import { ServiceError } from "../../shared/protocol/errors.ts";
import { CLOSE } from "../../shared/protocol/frames.ts";
import type { Cancel, Clock } from "../../shared/clock.ts";
import { dropSocket } from "../../shared/server/http/drop_socket.ts";
import type { Upgraded, UpgradeWebSocket } from "../../shared/server/http/open_sockets.ts";
import type { Answer, Input } from "../../shared/server/http/route.ts";
import { StoreLate } from "../../shared/server/store/store_errors.ts";
import type { AdmittedAgent } from "../caller.ts";
import { CONNECT_WAIT_MAX_MS, type OwnerBudgets } from "../owner_budgets.ts";
import type { ConnectedAgent, RelaySocket } from "./agent_sockets.ts";
import type { ConnectedAgents } from "./connected_agents.ts";
import type { InstanceLeases } from "./instance_leases.ts";
import type { PresenceStore } from "./presence.ts";
import type { Revalidation } from "./revalidation.ts";

/** The version of the WebSocket protocol. */
const VERSION = "13";
/** Longest closing of a connection. With more, peers that do not end it keep unsent bytes in memory for longer. */
const CLOSING_MS = 2_000;
/**
 * Longest time until a socket opens. Deno reports no event for a client that left before the upgrade, so without a
 * limit its agent would stay connected in the eyes of others. With less, a slow client has to connect again.
 */
export const OPENS_MS = 5_000;
/**
 * How long after a late claim its agent is looked at again. With less, the claim may take effect only afterwards, and
 * the agent would seem connected.
 */
const LATE_CLAIM_MS = 60_000;

interface ConnectDeps {
  presence: PresenceStore;
  connectedAgents: ConnectedAgents;
  leases: InstanceLeases;
  clock: Clock;
  revalidation: Revalidation;
  owners: Pick<OwnerBudgets, "holdConnects">;
  upgrade: UpgradeWebSocket;
}

export async function relayConnect(
  deps: ConnectDeps,
  { caller, exchange }: Input<undefined, undefined, undefined, AdmittedAgent | undefined>,
): Promise<Answer> {
  if (!caller) throw new ServiceError("PROXY_RELAY_AUTH_CONTEXT_MISSING");
  if (!opensWebSocket(exchange.request)) throw upgradeRequired();
  // An instance that stops closes all its sockets, so the agent would lose this one within a second.
  if (deps.leases.isLeaving) throw new ServiceError("PROXY_RELAY_UNAVAILABLE", { headers: { "Retry-After": "1" } });
  const { agentDid, ownerDid, identity: { aitJti }, aitExpiresAt, signedAt, admittedAt } = caller;
  const ready = deps.connectedAgents.opening(agentDid);
  // Undoes the claim of the agent. It may have taken effect, and the agent would count as connected without a socket.
  const failed = () => {
    ready();
    deps.connectedAgents.upgradeFailed(agentDid);
  };
  try {
    await deps.presence.claim(agentDid, { signedAt, admittedAt, isHidden: wantsToHide(exchange.target) });
  } catch (cause) {
    failed();
    // A late claim may take effect after this.
    if (cause instanceof StoreLate) deps.clock.after(LATE_CLAIM_MS, () => deps.connectedAgents.upgradeFailed(agentDid));
    throw new ServiceError("PROXY_RELAY_UNAVAILABLE", { cause, headers: { "Retry-After": "1" } });
  }
  let upgraded: Upgraded;
  try {
    upgraded = await deps.upgrade(exchange.request);
  } catch (cause) {
    failed();
    throw upgradeRequired(cause);
  }
  // Deno aborts the signal of a client that has left since. It never frees that connection, so its owner waits, because
  // one person could otherwise take all file descriptors of the process in a day. A signal that is aborted already says
  // nothing, because without `no-legacy-abort` Deno aborts each request that it upgrades.
  const { signal } = exchange.request, hold = () => deps.owners.holdConnects(ownerDid, CONNECT_WAIT_MAX_MS);
  if (!signal.aborted) signal.addEventListener("abort", hold);
  bind(upgraded.socket, deps, { agentDid, ownerDid, aitJti, aitExpiresAt }, ready, failed);
  return { status: 101, headers: {}, body: null, upgrade: upgraded.response };
}

/** Returns true when the agent hides from peers whether it is connected. Other values and parameters are ignored. */
function wantsToHide(target: string): boolean {
  return new URLSearchParams(target.split("?")[1]).get("hidden") === "1";
}

/**
 * Checks what Deno does not check of an upgrade: the method and the version (RFC 6455, section 4.2.1). A missing
 * version counts as 13.
 */
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

/** Attaches the socket once it opens, and passes on its messages and end. Calls `ready` when open, else `failed`. */
function bind(
  socket: WebSocket,
  { clock, connectedAgents, revalidation }: ConnectDeps,
  agent: ConnectedAgent,
  ready: () => void,
  failed: () => void,
): void {
  let link: RelaySocket | undefined;
  let cancelDrop: Cancel = () => {};
  const cancelWait = clock.after(OPENS_MS, () => {
    socket.onopen = () => socket.close();
    failed();
  });
  socket.onopen = () => {
    cancelWait();
    link = connectedAgents.attach(agent, {
      send: (text) => socket.send(text),
      close(code, reason) {
        socket.close(code, reason);
        cancelDrop = clock.after(CLOSING_MS, () => dropSocket(socket));
      },
      drop: () => dropSocket(socket),
      get unsentBytes() {
        return socket.bufferedAmount;
      },
    });
    ready();
    void revalidation.check(link);
  };
  socket.onmessage = ({ data }) => {
    if (typeof data === "string") link?.receive(data);
    else link?.misuse(data instanceof Blob ? data.size : data.byteLength);
  };
  socket.onclose = () => {
    cancelWait();
    cancelDrop();
    if (link) link.lost();
    else failed();
  };
  socket.onerror = () => link?.end(CLOSE.misuse, "socket error");
}
