export * from "./base64url.ts";
export * from "./hex.ts";
