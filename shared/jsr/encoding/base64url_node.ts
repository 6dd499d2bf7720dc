// `@std/encoding/base64url` for Node 20, which lacks a function that the package calls (`ArrayBuffer.prototype.transfer`).
// tests/tools/pack_client.ts puts this file in the place of base64url.ts.
// deno-lint-ignore no-import-prefix -- the stand-ins name their packages themselves
import { base64url } from "npm:jose@^6.2.17";

export function encodeBase64Url(data: ArrayBuffer | Uint8Array | string): string {
  return base64url.encode(data instanceof ArrayBuffer ? new Uint8Array(data) : data);
}

export function decodeBase64Url(text: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(base64url.decode(text));
}
