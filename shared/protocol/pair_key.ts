/**
 * The proof of a key while two agents pair (D-146): a MAC with the pair secret of the ticket, which no server sees. It
 * covers role, DID and names, because a relay could otherwise send it back, use it for another agent, or change the
 * name that becomes an alias.
 */
import type { PairingProfile, PairKey } from "./api/pairing.ts";
import { type Bytes, fromBase64Url, toBase64Url, utf8Bytes } from "./base64url.ts";
import { isPublicKey } from "./ed25519.ts";

export interface PairSide {
  role: "initiator" | "responder";
  did: string;
  /** Each name is a single line, because a line feed separates the values that the MAC covers. */
  profile: PairingProfile;
}

/** Returns the proof of a side's key. `pairSecret` is the second field of the ticket. */
export async function provePairKey(pairSecret: string, side: PairSide, publicKey: string): Promise<PairKey> {
  const mac = await crypto.subtle.sign("HMAC", await macKey(pairSecret), proven(side, publicKey));
  return { publicKey, mac: toBase64Url(new Uint8Array(mac)) };
}

/** Tells whether the side knows the pair secret and named this key. */
export async function provesPairKey(pairSecret: string, side: PairSide, { publicKey, mac }: PairKey): Promise<boolean> {
  const bytes = fromBase64Url(mac);
  if (bytes === null || !isPublicKey(publicKey)) return false;
  return await crypto.subtle.verify("HMAC", await macKey(pairSecret), bytes, proven(side, publicKey));
}

function proven({ role, did, profile: { agentName, humanName } }: PairSide, publicKey: string): Bytes {
  return utf8Bytes(["SVC-PAIR-V1", role, did, publicKey, agentName, humanName].join("\n"));
}

async function macKey(pairSecret: string): Promise<CryptoKey> {
  const bytes = fromBase64Url(pairSecret);
  if (bytes === null) throw new TypeError("The pair secret is not base64url");
  return await crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["sign", "verify"]);
}
