/**
 * Access to an agent's connector (D-119): a command uses the connector that runs, or runs one itself until it ends. The
 * connector lock decides, so no token and no message goes to a port whose connector has ended.
 */
import { sleep } from "../../shared/clock.ts";
import type { HttpResponse } from "../../shared/client/http.ts";
import type { AgentFolder } from "../agents/agent_store.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { type RunningConnector, startAgentConnector } from "./agent_connector.ts";
import { ConnectorLockedError, isConnectorLocked, lockHolder } from "./connector_lock.ts";
import { CONNECTOR_LIMITS } from "./limits.ts";
import { bodyOf, ConnectorClient, ConnectorEndedError } from "./local_api/client.ts";
import { readConnectorFile } from "./local_api/discovery_file.ts";
import type { StartOptions } from "./start_options.ts";

/** Attempts at one call, each with a connector that runs at that time. */
const MAX_ATTEMPTS = 3;

/**
 * An agent's connector, in this process or in another one. Disposing it stops a connector that it runs; a call that needs
 * a new one fails afterwards.
 */
export interface Access extends AsyncDisposable {
  readonly agentName: string;
  /** True while this process runs the connector. */
  readonly isHost: boolean;
  /**
   * Calls a route of the local API and returns the body of the response. When the connector has ended, it gets access again
   * and repeats the call if nothing was sent, or if the call is repeatable.
   *
   * @param isRepeatable whether the call may be sent twice (default: a GET may)
   * @throws {import("../../shared/client/errors.ts").ApiError} with the code of the connector, or of the proxy behind it
   * @throws {CliError} `CLI_CONNECTOR_DOWN`; the error of a connector that ended in this process
   */
  call(method: Method, target: string, body?: unknown, withinMs?: number, isRepeatable?: boolean): Promise<unknown>;
  /**
   * The same with JSON text in, and with the response unchanged, also an error of the connector or of the proxy.
   *
   * @throws {CliError} as `call`
   */
  send(
    method: Method,
    target: string,
    body?: string,
    withinMs?: number,
    isRepeatable?: boolean,
  ): Promise<HttpResponse>;
}

type Method = "GET" | "POST";

/**
 * Gets access to the connector of an agent.
 *
 * @param options of the connector that this process runs when no other one does
 * @throws {CliError} `CLI_CONNECTOR_DOWN` when a connector holds the lock and does not answer for 20 s; the error of
 * `startAgentConnector` when the connector cannot start in this process
 */
export async function access(
  ctx: Context,
  folder: AgentFolder,
  options: Partial<StartOptions> = {},
): Promise<Access> {
  const attached = new Attached(ctx, folder, { "allow-insecure": false, isHosted: true, ...options });
  await attached.client();
  return attached;
}

class Attached implements Access {
  readonly agentName: string;
  #client: Promise<ConnectorClient> | null = null;
  #host: RunningConnector | null = null;
  /** Why the connector in this process has ended by itself. */
  #failure: unknown = null;
  #isDisposed = false;

  constructor(readonly ctx: Context, readonly folder: AgentFolder, readonly options: StartOptions) {
    this.agentName = folder.name;
  }

  get isHost(): boolean {
    return this.#host !== null;
  }

  async call(method: Method, target: string, body?: unknown, withinMs?: number, isRepeatable?: boolean) {
    const text = body === undefined ? undefined : JSON.stringify(body);
    return bodyOf(this.agentName, await this.send(method, target, text, withinMs, isRepeatable));
  }

  async send(
    method: Method,
    target: string,
    body?: string,
    withinMs?: number,
    isRepeatable = method === "GET",
  ): Promise<HttpResponse> {
    for (let attempts = 1;; attempts++) {
      const client = this.client();
      try {
        return await (await client).send(method, target, body, withinMs);
      } catch (error) {
        this.#forget(client);
        const isSafe = isRepeatable || error instanceof ConnectorEndedError;
        if (!isSafe || attempts === MAX_ATTEMPTS || !isDown(error)) throw error;
      }
    }
  }

  /** The client of the present connector. Calls at the same time wait for one attempt to find or start it. */
  client(): Promise<ConnectorClient> {
    if (this.#client !== null) return this.#client;
    const client = this.#client = this.#connect();
    client.catch(() => this.#forget(client));
    return client;
  }

  #forget(client: Promise<ConnectorClient>): void {
    if (this.#client === client) this.#client = null;
  }

  async #connect(): Promise<ConnectorClient> {
    const { ctx, folder } = this;
    const end = ctx.clock.now() + CONNECTOR_LIMITS.attachMs;
    while (true) {
      // Also for a call that was in progress then: a connector that it starts would outlive the command.
      if (this.#isDisposed) throw over(this.agentName);
      if (this.#failure !== null) throw this.#failure;
      const client = await isConnectorLocked(folder) ? await this.#answering() : await this.#start();
      if (client !== null) return client;
      if (ctx.clock.now() >= end) throw silent(folder);
      await sleep(ctx.clock, CONNECTOR_LIMITS.attachRetryMs);
    }
  }

  /** The client of a connector that runs and answers; `null` when there is none. */
  async #answering(): Promise<ConnectorClient | null> {
    // A file of an earlier connector stays until the new one has the lock and removes it.
    const isOfHolder = String(readConnectorFile(this.folder)?.pid) === lockHolder(this.folder);
    const client = isOfHolder ? await ConnectorClient.of(this.ctx, this.folder) : null;
    const status = await client?.status().catch((error) => {
      if (error instanceof CliError) return undefined;
      throw error;
    });
    if (status === undefined) return null;
    // A connector of the previous release has no routes for messages.
    if (status.loopGuards === undefined) throw earlierVersion(this.agentName, status.pid);
    return client;
  }

  /** Starts the connector in this process; `null` when another process was faster. */
  async #start(): Promise<ConnectorClient | null> {
    try {
      const host = await startAgentConnector(this.ctx, this.folder.name, this.options, { tell: () => {} });
      this.#host = host;
      void host.ended.then((why) => {
        this.#host = null;
        this.#failure = why;
      });
      return await ConnectorClient.of(this.ctx, this.folder);
    } catch (error) {
      if (error instanceof ConnectorLockedError) return null;
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isDisposed = true;
    // A connector that is starting must not outlive the command.
    await this.#client?.catch(() => {});
    await this.#host?.stop();
  }
}

function over(agentName: string): CliError {
  return new CliError("CLI_CONNECTOR_DOWN", `The command has ended its use of the connector of ${agentName}`, {
    fix: "Run the command again.",
  });
}

function silent(folder: AgentFolder): CliError {
  return new CliError("CLI_CONNECTOR_DOWN", `The connector of ${folder.name} runs, but does not answer`, {
    fix: `Stop process ${lockHolder(folder)}, then run svc connector start ${folder.name}.`,
  });
}

function earlierVersion(agentName: string, pid: number): CliError {
  return new CliError("CLI_CONNECTOR_DOWN", `The connector of ${agentName} is one of an earlier svc`, {
    fix: `Stop process ${pid}, then run svc connector start ${agentName}.`,
  });
}

function isDown(error: unknown): boolean {
  return error instanceof CliError && error.code === "CLI_CONNECTOR_DOWN";
}
