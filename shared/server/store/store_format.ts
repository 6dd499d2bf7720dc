/**
 * The format of the store (D-99): a number in the store itself, so that a version never works on records that a newer one has
 * laid out. Read together with what else a start needs; knows none of the records.
 */
import { LIMITS } from "../../protocol/limits.ts";
import { StoreRefused } from "./open_store.ts";
import { StoreUnavailable } from "./store_errors.ts";

/** Format of the records that this version writes, in the store and in an export; raised when an older one cannot read them. */
export const STORE_FORMAT = 1;

const KEY: Deno.KvKey = ["store", "format"];
/** Stands in the format's place while an import is under way. */
const HALF = "half imported";

/**
 * Reads records at the start, in one call with the format; a store that has none yet gets this version's.
 *
 * @param keys nine at most
 * @throws {StoreRefused} when the store was written by a newer version, or an import did not come to its end
 */
export async function readWithFormatCheck<T extends readonly unknown[]>(
  kv: Deno.Kv,
  keys: readonly [...{ [K in keyof T]: Deno.KvKey }],
): Promise<{ [K in keyof T]: Deno.KvEntryMaybe<T[K]> }> {
  for (let tries = 1; tries <= LIMITS.commitRetries; tries++) {
    const [format, ...entries] = await kv.getMany<unknown[]>([KEY, ...keys]);
    const value = format?.value ?? null;
    if (value === HALF) {
      throw new StoreRefused("An import into this store did not come to its end. Remove the store and import again.");
    }
    if (value !== null && value !== STORE_FORMAT) {
      throw new StoreRefused(
        `The store is of format ${value}, and this version of svc reads format ${STORE_FORMAT}. ` +
          `Start the version that wrote it, or a newer one.`,
      );
    }
    const isMarked = value !== null ||
      (await kv.atomic().check({ key: KEY, versionstamp: null }).set(KEY, STORE_FORMAT).commit()).ok;
    if (isMarked) return entries as { [K in keyof T]: Deno.KvEntryMaybe<T[K]> };
  }
  throw new StoreUnavailable(new Error("The store's format stayed contended"));
}

/** Keeps everybody off the store until `importEnded()`. */
export async function importBegins(kv: Deno.Kv): Promise<void> {
  await kv.set(KEY, HALF);
}

/** The store is whole. */
export async function importEnded(kv: Deno.Kv): Promise<void> {
  await kv.set(KEY, STORE_FORMAT);
}
