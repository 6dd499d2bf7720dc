/**
 * The format of the store (D-99): a number in the store, so that a version never uses records of a newer format. It is
 * read together with the records that a start needs.
 */
import { LIMITS } from "../../protocol/limits.ts";
import { StoreRefused } from "./open_store.ts";
import { StoreUnavailable } from "./store_errors.ts";

/** Format of the records in the store and in exports. Raised when an older version cannot read them. */
export const STORE_FORMAT = 1;

const KEY: Deno.KvKey = ["store", "format"];
/** Value of the format during an import. */
const HALF = "half imported";

/**
 * Returns records that a start needs, read in one call with the format. An empty store gets the format of this version.
 *
 * @param keys at most nine
 * @throws {StoreRefused} when the store has another format or an incomplete import
 * @throws {StoreUnavailable} when the format cannot be written
 */
export async function readWithFormatCheck<T extends readonly unknown[]>(
  kv: Deno.Kv,
  keys: readonly [...{ [K in keyof T]: Deno.KvKey }],
): Promise<{ [K in keyof T]: Deno.KvEntryMaybe<T[K]> }> {
  for (let tries = 1; tries <= LIMITS.commitRetries; tries++) {
    const [format, ...entries] = await kv.getMany<unknown[]>([KEY, ...keys]);
    const value = format?.value ?? null;
    if (value === HALF) {
      throw new StoreRefused("An import into this store was not completed. Remove the store and import again.");
    }
    if (value !== null && value !== STORE_FORMAT) {
      throw new StoreRefused(
        `The store has format ${value}, and this version of svc reads format ${STORE_FORMAT}. ` +
          `Start the version that wrote it, or a newer one.`,
      );
    }
    const isMarked = value !== null ||
      (await kv.atomic().check({ key: KEY, versionstamp: null }).set(KEY, STORE_FORMAT).commit()).ok;
    if (isMarked) return entries as { [K in keyof T]: Deno.KvEntryMaybe<T[K]> };
  }
  throw new StoreUnavailable(new Error("Conflicts about the store's format did not end"));
}

/** Marks the store as incomplete, so that no service starts on it before `importEnded()`. */
export async function importBegins(kv: Deno.Kv): Promise<void> {
  await kv.set(KEY, HALF);
}

/** Marks the store as complete. */
export async function importEnded(kv: Deno.Kv): Promise<void> {
  await kv.set(KEY, STORE_FORMAT);
}
