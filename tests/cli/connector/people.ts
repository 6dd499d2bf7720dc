/**
 * People on one machine who use `svc` as a program: each has a configuration folder, a runtime that is a plain HTTP
 * listener, and a connector as a process that can be killed.
 */
import { run } from "../../../cli/main.ts";
import { realSystem } from "../../../cli/system.ts";
import { AgentClient } from "../../support/agent_client.ts";
import { keyPairFromSeed } from "../../../shared/protocol/ed25519.ts";
import { fromBase64Url } from "../../../shared/protocol/base64url.ts";
import { bundledProgram, type Program } from "../program.ts";
import { ChildProcess, deps, eventually, within } from "../../support/process.ts";

/** The result of a command line. */
export interface Attempt {
  code: number;
  /** Its output as JSON; `null` when it is empty. */
  // deno-lint-ignore no-explicit-any
  result: any;
  /** The error code and message; `null` when standard error has none. */
  error: { code: string; message: string } | null;
}

/** Runs `svc` until it exits, with any exit code. */
export async function attempt(
  dir: string,
  args: readonly string[],
  env: Record<string, string> = {},
  program?: Program,
): Promise<Attempt> {
  const { command, args: before } = program ?? await bundledProgram();
  await using child = new ChildProcess([...before, ...args, "--config-dir", dir, "--json"], env, command);
  const { code } = await within(60_000, `svc ${args.join(" ")}`, child.status);
  return attemptOf(code, child.stdout.text, child.stderr.text);
}

function attemptOf(code: number, stdout: string, stderr: string): Attempt {
  const parsed = (text: string) => text === "" ? null : JSON.parse(text);
  return { code, result: parsed(stdout), error: parsed(stderr)?.error ?? null };
}

/** Runs `svc`, which must succeed; returns its result. */
export async function svc(
  dir: string,
  args: readonly string[],
  env: Record<string, string> = {},
  program?: Program,
  // deno-lint-ignore no-explicit-any
): Promise<any> {
  return resultOf(args, await attempt(dir, args, env, program));
}

// deno-lint-ignore no-explicit-any
function resultOf(args: readonly string[], { code, result, error }: Attempt): any {
  if (code !== 0) throw new Error(`svc ${args.join(" ")} ended with ${code}\n${JSON.stringify({ result, error })}`);
  return result;
}

/**
 * Runs `svc` in this process until it ends. It is for the steps of a test that are not its subject, because a process for
 * each of them is most of what a short test costs.
 */
export async function attemptHere(
  dir: string,
  args: readonly string[],
  env: Record<string, string> = {},
): Promise<Attempt> {
  let stdout = "", stderr = "";
  const terminal = {
    stdout: (text: string) => (stdout += text) !== "",
    stderr: (text: string) => void (stderr += text),
    stdoutIsTerminal: false,
    stderrIsTerminal: false,
  };
  const system = { ...realSystem("0"), terminal, env: (name: string) => env[name] };
  return attemptOf(await run([...args, "--config-dir", dir, "--json"], system), stdout, stderr);
}

/** Runs `svc` in this process, which must succeed; returns its result. */
// deno-lint-ignore no-explicit-any
export async function svcHere(dir: string, args: readonly string[], env: Record<string, string> = {}): Promise<any> {
  return resultOf(args, await attemptHere(dir, args, env));
}

/** Creates agents with their files in `dir`. */
export async function createAgents(
  dir: string,
  { url, apiKey }: { url: string; apiKey: string },
  names: readonly string[],
): Promise<void> {
  const account = { SVC_API_KEY: apiKey, SVC_REGISTRY_URL: url };
  await svcHere(dir, ["config", "init", "--registry-url", url]);
  for (const name of names) await svcHere(dir, ["agent", "create", name], account);
}

/** Deno's cache folder, for a child with another home. */
export function denoDir(): string {
  return Deno.env.get("DENO_DIR") ?? `${Deno.env.get("XDG_CACHE_HOME") ?? `${Deno.env.get("HOME")}/.cache`}/deno`;
}

/** A request that the runtime received. */
export interface ReceivedRequest {
  key: string;
  body: string;
  headers: Headers;
  at: number;
  answeredAt: number | null;
}

/** A runtime: a plain HTTP listener. */
export class Listener implements AsyncDisposable {
  readonly received: ReceivedRequest[] = [];
  readonly #server: Deno.HttpServer<Deno.NetAddr>;
  /** Returns the answer, or its status, at the time the test chooses. */
  answer: (received: ReceivedRequest) => Promise<number | Response> | number | Response = () => 200;

  /** @param port 0: any */
  constructor(port = 0) {
    this.#server = Deno.serve({ hostname: "127.0.0.1", port, onListen: () => {} }, async (request) => {
      if (request.method !== "POST") return new Response("ok");
      const { headers } = request;
      const body = await request.text();
      const received: ReceivedRequest = {
        key: headers.get("idempotency-key") ?? "",
        body,
        headers,
        at: Date.now(),
        answeredAt: null,
      };
      this.received.push(received);
      const answer = await this.answer(received);
      received.answeredAt = Date.now();
      return answer instanceof Response ? answer : new Response(null, { status: answer });
    });
  }

  get url(): string {
    return `http://127.0.0.1:${this.#server.addr.port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
  }
}

interface ConnectorFile {
  url: string;
  token: string;
  pid: number;
}

/** A running `svc connector start`. */
export class RunningConnector implements AsyncDisposable {
  private constructor(readonly child: ChildProcess, readonly file: ConnectorFile) {}

  static async start(
    dir: string,
    agent: string,
    args: readonly string[] = [],
    { env = {}, program }: { env?: Record<string, string>; program?: Program } = {},
  ): Promise<RunningConnector> {
    const { command, args: before } = program ?? await bundledProgram();
    const line = [...before, "connector", "start", agent, "--config-dir", dir, ...args];
    return await this.of(dir, agent, new ChildProcess(line, env, command));
  }

  /** The connector of a process that is starting. */
  static async of(dir: string, agent: string, child: ChildProcess): Promise<RunningConnector> {
    try {
      await within(20_000, "the connector connects", child.stdout.match(/"event":"connected"| · \S*online/));
      const file = JSON.parse(Deno.readTextFileSync(`${dir}/agents/${agent}/connector.json`)) as ConnectorFile;
      return new RunningConnector(child, file);
    } catch (cause) {
      await child[Symbol.asyncDispose]();
      throw new Error(`The connector did not start\n${child.printed}`, { cause });
    }
  }

  /** Events that it printed. */
  get events(): Record<string, unknown>[] {
    return this.child.stdout.lines.map((line) => JSON.parse(line));
  }

  async call(method: "GET" | "POST", path: string, body?: unknown): Promise<Response> {
    return await fetch(this.file.url + path, {
      method,
      headers: { Authorization: `Bearer ${this.file.token}` },
      body: body === undefined ? null : JSON.stringify(body),
    });
  }

  // deno-lint-ignore no-explicit-any
  async json(method: "GET" | "POST", path: string, body?: unknown): Promise<any> {
    const response = await this.call(method, path, body);
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path} answered ${response.status} ${text}`);
    return JSON.parse(text);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.child[Symbol.asyncDispose]();
  }
}

/** An agent's own client, from its files. */
export async function clientFromFiles(dir: string, agent: string, proxyUrl: string): Promise<AgentClient> {
  const read = (file: string) => Deno.readTextFileSync(`${dir}/agents/${agent}/${file}`).trim();
  const { did } = JSON.parse(read("identity.json")) as { did: string };
  const { accessToken } = JSON.parse(read("registry-auth.json")) as { accessToken: string };
  const { privateKey } = await keyPairFromSeed(fromBase64Url(read("secret.key")) ?? new Uint8Array(32));
  return new AgentClient(deps, proxyUrl, { did, ait: read("ait.jwt"), privateKey, accessToken });
}

export { eventually };
