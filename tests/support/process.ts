/**
 * Runs the service as its users do: `deploy.ts` as a child process on loopback, with a given environment and a store in
 * a temporary folder. Also people, agents and connectors that use it. It ends only the processes that it started, by
 * process ID.
 */
import { existsSync } from "node:fs";
import { assert, assertEquals, assertRejects } from "@std/assert";
import { AgentClient, type AgentIdentity, ApiError, type HttpDeps, RegistryClient } from "./agent_client.ts";
import { type Ack, type Link, openLink } from "../../cli/link/link.ts";
import { silentLog, StartRefused, startServer as runServer } from "../../deploy.ts";
import { systemClock } from "../../shared/clock.ts";
import type { Agent } from "../../shared/protocol/api/agents.ts";
import type { AgentAuth } from "../../shared/protocol/api/sessions.ts";
import { type KeyPair, keyPairFromSeed } from "../../shared/protocol/ed25519.ts";
import type { DeliverFrame, PairedFrame, RevokedFrame } from "../../shared/protocol/frames.ts";
import { ulidSource } from "../../shared/protocol/ids.ts";
import { systemRandom } from "../../shared/random.ts";
import { bundledDeploy } from "./built.ts";
import { ROOT, within } from "./child_command.ts";
import { ChildProcess } from "./child_process.ts";
import { tempFolder } from "./temp_folder.ts";

export { ROOT, within } from "./child_command.ts";
export { ChildProcess } from "./child_process.ts";
export { tempFolder } from "./temp_folder.ts";

export const BOOTSTRAP_SECRET = "bootstrap-secret-of-the-e2e-tests";
export const deps: HttpDeps = { fetch, clock: systemClock, random: systemRandom };
export const newId = ulidSource(systemClock.now, systemRandom.bytes);

const START_MS = 60_000;

/** Only a test that hangs reaches this time: a busy machine may need seconds for anything. */
export const SOON_MS = 60_000;

/** For tests of what does not wait for an acknowledgement: such a wait takes far longer than `SOON_MS`. */
export const PATIENT = { RELAY_ACK_TIMEOUT_MS: "600000" };

/**
 * Polls until there is an answer, for states that have no event.
 *
 * @throws {Error} after `ms` milliseconds
 */
export async function eventually<T>(
  ms: number,
  what: string,
  probe: () => Promise<T | undefined> | T | undefined,
  pauseMs = 25,
): Promise<T> {
  const end = Date.now() + ms;
  while (true) {
    const found = await probe();
    if (found !== undefined) return found;
    if (Date.now() > end) throw new Error(`Not within ${ms} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}

/** Ports that tests have got, in a folder for each ten minutes. */
const CLAIMS = `${ROOT}/.data/built/ports`, CLAIMED_MS = 600_000;

/** Makes a folder. Returns false if it is there. */
function isMade(path: string): boolean {
  try {
    Deno.mkdirSync(path);
    return true;
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
    return false;
  }
}

/** Takes a port for ten minutes or more. Returns false if a test has it: it may not listen yet, or its server may be stopped. */
function claim(port: number): boolean {
  const now = Math.floor(Date.now() / CLAIMED_MS);
  Deno.mkdirSync(CLAIMS, { recursive: true });
  if (isMade(`${CLAIMS}/${now}`)) {
    for (const { name } of Deno.readDirSync(CLAIMS)) {
      if (Number(name) < now - 1) Deno.removeSync(`${CLAIMS}/${name}`, { recursive: true });
    }
  }
  return !existsSync(`${CLAIMS}/${now - 1}/${port}`) && isMade(`${CLAIMS}/${now}/${port}`);
}

/**
 * A port without a listener that no other test has got, outside the range that the system assigns, and above 10080, which
 * `fetch` refuses.
 */
export function freePort(): number {
  while (true) {
    const port = 10_100 + Math.floor(Math.random() * 19_900);
    if (!claim(port)) continue;
    try {
      Deno.listen({ hostname: "127.0.0.1", port }).close();
      return port;
    } catch (error) {
      if (!(error instanceof Deno.errors.AddrInUse)) throw error;
    }
  }
}

/** How to start a server. */
export interface ServerOptions {
  /** Folder of the store. */
  folder: string;
  env?: Record<string, string>;
  /** The program, with options of Deno before it (default: the server of this version). */
  entry?: readonly string[];
  args?: readonly string[];
  /** With the umask 000. It is set by a shell, because that of this process is also that of tests beside this one. */
  isOpen?: true;
}

/** A server that listens. */
export class ServerProcess extends ChildProcess {
  /** For instance `http://127.0.0.1:12345`. */
  address = "";
}

/** Quotas for one human who owns every agent of these tests and of the bench. */
export const AMPLE_QUOTA_VARIABLES = {
  QUOTA_AGENTS: "100000",
  QUOTA_REGISTRATIONS_PER_DAY: "100000",
  QUOTA_AGENT_REISSUES_PER_DAY: "100000",
  QUOTA_REISSUES_PER_DAY: "100000",
  QUOTA_CHALLENGES: "100000",
  QUOTA_REVOCATIONS: "100000",
  API_KEY_REQUESTS_PER_MINUTE: "100000",
  OWNER_RATE_LIMIT_REQUESTS_PER_MINUTE: "1000000",
};

function variablesOf({ folder, env = {} }: ServerOptions): Record<string, string> {
  return { PORT: "0", KV_URL: `${folder}/svc.kv`, BOOTSTRAP_SECRET, ...AMPLE_QUOTA_VARIABLES, ...env };
}

/** With `-- --bundled`, as the gate has it: the start of a server from its sources takes half as much CPU again. */
const IS_BUNDLED = Deno.args.includes("--bundled");

async function spawnServer(options: ServerOptions): Promise<ServerProcess> {
  const { folder, entry = IS_BUNDLED ? await bundledDeploy() : ["deploy.ts"], args = [] } = options;
  const permissions = [
    "--allow-net=127.0.0.1,127.0.0.2,0.0.0.0,localhost,[::1]",
    "--allow-env",
    "--allow-sys=statfs,systemMemoryInfo",
  ]
    .concat(["read", "write"].map((kind) => `--allow-${kind}=${folder}`));
  const words = ["run", "--no-prompt", ...permissions, ...entry, ...args], variables = variablesOf(options);
  if (!options.isOpen) return new ServerProcess(words, variables);
  return new ServerProcess(["-c", 'umask 000; exec "$@"', "sh", Deno.execPath(), ...words], variables, "/bin/sh");
}

/**
 * Starts a server and waits until it listens.
 *
 * @throws {Error} when the server does not start, with its output
 */
export async function startServer(options: ServerOptions): Promise<ServerProcess> {
  const server = await spawnServer(options);
  try {
    const listening = server.stdout.match(/^listening on (http:\S+)$/m);
    const [, address = ""] = await within(START_MS, "the server listens", listening);
    server.address = address;
    return server;
  } catch (cause) {
    await server[Symbol.asyncDispose]();
    throw new Error(`The server did not start\n${server.printed}`, { cause });
  }
}

/** Starts a server that must refuse to start. Returns its exit code and its output. */
export async function refusedStart(options: ServerOptions): Promise<{ code: number; stdout: string; stderr: string }> {
  await using server = await spawnServer(options);
  const { code } = await within(START_MS, "the server refuses to start", server.status);
  return { code, stdout: server.stdout.text, stderr: server.stderr.text };
}

/** A server in the process of the test. */
export interface ServerHere extends AsyncDisposable {
  /** For instance `http://127.0.0.1:12345`. */
  address: string;
}

/**
 * Starts a server in this process. It is for tests whose subject is another program, because the start of a process is most
 * of what a server costs in a short test.
 */
export async function startServerHere(options: ServerOptions): Promise<ServerHere> {
  const variables = variablesOf(options);
  const { address, stop } = await runServer((name) => variables[name] || undefined, silentLog);
  return { address, [Symbol.asyncDispose]: stop };
}

/** Starts a server in this process that must refuse to start. Returns what a process would print. */
export async function refusedHere(options: ServerOptions): Promise<string> {
  const variables = variablesOf(options);
  const starting = () => runServer((name) => variables[name] || undefined, silentLog);
  return (await assertRejects(starting, StartRefused)).message;
}

/** Addresses of the two services. */
export interface Place {
  registryUrl: string;
  proxyUrl: string;
}

/** Both services at one address. */
export function placeOf({ address }: Pick<ServerHere, "address">): Place {
  return { registryUrl: address, proxyUrl: address };
}

/** An agent with its client. */
export interface LiveAgent {
  agent: Agent;
  keys: KeyPair;
  agentAuth: AgentAuth;
  identity: AgentIdentity;
  client: AgentClient;
}

/** The first admin's API key. */
export async function bootstrap({ registryUrl }: Place): Promise<string> {
  return (await new RegistryClient(deps, registryUrl).bootstrap(BOOTSTRAP_SECRET)).apiKey.token;
}

/** Registers a new agent. */
export async function newAgent(place: Place, apiKey: string, name = "agent", client = deps): Promise<LiveAgent> {
  const keys = await keyPairFromSeed(systemRandom.bytes(32));
  const { agent, ait, agentAuth } = await new RegistryClient(client, place.registryUrl)
    .registerAgent(apiKey, keys, { name });
  const identity = { did: agent.did, ait, privateKey: keys.privateKey, accessToken: agentAuth.accessToken };
  return { agent, keys, agentAuth, identity, client: new AgentClient(client, place.proxyUrl, identity) };
}

/** Pairs two agents. */
export async function pair(a: LiveAgent, b: LiveAgent): Promise<void> {
  const { ticket } = await a.client.pairStart({ agentName: a.agent.name, humanName: "A" });
  await b.client.pairConfirm(ticket, { agentName: b.agent.name, humanName: "B" });
}

/** A connector that records its frames and the end of its link. */
export class Connector {
  readonly frames: DeliverFrame[] = [];
  readonly news: (PairedFrame | RevokedFrame)[] = [];
  readonly #closed = Promise.withResolvers<{ code: number; reason: string }>();
  readonly closed = this.#closed.promise;
  #link: Link | null = null;
  #waiting: (() => void)[] = [];

  /** Opens a link. `deliver` returns the acknowledgement of each message. */
  static async open(
    { proxyUrl }: Place,
    { identity }: LiveAgent,
    deliver: (frame: DeliverFrame) => Promise<Ack> | Ack = () => ({ accepted: true }),
  ): Promise<Connector> {
    const connector = new Connector();
    connector.#link = await openLink({ ...deps, newId }, proxyUrl, identity, {
      async deliver(frame) {
        connector.frames.push(frame);
        for (const wake of connector.#waiting.splice(0)) wake();
        return await deliver(frame);
      },
      paired: (frame) => connector.news.push(frame),
      revoked: (frame) => connector.news.push(frame),
      closed: (code, reason) => connector.#closed.resolve({ code, reason }),
    });
    return connector;
  }

  /** Waits for the n-th message. */
  async frame(n: number): Promise<DeliverFrame> {
    while (true) {
      const frame = this.frames[n - 1];
      if (frame) return frame;
      const next = new Promise<void>((resolve) => this.#waiting.push(resolve));
      await within(SOON_MS, `message ${n} of the connector`, next);
    }
  }

  async close(): Promise<void> {
    this.#link?.close();
    await within(SOON_MS, "the link closes", this.closed);
  }
}

/**
 * Running services with their first admin: in a process of their own, registry and proxy separate with one store each, or in
 * the process of the test.
 */
export class Service implements AsyncDisposable {
  /** The server, or registry and proxy; empty in the process of the test. */
  readonly servers: ServerProcess[] = [];
  #here: ServerHere | null = null;
  readonly folders: (AsyncDisposable & { path: string })[] = [];
  readonly #envs: Record<string, string>[];
  readonly place: Place;
  apiKey = "";
  /** The program of servers that start from now on; `undefined` for this version. */
  entry: readonly string[] | undefined;

  private constructor(env: Record<string, string>, readonly isApart: boolean) {
    const [first, second] = [freePort(), freePort()];
    const url = (port: number) => `http://127.0.0.1:${port}`;
    this.place = { registryUrl: url(first), proxyUrl: url(isApart ? second : first) };
    // Agents may send without a relevant limit.
    const all = { AGENT_RATE_LIMIT_REQUESTS_PER_MINUTE: "100000", ...env, REGISTRY_URL: this.place.registryUrl };
    const common = { ...all, PROXY_URL: this.place.proxyUrl };
    this.#envs = [{ ...common, PORT: String(first), SVC_SERVICE: isApart ? "registry" : "all" }];
    if (isApart) this.#envs.push({ ...common, PORT: String(second), SVC_SERVICE: "proxy" });
  }

  static async open(
    env: Record<string, string> = {},
    isApart = false,
    entry?: readonly string[],
  ): Promise<Service> {
    const service = new Service(env, isApart);
    service.entry = entry;
    for (const _ of service.#envs) service.folders.push(await tempFolder());
    await service.restart(0);
    const { apiKey, internalService: { id, secret } } = await new RegistryClient(deps, service.place.registryUrl)
      .bootstrap(BOOTSTRAP_SECRET);
    service.apiKey = apiKey.token;
    const credential = { REGISTRY_INTERNAL_SERVICE_ID: id, REGISTRY_INTERNAL_SERVICE_SECRET: secret };
    Object.assign(service.#envs[1] ?? {}, credential);
    if (isApart) await service.restart(1);
    return service;
  }

  /** Services in the process of the test: see `startServerHere`. */
  static async here(env: Record<string, string> = {}): Promise<Service> {
    const service = new Service(env, false);
    service.folders.push(await tempFolder());
    await service.restartHere();
    service.apiKey = await bootstrap(service.place);
    return service;
  }

  /** Ends services in the process of the test. */
  async stopHere(): Promise<void> {
    await this.#here?.[Symbol.asyncDispose]();
    this.#here = null;
  }

  /** Starts them again on their store and port. */
  async restartHere(): Promise<void> {
    this.#here = await startServerHere(this.optionsOf(0));
  }

  /** The server, or the registry. */
  get server(): ServerProcess {
    return this.servers[0] as ServerProcess;
  }

  #home: string | undefined;

  /** A folder for the files of people, which ends with the services. */
  get home(): string {
    return this.#home ??= Deno.makeTempDirSync({ prefix: "svc_e2e_" });
  }

  /** Address that agents use. */
  get url(): string {
    return this.place.proxyUrl;
  }

  /** Options of a server. */
  optionsOf(i: number): ServerOptions {
    const { entry } = this;
    return {
      folder: this.folders[i]?.path ?? "",
      env: this.#envs[i] ?? {},
      ...(entry === undefined ? {} : { entry }),
    };
  }

  /** Starts a server, also after it has ended, on its store and port. */
  async restart(i: number): Promise<void> {
    this.servers[i] = await startServer(this.optionsOf(i));
  }

  /** Creates an agent, of the first admin unless an API key of another person is given. */
  agent(name?: string, apiKey = this.apiKey): Promise<LiveAgent> {
    return newAgent(this.place, apiKey, name);
  }

  /** Creates a person. Returns an API key. */
  async person(): Promise<string> {
    const registry = new RegistryClient(deps, this.place.registryUrl);
    const { invite } = await registry.createInvite(this.apiKey);
    return (await registry.redeemInvite(invite.code, "Someone")).apiKey.token;
  }

  /** Creates two paired agents. */
  async agents(): Promise<{ a: LiveAgent; b: LiveAgent }> {
    const [a, b] = await Promise.all([this.agent("a"), this.agent("b")]);
    await pair(a, b);
    return { a, b };
  }

  connect(agent: LiveAgent): Promise<Connector> {
    return Connector.open(this.place, agent);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stopHere();
    for (const server of this.servers) await server[Symbol.asyncDispose]();
    for (const folder of this.folders) await folder[Symbol.asyncDispose]();
    if (this.#home !== undefined) await Deno.remove(this.#home, { recursive: true });
  }
}

/** A message to an agent, for `sendMessage`. */
export function messageTo(to: LiveAgent, text = "hi"): { recipientDid: string; payload: string } {
  return { recipientDid: to.identity.did, payload: JSON.stringify({ message: text }) };
}

/** Asserts that a client's call is refused with a code. */
export async function refusedWith(code: string, call: Promise<unknown>): Promise<ApiError> {
  const error = await assertRejects(() => call, ApiError);
  assertEquals(error.code, code, error.message);
  assert(error.requestId, "an error carries a request ID");
  return error;
}
