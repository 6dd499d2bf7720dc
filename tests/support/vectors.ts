/**
 * Loads the vector files: frozen examples of everything that is signed or parsed, each with its stated result. The
 * project's own are in `tests/vectors`. Third-party ones are read from the folder next to the project, if it exists.
 */
import type { SenderIdentity } from "../../shared/protocol/identity_block.ts";
import type { PairSide } from "../../shared/protocol/pair_key.ts";
import type { ReceiptClaims } from "../../shared/protocol/receipt_token.ts";
import type { RegistrationFields } from "../../shared/protocol/registration.ts";
import type { AitClaims } from "../../shared/protocol/signed/ait.ts";
import type { AdminTokenClaims, VisitTokenClaims } from "../../shared/protocol/signed/short_token.ts";

/** One published key, as in a key document. */
interface PublishedKeyVector {
  kid: string;
  kty: "OKP";
  crv: "Ed25519";
  alg: "EdDSA";
  use: "sig";
  x: string;
  status: "active" | "retired";
}

/** A key pair: base64url of the seed and of the public key. */
interface KeyPairVector {
  seed: string;
  x: string;
}

/** What must be refused, and why: a code of the reader, or a sentence. */
type Refused<Vector> = Vector & { reason: string };

interface TokenVector {
  name: string;
  token: string;
}

/** Tokens checked at `now` with `keys` for `issuer`. */
interface TokenVectors<Valid extends TokenVector> {
  issuer: string;
  /** Unix seconds. */
  now: number;
  keys: { keys: PublishedKeyVector[] };
  valid: Valid[];
  invalid: Refused<TokenVector>[];
}

/** A signed request. */
interface SignedRequestVector {
  method: string;
  origin: string;
  path: string;
  timestamp: string;
  nonce: string;
  body: string;
  bodySha256: string;
  recipient: string | null;
  ait: string;
}

/** The code that proves a key. */
interface PairingVector {
  name: string;
  secret: string;
  side: PairSide;
  publicKey: string;
  mac: string;
}

/** Tokens for one audience. */
type ShortTokenVectors<Claims> = TokenVectors<TokenVector & { claims: Claims }> & { audience: string };

/** The vector files by name. */
interface VectorFiles {
  "admin-token": ShortTokenVectors<AdminTokenClaims>;
  "visit-token": ShortTokenVectors<VisitTokenClaims>;
  ait: TokenVectors<TokenVector & { claims: AitClaims }>;
  pairing: { valid: PairingVector[]; invalid: Refused<PairingVector>[] };
  /** Headers of messages, as pairs of name and value. */
  context: {
    valid: { name: string; headers: [string, string][]; context: string; target: string }[];
    invalid: Refused<{ name: string; headers: [string, string][] }>[];
  };
  crl: TokenVectors<TokenVector>;
  frames: {
    valid: { name: string; from: "proxy" | "connector"; text: string; payload?: string }[];
    invalid: Refused<{ name: string; from: "proxy" | "connector"; text: string }>[];
  };
  "identity-block": {
    valid: {
      name: string;
      message: string;
      expected: string;
      identity: SenderIdentity;
    }[];
  };
  "join-link": {
    valid: { link: string; registryUrl: string; code: string; ticketFields?: string }[];
    invalid: Refused<{ name: string; link: string }>[];
  };
  proof: {
    agentKey: KeyPairVector;
    keys: { keys: PublishedKeyVector[] };
    ait: string;
    claims: AitClaims;
    valid: { name: string; request: SignedRequestVector; canonical: string; proof: string }[];
    invalid: Refused<{ name: string; request: SignedRequestVector; proof: string }>[];
  };
  receipt: {
    /** The recipient, which signs. */
    agentKey: KeyPairVector;
    keys: { keys: PublishedKeyVector[] };
    ait: string;
    valid: {
      name: string;
      token: string;
      claims: ReceiptClaims;
      /** The request body that was sent, and the payload in it. */
      body: string;
      payload: string;
      /** Of a sealed message. */
      salt: string | null;
    }[];
    invalid: Refused<{ name: string; token: string }>[];
  };
  registration: {
    agentKey: KeyPairVector;
    valid: { name: string; input: RegistrationFields; message: string; signature: string }[];
    invalid: Refused<{ name: string; input: RegistrationFields; signature: string }>[];
  };
  seal: {
    keys: { seed: string; publicKey: string; x25519Private: string; x25519Public: string }[];
    /** Bytes of salt, length and payload, and of the plaintext with its padding. */
    padded: [bytes: number, padded: number][];
    recipient: { seed: string; publicKey: string };
    binding: { from: string; to: string; context: string };
    valid: { name: string; body: string; payload: string; salt: string; payloadSha256: string }[];
    invalid: Refused<{ name: string; body: string }>[];
    /** Hexadecimal. */
    rfc9180: Record<"info" | "enc" | "privateKey" | "publicKey" | "aad" | "ct" | "plain", string>;
  };
  ticket: {
    valid: { ticket: string; plain: string; pairSecret: string | null; authority: string; origin: string }[];
    pasted: string[];
    invalid: Refused<{ name: string; ticket: string }>[];
  };
}

/** Third-party files by name. All bytes are hexadecimal. */
interface SharedVectorFiles {
  "wycheproof-ed25519": {
    numberOfTests: number;
    testGroups: {
      publicKey: { pk: string };
      tests: { tcId: number; comment: string; msg: string; sig: string; result: "valid" | "invalid" }[];
    }[];
  };
  rfc8032: { priv: string; pub: string; msg: string; sig: string }[];
}

/** Loads one of the project's vector files. */
export function vectors<Name extends keyof VectorFiles>(name: Name): VectorFiles[Name] {
  return JSON.parse(Deno.readTextFileSync(new URL(`../vectors/${name}.json`, import.meta.url)));
}

/** Loads a third-party vector file; `null` when it is missing, so that its tests are skipped and counted. Prints one line then. */
export function sharedVectors<Name extends keyof SharedVectorFiles>(name: Name): SharedVectorFiles[Name] | null {
  const file = new URL(`../../../shared/vectors/${name}.json`, import.meta.url);
  try {
    return JSON.parse(Deno.readTextFileSync(file));
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    console.log(`${name}.json was not found at ../shared/vectors: these vectors are not checked`);
    return null;
  }
}
