/** The size of keys and values as Deno KV stores them, and values that are too long for one record. */
import type { KvKey, KvKeyPart } from "../kv.ts";
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

export function keyBytes(key: KvKey): number {
  return key.reduce<number>((sum, part) => sum + partBytes(part), 0);
}

export function valueBytes(value: unknown): number {
  if (value instanceof Uint8Array) return value.length;
  return value instanceof Deno.KvU64 ? 8 : serialize(value).length;
}

function partBytes(part: KvKeyPart): number {
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
      return escaped(part as Uint8Array);
  }
}

/** Counts a type byte, the bytes with each zero doubled, and a final zero. */
function escaped(bytes: Uint8Array): number {
  return 2 + bytes.length + bytes.reduce((zeros, byte) => byte === 0 ? zeros + 1 : zeros, 0);
}
