/**
 * Ends the connection of a WebSocket of the server. `WebSocket.close` only asks the peer to end it, and Deno goes on
 * reading until the peer agrees. So after a close, a peer that sends a message without end would fill the memory, and
 * one that does not read would keep what was sent to it. The only documented way is to end the whole server, so this
 * uses the part of the runtime that Deno's own idle timeout uses. tests/e2e/relay_faults_test.ts fails when a version
 * of Deno lacks that part.
 */

interface Runtime {
  core?: { tryClose?(resource: number): void };
}

/** Returns false when this runtime has no such part. The socket then ends only when its peer agrees. */
export function dropSocket(socket: WebSocket): boolean {
  const { internal } = Deno as unknown as { internal?: symbol };
  const runtime = internal && (Deno as unknown as Record<symbol, Runtime | undefined>)[internal];
  const member = Object.getOwnPropertySymbols(socket).find(({ description }) => description === "[[rid]]");
  const resource = member && (socket as unknown as Record<symbol, unknown>)[member];
  if (typeof resource !== "number" || !runtime?.core?.tryClose) return false;
  runtime.core.tryClose(resource);
  return true;
}
