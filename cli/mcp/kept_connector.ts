/**
 * The connector of an MCP server (D-127): found or started while the server already answers, and found or started again
 * when it has ended, also while no tool is called, so that the agent stays reachable (D-119).
 */
import { type Clock, settledWithin, sleep } from "../../shared/clock.ts";
import type { HttpResponse } from "../../shared/client/http.ts";
import type { Access } from "../connector/attach.ts";
import { CONNECTOR_LIMITS } from "../connector/limits.ts";
import { bodyOf } from "../connector/local_api/client.ts";
import { CliError } from "../errors.ts";
import { MCP_LIMITS as LIMIT } from "./limits.ts";

/** What the tools need of a connector. */
export type LocalConnector = Pick<Access, "agentName" | "send" | "call">;

export class KeptConnector implements LocalConnector, AsyncDisposable {
  readonly agentName: string;
  readonly #clock: Clock;
  readonly #open: () => Promise<Access>;
  readonly #ended = new AbortController();
  #access: Promise<Access> | null = null;
  /** Why the last attempt has failed. */
  #problem: unknown = null;

  /** @param open gets access to the connector; called again after a failure */
  constructor(clock: Clock, agentName: string, open: () => Promise<Access>) {
    this.#clock = clock;
    this.agentName = agentName;
    this.#open = open;
  }

  /** Keeps a connector running until the server ends. Never rejects. */
  async watch(): Promise<void> {
    const { signal } = this.#ended;
    while (!signal.aborted) {
      const isThere = await this.#look();
      await sleep(this.#clock, isThere ? LIMIT.watchMs : LIMIT.retryMs, signal);
    }
  }

  async call(...[method, target, body, withinMs, isRepeatable]: Parameters<Access["call"]>): Promise<unknown> {
    const text = body === undefined ? undefined : JSON.stringify(body);
    return bodyOf(this.agentName, await this.send(method, target, text, withinMs, isRepeatable));
  }

  /** @throws {CliError} `CLI_CONNECTOR_DOWN` when there is no connector within 10 s; the reason why none could start */
  async send(...request: Parameters<Access["send"]>): Promise<HttpResponse> {
    const access = this.#present();
    const opened = await this.#within(access);
    return await opened.send(...request).catch((error) => {
      this.#failed(access, error);
      throw error;
    });
  }

  #present(): Promise<Access> {
    if (this.#access !== null) return this.#access;
    const access = this.#access = this.#open();
    access.then(() => this.#problem = null, (error) => {
      this.#problem = error;
      this.#forget(access);
    });
    return access;
  }

  async #within(access: Promise<Access>): Promise<Access> {
    let opened: Access | null = null;
    await settledWithin(this.#clock, access.then((found) => opened = found), LIMIT.accessMs);
    if (opened !== null) return opened;
    if (this.#access !== access && this.#problem !== null) throw this.#problem;
    const fix = "Call the tool again in some seconds.";
    throw new CliError("CLI_CONNECTOR_DOWN", `The connector of ${this.agentName} is not ready yet`, { fix });
  }

  /** Looks for the connector, and gets access again when it has ended. Returns false when there is none. */
  async #look(): Promise<boolean> {
    const access = this.#present();
    try {
      const opened = await access;
      if (!opened.isHost) await opened.send("GET", "/v1/status", undefined, CONNECTOR_LIMITS.statusTimeoutMs);
      return true;
    } catch (error) {
      this.#failed(access, error);
      return false;
    }
  }

  /**
   * Replaces access that has failed permanently: a connector of this process that has ended with an error does not start
   * again. A lost connector is found again by the access itself. An error that a connector answers is not thrown here.
   */
  #failed(access: Promise<Access>, error: unknown): void {
    const isLost = error instanceof CliError && error.code === "CLI_CONNECTOR_DOWN";
    if (isLost || !this.#forget(access)) return;
    void access.then((opened) => opened[Symbol.asyncDispose]()).catch(() => {});
  }

  #forget(access: Promise<Access>): boolean {
    if (this.#access !== access) return false;
    this.#access = null;
    return true;
  }

  /** Stops a connector of this process, within the time that it has for its work in progress. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#ended.abort();
    const ended = this.#access?.then((access) => access[Symbol.asyncDispose]());
    const { drainMs, closeMs } = CONNECTOR_LIMITS;
    if (ended !== undefined) await settledWithin(this.#clock, ended, drainMs + 2 * closeMs);
  }
}
