/** Answers of other programs: read with a bound, and error envelopes of the services with nothing taken on trust. */

/**
 * The text of an answer.
 *
 * @throws {RangeError} when it is larger; the rest is not read
 */
export async function readText(response: Response, maxBytes: number): Promise<string> {
  const decoder = new TextDecoder();
  const parts: string[] = [];
  let length = 0;
  for await (const chunk of response.body ?? []) {
    length += chunk.length;
    if (length > maxBytes) throw new RangeError("The answer is too large");
    parts.push(decoder.decode(chunk, { stream: true }));
  }
  return parts.join("") + decoder.decode();
}

const MAX_MESSAGE_CHARS = 2_000;

/** Code and message of an error envelope; `null` when the text is none. A code of another form is `UNKNOWN_ERROR` (D-246). */
export function errorEnvelope(text: string): { code: string; message: string } | null {
  try {
    const { code, message } = (JSON.parse(text) as { error: { code: unknown; message: unknown } }).error;
    if (typeof message !== "string") return null;
    return {
      code: typeof code === "string" && /^[A-Z0-9_]{1,64}$/.test(code) ? code : "UNKNOWN_ERROR",
      message: message.slice(0, MAX_MESSAGE_CHARS).toWellFormed(),
    };
  } catch {
    return null;
  }
}
