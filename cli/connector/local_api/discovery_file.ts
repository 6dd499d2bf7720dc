/**
 * The discovery files of a connector's local API (D-87). `connector.json` gives address and token to other programs of
 * the same user, and `connector.curl` gives the token to `curl -K`, with which the commands below begin.
 */
import { join } from "node:path";
import { CONNECTOR_FILE, ConnectorFile } from "../../../shared/client/agent_files.ts";
import { toBase64Url } from "../../../shared/protocol/base64url.ts";
import type { Random } from "../../../shared/random.ts";
import type { AgentFolder } from "../../agents/agent_store.ts";
import { shellWord } from "../../terminal/output.ts";

const CURL_FILE = "connector.curl";

export function makeToken(random: Random): string {
  return toBase64Url(random.bytes(32));
}

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

/** Removes the discovery files, unless another connector has written its own. */
export async function withdraw(folder: AgentFolder, token: string): Promise<void> {
  if (readConnectorFile(folder)?.token === token) await removeDiscoveryFiles(folder);
}

/** Removes the discovery files. A caller without the connector lock would hide a connector that runs. */
export async function removeDiscoveryFiles(folder: AgentFolder): Promise<void> {
  await folder.remove(CONNECTOR_FILE);
  await folder.remove(CURL_FILE);
}

/** The discovery file; `null` without a valid one. The connector may have ended since. */
export function readConnectorFile(folder: AgentFolder): ConnectorFile | null {
  try {
    return ConnectorFile.parse(JSON.parse(folder.read(CONNECTOR_FILE) ?? ""));
  } catch {
    return null;
  }
}

/**
 * The command that a person pastes to let a running connector pair, for a program that cannot ask the person itself.
 */
export function pairingCommand(
  folder: Pick<AgentFolder, "path">,
  url: string,
  action: "start" | "confirm",
  body: Record<string, unknown>,
): string {
  return curlWords(folder, `${url}/v1/pair/${action}`, JSON.stringify(body)).join(" ");
}

function curlWords({ path }: Pick<AgentFolder, "path">, address: string, body?: string): string[] {
  return ["curl", "-K", join(path, CURL_FILE), address, ...body === undefined ? [] : ["-d", body]].map(shellWord);
}

/** What a program may want to do, each with the words of a shell command for it. */
export function curlLines(
  folder: Pick<AgentFolder, "path">,
  url: string,
): (readonly [what: string, words: readonly string[]])[] {
  const rows: readonly (readonly [what: string, path: string, body?: string])[] = [
    ["Start a pairing; pass the ticket on to the other person:", "pair/start", "{}"],
    ["Confirm a ticket that you were given:", "pair/confirm", '{"ticket":"svcpair1_…"}'],
    ["Has it been confirmed?", "pair/status", '{"ticket":"svcpair1_…"}'],
    ["Who are the peers?", "pair/peers"],
    ["End the trust between the two:", "pair/remove", '{"to":"<alias or DID>"}'],
    ["Send a message to a peer:", "outbound", '{"to":"<alias or DID>","payload":{"message":"Hello"}}'],
    ["Get its delivery receipts:", "receipts?to=<alias or DID>&requestId=<requestId of the answer>"],
  ];
  return rows.map(([what, path, body]) => [what, curlWords(folder, `${url}/v1/${path}`, body)]);
}
