/** Random bytes and numbers from a seed, for tests only. */
import type { Random } from "../../shared/random.ts";

/** Returns bytes (xorshift32). */
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

/** Returns numbers from 0 up to 1 (mulberry32). */
export function numbersFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6D2B79F5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}
