/**
 * Where a running connector's local API is (D-87): the port it listens on, and `connector.json`, from which others on
 * this machine, of the same user, learn address and token. Beside it `connector.curl`, the same for `curl -K`.
 */
import { join } from "node:path";
import * as z from "zod";
import { toBase64Url } from "../../shared/protocol/base64url.ts";
import { isAgentDid } from "../../shared/protocol/did.ts";
import type { Random } from "../../shared/random.ts";
import type { AgentFolder } from "../agent_store.ts";
import { CliError } from "../errors.ts";
import { CONNECTOR_LIMITS } from "./limits.ts";

export const CONNECTOR_FILE = "connector.json";
export const CURL_FILE = "connector.curl";

const ConnectorFile = z.object({
  url: z.string().regex(/^http:\/\/127\.0\.0\.1:\d+$/),
  port: z.int(),
  token: z.string(),
  pid: z.int(),
  agentDid: z.string().refine(isAgentDid),
  startedAt: z.string(),
});
export type ConnectorFile = z.infer<typeof ConnectorFile>;

/** A server on a loopback port. */
export interface Listener {
  port: number;
  close(): void;
}

/**
 * Listens on the port, or the next free one.
 *
 * @throws {CliError} `CLI_BUSY` when none of the next hundred is free
 */
export function listen(wanted: number, answer: (request: Request) => Promise<Response>): Listener {
  const last = Math.min(65_535, wanted + CONNECTOR_LIMITS.portsTried - 1);
  for (let port = wanted; port <= last; port++) {
    const abort = new AbortController();
    try {
      const server = Deno.serve({
        hostname: "127.0.0.1",
        port,
        signal: abort.signal,
        onListen: () => {},
      }, answer);
      return { port: server.addr.port, close: () => abort.abort() };
    } catch (error) {
      if (!(error instanceof Deno.errors.AddrInUse)) throw error;
    }
  }
  throw new CliError("CLI_BUSY", `No port from ${wanted} to ${last} is free`, { fix: "Give another with --port." });
}

/** A token for the local API; new at each start. */
export function makeToken(random: Random): string {
  return toBase64Url(random.bytes(32));
}

/** Tells others on this machine where the connector is. */
export async function announce(folder: AgentFolder, file: ConnectorFile): Promise<void> {
  await folder.writeJson(CONNECTOR_FILE, file);
  await folder.write(
    CURL_FILE,
    [
      `# For: curl -K ${JSON.stringify(join(folder.path, CURL_FILE))} ${file.url}/v1/status`,
      `header = "Authorization: Bearer ${file.token}"`,
      'header = "Content-Type: application/json"',
      "silent",
      "show-error",
      'write-out = "\\n"',
    ].join("\n"),
  );
}

/** Takes it back, unless another connector has put its own there since. */
export async function withdraw(folder: AgentFolder, token: string): Promise<void> {
  if (readConnectorFile(folder)?.token !== token) return;
  await folder.remove(CONNECTOR_FILE);
  await folder.remove(CURL_FILE);
}

/** Where the agent's connector is, or was; `null` when there is no word of it. */
export function readConnectorFile(folder: AgentFolder): ConnectorFile | null {
  try {
    return ConnectorFile.parse(JSON.parse(folder.read(CONNECTOR_FILE) ?? ""));
  } catch {
    return null;
  }
}
