// @ts-types="./hex.d.ts"
export { decodeHex, encodeHex } from "npm:deno-std@1.4.0/encoding/hex.js";
