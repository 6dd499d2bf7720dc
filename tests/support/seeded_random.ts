/** Random bytes from a seed (xorshift32), for tests only. */
import type { Random } from "../../shared/random.ts";

export function seededRandom(seed = 1): Random {
  let state = seed >>> 0 || 1;
  const next = () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state >>> 0;
  };
  return { bytes: (n) => Uint8Array.from({ length: n }, () => next() >>> 24) };
}
