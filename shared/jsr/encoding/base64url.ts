// @ts-types="./base64url.d.ts"
export { decodeBase64Url, encodeBase64Url } from "npm:deno-std@1.4.0/encoding/base64url.js";
