/** `provider setup` takes the address that a runtime has, or the one that is given, and reads no answer without an end. */
import { dirname } from "node:path";
import { assert, assertEquals } from "@std/assert";
import { Machine } from "../cli_world.ts";

/** A machine with the settings of runtimes, by their paths below its home, on which no server listens. */
async function machineWith(settings: Readonly<Record<string, string>>): Promise<Machine> {
  const machine = await Machine.ofPerson();
  machine.env.HOME = machine.path("home");
  machine.env.SVC_CONFIG_DIR = machine.path("svc");
  machine.fetch = () => Promise.reject(new TypeError("connection refused"));
  for (const [path, text] of Object.entries(settings)) {
    await Deno.mkdir(dirname(machine.path(`home/${path}`)), { recursive: true });
    machine.write(`home/${path}`, text);
  }
  return machine;
}

Deno.test("a runtime keeps its port and path when it is set up without svc install", async (t) => {
  const hooks = { path: "/in", enabled: true, token: "t".repeat(32) };
  const openclaw = JSON.stringify({ gateway: { port: 18_790 }, hooks });
  const hermes = "WEBHOOK_ENABLED=true\nWEBHOOK_PORT=9000\nWEBHOOK_SECRET=abc\n";
  const rows: [id: string, path: string, text: string, url: string][] = [
    ["openclaw", ".openclaw/openclaw.json", openclaw, "http://127.0.0.1:18790/in/agent"],
    ["hermes", ".hermes/.env", hermes, "http://127.0.0.1:9000/webhooks/svc"],
  ];
  for (const [id, path, text, url] of rows) {
    await t.step(id, async () => {
      await using machine = await machineWith({ [path]: text });
      const status = await machine.svc("--json", "provider", "status", "--for", id);
      const set = await machine.json("provider", "setup", "--for", id);
      assertEquals([JSON.parse(status.stdout).url, set.url, machine.read(`home/${path}`)], [url, url, text]);
    });
  }
});

Deno.test("an address that is given replaces a saved host and port", async () => {
  await using machine = await machineWith({});
  const setUp = async (...more: string[]) => (await machine.json("provider", "setup", "--for", "generic", ...more)).url;
  assertEquals(
    [
      await setUp("--webhook-host", "127.0.0.2", "--webhook-port", "7001"),
      await setUp("--platform-base-url", "http://127.0.0.1:7002"),
      await setUp("--webhook-port", "7003"),
    ],
    ["127.0.0.2:7001", "127.0.0.1:7002", "127.0.0.1:7003"].map((host) => `http://${host}/hooks/agent`),
  );
});

Deno.test("detection reads at most 1 MiB of an endless answer", async () => {
  let sent = 0, cancelled = false;
  const endless = () =>
    new Response(
      new ReadableStream({
        pull: (controller) => {
          controller.enqueue(new Uint8Array(64 * 1024).fill(0x20));
          sent += 64 * 1024;
        },
        cancel: () => void (cancelled = true),
      }),
    );
  await using machine = await machineWith({});
  const { fetch } = machine;
  machine.fetch = (url, init) =>
    String(url) === "http://127.0.0.1:8644/health" ? Promise.resolve(endless()) : fetch(url, init);
  await machine.json("install", "--list");
  assert(cancelled && sent <= 1024 * 1024 + 128 * 1024, String(sent));
});
