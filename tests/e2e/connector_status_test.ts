/** `svc connector status` against a local server that is not a connector and sends 1 GiB. */
import { assert, assertEquals } from "@std/assert";
import { ROOT, within } from "../support/process.ts";
import { World } from "../support/world.ts";
import { Machine } from "../cli/cli_world.ts";
import { holdConnectorLock } from "../cli/connector/held_lock.ts";
import { longTest } from "../support/trials.ts";

const CHUNK = new Uint8Array(256 * 1024).fill(0x20);
const GIB = 1024 ** 3;
/** Above what two socket buffers and the 4 MiB of the client take, far below what is sent. */
const MOST_BYTES = 64 * 1024 * 1024;
const END_MS = 30_000;

/** Peak resident memory of a process, in bytes; 0 where the system does not report it. */
async function peakOf(pid: number): Promise<number> {
  const status = await Deno.readTextFile(`/proc/${pid}/status`).catch(() => "");
  return Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) * 1024;
}

async function statusOf(machine: Machine, response: () => Response) {
  await using server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen: () => {} }, response);
  const { port } = server.addr;
  const { did: agentDid } = JSON.parse(machine.read("agents/alpha/identity.json"));
  const file = { url: `http://127.0.0.1:${port}`, port, token: "t", pid: Deno.pid, agentDid, startedAt: "" };
  machine.write("agents/alpha/connector.json", JSON.stringify(file));
  Deno.chmodSync(machine.path("agents/alpha/connector.json"), 0o600);
  // Without the lock nothing would be sent to the port (D-119).
  using _lock = await holdConnectorLock(machine.path("agents/alpha"));
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--quiet", `${ROOT}/cli/main.ts`, "--json", "connector", "status", "alpha"],
    env: { SVC_CONFIG_DIR: machine.dir },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  let peak = 0, running = true;
  const watching = (async () => {
    while (running) {
      peak = Math.max(peak, await peakOf(child.pid));
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  })();
  try {
    const { code, stderr } = await within(END_MS, "connector status", child.output());
    return { exit: code, code: JSON.parse(new TextDecoder().decode(stderr)).error.code, peak };
  } finally {
    running = false;
    await watching;
  }
}

longTest("connector status ends and keeps its memory bounded when a local server sends 1 GiB", async () => {
  await using world = await World.open();
  await using machine = await Machine.ofPerson(world);
  await machine.json("agent", "create", "alpha");
  let sent = 0;
  const endless = () =>
    new Response(
      new ReadableStream<Uint8Array>({
        pull(controller) {
          if (sent >= GIB) return controller.close();
          sent += CHUNK.length;
          controller.enqueue(CHUNK);
        },
      }),
    );
  const small = await statusOf(machine, () => new Response("no", { status: 404 }));
  const large = await statusOf(machine, endless);
  assertEquals([small.exit, small.code, large.exit, large.code], [5, "CLI_CONNECTOR_DOWN", 5, "CLI_CONNECTOR_DOWN"]);
  assert(sent < MOST_BYTES, `${sent} bytes were taken`);
  const growth = large.peak - small.peak;
  assert(growth < MOST_BYTES / 2, `resident memory grew by ${growth} bytes`);
});
