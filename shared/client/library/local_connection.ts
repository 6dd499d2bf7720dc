/**
 * Calls to the local API of an agent's connector. Reads the discovery file before each call: ports are fixed, so after the
 * end of a connector another program could listen on its port (D-119).
 */
import { apiErrorOf, exchange, type HttpResponse } from "../http.ts";
import { CLIENT_LIMITS } from "../limits.ts";
import type { AgentDirectory } from "./directory_store.ts";
import { asSvcError } from "./error_conversion.ts";
import { SvcError } from "./svc_error.ts";
import { type ClientSystem, leavesMachine } from "./system.ts";

export class LocalConnection {
  constructor(readonly system: ClientSystem, readonly directory: AgentDirectory) {}

  /**
   * Calls a route and returns the body of the response.
   *
   * @param waitSeconds how long the connector may wait before it answers
   * @throws {SvcError} with the code of the connector or of the proxy behind it; `CONNECTOR_DOWN` when none answers
   */
  async call(method: "GET" | "POST", target: string, body?: object, options: CallOptions = {}): Promise<unknown> {
    const { waitSeconds = 0, signal, timeoutMs = CLIENT_LIMITS.localCallMs } = options;
    const { url, token } = await this.#discovery();
    const response = await exchange(this.system, {
      method,
      url: url + target,
      headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
      timeoutMs: timeoutMs + waitSeconds * 1000,
      maxBytes: CLIENT_LIMITS.localAnswerBytes,
      onTooLarge: "fail",
      ...(signal === undefined ? {} : { signal }),
    }).catch((cause) => {
      throw this.#down(`does not answer at ${url}`, cause);
    });
    return this.#bodyOf(response, url);
  }

  async #discovery(): Promise<{ url: string; token: string }> {
    if (leavesMachine(this.system)) {
      const what = "HTTP_PROXY is set, and would get the token of the local API";
      throw new SvcError("CLI_USAGE", `${what}: add 127.0.0.1 to NO_PROXY`);
    }
    const file = await this.directory.connectorFile();
    if (file === null || !this.#isRunning(file.pid)) throw this.#down("does not run");
    return file;
  }

  #isRunning(pid: number): boolean {
    try {
      return this.system.isRunning(pid);
    } catch (cause) {
      throw this.#down("may run, but Deno needs --allow-run to find out", cause);
    }
  }

  #bodyOf(response: HttpResponse, url: string): unknown {
    const refusal = apiErrorOf(response);
    if (refusal?.code === null) throw this.#down(`is not what answers at ${url}`);
    if (refusal !== null) throw asSvcError(refusal);
    try {
      return response.text === "" ? null : JSON.parse(response.text);
    } catch (cause) {
      throw this.#down(`is not what answers at ${url}`, cause);
    }
  }

  #down(what: string, cause?: unknown): SvcError {
    return new SvcError("CONNECTOR_DOWN", `The connector of ${this.directory.name} ${what}`, { cause });
  }
}

interface CallOptions {
  waitSeconds?: number;
  signal?: AbortSignal;
  /** Milliseconds, in addition to `waitSeconds`. */
  timeoutMs?: number;
}

/** True when no connector answered; the next call may reach one. */
export function isDown(error: unknown): boolean {
  return error instanceof SvcError && error.code === "CONNECTOR_DOWN";
}
