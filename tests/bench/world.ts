/**
 * The servers and load processes of a row, and the folder of their stores. All of them are removed after the row. Uses
 * the service only over its public interfaces; a store may be filled before its server starts.
 */
import { AMPLE_QUOTA_VARIABLES, ROOT, within } from "../support/process.ts";
import { serverV8Flags } from "../tools/permission_flags.ts";
import { Child, pause } from "./child.ts";
import { post } from "./fleet.ts";
import { AGENTS_PER_KEY, type AnswerLine, type JobName, type Jobs } from "./jobs.ts";
import type { Scale } from "./scale.ts";

/** A running server. */
export interface Server {
  child: Child;
  /** For instance `http://127.0.0.1:12345`. */
  url: string;
}

/** Addresses of the two services, and their child processes. */
export interface Place {
  registryUrl: string;
  proxyUrl: string;
  children: Child[];
}

/** The credentials of the first admin. */
export interface Admin {
  apiKey: string;
  service: { id: string; secret: string };
}

const BOOTSTRAP_SECRET = "bootstrap-secret-of-the-bench";
const START_MS = 30_000;
const JOB_MS = 300_000;
/** Rate limits that no row reaches. */
export const UNLIMITED = { AGENT_RATE_LIMIT_REQUESTS_PER_MINUTE: "1000000" };

/** A load process. */
export class Load {
  readonly #child: Child;

  constructor(child: Child) {
    this.#child = child;
  }

  /** Runs a job and returns its result. Jobs must not overlap. */
  async ask<N extends JobName>(job: N, ask: Jobs[N]["ask"]): Promise<Jobs[N]["answer"]> {
    await this.#child.tell(JSON.stringify({ job, ask }));
    const line = JSON.parse(await within(JOB_MS, `job ${job}`, this.#child.line())) as AnswerLine;
    if ("failed" in line) throw new Error(`${job}: ${line.failed}`);
    return line.answer as Jobs[N]["answer"];
  }

  async end(): Promise<void> {
    await this.#child.end();
  }
}

export class World implements AsyncDisposable {
  readonly scale: Scale;
  readonly folder: string;
  readonly #children = new Set<Child>();
  readonly #profiles: string | null;
  readonly #tell: (what: string) => void;
  #stores = 0;

  /** @param profiles folder for CPU profiles of the services; `null` for none */
  constructor(scale: Scale, profiles: string | null, tell: (what: string) => void) {
    this.scale = scale;
    this.folder = Deno.makeTempDirSync({ prefix: "svc_bench_" });
    this.#profiles = profiles;
    this.#tell = tell;
  }

  /** Prints the progress. */
  say(what: string): void {
    this.#tell(what);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#children].map((child) => child.end()));
    await Deno.remove(this.folder, { recursive: true });
  }

  /** Ends every process and removes the folder, for a signal. */
  kill(): void {
    for (const child of this.#children) child.kill();
    try {
      Deno.removeSync(this.folder, { recursive: true });
    } catch (error) {
      // A server that is ending may have written another file.
      console.error(`could not remove ${this.folder}: ${error instanceof Error ? error.message : error}`);
    }
  }

  /** Options of Deno that write a CPU profile, when one is wanted. */
  get profiling(): string[] {
    return this.#profiles === null ? [] : ["--cpu-prof", `--cpu-prof-dir=${this.#profiles}`];
  }

  /** Returns the path of a new store. */
  newStore(): string {
    const folder = `${this.folder}/store-${++this.#stores}`;
    Deno.mkdirSync(folder);
    return `${folder}/svc.kv`;
  }

  /** Starts a child process, which ends with this object. */
  spawn(args: readonly string[], env: Record<string, string> = {}, program?: string): Child {
    const child = new Child(args, env, program);
    this.#children.add(child);
    return child;
  }

  /** Starts a file of the bench with access to loopback, and waits until it listens. */
  async bare(file: string, args: readonly string[]): Promise<Server> {
    return await this.#listening(
      [...serverV8Flags(), "--allow-net=127.0.0.1", `${ROOT}/tests/bench/${file}`, ...args],
      {},
    );
  }

  /** Starts registry and proxy in one process, or one of them, depending on `env`. */
  async service(env: Record<string, string> = {}, root = ROOT): Promise<Server> {
    const { args, variables } = this.serviceCommand(env, root);
    return await this.#listening(args, variables);
  }

  /**
   * Returns the command line of a service.
   *
   * @param root folder of the version of the service, with its own dependencies
   */
  serviceCommand(env: Record<string, string>, root = ROOT): { args: string[]; variables: Record<string, string> } {
    const store = env.KV_URL ?? this.newStore();
    const folder = store.slice(0, store.lastIndexOf("/"));
    const args = [
      ...this.profiling,
      ...serverV8Flags(JSON.parse(Deno.readTextFileSync(`${root}/deno.json`))),
      "--allow-net=127.0.0.1,localhost,[::1]",
      "--allow-env",
      `--allow-read=${folder}`,
      `--allow-write=${folder}`,
      `--config=${root}/deno.json`,
      `${root}/deploy.ts`,
    ];
    return { args, variables: { PORT: "0", KV_URL: store, BOOTSTRAP_SECRET, ...AMPLE_QUOTA_VARIABLES, ...env } };
  }

  /** Starts both services in one process. */
  async together(env: Record<string, string> = {}, root = ROOT): Promise<{ place: Place; admin: Admin }> {
    const { child, url } = await this.service(env, root);
    const place = { registryUrl: url, proxyUrl: url, children: [child] };
    return { place, admin: await bootstrap(url) };
  }

  /** Starts each service in its own process with its own store. The proxy has a credential of the registry. */
  async apart(env: Record<string, string> = {}): Promise<{ place: Place; admin: Admin }> {
    const registry = await this.service({ ...env, SVC_SERVICE: "registry" });
    const admin = await bootstrap(registry.url);
    const proxy = await this.service({
      ...env,
      SVC_SERVICE: "proxy",
      REGISTRY_URL: registry.url,
      REGISTRY_INTERNAL_SERVICE_ID: admin.service.id,
      REGISTRY_INTERNAL_SERVICE_SECRET: admin.service.secret,
    });
    const place = { registryUrl: registry.url, proxyUrl: proxy.url, children: [registry.child, proxy.child] };
    return { place, admin };
  }

  /** Starts a load process without agents. */
  load(): Load {
    return new Load(this.spawn([
      ...["run", "--no-prompt", "--allow-net=127.0.0.1"],
      // The library of WebSockets reads it.
      ...["--allow-env=WS_NO_BUFFER_UTIL", `${ROOT}/tests/bench/load.ts`],
    ]));
  }

  /** Starts a load process with `count` registered agents. */
  async agents(place: Place, admin: Admin, count: number): Promise<Load> {
    this.say(`registering ${count} agents`);
    const load = this.load();
    await load.ask("register", {
      registryUrl: place.registryUrl,
      apiKeys: await newApiKeys(place, admin, count),
      count,
    });
    return load;
  }

  async #listening(args: readonly string[], env: Record<string, string>): Promise<Server> {
    const child = this.spawn(["run", "--no-prompt", ...args], env);
    const line = await within(START_MS, "a server listens", child.line());
    const url = /^listening on (http:\S+)$/.exec(line)?.[1];
    if (!url) throw new Error(`A server printed an unexpected line: ${line}`);
    return { child, url };
  }
}

/** Returns enough API keys of the admin to register `count` agents within a minute. */
async function newApiKeys({ registryUrl }: Place, { apiKey }: Admin, agents: number): Promise<string[]> {
  const headers = { Authorization: `Bearer ${apiKey}`, "Content-Type": "application/json" };
  const keys: string[] = [];
  for (let i = 0; i < agents; i += AGENTS_PER_KEY) {
    const answer = await post(`${registryUrl}/v1/me/api-keys`, headers, "{}") as { apiKey: { token: string } };
    keys.push(answer.apiKey.token);
  }
  return keys;
}

/** Revokes an agent of the admin. */
export async function revoke({ registryUrl }: Place, { apiKey }: Admin, agentId: string): Promise<void> {
  const headers = { Authorization: `Bearer ${apiKey}` };
  const answer = await fetch(`${registryUrl}/v1/agents/${agentId}`, { method: "DELETE", headers });
  await answer.body?.cancel();
  if (answer.status !== 204) throw new Error(`The agent was not revoked: ${answer.status}`);
}

async function bootstrap(registryUrl: string): Promise<Admin> {
  const answer = await post(`${registryUrl}/v1/admin/bootstrap`, { "x-bootstrap-secret": BOOTSTRAP_SECRET }, "") as {
    apiKey: { token: string };
    internalService: { id: string; secret: string };
  };
  return { apiKey: answer.apiKey.token, service: answer.internalService };
}

/** Returns a free port, for a server that restarts at the same address. */
export function freePort(): number {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  listener.close();
  return port;
}

/** Returns the CPU time of some processes together, seconds. */
export function cpuOf(children: readonly Child[]): number | null {
  return children.reduce<number | null>((sum, child) => {
    const own = child.cpuSeconds();
    return sum === null || own === null ? null : sum + own;
  }, 0);
}

/** Returns the settled memory: the minimum within `seconds`. */
export async function settledBytes(
  child: Child,
  seconds: number,
  read: (child: Child) => number | null = (child) => child.residentBytes(),
): Promise<number | null> {
  const end = performance.now() + seconds * 1000;
  let least = read(child);
  while (least !== null && performance.now() < end) {
    await pause(50);
    least = Math.min(least, read(child) ?? least);
  }
  return least;
}
