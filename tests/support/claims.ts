/** Claims that tests of group commit make. */
import type { RecordChange, Update } from "../../shared/server/store/batch.ts";

export const KEPT_MS = 3_600_000;

/** A record that was read before the claim. */
export type Seen = Deno.KvEntryMaybe<unknown>;

/** Adds to a counter; refuses above `limit`. */
export function add(key: string, n = 1, limit = Infinity, seen?: Seen): Update<"full"> {
  return {
    key: [key],
    ...(seen ? { seen } : {}),
    next(current) {
      const sum = (current as number ?? 0) + n;
      return sum > limit ? { refuse: "full" } : { value: sum, expireInMs: KEPT_MS };
    },
  };
}

/** Takes a single-use record. */
export function once(key: string, taker: string, seen?: Seen): Update<"taken"> {
  return {
    key: [key],
    ...(seen ? { seen } : {}),
    next: (current) => current === null ? { value: taker, expireInMs: KEPT_MS } : { refuse: "taken" },
  };
}

/** Appends a number to a list; refuses when the list has `limit` entries. */
export function append(key: string, n: number, limit = Infinity): Update<"full"> {
  return {
    key: [key],
    next: (current): RecordChange<"full"> => {
      const list = current as number[] ?? [];
      return list.length >= limit ? { refuse: "full" } : { value: [...list, n], expireInMs: KEPT_MS };
    },
  };
}
