/** `curl` commands for a running connector (D-87), as lines for a shell. */
import { join } from "node:path";
import type { AgentFolder } from "../../agents/agent_store.ts";
import { shellWord } from "../../terminal/output.ts";
import { CURL_FILE } from "./discovery_file.ts";

/** The command that a person pastes to let a running connector pair, where no program can ask the person. */
export function pairingCommand(
  folder: Pick<AgentFolder, "path">,
  url: string,
  action: "start" | "confirm",
  body: Record<string, unknown>,
): string {
  return `${curlCommand(folder)} ${url}/v1/pair/${action} -d ${shellWord(JSON.stringify(body))}`;
}

function curlCommand({ path }: Pick<AgentFolder, "path">): string {
  return `curl -K ${shellWord(join(path, CURL_FILE))}`;
}

export function curlLines(folder: Pick<AgentFolder, "path">, url: string): string[] {
  const curl = curlCommand(folder);
  return [
    "Start a pairing; pass the ticket on to the other person:",
    `  ${curl} ${url}/v1/pair/start -d '{}'`,
    "Confirm a ticket that you were given:",
    `  ${curl} ${url}/v1/pair/confirm -d '{"ticket":"svcpair1_…"}'`,
    "Has it been confirmed?",
    `  ${curl} ${url}/v1/pair/status -d '{"ticket":"svcpair1_…"}'`,
    "Who are the peers?",
    `  ${curl} ${url}/v1/pair/peers`,
    "End the trust between the two:",
    `  ${curl} ${url}/v1/pair/remove -d '{"to":"<alias or DID>"}'`,
    "Send a message to a peer:",
    `  ${curl} ${url}/v1/outbound -d '{"to":"<alias or DID>","payload":{"message":"Hello"}}'`,
    "Get its delivery receipts:",
    `  ${curl} '${url}/v1/receipts?to=<alias or DID>&requestId=<requestId of the answer>'`,
    "People use svc peers, svc send, svc inbox and svc reply for messages.",
  ];
}
