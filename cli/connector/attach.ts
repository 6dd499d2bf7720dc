/**
 * Access to an agent's connector (D-119). A command uses the connector that runs, or runs one itself until the command
 * ends. Only the connector that holds the lock is called, because the port of an ended one may belong to a program that
 * would get a token or a message.
 */
import { settledWithin, sleep, timeLeft } from "../../shared/clock.ts";
import type { ConnectorFile } from "../../shared/client/agent_files.ts";
import { LocalDown } from "../../shared/client/errors.ts";
import type { HttpResponse } from "../../shared/client/http.ts";
import { type LocalCalls, LocalClient, type LocalRequest } from "../../shared/client/local_client.ts";
import type { AgentFolder } from "../agents/agent_store.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import type { RunningConnector } from "./agent_connector.ts";
import { ConnectorLockedError, isConnectorLocked, lockHolder } from "./connector_lock.ts";
import { CONNECTOR_LIMITS } from "./limits.ts";
import { readConnectorFile } from "./local_api/discovery_file.ts";
import type { StartOptions } from "./start_options.ts";
import { statusOf } from "./status.ts";

/**
 * How long a command waits for a connector that holds the lock, and how often it looks. With less time, the command
 * fails while a connector starts.
 */
const ATTACH_MS = 20_000, ATTACH_RETRY_MS = 250;

/**
 * Attempts at one request. With 1, it fails when a connector ends meanwhile; with more, a faulty connector delays it.
 */
const MAX_ATTEMPTS = 3;
/**
 * How long a request of `keptAccess` waits for a connector. With more, a program that runs a model gives up the call.
 */
const READY_MS = 10_000;
/**
 * How often `keptAccess` looks for a connector. With more, an agent whose connector has ended is unreachable for
 * longer.
 */
const LOOK_EVERY_MS = 5_000;
/**
 * How often `keptAccess` looks after a failed start. With less, a start that only a person can repair is repeated for
 * nothing.
 */
const RETRY_MS = 30_000;

/** Work that only a connector can do for the peer `did`. */
export class NeedsConnectorError extends Error {
  constructor(readonly did: string) {
    super("a connector is needed");
  }
}

/**
 * @throws {CliError} `CLI_CONNECTOR_DOWN` when a connector holds the lock and does not answer for 20 s; the error of
 * `startAgentConnector` when the connector cannot start in this process
 */
export async function access(ctx: Context, folder: AgentFolder, options: StartOptions = {}): Promise<Access> {
  const found = new Access(ctx, folder, options, false);
  await found.connected();
  return found;
}

/**
 * Returns access that finds or runs a connector until it is disposed. It does so even without a request, so that the
 * agent stays reachable. A request fails with `CLI_CONNECTOR_DOWN` when no connector is there within 10 s.
 */
export function keptAccess(ctx: Context, folder: AgentFolder, options: StartOptions = {}): Access {
  const kept = new Access(ctx, folder, options, true);
  void kept.watch();
  return kept;
}

/**
 * The client of the connector that runs, in this process or another one; `null` when none does.
 *
 * @param url where to call it, in place of the address in its file
 */
export async function connectorOf(ctx: Context, folder: AgentFolder, url?: string): Promise<LocalClient | null> {
  return await runningFile(folder, url) === null ? null : clientOf(ctx, folder, url);
}

function clientOf(ctx: Context, folder: AgentFolder, url?: string): LocalClient {
  // Looked up once for each connector. Later requests rely on the lock, which shows that the connector still has the
  // port.
  let owner: { token: string; isOther: Promise<boolean> } | null = null;
  const isOfOtherUser = async ({ token, url }: ConnectorFile) => {
    if (owner?.token !== token) owner = { token, isOther: ctx.isOfOtherUser?.(url) ?? Promise.resolve(false) };
    return await owner.isOther;
  };
  const { fetch, clock } = ctx;
  return new LocalClient(folder.name, { fetch, clock, find: () => runningFile(folder, url), isOfOtherUser });
}

/** The discovery file of the connector that holds the lock, with `url` in place of its own; `null` without one. */
async function runningFile(folder: AgentFolder, url?: string): Promise<ConnectorFile | null> {
  if (!await isConnectorLocked(folder)) return null;
  const file = readConnectorFile(folder);
  // The file may be that of an earlier connector, which the new one removes only after it has taken the lock.
  return file !== null && String(file.pid) === lockHolder(folder) ? { ...file, url: url ?? file.url } : null;
}

/**
 * An agent's connector, in this process or in another one. A request without a connector finds or starts one. A failed
 * request is repeated if nothing was sent or if it is repeatable. Disposing the access stops a connector in this
 * process; a request that would need a new one fails from then on.
 */
export class Access implements LocalCalls, AsyncDisposable {
  readonly #ended = new AbortController();
  #client: Promise<LocalCalls> | null = null;
  #host: RunningConnector | null = null;
  /** Why the connector in this process has ended by itself. */
  #failure: unknown = null;

  constructor(
    readonly ctx: Context,
    readonly folder: AgentFolder,
    readonly options: StartOptions,
    /** Whether it finds or runs a connector even without a request. */
    readonly keeps: boolean,
  ) {}

  get agentName(): string {
    return this.folder.name;
  }

  get isHost(): boolean {
    return this.#host !== null;
  }

  async send(request: LocalRequest): Promise<HttpResponse> {
    const { method, repeatable = method === "GET" } = request;
    for (let attempts = 1;; attempts++) {
      const client = this.connected();
      try {
        return await (await this.#ready(client)).send(request);
      } catch (error) {
        if (!(error instanceof LocalDown)) throw error;
        this.#forget(client);
        if (error.wasSent && !repeatable || attempts === MAX_ATTEMPTS) throw error;
      }
    }
  }

  async watch(): Promise<void> {
    const { signal } = this.#ended;
    while (!signal.aborted) {
      const look = this.connected().then(async () => this.isHost || await statusOf(this));
      const isThere = await look.then(() => true, () => false);
      await sleep(this.ctx.clock, isThere ? LOOK_EVERY_MS : RETRY_MS, signal);
    }
  }

  /** The client of the present connector. Requests at the same time wait for one attempt to find or start it. */
  connected(): Promise<LocalCalls> {
    if (this.#client !== null) return this.#client;
    const client = this.#client = this.#connect();
    client.catch(() => this.#forget(client));
    return client;
  }

  async #ready(client: Promise<LocalCalls>): Promise<LocalCalls> {
    if (!this.keeps || await settledWithin(this.ctx.clock, client, READY_MS)) return await client;
    const fix = "Call the tool again in some seconds.";
    throw new CliError("CLI_CONNECTOR_DOWN", `The connector of ${this.agentName} is not ready yet`, { fix });
  }

  #forget(client: Promise<LocalCalls>): void {
    if (this.#client === client) this.#client = null;
  }

  async #connect(): Promise<LocalCalls> {
    const { ctx, folder } = this;
    const left = timeLeft(ctx.clock, ATTACH_MS);
    using progress = new DisposableStack();
    for (let isFirst = true;; isFirst = false) {
      // One that is stopped takes 20 s, in which the command would seem to hang.
      if (isFirst && !this.keeps && await isConnectorLocked(folder)) {
        progress.defer(ctx.out.doing(`Waiting for the connector of ${folder.name}`));
      }
      // Checked for a request in progress too, because a connector that starts after the dispose would outlive the
      // command.
      if (this.#ended.signal.aborted) {
        const what = `The command has ended its use of the connector of ${folder.name}`;
        throw new CliError("CLI_CONNECTOR_DOWN", what, { fix: "Run the command again." });
      }
      const failure = this.#failure;
      // `keptAccess` tries again at its next look. Any other access ends with the failure, because another start would
      // fail too.
      if (this.keeps) this.#failure = null;
      if (failure !== null) throw failure;
      const client = await isConnectorLocked(folder) ? await this.#answering() : await this.#start();
      if (client !== null) return client;
      if (left() === 0) {
        throw new CliError("CLI_CONNECTOR_DOWN", `The connector of ${folder.name} runs, but does not answer`, {
          fix: `Stop process ${lockHolder(folder)}, then run svc connector start ${folder.name}.`,
        });
      }
      await sleep(ctx.clock, ATTACH_RETRY_MS);
    }
  }

  /** The client of a connector that runs and answers; `null` when there is none. */
  async #answering(): Promise<LocalCalls | null> {
    const client = clientOf(this.ctx, this.folder);
    return await statusOf(client).then(() => client, (error) => {
      if (error instanceof LocalDown) return null;
      throw error;
    });
  }

  /** Starts the connector in this process; `null` when another process was faster. */
  async #start(): Promise<LocalCalls | null> {
    try {
      // Loaded only here, because a command that uses a running connector needs none of these modules.
      const { startAgentConnector } = await import("./agent_connector.ts");
      const host = await startAgentConnector(this.ctx, this.folder.name, this.options, { emit: () => {} });
      this.#host = host;
      void host.ended.then((why) => {
        this.#host = null;
        this.#failure = why;
      });
      return host.calls;
    } catch (error) {
      if (error instanceof ConnectorLockedError) return null;
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ended.abort();
    // Waits for a connector that is still starting, because it would otherwise outlive the command.
    const stopped = Promise.resolve(this.#client?.catch(() => {})).then(() => this.#host?.stop());
    const { drainMs, closeMs } = CONNECTOR_LIMITS;
    // The wait is bounded for `keptAccess`, because a host kills a program that does not end in time.
    if (this.keeps) await settledWithin(this.ctx.clock, stopped, drainMs + 2 * closeMs);
    else await stopped;
  }
}
