/** Sends a large body piece by piece, so that `completed` of its request tells when the client has read it. */
import type { Bytes } from "./protocol/base64url.ts";

/** A larger body is sent in pieces. A whole body counts as sent at once, though it stays in memory until it is read. */
export const PIECE_BYTES = 32_768;

export function inPieces(body: Bytes): ReadableStream<Bytes> {
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      controller.enqueue(body.subarray(at, at += PIECE_BYTES));
      if (at >= body.length) controller.close();
    },
  });
}
