/**
 * The rules of the svc network, for anyone who talks to it: identifiers, tokens, proofs, tickets, frames, errors and
 * limits. Pure: no clock, no entropy, no network, no storage; keys and times are handed in.
 *
 * @module
 */
export * from "./ait.ts";
export * from "./base64url.ts";
export * from "./crl.ts";
export * from "./did.ts";
export * from "./ed25519.ts";
export * from "./errors.ts";
export * from "./frames.ts";
export * from "./identity_block.ts";
export * from "./ids.ts";
export * from "./json_text.ts";
export * from "./jws.ts";
export * from "./key_document.ts";
export * from "./limits.ts";
export * from "./names.ts";
export * from "./proof.ts";
export * from "./registration.ts";
export * from "./secrets.ts";
export * from "./ticket.ts";
export * from "./time.ts";
