/** Bearer secrets (D-08), stored only as SHA-256 and never logged, because a stolen backup or log would reveal them. */
import { fromBase64Url, toBase64Url } from "./base64url.ts";

export const SECRET_KINDS = {
  pat: { prefix: "svc_pat_", bytes: 32 },
  access: { prefix: "svc_agt_", bytes: 32 },
  refresh: { prefix: "svc_rft_", bytes: 32 },
  service: { prefix: "svc_srv_", bytes: 32 },
  invite: { prefix: "svc_inv_", bytes: 24 },
} as const;

export type SecretKind = keyof typeof SECRET_KINDS;

/** Returns a new secret. `bytes(n)` returns `n` random bytes. */
export function makeSecret(kind: SecretKind, bytes: (n: number) => Uint8Array): string {
  const { prefix, bytes: length } = SECRET_KINDS[kind];
  return prefix + toBase64Url(bytes(length));
}

/** Tells whether a text has the form of this kind, not whether the secret exists. */
export function isSecret(kind: SecretKind, text: string): boolean {
  const { prefix, bytes } = SECRET_KINDS[kind];
  return text.startsWith(prefix) && fromBase64Url(text.slice(prefix.length))?.length === bytes;
}

/** Returns the part of a secret that may be shown: its prefix and four characters. */
export function maskSecret(secret: string): string {
  const kind = Object.values(SECRET_KINDS).find(({ prefix }) => secret.startsWith(prefix));
  return kind ? `${secret.slice(0, kind.prefix.length + 4)}…` : "…";
}
