/**
 * A worker that takes the lock of a store file, opens a channel in the same turn, and repeats what it receives there.
 */
import { systemClock } from "../../shared/clock.ts";
import { lockFile } from "../../shared/server/store/store_lock.ts";

/** The global scope of a worker; the project type-checks with that of a window. */
interface WorkerScope {
  onmessage: ((event: MessageEvent<{ path: string; name: string }>) => void) | null;
  postMessage(value: unknown): void;
}

const scope = self as unknown as WorkerScope;

scope.onmessage = async ({ data: { path, name } }) => {
  const { isSole } = await lockFile(systemClock, path);
  const channel = new BroadcastChannel(name);
  channel.onmessage = ({ data }) => channel.postMessage({ echo: data });
  // Deno ends a subscription one turn after its last channel was closed.
  setTimeout(() => scope.postMessage(isSole), 0);
};
