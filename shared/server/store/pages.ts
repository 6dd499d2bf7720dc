/** Pages of a list. Each read has a bound, because a list of 50,000 entries would take seconds and 190 MB. */
import type { Kv, KvEntry, KvKey, KvListSelector } from "../kv.ts";
import { LIMITS } from "../../protocol/limits.ts";

export interface Page<T> {
  items: T[];
  /** `null` on the last page. */
  nextCursor: string | null;
}

type Picker<V, T> = (entries: readonly KvEntry<V>[]) => readonly (T | null)[] | Promise<readonly (T | null)[]>;

/** Records that are read and picked together. With more, a page reads far more than it shows. */
const READ_AT_ONCE = 100;

/**
 * Reads a page of the records that `pick` returns for a list of entries (default: all of them); it returns `null` for
 * an entry that does not fit. At most `most` entries are read (default: 1,000), because a search for rare entries would
 * otherwise read the whole list. A page that ends there may be short, and its cursor is the last entry that was read.
 */
export async function readPage<V, T = V>(
  kv: Kv,
  selector: KvListSelector,
  { limit, reverse = true, most = LIMITS.filteredPageReads }: { limit: number; reverse?: boolean; most?: number },
  pick: Picker<V, T> = (entries) => entries.map(({ value }) => value as unknown as T),
): Promise<Page<T>> {
  const items: T[] = [];
  let read = 0, last = "", lastItem = "", waiting: KvEntry<V>[] = [];
  /** Adds what fits. Returns true once there is one more than the page can hold. */
  const add = async (): Promise<boolean> => {
    const entries = waiting;
    waiting = [];
    for (const [i, item] of (await pick(entries)).entries()) {
      if (item === null) continue;
      if (items.length === limit) return true;
      items.push(item);
      lastItem = String(entries[i]?.key.at(-1));
    }
    return false;
  };
  for await (const entry of kv.list<V>(selector, { reverse, limit: most, batchSize: READ_AT_ONCE })) {
    waiting.push(entry);
    last = String(entry.key.at(-1));
    read++;
    // Without a filter, the first `limit + 1` entries fill a page and show whether another page follows.
    if (waiting.length < (read <= limit + 1 ? limit + 1 : READ_AT_ONCE)) continue;
    if (await add()) return { items, nextCursor: lastItem };
  }
  if (await add()) return { items, nextCursor: lastItem };
  return { items, nextCursor: read === most ? last : null };
}

/** Selects what is older than the cursor. */
export function belowCursor(prefix: KvKey, cursor: string | undefined): KvListSelector {
  return cursor === undefined ? { prefix } : { prefix, end: [...prefix, cursor] };
}

/** Selects what follows the cursor. */
export function aboveCursor(prefix: KvKey, cursor: string | undefined): KvListSelector {
  return cursor === undefined ? { prefix } : { prefix, start: [...prefix, afterCursor(cursor)] };
}

/** Returns the smallest key part after a cursor. */
export function afterCursor(cursor: string): string {
  return `${cursor}\0`;
}
