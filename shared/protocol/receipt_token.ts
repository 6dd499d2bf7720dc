/**
 * A receipt that the recipient of a message signs with its own key (D-154), so that the sender need not believe the
 * proxy. It says "my runtime answered 2xx for this body" or "I gave it up", not that a person has read the message.
 */
import * as z from "zod";
import { ReceiptStatus } from "./api/receipts.ts";
import { fromBase64Url } from "./base64url.ts";
import { isAgentDid } from "./did.ts";
import { type CryptoKey, importPublicKey, isPublicKey } from "./ed25519.ts";
import { isRequestId, isUlid } from "./ids.ts";
import { LIMITS } from "./limits.ts";
import { isNonce } from "./proof.ts";
import { claimsIn, parseJws, signJws, TokenError, unixTime, type UnverifiedJws, verifyJws } from "./signed/jws.ts";

const TYPE = "svc-receipt+jwt";

const Sha256 = z.string().refine((text) => fromBase64Url(text)?.length === 32);

/** Claims of a signed receipt. No others are accepted. */
export type ReceiptClaims = z.output<typeof ReceiptClaims>;
const ReceiptClaims = z.strictObject({
  /** DID of the recipient of the message, who signs the receipt. */
  iss: z.string().refine(isAgentDid),
  /** DID of the sender of the message. */
  sub: z.string().refine(isAgentDid),
  jti: z.string().refine(isUlid),
  /** When the message was processed or given up, Unix seconds. */
  iat: unixTime,
  requestId: z.string().refine(isRequestId),
  /** Nonce of the proof with which the sender sent the message. */
  nonce: z.string().refine(isNonce),
  /** Hash of the request body that was sent. */
  bodySha256: Sha256,
  status: ReceiptStatus,
  conversationId: z.string().min(1).max(128).optional(),
  /** For a sealed message: hash of salt and payload. Without the salt, the relay could guess a short payload. */
  payloadSha256: Sha256.optional(),
});

/** Returns a signed receipt as a compact JWS. The same claims give the same text. @param key of the recipient */
export function signReceipt(
  claims: ReceiptClaims,
  { publicKey, privateKey }: { publicKey: string; privateKey: CryptoKey },
): Promise<string> {
  return signJws(TYPE, claims, { kid: publicKey, privateKey });
}

/**
 * Returns the parts of a signed receipt without verifying it. `kid` is the key of the agent that should have signed.
 *
 * @throws {TokenError} `malformed` or `header`
 */
export function parseReceipt(token: string): UnverifiedJws {
  const jws = parseJws(token, TYPE, LIMITS.receiptTokenBytes);
  if (!isPublicKey(jws.kid)) throw new TokenError("header", "The header's kid is not a public key");
  return jws;
}

/**
 * Verifies the signature with the key that the receipt names, and returns the claims. The caller must compare that key
 * with the key of the recipient, because any key verifies its own receipt.
 *
 * @throws {TokenError} `signature` or `claims`
 */
export async function verifyReceipt(jws: UnverifiedJws): Promise<ReceiptClaims> {
  await verifyJws(jws, await importPublicKey(jws.kid));
  return claimsIn(jws, ReceiptClaims, "a receipt");
}
