// Stands in for `@std/encoding`, so that a build needs only one package registry. It has the part that svc uses,
// base64url, from `jose`, because svc needs that for its tokens anyway, and it also runs in Node 20.
// deno-lint-ignore no-import-prefix -- the stand-ins name their packages themselves
import { decode, encode } from "npm:jose@^6.2.17/base64url";

export function encodeBase64Url(data: ArrayBuffer | Uint8Array | string): string {
  return encode(data instanceof ArrayBuffer ? new Uint8Array(data) : data);
}

export function decodeBase64Url(text: string): Uint8Array<ArrayBuffer> {
  return decode(text) as Uint8Array<ArrayBuffer>;
}
