/**
 * Hashes that return at once, which a program may hand in. WebCrypto is there in every runtime, but it moves each call
 * to another thread and back, and a sealed message has 28 such calls on its way, which take longer than all its other
 * work. The results are the same.
 */
export interface Hashes {
  /** Returns the base64url SHA-256. */
  sha256(data: Uint8Array): string;
  /** Returns the HMAC with SHA-256. */
  hmacSha256(key: Uint8Array, data: Uint8Array): Uint8Array;
}

let given: Hashes | null = null;

/** Uses these hashes in the whole program from now on; `null`: WebCrypto. */
export function useHashes(hashes: Hashes | null): void {
  given = hashes;
}

/** The hashes of the program; `null` while it has handed in none. */
export function givenHashes(): Hashes | null {
  return given;
}
