/** The size of keys and values as Deno KV stores them, and values that are too long for one record. */
import type { KvKey } from "../kv.ts";
import { serialize } from "node:v8";
import { utf8Bytes } from "../../protocol/base64url.ts";

/** Bytes of a chunk. Deno KV refuses a value of more than 64 KiB, so the rest is left for the encoding of the value. */
const CHUNK_BYTES = 61_440;

/** Splits bytes into chunks that each fit into a stored value, because a message has up to 256 KiB. */
export function splitChunks(bytes: Uint8Array): Uint8Array[] {
  const parts: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; at += CHUNK_BYTES) parts.push(bytes.slice(at, at + CHUNK_BYTES));
  return parts;
}

/** Returns the bytes of a key, whose parts are texts and numbers in all key tables. */
export function keyBytes(key: KvKey): number {
  return key.reduce<number>((sum, part) => sum + (typeof part === "number" ? 9 : textBytes(String(part))), 0);
}

export function valueBytes(value: unknown): number {
  return value instanceof Uint8Array ? value.length : serialize(value).length;
}

/** Counts a type byte, the bytes with each zero doubled, and a final zero. */
function textBytes(text: string): number {
  const bytes = utf8Bytes(text);
  return 2 + bytes.length + bytes.reduce((zeros, byte) => byte === 0 ? zeros + 1 : zeros, 0);
}
