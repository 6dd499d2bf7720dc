/**
 * The only source of entropy. Everything else gets a `Random` handed in.
 */
import type { Bytes } from "./protocol/base64url.ts";

/** Entropy as the services see it. */
export interface Random {
  /** `n` random bytes. */
  bytes(n: number): Bytes;
}

/** The platform's cryptographic generator. */
export const systemRandom: Random = {
  bytes: (n) => crypto.getRandomValues(new Uint8Array(n)),
};

/** A number from 0 up to, not including, 1; for jitter, not for secrets. */
export function fraction(random: Random): number {
  const [a = 0, b = 0, c = 0, d = 0] = random.bytes(4);
  return (((a * 256 + b) * 256 + c) * 256 + d) / 2 ** 32;
}
