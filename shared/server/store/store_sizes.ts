/**
 * Sizes of a store (D-210): number and bytes of the records of each kind. Reads every record once.
 */
import { keyBytes, valueBytes } from "./store_arguments.ts";

/** Size of one kind: the records with the same first two key parts. */
export interface KindSize {
  kind: string;
  records: number;
  /** Stored keys and values, without indexes and free pages of the store. */
  bytes: number;
}

/** Returns the sizes of every kind, largest first. Calls `seen` with each record. */
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
