/** Deno KV refuses a value of more than 64 KiB; the rest is for the encoding of the value. */
const CHUNK_BYTES = 61_440;

/** Returns the bytes in chunks that fit a stored value, because a message has up to 256 KiB. */
export function splitChunks(bytes: Uint8Array): Uint8Array[] {
  const parts: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; at += CHUNK_BYTES) parts.push(bytes.slice(at, at + CHUNK_BYTES));
  return parts;
}
