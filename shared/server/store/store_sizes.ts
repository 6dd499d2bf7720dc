/**
 * Sizes of a store (D-210): how many records each kind of key has, and how many bytes they take. Reads every record once
 * and keeps one row for each kind.
 */
import { keyBytes, valueBytes } from "./store_arguments.ts";

/** Records of one kind: the first two parts of their keys. */
export interface KindSize {
  kind: string;
  records: number;
  /** Keys and values as they are stored; without the store's own indexes and free pages. */
  bytes: number;
}

/** Sizes of every kind, largest first; `seen` is called with each record. */
export async function sizesOf(
  kv: Deno.Kv,
  seen: (entry: Deno.KvEntry<unknown>) => void | Promise<void> = () => {},
): Promise<KindSize[]> {
  const sizes = new Map<string, KindSize>();
  for await (const entry of kv.list({ prefix: [] }, { batchSize: 200 })) {
    const { key, value } = entry;
    const kind = key.slice(0, 2).map(String).join(" ");
    const size = sizes.get(kind) ?? { kind, records: 0, bytes: 0 };
    size.records++;
    size.bytes += keyBytes(key) + valueBytes(value);
    sizes.set(kind, size);
    await seen(entry);
  }
  return [...sizes.values()].sort((a, b) => b.bytes - a.bytes);
}
