/**
 * Proof of possession (D-24): the text that is signed, the request headers, signing and verification. Different
 * requests have different texts, because a proof could otherwise be used for another request.
 */
import { type Bytes, sha256, utf8Bytes } from "./base64url.ts";
import { type CryptoKey, sign, verify } from "./ed25519.ts";

export const HEADERS = {
  authorization: "Authorization",
  timestamp: "X-Svc-Timestamp",
  nonce: "X-Svc-Nonce",
  bodySha256: "X-Svc-Body-SHA256",
  proof: "X-Svc-Proof",
  access: "X-Svc-Agent-Access",
  recipient: "X-Svc-Recipient-Agent-Did",
  conversationId: "X-Svc-Conversation-Id",
  inReplyTo: "X-Svc-In-Reply-To",
  auto: "X-Svc-Auto",
  requestId: "x-request-id",
  serviceId: "X-Svc-Service-Id",
  serviceSecret: "X-Svc-Service-Secret",
} as const;

/** Body hash of a request without a body. */
export const EMPTY_BODY_SHA256 = "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU";

const NONCE = /^[A-Za-z0-9_-]{16,128}$/;

/** Tells whether a text has the form of a nonce: 16 to 128 characters. The nonce is not decoded. */
export function isNonce(text: string): boolean {
  return NONCE.test(text);
}

export interface ProofFields {
  /** HTTP method, upper case. */
  method: string;
  /** Public origin of the service, for example `https://proxy.example`; never `ws:`. */
  origin: string;
  /** Path and query, as in the request line. */
  target: string;
  timestamp: string;
  nonce: string;
  bodySha256: string;
  /** The recipient header, or an empty text. */
  recipient: string;
  aitSha256: string;
}

/**
 * Returns the nine lines that are signed.
 *
 * @throws {TypeError} when a field contains a line feed, because two requests could then have the same signed text
 */
export function canonicalProof(fields: ProofFields): string {
  const { method, origin, target, timestamp, nonce, bodySha256, recipient, aitSha256 } = fields;
  const text = `SVC-PROOF-V1\n${method}\n${origin}\n${target}\n${timestamp}\n${nonce}\n${bodySha256}\n` +
    `${recipient}\n${aitSha256}`;
  let lines = 1;
  for (let at = text.indexOf("\n"); at !== -1; at = text.indexOf("\n", at + 1)) lines++;
  if (lines !== 9) throw new TypeError("Cannot build the proof: a field holds a line feed");
  return text;
}

/**
 * Tells whether `X-Svc-Proof` verifies with the key in the AIT's claim `cnf`.
 *
 * @throws {TypeError} when a field contains a line feed
 */
export function verifyProof(publicKey: CryptoKey, proof: string, fields: ProofFields): Promise<boolean> {
  return verify(publicKey, proof, utf8Bytes(canonicalProof(fields)));
}

export interface UnsignedRequest extends Pick<ProofFields, "method" | "origin" | "target"> {
  body?: Bytes;
  recipient?: string;
}

export interface ProofSigner {
  ait: string;
  privateKey: CryptoKey;
}

/**
 * Returns the headers that prove possession of the agent's key, including `Authorization`.
 *
 * @param nowSeconds Unix seconds
 * @throws {TypeError} when a field contains a line feed
 */
export async function proofHeaders(
  request: UnsignedRequest,
  signer: ProofSigner,
  nowSeconds: number,
  nonce: string,
): Promise<Record<string, string>> {
  const timestamp = String(nowSeconds);
  const bodySha256 = request.body ? await sha256(request.body) : EMPTY_BODY_SHA256;
  const recipient = request.recipient ?? "";
  const { method, origin, target } = request;
  const aitSha256 = await sha256(signer.ait);
  const text = canonicalProof({ method, origin, target, timestamp, nonce, bodySha256, recipient, aitSha256 });
  return {
    [HEADERS.authorization]: `Svc ${signer.ait}`,
    [HEADERS.timestamp]: timestamp,
    [HEADERS.nonce]: nonce,
    [HEADERS.bodySha256]: bodySha256,
    [HEADERS.proof]: await sign(signer.privateKey, utf8Bytes(text)),
    ...(recipient ? { [HEADERS.recipient]: recipient } : {}),
  };
}

/**
 * Returns the public origin of a URL, with `https` for `wss` and `http` for `ws`.
 *
 * @throws {TypeError} when the text is not a URL
 */
export function publicOrigin(url: string): string {
  return new URL(url.replace(/^ws(s?):/i, "http$1:")).origin;
}
