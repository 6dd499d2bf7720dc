/**
 * Exports and imports a store. In an export every record is a line of JSON, and the import checks each line, because a
 * store without its last records would forget revocations. A copy of the SQLite file is no substitute, because a store
 * over a network cannot read it. Keys are checked with the key tables of the services; values are not checked. The key
 * tables say how long a record is kept, because Deno KV does not return when a key expires.
 */
import type { Kv, KvKey } from "../kv.ts";
import { fromBase64Url, toBase64Url } from "../../protocol/base64url.ts";
import { isRecord, tryParse } from "../../protocol/json_text.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { parseIso, toIso } from "../../protocol/time.ts";
import { beginImport, endImport, otherFormat, readFormat, STORE_FORMAT } from "./store_format.ts";

/**
 * How long imported records of a kind are kept: forever, never (they are not exported), until a time in milliseconds
 * since the Unix epoch, which is `null` for a record without an end, or as long as the record that its value names,
 * whose kind stands before in the table.
 */
export type Keep = "forever" | "never" | ((value: never, now: number) => number | null) | { as(name: string): KvKey };

/** Kinds of records of one service, by the second part of their key. */
export type StoredKinds = Readonly<Record<string, Keep>>;

/** The services' kinds, by the first part of their keys. */
export type StoredTables = Readonly<Record<string, StoredKinds>>;

/** The text is not a complete export. `line` counts from 1; it is 0 when no line is at fault. */
export class TransferError extends Error {
  override name = "TransferError";
  /** Whether the import had begun, so that the store is of no use. */
  isHalf = false;
  constructor(line: number, message: string) {
    super(line === 0 ? message : `Line ${line}: ${message}`);
  }
}

/** Yields the lines of an export, without line ends: a head, one per record, and a count that shows it is complete. */
export async function* exportLines(kv: Kv, tables: StoredTables, now: number): AsyncGenerator<string> {
  yield JSON.stringify({ svcStore: STORE_FORMAT, exportedAt: toIso(now) });
  let count = 0;
  for (const [service, kinds] of Object.entries(tables)) {
    for (const [kind, keep] of Object.entries(kinds)) {
      if (keep === "never") continue;
      for await (const { key, value } of kv.list({ prefix: [service, kind] }, { batchSize: 200 })) {
        yield lineOf(key, value);
        count++;
      }
      // A kind with a single record stores it under the bare key, which a list by prefix does not include.
      const { value } = await kv.get([service, kind]);
      if (value !== null) {
        yield lineOf([service, kind], value);
        count++;
      }
    }
  }
  yield JSON.stringify({ records: count });
}

/**
 * Imports an export into a store that has none of these records. Returns how many it has, with those that have ended,
 * which are not written.
 *
 * @throws {TransferError} at the first invalid line; after the first line, the records before it stay, and no service
 * starts on the store
 */
export async function importLines(
  kv: Kv,
  tables: StoredTables,
  lines: AsyncIterable<string>,
  now: number,
): Promise<number> {
  // Read before the records, because another import could otherwise begin and end between the two.
  const format = await readFormat(kv);
  for (const service of Object.keys(tables)) {
    const found = await kv.list({ prefix: [service] }, { limit: 1 }).next();
    if (!found.done) throw new TransferError(0, `the store holds records of the ${service} already; use an empty one`);
  }
  const rest = lines[Symbol.asyncIterator](), head = await rest.next();
  if (head.done) throw new TransferError(0, "the export is empty");
  checkHead(parseLine(head.value, 1));
  // The mark is written only now, because after a wrong file the store would otherwise have to be removed.
  if (!await beginImport(kv, format)) throw new TransferError(0, "another import has begun at this store");
  try {
    return await importRecords(kv, tables, rest, now);
  } catch (error) {
    if (error instanceof TransferError) error.isHalf = true;
    throw error;
  }
}

/** Imports the lines after the first. */
async function importRecords(
  kv: Kv,
  tables: StoredTables,
  rest: AsyncIterator<string>,
  now: number,
): Promise<number> {
  let number = 1, count = 0, bytes = 0, isWhole = false, pending = kv.atomic(), writes = 0, before: Keep = "never";
  const flush = async () => {
    if (writes > 0) await asTransferError(number, () => pending.commit());
    pending = kv.atomic();
    writes = bytes = 0;
  };
  for await (const text of { [Symbol.asyncIterator]: () => rest }) {
    number++;
    if (isWhole) throw new TransferError(number, "the export continues after its last line");
    const value = parseLine(text, number);
    if ("records" in value) {
      if (value.records !== count) {
        throw new TransferError(number, `${value.records} records were exported, ${count} are here`);
      }
      isWhole = true;
      continue;
    }
    const record = readRecord(value, tables, number);
    // The records on which this kind depends are read back, so all of them must be in the store.
    if (typeof record.keep === "object" && record.keep !== before) await flush();
    before = record.keep;
    const until = await endOf(kv, tables, record, now);
    if (until !== null && !Number.isFinite(until)) throw new TransferError(number, "the record has no valid end");
    const options = until === null ? {} : { expireIn: until - now };
    if (until === null || until > now) {
      await asTransferError(number, () => void pending.set(record.key, record.value, options));
    }
    count++;
    writes++;
    bytes += text.length;
    if (writes >= BATCH || bytes >= LIMITS.commitBytes) await flush();
  }
  if (!isWhole) throw new TransferError(number, "the export is incomplete");
  await flush();
  await endImport(kv);
  return count;
}

/** @throws {TransferError} when Deno KV refuses a record, because it is too large or nested too deeply */
async function asTransferError(number: number, write: () => Promise<unknown> | void): Promise<void> {
  try {
    await write();
  } catch (cause) {
    if (!(cause instanceof TypeError || cause instanceof RangeError)) throw cause;
    throw new TransferError(number, `no store takes a record of this line or of the ${BATCH} before: ${cause.message}`);
  }
}

/**
 * Characters of the longest line: six for each byte of the largest key and value. Without a bound, a file that is no
 * export could fill the memory before its first line ends.
 */
export const LINE_CHARACTERS_MAX = 6 * (65_536 + 2_048) + 1_024;

/** Writes per commit. With more, their keys could exceed 80 KiB, and Deno KV would refuse the commit. */
const BATCH = 200;

function lineOf(key: KvKey, value: unknown): string {
  return JSON.stringify(value instanceof Uint8Array ? { key, bytes: toBase64Url(value) } : { key, json: value });
}

/** @throws {TransferError} when the text is not an export, or has another format */
function checkHead({ svcStore, exportedAt }: Record<string, unknown>): void {
  if (!Number.isSafeInteger(svcStore) || parseIso(String(exportedAt)) === null) {
    throw new TransferError(1, "not an export of a store");
  }
  if (svcStore !== STORE_FORMAT) throw new TransferError(1, otherFormat("the export", svcStore));
}

function parseLine(text: string, number: number): Record<string, unknown> {
  const value = tryParse(text);
  if (isRecord(value)) return value;
  throw new TransferError(number, "not a JSON object");
}

interface ReadRecord {
  key: KvKey;
  value: unknown;
  keep: Keep;
}

/** Returns when a record ends, `null` for never. If it depends on a record that is missing, it has ended too. */
async function endOf(kv: Kv, tables: StoredTables, { value, keep }: ReadRecord, now: number): Promise<number | null> {
  if (typeof keep === "string") return null;
  if (typeof keep === "function") return keep(value as never, now);
  if (typeof value !== "string") return NaN;
  const other = await kv.get(keep.as(value));
  return other.value === null ? now : await endOf(kv, tables, { ...other, keep: keepOf(tables, other.key) }, now);
}

function keepOf(tables: StoredTables, key: KvKey): Keep {
  const [service, kind] = key.map(String) as [string, string];
  const kinds = Object.hasOwn(tables, service) ? tables[service] : undefined;
  return kinds && Object.hasOwn(kinds, kind) ? kinds[kind] ?? "never" : "never";
}

function readRecord(line: Record<string, unknown>, tables: StoredTables, number: number): ReadRecord {
  const { key } = line;
  const isKey = Array.isArray(key) && key.length >= 2 &&
    key.every((part) => typeof part === "string" || Number.isSafeInteger(part));
  if (!isKey) throw new TransferError(number, "the key is missing or malformed");
  const keep = keepOf(tables, key);
  if (keep === "never") throw new TransferError(number, "records of this kind are not imported");
  const value = "bytes" in line ? fromBase64Url(String(line.bytes)) : line.json;
  if (value === null || value === undefined) throw new TransferError(number, "the value is missing or malformed");
  return { key, value, keep };
}
