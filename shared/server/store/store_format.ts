/**
 * The format of the store: a number in the store, so that a program never uses records of another form. Records are
 * never converted, because no format was released yet. The number is read together with the records that a start
 * needs.
 */
import type { Kv, KvEntryMaybe, KvKey } from "../kv.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { type Store, StoreRefused } from "./open_store.ts";
import { StoreUnavailable } from "./store_errors.ts";

/** Format of the records in the store and in exports. Each change of what a stored record contains raises it. */
export const STORE_FORMAT = 5;

const KEY: KvKey = ["store", "format"];
/** Value of the format during an import, so that no service starts on a store that is only half full. */
const HALF = "half imported";

/**
 * Returns the records that a start needs, read in one call with the format. An empty store gets the format.
 *
 * @param keys at most nine, because one call reads ten
 * @throws {StoreRefused} when the store has another format, records without a format, or an incomplete import
 * @throws {StoreUnavailable} when the format cannot be written
 */
export async function readWithFormatCheck<T extends readonly unknown[]>(
  { kv, place }: Pick<Store, "kv" | "place">,
  keys: readonly [...{ [K in keyof T]: KvKey }],
): Promise<{ [K in keyof T]: KvEntryMaybe<T[K]> }> {
  for (let tries = 1; tries <= LIMITS.commitRetries; tries++) {
    const [format, ...entries] = await kv.getMany<unknown[]>([KEY, ...keys]);
    const value = format?.value ?? null;
    if (value === HALF) {
      throw new StoreRefused(
        `The import into the store ${place} was not completed. If none runs, remove the store and import again.`,
      );
    }
    if (value !== null && value !== STORE_FORMAT) throw new StoreRefused(otherFormat(`The store ${place}`, value));
    if (value !== null || await mark(kv, place)) return entries as { [K in keyof T]: KvEntryMaybe<T[K]> };
  }
  throw new StoreUnavailable(new Error("Conflicts about the store's format did not end"));
}

/** Writes the format into an empty store. Returns false when another instance has done so. @throws {StoreRefused} */
async function mark(kv: Kv, place: string): Promise<boolean> {
  const isUsed = !(await kv.list({ prefix: [] }, { limit: 1 }).next()).done;
  if (!isUsed) return (await kv.atomic().check({ key: KEY, versionstamp: null }).set(KEY, STORE_FORMAT).commit()).ok;
  // The record may come from an instance that wrote the format after it was read here.
  if ((await kv.get(KEY)).value === null) throw new StoreRefused(otherFormat(`The store ${place}`, null));
  return false;
}

/** Returns why records are not read. `format` is `null` for a store that has records but no format. */
export function otherFormat(what: string, format: unknown): string {
  return `${what} has ${
    format === null ? "no format" : `format ${format}`
  }; this svc reads only format ${STORE_FORMAT}. ` +
    "Start the svc that wrote it, or begin with an empty store.";
}

/**
 * Marks the store as incomplete, unless its format was written since `format` was read: of two imports at once into an
 * empty store, the other one would otherwise add its records. Returns false then.
 */
export async function beginImport(kv: Kv, format: KvEntryMaybe<unknown>): Promise<boolean> {
  return format.value !== HALF && (await kv.atomic().check(format).set(KEY, HALF).commit()).ok;
}

export async function readFormat(kv: Kv): Promise<KvEntryMaybe<unknown>> {
  return await kv.get(KEY);
}

/** Marks the store as complete after an import. */
export async function endImport(kv: Kv): Promise<void> {
  await kv.set(KEY, STORE_FORMAT);
}
