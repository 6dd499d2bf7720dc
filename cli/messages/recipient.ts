/** What a command needs to send a message when no connector runs: its recipient, and the sealed body. */
import type { ProxyCaller } from "../link/proxy_caller.ts";
import type { AgentFolder } from "../agents/agent_store.ts";
import { aliasesOf, findPeer, type Peers, peerUnknown, readPeers, sealKey } from "../connector/peers.ts";
import { sha256 } from "../../shared/protocol/base64url.ts";
import { CONNECTOR_LIMITS } from "../connector/limits.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import * as z from "zod";

export interface Recipient {
  did: string;
  /** The key to which its payload is sealed; `null` for a contact. */
  key: string | null;
  /** Origin of its home proxy, for a peer of another server. */
  proxy: string | undefined;
}

/**
 * Returns a peer, from a DID or an alias. Reads the peers from the proxy when the alias is unknown.
 *
 * @throws {import("../../shared/client/errors.ts").ApiError} `CONNECTOR_PEER_UNKNOWN`, as a connector answers
 * @throws {import("../errors.ts").CliError} `CLI_FILE_INVALID`: without the keys a message would leave unsealed
 */
export async function recipientOf(proxy: ProxyCaller, folder: AgentFolder, peer: string): Promise<Recipient> {
  const known = readPeers(folder);
  const did = findPeer(known, peer);
  if (did !== null) return withKey(known, did);
  const { updatePeers } = await import("../connector/peer_list.ts");
  const { known: listed } = await updatePeers(proxy, folder);
  const found = findPeer(listed, peer);
  if (found !== null) return withKey(listed, found);
  throw peerUnknown(peer);
}

function withKey(peers: Peers, did: string): Recipient {
  const peer = peers[aliasesOf(peers).get(did) ?? ""];
  return { did, key: sealKey(peer), proxy: peer?.proxy };
}

/**
 * The body of the newest message that a command sealed. Each seal is another text, so without it the same message under its
 * request ID, which is what a person sends when the answer was lost, would be refused as another one.
 */
const FILE = "last_sealed.json";
/** The largest sealed body and its head fit. */
const MAX_BYTES = 300 * 1024;

const LastSealed = z.object({
  /** Digest of what the body was made of. */
  of: z.string(),
  /** Milliseconds since the Unix epoch. */
  at: z.number(),
  body: z.string(),
});

/**
 * Returns the sealed body of a message: of the same message within a day the same one, else that of `seal`.
 *
 * @param parts what the body depends on
 */
export async function sealedOnce(
  { clock }: Pick<Context, "clock">,
  folder: AgentFolder,
  parts: readonly string[],
  seal: () => Promise<string>,
): Promise<string> {
  const of = await sha256(JSON.stringify(parts)), now = clock.now();
  const last = read(folder);
  // The proxy takes the ID for a new message after a day. A time ahead is of a clock that was set back.
  if (last?.of === of && last.at <= now && now < last.at + CONNECTOR_LIMITS.seenKeptMs) return last.body;
  const body = await seal();
  try {
    await folder.writeJson(FILE, { of, at: now, body }, MAX_BYTES);
  } catch (error) {
    // A folder that is read only, or a full disk, must not keep a message back: only its repeat is refused then.
    if (!(error instanceof CliError)) throw error;
  }
  return body;
}

/** A file that cannot be read is like none: the message is then sealed again. */
function read(folder: AgentFolder): z.infer<typeof LastSealed> | null {
  try {
    return LastSealed.safeParse(JSON.parse(folder.read(FILE, MAX_BYTES) ?? "null")).data ?? null;
  } catch (error) {
    if (error instanceof CliError || error instanceof SyntaxError) return null;
    throw error;
  }
}
