/** Returns the entries of a rate-limit window as a list. */
import type { Entries } from "../../shared/server/rate_limit.ts";

export function entriesOf(window: Entries): [at: number, count: number][] {
  return Array.from({ length: window.length }, (_, i) => [window.timeOf(i), window.countOf(i)]);
}
