/**
 * Hashes that return at once, which a program can supply. WebCrypto is present in every runtime, but it moves each call
 * to another thread and back. A sealed message needs 28 such calls on its way, and they take longer than all its other
 * work. The results are the same.
 */
export interface Hashes {
  /** Returns the base64url SHA-256. */
  sha256(data: Uint8Array): string;
  /** Returns the HMAC with SHA-256. */
  hmacSha256(key: Uint8Array, data: Uint8Array): Uint8Array;
}

let given: Hashes | null = null;

/** Uses these hashes in the whole program from now on, or WebCrypto for `null`. */
export function useHashes(hashes: Hashes | null): void {
  given = hashes;
}

/** Returns the hashes that the program has supplied, or `null` if it has supplied none. */
export function givenHashes(): Hashes | null {
  return given;
}
