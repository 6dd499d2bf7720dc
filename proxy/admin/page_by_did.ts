/** Pages of a list by DID, with a bound on the records that one page reads (D-173, D-215). */
import { LIMITS } from "../../shared/protocol/limits.ts";

/** Most records that are read together. */
const BATCH = 100;

/** A page, and where the next one begins. */
export interface DidPage<T> {
  items: T[];
  /** DID of the last record that was read; `null` on the last page. */
  nextCursor: string | null;
}

/**
 * Returns one page of the records below a prefix whose last key part is a DID.
 *
 * @param itemsOf returns the item of each record, in their order; `null` for a record that is not listed
 */
export async function pageByDid<V, T>(
  kv: Deno.Kv,
  prefix: Deno.KvKey,
  { limit, cursor }: { limit: number; cursor?: string | undefined },
  itemsOf: (entries: readonly Deno.KvEntry<V>[]) => Promise<(T | null)[]>,
): Promise<DidPage<T>> {
  const items: T[] = [];
  let last = cursor ?? null;
  for (let read = 0;;) {
    // One more than needed: it shows that another page follows.
    const size = Math.min(BATCH, LIMITS.filteredPageReads - read) + 1;
    // A DID continues with no character below "\u0001".
    const selector = last === null ? { prefix } : { prefix, start: [...prefix, `${last}\u0001`] };
    const entries = await Array.fromAsync(kv.list<V>(selector, { limit: size, batchSize: size }));
    const found = await itemsOf(entries);
    for (const [i, { key }] of entries.entries()) {
      if (items.length === limit || read === LIMITS.filteredPageReads) return { items, nextCursor: last };
      const item = found[i] ?? null;
      if (item !== null) items.push(item);
      last = String(key.at(-1));
      read++;
    }
    if (entries.length < size) return { items, nextCursor: null };
  }
}
