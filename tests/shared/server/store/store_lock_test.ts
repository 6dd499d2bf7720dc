/** The lock of a store file between isolates of one process (D-241). */
import { assertEquals } from "@std/assert";
import { systemClock } from "../../../../shared/clock.ts";
import { lockFile } from "../../../../shared/server/store/store_lock.ts";

Deno.test("a shared store lock leaves a channel usable when an isolate opens it at once", async () => {
  const folder = await Deno.makeTempDir();
  const path = `${folder}/svc.kv.lock`;
  const held = await lockFile(systemClock, path);
  using worker = new ClosingWorker(new URL("../../../support/lock_isolate.ts", import.meta.url), { type: "module" });
  using channel = new ClosingChannel("lock test");
  const failed = Promise.withResolvers<never>();
  worker.onerror = (event) => {
    event.preventDefault();
    failed.reject(new Error(event.message));
  };
  const isSole = new Promise((resolve) => worker.onmessage = ({ data }) => resolve(data));
  worker.postMessage({ path, name: "lock test" });
  assertEquals(await Promise.race([isSole, failed.promise]), false);
  const echo = new Promise((resolve) => channel.onmessage = ({ data }) => resolve(data));
  channel.postMessage("ping");
  const late = Promise.withResolvers<string>();
  const cancelLate = systemClock.after(10_000, () => late.resolve("no echo within 10 s"));
  assertEquals(await Promise.race([echo, failed.promise, late.promise]), { echo: "ping" });
  cancelLate();
  held.unlock();
  await Deno.remove(folder, { recursive: true });
});

class ClosingWorker extends Worker {
  [Symbol.dispose](): void {
    this.terminate();
  }
}

class ClosingChannel extends BroadcastChannel {
  [Symbol.dispose](): void {
    this.close();
  }
}
