/**
 * Pages of a list (D-215): newest first, one page a request. Pure paging; knows no record.
 */

/** What a page is asked for with; `cursor` is the `nextCursor` of the page before. */
export interface PageQuery {
  limit: number;
  cursor?: string | undefined;
}

export interface Page<T> {
  items: T[];
  /** `null` on the last page. */
  nextCursor: string | null;
}

/** Reads the values below a prefix whose last key part is a ULID. Reads at most one record more than the page has. */
export async function readPage<T>(
  kv: Deno.Kv,
  prefix: Deno.KvKey,
  { limit, cursor }: PageQuery,
): Promise<Page<T>> {
  const entries = await Array.fromAsync(kv.list<T>(belowCursor(prefix, cursor), { reverse: true, limit: limit + 1 }));
  const items = entries.slice(0, limit);
  const nextCursor = entries.length > limit ? String(items.at(-1)?.key.at(-1)) : null;
  return { items: items.map(({ value }) => value), nextCursor };
}

/** Selects what is older than the cursor. */
export function belowCursor(prefix: Deno.KvKey, cursor: string | undefined): Deno.KvListSelector {
  return cursor === undefined ? { prefix } : { prefix, end: [...prefix, cursor] };
}
