/**
 * Client of the local API for other commands on this machine. Sends nothing unless a process holds the connector's lock
 * (D-119): ports are fixed, so after the end of a connector another program could listen on its port.
 */
import type * as z from "zod";
import type { Clock } from "../../../shared/clock.ts";
import { ApiError } from "../../../shared/client/errors.ts";
import { apiErrorOf, exchange, type HttpResponse } from "../../../shared/client/http.ts";
import type { AgentFolder } from "../../agents/agent_store.ts";
import { CliError } from "../../errors.ts";
import { isConnectorLocked } from "../connector_lock.ts";
import { CONNECTOR_LIMITS } from "../limits.ts";
import type { ConnectorFile } from "../../../shared/client/agent_files.ts";
import { Status } from "../status.ts";
import { readConnectorFile } from "./discovery_file.ts";
import { CONNECTOR_CODES, LOCAL_ERRORS, type LocalCode } from "./local_errors.ts";

interface ClientDeps {
  fetch: typeof fetch;
  clock: Clock;
}

/** The connector that a client calls. */
interface Callee {
  /** Name of its agent. */
  name: string;
  /** Whether the connector that wrote the client's discovery file still runs. */
  isCurrent(): Promise<boolean>;
}

/** At least the largest response: 4 MiB of dead letters, whose JSON texts are escaped once more. */
const MAX_ANSWER_BYTES = 10 * 1024 * 1024;

/** The connector has ended. Nothing was sent. */
export class ConnectorEndedError extends CliError {
  override name = "ConnectorEndedError";

  constructor(agentName: string) {
    super("CLI_CONNECTOR_DOWN", `The connector of ${agentName} does not run`, { fix: startFix(agentName) });
  }
}

export class ConnectorClient {
  constructor(
    readonly deps: ClientDeps,
    readonly callee: Callee,
    readonly file: ConnectorFile,
    readonly url = file.url,
  ) {}

  /** The client of an agent's connector; `null` when none runs, or when it has not written its discovery file. */
  static async of(deps: ClientDeps, folder: AgentFolder, url?: string): Promise<ConnectorClient | null> {
    if (!await isConnectorLocked(folder)) return null;
    const file = readConnectorFile(folder);
    if (file === null) return null;
    const isCurrent = async () => await isConnectorLocked(folder) && readConnectorFile(folder)?.token === file.token;
    return new ConnectorClient(deps, { name: folder.name, isCurrent }, file, url);
  }

  async status(): Promise<Status> {
    const body = await this.call("GET", "/v1/status", undefined, CONNECTOR_LIMITS.statusTimeoutMs);
    return checkedBody(this.callee.name, Status, body);
  }

  /**
   * Calls a route and returns the body of the response.
   *
   * @throws {import("../../../shared/client/errors.ts").ApiError} with the code of the connector, or of the proxy behind it
   * @throws {CliError} `CLI_CONNECTOR_DOWN` when no connector answers
   */
  async call(method: "GET" | "POST", target: string, body?: unknown, withinMs?: number): Promise<unknown> {
    const text = body === undefined ? undefined : JSON.stringify(body);
    return bodyOf(this.callee.name, await this.send(method, target, text, withinMs));
  }

  /**
   * Calls a route and returns the response unchanged, also an error of the connector or of the proxy.
   *
   * @param body JSON text
   * @throws {ConnectorEndedError} when the connector has ended and nothing was sent
   * @throws {CliError} `CLI_CONNECTOR_DOWN` when no connector answers
   */
  async send(
    method: "GET" | "POST",
    target: string,
    body?: string,
    withinMs: number = CONNECTOR_LIMITS.callTimeoutMs,
  ): Promise<HttpResponse> {
    const { name, isCurrent } = this.callee;
    if (!await isCurrent()) throw new ConnectorEndedError(name);
    const { fetch, clock } = this.deps;
    const response = await exchange({ fetch, clock }, {
      method,
      url: this.url + target,
      headers: { Authorization: `Bearer ${this.file.token}`, "Content-Type": "application/json" },
      body,
      timeoutMs: withinMs,
      maxBytes: MAX_ANSWER_BYTES,
      onTooLarge: "fail",
    }).catch((cause) => {
      throw connectorDown(name, `does not answer at ${this.url}`, cause);
    });
    if (apiErrorOf(response)?.code === null) throw connectorDown(name, `is not what answers at ${this.url}`);
    return response;
  }
}

/**
 * The body of a response.
 *
 * @throws {import("../../../shared/client/errors.ts").ApiError} for an error of the connector, or of the proxy behind it
 * @throws {CliError} `CLI_CONNECTOR_DOWN` when the body is not JSON
 */
export function bodyOf(agentName: string, response: HttpResponse): unknown {
  const error = apiErrorOf(response);
  if (error) {
    // Codes of the services have a fix of their own.
    if (CONNECTOR_CODES.includes(error.code ?? "")) error.fix = LOCAL_ERRORS[error.code as LocalCode].fix;
    throw error;
  }
  try {
    return response.text === "" ? null : JSON.parse(response.text);
  } catch (cause) {
    throw connectorDown(agentName, "answered with something that is not JSON", cause);
  }
}

/** The body of a response, checked. @throws {CliError} `CLI_CONNECTOR_DOWN` when another program or version answers */
export function checkedBody<S extends z.ZodType>(agentName: string, schema: S, body: unknown): z.output<S> {
  const { data, error } = schema.safeParse(body);
  if (error) throw connectorDown(agentName, "is not what answered, or has another version", error);
  return data;
}

/** The error of a connector that does not answer; its fix names the agent. */
export function connectorDown(agentName: string, what = "does not run", cause?: unknown): CliError {
  return new CliError("CLI_CONNECTOR_DOWN", `The connector of ${agentName} ${what}`, {
    cause,
    fix: startFix(agentName),
  });
}

/** The error for a peer that is not there, as a connector answers it. */
export function peerUnknown(peer: string, message = `No peer has the alias "${peer}"`): ApiError {
  const { status, fix } = LOCAL_ERRORS.CONNECTOR_PEER_UNKNOWN;
  const error = new ApiError(status, "CONNECTOR_PEER_UNKNOWN", message, null);
  error.fix = fix;
  return error;
}

function startFix(agentName: string): string {
  return `svc connector start ${agentName}`;
}
