/**
 * A worker that shares the lock of a store file, opens a channel in the same turn, and echoes each message on it.
 */
import { systemClock } from "../../shared/clock.ts";
import { lockFile } from "../../shared/server/store/store_lock.ts";

declare const self: {
  onmessage: ((event: MessageEvent<{ path: string; name: string }>) => void) | null;
  postMessage(message: unknown): void;
};

self.onmessage = async ({ data: { path, name } }) => {
  const { isSole } = await lockFile(systemClock, path);
  const channel = new BroadcastChannel(name);
  channel.onmessage = ({ data }) => channel.postMessage({ echo: data });
  // Deno ends a subscription one turn after its last channel was closed.
  setTimeout(() => self.postMessage(isSole), 0);
};
