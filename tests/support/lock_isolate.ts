/**
 * A worker that takes the lock of a store file, opens a channel in the same turn, and repeats what it receives there.
 */
import { systemClock } from "../../shared/clock.ts";
import { lockFile } from "../../shared/server/store/store_lock.ts";

addEventListener("message", async ({ data: { path, name } }: MessageEvent<{ path: string; name: string }>) => {
  const { isSole } = await lockFile(systemClock, path);
  const channel = new BroadcastChannel(name);
  channel.onmessage = ({ data }) => channel.postMessage({ echo: data });
  // Deno ends a subscription one turn after its last channel was closed.
  setTimeout(() => postMessage(isSole), 0);
});
