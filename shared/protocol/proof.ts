/**
 * Proof of possession (D-24): the canonical string, the request headers, signing and verifying.
 * The same string comes from one request only, so what was signed is what was sent.
 */
import { type Bytes, sha256, utf8Bytes } from "./base64url.ts";
import { sign, verify } from "./ed25519.ts";

/** Names of the request headers, as they are sent (D-13). */
export const HEADERS = {
  authorization: "Authorization",
  timestamp: "X-Svc-Timestamp",
  nonce: "X-Svc-Nonce",
  bodySha256: "X-Svc-Body-SHA256",
  proof: "X-Svc-Proof",
  access: "X-Svc-Agent-Access",
  recipient: "X-Svc-Recipient-Agent-Did",
  conversationId: "X-Svc-Conversation-Id",
  requestId: "x-request-id",
  serviceId: "X-Svc-Service-Id",
  serviceSecret: "X-Svc-Service-Secret",
} as const;

/** Body hash of a request without a body. */
export const EMPTY_BODY_SHA256 = "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU";

const NONCE = /^[A-Za-z0-9_-]{16,128}$/;

/** True for a nonce (D-25). It is matched, not decoded. */
export function isNonce(text: string): boolean {
  return NONCE.test(text);
}

/** What is signed, field by field. */
export interface ProofFields {
  /** HTTP method, upper case. */
  method: string;
  /** The service's public origin, for instance `https://proxy.example`; never with `ws:`. */
  origin: string;
  /** Path and query as in the request line. */
  target: string;
  /** Unix seconds, as in the header. */
  timestamp: string;
  /** Nonce of the request, as in the header. */
  nonce: string;
  /** base64url. */
  bodySha256: string;
  /** The recipient header as sent, or empty. */
  recipient: string;
  /** base64url SHA-256 of the AIT. */
  aitSha256: string;
}

/**
 * The nine lines that are signed.
 *
 * @throws {TypeError} when a field holds a line feed: two requests could then share a string
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

/** Verifies `X-Svc-Proof` with the key of the AIT's `cnf` claim. */
export function verifyProof(publicKey: CryptoKey, proof: string, fields: ProofFields): Promise<boolean> {
  return verify(publicKey, proof, utf8Bytes(canonicalProof(fields)));
}

/** A request that is to be signed. */
export interface UnsignedRequest {
  /** HTTP method, upper case. */
  method: string;
  /** Public origin of the service it is for. */
  origin: string;
  /** Path and query, exactly as they will stand in the request line. */
  target: string;
  /** Raw body; leave out for none. */
  body?: Bytes;
  /** DID of the recipient; leave out for none. */
  recipient?: string;
}

/** What an agent signs with. */
export interface ProofSigner {
  /** Identity token of the agent. */
  ait: string;
  /** Private key of the agent. */
  privateKey: CryptoKey;
}

/** The headers that prove possession of the agent's key; `Authorization` among them. */
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

/** The public origin of an address; `https` and `http` stand in for `wss` and `ws`. */
export function publicOrigin(url: string): string {
  return new URL(url.replace(/^ws(s?):/i, "http$1:")).origin;
}
