/** Text in packed records, one byte for each character. Faster than the encoders of the runtime for short text. */

/** Writes a text of characters up to U+00FF from an offset on. */
export function writeAscii(bytes: Uint8Array, at: number, text: string): void {
  for (let i = 0; i < text.length; i++) bytes[at + i] = text.charCodeAt(i);
}

/** Returns the text of the bytes from `start` to before `end`. */
export function readAscii(bytes: Uint8Array, start: number, end: number): string {
  // Joining characters one by one allocates about thirty times as much.
  return Reflect.apply(String.fromCharCode, null, bytes.subarray(start, end));
}
