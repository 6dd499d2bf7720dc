/**
 * Strict base64url: RFC 4648 section 5 without padding. Each byte string has exactly one accepted text, because svc
 * compares keys and hashes as texts, and would otherwise take two spellings of one key for two keys.
 */
import { decodeBase64Url, encodeBase64Url } from "@std/encoding/base64url";
import { givenHashes } from "./hashes.ts";

/** Bytes in an `ArrayBuffer`, as WebCrypto requires. */
export type Bytes = Uint8Array<ArrayBuffer>;

export function toBase64Url(bytes: Uint8Array): string {
  return encodeBase64Url(bytes);
}

/**
 * Returns the decoded bytes, or `null` for a text with an invalid character, padding, white space, an impossible length
 * or non-zero trailing bits.
 */
export function fromBase64Url(text: string): Bytes | null {
  const rest = text.length % 4;
  if (rest === 1 || !/^[A-Za-z0-9_-]*$/.test(text)) return null;
  // The decoder ignores the unused bits of the last character, so they are checked here.
  const unused = rest === 2 ? 0b1111 : rest === 3 ? 0b11 : 0;
  if (unused !== 0 && (ALPHABET.indexOf(text.slice(-1)) & unused) !== 0) return null;
  return decodeBase64Url(text) as Bytes;
}

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

const utf8 = new TextEncoder();

export function utf8Bytes(text: string): Bytes {
  return utf8.encode(text);
}

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** Returns the text of stored bytes. Invalid bytes become U+FFFD, and a byte order mark stays, because it is content. */
export function utf8Text(bytes: Uint8Array): string {
  return decoder.decode(bytes);
}

export function joinedBytes(parts: readonly Uint8Array[]): Bytes {
  const bytes = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

/** Returns the base64url SHA-256 of a text (as UTF-8) or of bytes. */
export async function sha256(data: string | Bytes): Promise<string> {
  const bytes = typeof data === "string" ? utf8Bytes(data) : data;
  return givenHashes()?.sha256(bytes) ?? encodeBase64Url(await crypto.subtle.digest("SHA-256", bytes));
}
