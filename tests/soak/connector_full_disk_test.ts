/** A real disk that is full under the connector: a small tmpfs, which only root can mount on Linux. */
import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { Database } from "../../cli/connector/store/database.ts";
import { CliError } from "../../cli/errors.ts";
import { Listener, RunningConnector } from "../cli/connector/people.ts";
import { bundledProgram, output } from "../cli/program.ts";
import { eventually, Service, tempFolder } from "../support/process.ts";
import { pairedAgents } from "../e2e/harness.ts";

/** A mounted file system of 2 MiB; `null` when it cannot be mounted. */
async function smallDisk(path: string): Promise<AsyncDisposable | null> {
  const { code } = await output("mount", ["-t", "tmpfs", "-o", "size=2m,mode=700", "tmpfs", path])
    .catch(() => ({ code: 1 }));
  if (code !== 0) return null;
  return { [Symbol.asyncDispose]: async () => void await output("umount", ["-l", path]) };
}

/** Fills the rest of a disk. */
async function fill(path: string): Promise<void> {
  using file = await Deno.open(path, { create: true, write: true });
  for (let size = 64 * 1024; size >= 1;) {
    try {
      await file.write(new Uint8Array(size));
    } catch {
      size = Math.floor(size / 2);
    }
  }
}

const CAN_MOUNT = await (async () => {
  await using folder = await tempFolder();
  await using disk = await smallDisk(folder.path);
  return disk !== null;
})();

Deno.test({
  name: "a database that finds no room for its index is not called damaged, and opens when there is room",
  ignore: !CAN_MOUNT,
  async fn() {
    await using folder = await tempFolder();
    await using _disk = await smallDisk(folder.path);
    const [path, filler] = [`${folder.path}/connector.db`, `${folder.path}/filler`];
    Database.open(path)[Symbol.dispose]();
    await fill(filler);
    assertThrows(() => Database.open(path), CliError, "the disk is full");
    await Deno.remove(filler);
    Database.open(path)[Symbol.dispose]();
  },
});

Deno.test({
  name: "a message whose result a full disk cannot store is handed over once and finished later",
  ignore: !CAN_MOUNT,
  async fn() {
    const program = await bundledProgram();
    await using service = await Service.open();
    await using folder = await tempFolder();
    const dir = `${folder.path}/svc`;
    await Deno.mkdir(dir, { mode: 0o700 });
    await using _disk = await smallDisk(dir);
    const { a, b } = await pairedAgents(service, dir);
    await using runtime = new Listener();
    const filler = `${dir}/filler`;
    runtime.answer = async () => {
      await fill(filler);
      return 200;
    };
    const args = ["--runtime-base-url", runtime.url];
    await using connector = await RunningConnector.start(dir, "b", args, { program });
    const recipientDid = b.agent.did;
    const { requestId } = await a.client.sendMessage({ recipientDid, payload: '{"message":"hi"}' });
    const eventsOf = (name: string) => connector.events.filter(({ event }) => event === name);
    // The write-ahead log may have room for the result; then the next message meets the full disk.
    const ended = await eventually(
      20_000,
      "an end or a full disk",
      () => eventsOf("store_failed")[0] ?? eventsOf("handed_over")[0],
    );
    if (ended.event === "store_failed") {
      assertStringIncludes(String(ended.why), "disk is full");
      assertEquals(runtime.received.length, 1);
    }
    await Deno.remove(filler);
    await eventually(20_000, "the message is processed", async () => {
      const { receipts } = await a.client.receipts(requestId, recipientDid);
      return receipts[0]?.status === "processed_by_svc" || undefined;
    });
    assertEquals(runtime.received.length, 1, connector.child.printed);
    const { requestId: refused, delivered, reason } = await (async () => {
      await fill(filler);
      return await a.client.sendMessage({ recipientDid, payload: JSON.stringify({ message: "x".repeat(200_000) }) });
    })();
    assertEquals([delivered, reason, refused === requestId], [false, "store_failed", false]);
    assertStringIncludes(String(eventsOf("store_failed").at(-1)?.why), "disk is full");
  },
});
