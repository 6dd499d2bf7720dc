/**
 * Ends the connection of a WebSocket of the server. `WebSocket.close` only asks the peer to end it, and Deno goes on
 * reading until the peer agrees. So after a close, a peer that sends a message without end would fill the memory, and
 * one that does not read would keep what was sent to it. The only documented way is to end the whole server, so this
 * uses the part of the runtime that Deno's own idle timeout uses. tests/e2e/relay_faults_test.ts fails when a version
 * of Deno lacks that part.
 */

import type { Clock } from "../../clock.ts";

interface Runtime {
  core?: { tryClose?(resource: number): void };
}

/** Returns a member of a WebSocket that Deno hides behind a symbol, and `undefined` when this runtime lacks it. */
function hidden(where: object, name: string): symbol | undefined {
  return Object.getOwnPropertySymbols(where).find(({ description }) => description === `[[${name}]]`);
}

/** Returns false when this runtime has no such part. The socket then ends only when its peer agrees. */
export function dropSocket(socket: WebSocket): boolean {
  const { internal } = Deno as unknown as { internal?: symbol };
  const runtime = internal && (Deno as unknown as Record<symbol, Runtime | undefined>)[internal];
  const member = hidden(socket, "rid");
  const resource = member && (socket as unknown as Record<symbol, unknown>)[member];
  if (typeof resource !== "number" || !runtime?.core?.tryClose) return false;
  runtime.core.tryClose(resource);
  return true;
}

/**
 * Time between two new starts of a socket's idle timeout. With less, each message costs a timer of the runtime. With
 * more, a socket with few messages gets pings that it does not need.
 */
const IDLE_AGAIN_MS = 5_000;

/**
 * Calls `onPong` for each pong. Deno shows a program no pongs, but handles them before anything else, as long as some
 * have arrived. So a peer that sends nothing else could stop the process for seconds. For a pong and a message Deno
 * calls the same member, which starts the idle timeout again, and then reports the message. A pong counts when the next
 * of either arrives.
 */
export function watchPongs(socket: WebSocket, clock: Pick<Clock, "uptime">, onPong: () => void): void {
  const member = hidden(WebSocket.prototype, "serverHandleIdleTimeout");
  const members = socket as unknown as Record<symbol, unknown>, heard = member && members[member];
  if (!member || typeof heard !== "function") return;
  let isPong = false, startedAt = -Infinity;
  socket.addEventListener("message", () => isPong = false);
  members[member] = () => {
    if (isPong) onPong();
    isPong = true;
    const now = clock.uptime();
    if (now - startedAt < IDLE_AGAIN_MS) return;
    startedAt = now;
    heard.call(socket);
  };
}
