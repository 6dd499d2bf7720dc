/**
 * The discovery files of a connector's local API (D-87): `connector.json` gives address and token to other
 * programs of the same user, `connector.curl` does the same for `curl -K`.
 */
import { join } from "node:path";
import { CONNECTOR_FILE, ConnectorFile } from "../../../shared/client/agent_files.ts";
import { toBase64Url } from "../../../shared/protocol/base64url.ts";
import type { Random } from "../../../shared/random.ts";
import type { AgentFolder } from "../../agents/agent_store.ts";

export const CURL_FILE = "connector.curl";

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

/** Removes the discovery files. Without the lock, this would hide a connector that runs. */
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
