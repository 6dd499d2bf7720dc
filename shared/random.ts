/** The source of randomness. Other code takes a `Random` as a parameter, because tests must be able to repeat it. */
import type { Bytes } from "./protocol/base64url.ts";

export interface Random {
  bytes(n: number): Bytes;
}

export const systemRandom: Random = {
  bytes: (n) => crypto.getRandomValues(new Uint8Array(n)),
};

/** Returns a number from 0 up to, but not including, 1. It is for jitter, not for secrets. */
export function fraction(random: Random): number {
  const [a = 0, b = 0, c = 0, d = 0] = random.bytes(4);
  return (((a * 256 + b) * 256 + c) * 256 + d) / 2 ** 32;
}
