/**
 * `a2a.json`: the peers that local A2A clients can reach (D-135), each with the hash of its token. A token opens one
 * peer and nothing else. The connector reads the file for each request, so a change needs no restart.
 */
import { hash, timingSafeEqual } from "node:crypto";
import * as z from "zod";
import { toBase64Url } from "../../../shared/protocol/base64url.ts";
import { isAgentDid } from "../../../shared/protocol/did.ts";
import type { AgentFolder } from "../../agents/agent_store.ts";
import { CliError } from "../../errors.ts";

/** Peers with an A2A address. With more, the file that each request of a client reads would be slow to read. */
const MAX_PEERS = 100;

const A2A_FILE = "a2a.json";

const A2aPeer = z.object({
  alias: z.string(),
  did: z.string().refine(isAgentDid),
  /** SHA-256 of the token, base64url. */
  tokenHash: z.string(),
  addedAt: z.iso.datetime(),
});
const A2aFile = z.object({ peers: z.array(A2aPeer).max(MAX_PEERS) });

export type A2aPeer = z.infer<typeof A2aPeer>;

/** @throws {CliError} `CLI_FILE_INVALID` */
export function readA2aPeers(folder: AgentFolder): A2aPeer[] {
  return folder.readJson(A2A_FILE, A2aFile, { hint: "; remove it and add the peers again" })?.peers ?? [];
}

/** Writes the peers. Without the agent's lock, a change of another command is lost. @throws {CliError} `CLI_USAGE` */
export async function writeA2aPeers(folder: AgentFolder, peers: readonly A2aPeer[]): Promise<void> {
  if (peers.length > MAX_PEERS) {
    throw new CliError("CLI_USAGE", `There are ${MAX_PEERS} peers with an A2A address already: remove one`);
  }
  await folder.writeJson(A2A_FILE, { peers });
}

export function peerTokenHash(token: string): string {
  return toBase64Url(hash("sha256", token, "buffer"));
}

/** Compares two texts in constant time, by their digests, because `timingSafeEqual` needs values of one length. */
export function isSameSecret(given: string, known: string): boolean {
  return timingSafeEqual(hash("sha256", given, "buffer"), hash("sha256", known, "buffer"));
}

export function a2aPath(alias: string): string {
  return `/a2a/${alias}`;
}
