/** Client of the local API for other commands on this machine: `connector status`, `doctor`, `relay-test`. */
import * as z from "zod";
import type { Clock } from "../../../shared/clock.ts";
import { apiErrorOf, exchange } from "../../../shared/client/http.ts";
import type { AgentFolder } from "../../agents/agent_store.ts";
import { CliError } from "../../errors.ts";
import { type ConnectorFile, readConnectorFile } from "./discovery_file.ts";
import { Status } from "../status.ts";

interface ClientDeps {
  fetch: typeof fetch;
  clock: Clock;
}

/** A connector without a response within this time counts as down. */
const STATUS_MS = 3_000;
/** Longer than the proxy waits for the recipient's acknowledgement. */
const CALL_MS = 45_000;
/** At least the largest response of the proxy, which the connector passes on. */
const MAX_ANSWER_BYTES = 4 * 1024 * 1024;

export class ConnectorClient {
  constructor(
    readonly deps: ClientDeps,
    readonly agentName: string,
    readonly file: ConnectorFile,
    readonly url = file.url,
  ) {}

  /** The client of an agent's connector; `null` without a discovery file. */
  static of(deps: ClientDeps, folder: AgentFolder, url?: string): ConnectorClient | null {
    const file = readConnectorFile(folder);
    return file && new ConnectorClient(deps, folder.name, file, url);
  }

  async status(): Promise<Status> {
    return Status.parse(await this.call("GET", "/v1/status", undefined, STATUS_MS));
  }

  /**
   * Calls a route and returns the body of the response.
   *
   * @throws {import("../../errors.ts").ApiError} with the code of the connector, or of the proxy behind it
   * @throws {CliError} `CLI_CONNECTOR_DOWN` when no connector answers
   */
  async call(method: "GET" | "POST", target: string, body?: unknown, withinMs = CALL_MS): Promise<unknown> {
    const { fetch, clock } = this.deps;
    const response = await exchange({ fetch, clock }, {
      method,
      url: this.url + target,
      headers: { Authorization: `Bearer ${this.file.token}`, "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
      timeoutMs: withinMs,
      maxBytes: MAX_ANSWER_BYTES,
      onTooLarge: "fail",
    }).catch((cause) => {
      throw connectorDown(this.agentName, `does not answer at ${this.url}`, cause);
    });
    const { text } = response;
    const error = apiErrorOf(response);
    if (error?.code === null) throw connectorDown(this.agentName, `is not what answers at ${this.url}`);
    if (error) throw error;
    return text === "" ? null : z.json().parse(JSON.parse(text));
  }
}

/** The error of a connector that does not answer; its fix names the agent. */
export function connectorDown(agentName: string, what = "does not run", cause?: unknown): CliError {
  const fix = `svc connector start ${agentName}`;
  return new CliError("CLI_CONNECTOR_DOWN", `The connector of ${agentName} ${what}`, { cause, fix });
}
