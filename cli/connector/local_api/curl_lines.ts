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
  return curlWords(folder, `${url}/v1/pair/${action}`, JSON.stringify(body)).join(" ");
}

function curlWords({ path }: Pick<AgentFolder, "path">, address: string, body?: string): string[] {
  return ["curl", "-K", join(path, CURL_FILE), address, ...body === undefined ? [] : ["-d", body]].map(shellWord);
}

/** What a program may want, each with the words of a command for a shell. */
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
