/** Tokens with any content, for tests that show which of them are refused. */
import { toBase64Url, utf8Bytes } from "../../shared/protocol/base64url.ts";
import { sign } from "../../shared/protocol/ed25519.ts";

/** Values of `alg` that no token may have, although the registry signed it. */
export const WRONG_ALGS: readonly unknown[] = [
  "none",
  "None",
  "NONE",
  "nOnE",
  "HS256",
  "HS512",
  "RS256",
  "ES256",
  "ES256K",
  "PS256",
  "Ed25519",
  "EdDsa",
  "",
  1,
  null,
  ["EdDSA"],
];

/** A signed token with any header and payload: text is used unchanged, any other value as JSON. */
export async function signedToken(header: unknown, payload: unknown, key: CryptoKey): Promise<string> {
  const part = (value: unknown) => toBase64Url(utf8Bytes(typeof value === "string" ? value : JSON.stringify(value)));
  const signed = `${part(header)}.${part(payload)}`;
  return `${signed}.${await sign(key, utf8Bytes(signed))}`;
}
