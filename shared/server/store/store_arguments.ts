/**
 * The rules that Deno KV has for its arguments (D-220). They tell a wrong call, which is a defect of this program, from a
 * store that fails: Deno reports both as `TypeError`. Applied only to a call that was rejected, so they cost nothing
 * while the store works; Deno checks arguments before it writes anything.
 */
import { serialize } from "node:v8";
import { LIMITS } from "../../protocol/limits.ts";
import { utf8Bytes } from "../../protocol/base64url.ts";

/** A key or a value that a commit carries. */
export interface Mutation {
  key: Deno.KvKey;
  /** Absent for a deletion. */
  value?: unknown;
  expireIn?: number | undefined;
}

/** True when the store refuses the key: empty, over 2 KiB, or with a part of another type. */
export function isWrongKey(key: Deno.KvKey): boolean {
  return !Array.isArray(key) || key.length === 0 || !(keyBytes(key) <= LIMITS.storeKeyBytes);
}

/** True when the store refuses to write this. */
export function isWrongMutation({ key, value, expireIn }: Mutation): boolean {
  if (isWrongKey(key)) return true;
  if (expireIn !== undefined && !(Number.isSafeInteger(expireIn) && expireIn >= 0)) return true;
  return value !== undefined && !(valueBytes(value) <= LIMITS.storeValueBytes);
}

/**
 * True when the store refused a commit for what it holds, before it wrote anything. Told by Deno's words: to keep what
 * each commit holds only for this would cost every message a tenth of its time. Other words count as a failing store.
 */
export function isCommitRefusal({ message }: TypeError): boolean {
  return /^(?:Value|Key|Total (?:key|mutation) size) too large|^Too many (?:checks|mutations)|^key cannot be empty/
    .test(message) || /^expected string, number, bigint|^expireIn must be/.test(message);
}

/** Bytes of a key as it is stored; `NaN` when a part has a type that no key may have. */
export function keyBytes(key: Deno.KvKey): number {
  return key.reduce<number>((sum, part) => sum + partBytes(part), 0);
}

/** Bytes of a value as it is stored; `NaN` when it cannot be stored. */
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

/** A type byte, the bytes with each zero doubled, and a zero at the end. */
function escaped(bytes: Uint8Array): number {
  return 2 + bytes.length + bytes.reduce((zeros, byte) => byte === 0 ? zeros + 1 : zeros, 0);
}
