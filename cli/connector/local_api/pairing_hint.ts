/**
 * Help for pairing (D-87): `curl` commands for a running connector, and a pairing ticket as text and as a QR code.
 */
import { join } from "node:path";
import type { AgentFolder } from "../../agents/agent_store.ts";
import { CURL_FILE } from "./discovery_file.ts";

/** Commands for a running connector. */
export function pairingLines(folder: Pick<AgentFolder, "path">, url: string): string[] {
  const curl = `curl -K ${shellQuote(join(folder.path, CURL_FILE))}`;
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

/** The hint that a connector prints on a terminal when it starts. */
export function pairingHint(folder: Pick<AgentFolder, "name">, hasKeys: boolean): string[] {
  const programs = `svc connector ${folder.name} prints the requests of the local API.`;
  return hasKeys
    ? [
      "          Keys: p pairs with another agent, l lists the peers, u shows unread messages, ? helps, q stops.",
      `          For programs: ${programs}`,
    ]
    : [`          To pair with another agent: ${programs}`];
}

/** A ticket as lines for a terminal. */
export async function ticketLines(ticket: string, until: string): Promise<string[]> {
  return ["", `Pass this ticket on; it works once, until ${until}:`, "", ticket, "", ...await picture(ticket), ""];
}

/** The ticket as a QR code; empty without the library. */
async function picture(ticket: string): Promise<string[]> {
  try {
    const { renderUnicodeCompact } = await import("uqr");
    return String(renderUnicodeCompact(ticket, { border: 2 })).split("\n");
  } catch {
    return [];
  }
}

/** Any text, quoted as one word of a shell. */
export function shellQuote(text: string): string {
  return /^[A-Za-z0-9_.\/:@%+,=-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
