/**
 * The format of the store (D-99): a number in the store, so that a version never uses records of a newer format. It is
 * read together with the records that a start needs. A store of the format before is converted at a start (D-261): the
 * new records are written beside the old ones, then the format changes, then the old ones are deleted. An interrupted
 * conversion is begun again from the old records; no version uses the store before it is complete.
 */
import type { Clock } from "../../clock.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { type Store, StoreRefused } from "./open_store.ts";
import { StoreUnavailable } from "./store_errors.ts";

/** Format of the records in the store and in exports. Raised when an older version cannot read them. */
export const STORE_FORMAT = 2;
/** The format that a start converts. */
export const FORMER_FORMAT = 1;

const KEY: Deno.KvKey = ["store", "format"];
const CONVERTER: Deno.KvKey = ["store", "converter"];
/** Value of the format during a conversion. An earlier version refuses the store and prints this. */
const CONVERTING = `${STORE_FORMAT} (conversion not complete)`;
/** Records that a conversion concerns. */
const CONVERTED: Deno.KvKey = ["proxy"];
/** Value of the format during an import. */
const HALF = "half imported";

/** The store has the format before, or its conversion is not complete. */
export class ConversionNeeded extends StoreRefused {
  override name = "ConversionNeeded";
}

/**
 * Returns records that a start needs, read in one call with the format. An empty store gets the format of this version.
 *
 * @param keys at most nine
 * @throws {ConversionNeeded} when the store must be converted first
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
    if (value === FORMER_FORMAT || value === CONVERTING) {
      throw new ConversionNeeded(
        `The store has format ${FORMER_FORMAT}. Start the server of this version once: it converts the store.`,
      );
    }
    if (value !== null && value !== STORE_FORMAT) {
      throw new StoreRefused(
        `The store has format ${value}, and this version of svc reads format ${STORE_FORMAT}. ` +
          `Start the version that wrote it, or a newer one.`,
      );
    }
    if (value !== null || await mark(kv)) return entries as { [K in keyof T]: Deno.KvEntryMaybe<T[K]> };
  }
  throw new StoreUnavailable(new Error("Conflicts about the store's format did not end"));
}

/** Marks a store without a format: an empty one, or one of the first versions. Returns false when it has been marked. */
async function mark(kv: Deno.Kv): Promise<boolean> {
  const isUsed = !(await kv.list({ prefix: CONVERTED }, { limit: 1 }).next()).done;
  const format = isUsed ? FORMER_FORMAT : STORE_FORMAT;
  const { ok } = await kv.atomic().check({ key: KEY, versionstamp: null }).set(KEY, format).commit();
  return ok && !isUsed;
}

/** A record of this format. */
export interface NewRecord {
  key: Deno.KvKey;
  value: Uint8Array;
  expireInMs: number;
}

/** How the records of the format before become those of this one. */
export interface Conversion {
  /** Returns the ID of an instance that uses the store, or `null`. */
  liveInstance(kv: Deno.Kv, now: number): Promise<string | null>;
  /** Yields the new records. It may run again after an interruption, and must then replace them. */
  records(kv: Deno.Kv, now: number): AsyncIterable<NewRecord>;
  /** Deletes the old records. */
  clean(kv: Deno.Kv): Promise<void>;
}

/** The start that converts. */
interface Converter {
  by: string;
  /** Milliseconds since the Unix epoch. */
  until: number;
}

/**
 * Converts a store of the format before, or completes a conversion.
 *
 * @param id names this start
 * @throws {StoreRefused} when an instance uses the store, or another start converts it
 * @throws {StoreUnavailable} when the store fails; the next start begins again
 */
export async function convertStore(
  { kv, isExclusive }: Pick<Store, "kv" | "isExclusive">,
  clock: Clock,
  id: string,
  conversion: Conversion,
): Promise<void> {
  const [format, converter] = await kv.getMany<[unknown, Converter]>([KEY, CONVERTER]);
  if (format.value !== FORMER_FORMAT && format.value !== CONVERTING) return;
  // Every earlier user of a store that this process alone has open has ended, also after a crash.
  const refuseWhileUsed = async () => {
    const instance = isExclusive ? null : await conversion.liveInstance(kv, clock.now());
    if (instance === null) return;
    throw new StoreRefused(
      `The store has format ${FORMER_FORMAT} and must be converted, but instance ${instance} uses it. ` +
        `Stop every instance, and wait ${LIMITS.instanceLeaseMs / 1000} s if one was killed.`,
    );
  };
  await refuseWhileUsed();
  const isTaken = !isExclusive && converter.value !== null && clock.now() < converter.value.until;
  if (isTaken) throw new StoreRefused(CONVERTED_ELSEWHERE);
  let held: Deno.AtomicCheck = converter;
  /** Commits and prolongs the lease, unless another start has taken over. */
  const commit = async (operation: Deno.AtomicOperation) => {
    const until = clock.now() + LIMITS.conversionLeaseMs;
    const result = await operation.check(held).set(CONVERTER, { by: id, until } satisfies Converter).commit();
    if (!result.ok) throw new StoreRefused(CONVERTED_ELSEWHERE);
    held = { key: CONVERTER, versionstamp: result.versionstamp };
  };
  await commit(kv.atomic().check(format).set(KEY, CONVERTING));
  let operation = kv.atomic(), writes = 0, bytes = 0;
  for await (const { key, value, expireInMs } of conversion.records(kv, clock.now())) {
    if (writes === WRITES_TOGETHER || bytes + value.length > LIMITS.commitBytes) {
      await commit(operation);
      operation = kv.atomic();
      writes = bytes = 0;
    }
    operation.set(key, value, { expireIn: expireInMs });
    writes++;
    bytes += value.length;
  }
  await commit(operation);
  // An instance may have read the format before it changed. What it has written since is converted by the next start.
  await refuseWhileUsed();
  const { ok } = await kv.atomic().check(held).set(KEY, STORE_FORMAT).delete(CONVERTER).commit();
  if (!ok) throw new StoreRefused(CONVERTED_ELSEWHERE);
  await conversion.clean(kv);
}

/** Records in one commit; their keys must fit 80 KiB. */
const WRITES_TOGETHER = 200;
const CONVERTED_ELSEWHERE = `Another start converts the store to format ${STORE_FORMAT}. Start again in a minute.`;

/** Marks the store as incomplete, so that no service starts on it before `importEnded()`. */
export async function importBegins(kv: Deno.Kv): Promise<void> {
  await kv.set(KEY, HALF);
}

/** Marks the store as complete, with the format of its records. */
export async function importEnded(kv: Deno.Kv, format: number): Promise<void> {
  await kv.set(KEY, format);
}
