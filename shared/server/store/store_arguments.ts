/**
 * The rules of Deno KV for its arguments. They distinguish a wrong call, which is a defect of this program, from a
 * failing store: Deno reports both as `TypeError`. Only rejected calls are checked, so a working store has no extra
 * cost. Deno checks arguments before it writes.
 */
import type { KvKey } from "../kv.ts";
import { serialize } from "node:v8";
import { utf8Bytes } from "../../protocol/base64url.ts";

/** A bound of Deno KV. With more, its error would look like a fault of the store. */
export const KEY_BYTES_MAX = 2_048;
/** A bound of Deno KV, like that of keys. */
export const VALUE_BYTES_MAX = 65_536;

/** A key and a value of a commit. */
export interface Mutation {
  key: KvKey;
  /** Absent for a deletion. */
  value?: unknown;
  expireIn?: number | undefined;
}

/** Returns true when the store refuses the key: empty, over 2 KiB, or with a part of a type that keys cannot have. */
export function isWrongKey(key: KvKey): boolean {
  return !Array.isArray(key) || key.length === 0 || !(keyBytes(key) <= KEY_BYTES_MAX);
}

/** Returns true when the store refuses the mutation. */
export function isWrongMutation({ key, value, expireIn }: Mutation): boolean {
  if (isWrongKey(key)) return true;
  if (expireIn !== undefined && !(Number.isSafeInteger(expireIn) && expireIn >= 0)) return true;
  return value !== undefined && !(valueBytes(value) <= VALUE_BYTES_MAX);
}

/**
 * Returns true when the store refused the content of a commit before it wrote anything. The message of Deno decides,
 * because keeping the content of each commit would cost a tenth of the time of every message. Other messages mean a
 * failing store.
 */
export function isCommitRefusal({ message }: TypeError): boolean {
  return /^(?:Value|Key|Total (?:key|mutation) size) too large|^Too many (?:checks|mutations)|^key cannot be empty/
    .test(message) || /^expected string, number, bigint|^expireIn must be/.test(message);
}

/**
 * Returns true when a server of KV Connect refused the number of checks. Deno checks every other bound itself, and the
 * checks against the bound of a file.
 */
export function isRefusedByServer(error: unknown): error is Error {
  return error instanceof Error && error.message.endsWith(": Too many checks included in atomic write.");
}

/** Returns true when another program has locked the file, so the call had no effect. */
export function isLocked(error: unknown): boolean {
  return error instanceof TypeError && error.message === "database is locked";
}

/** Returns the stored bytes of a key; `NaN` when a part has an invalid type. */
export function keyBytes(key: KvKey): number {
  return key.reduce<number>((sum, part) => sum + partBytes(part), 0);
}

/** Returns the stored bytes of a value; `NaN` when it cannot be stored. */
export function valueBytes(value: unknown): number {
  if (value instanceof Uint8Array) return value.length;
  if (value instanceof Deno.KvU64) return 8;
  try {
    return serialize(value).length;
  } catch {
    return NaN;
  }
}

function partBytes(part: unknown): number {
  switch (typeof part) {
    case "string":
      return escaped(utf8Bytes(part));
    case "number":
      return 9;
    case "boolean":
      return 1;
    case "bigint":
      return 2 + Math.ceil((part < 0n ? -part : part).toString(16).length / 2);
    default:
      return part instanceof Uint8Array ? escaped(part) : NaN;
  }
}

/** Counts a type byte, the bytes with each zero doubled, and a final zero. */
function escaped(bytes: Uint8Array): number {
  return 2 + bytes.length + bytes.reduce((zeros, byte) => byte === 0 ? zeros + 1 : zeros, 0);
}
