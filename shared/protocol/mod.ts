/**
 * The rules of the svc network for its clients and services: identifiers, tokens, proofs, tickets, frames, errors,
 * limits, and the bodies of requests and responses by resource (`agentsApi` …). It uses no clock, no network and no
 * storage; keys and times are parameters.
 *
 * @module
 */
export * from "./ack_reasons.ts";
export * from "./origins.ts";
export * from "./signed/short_token.ts";
export * from "./signed/ait.ts";
export * from "./base64url.ts";
export * from "./signed/crl.ts";
export * from "./did.ts";
export * from "./ed25519.ts";
export * from "./errors.ts";
export * from "./frames.ts";
export * from "./hashes.ts";
export * from "./identity_block.ts";
export * from "./ids.ts";
export * from "./input_text.ts";
export * from "./json_text.ts";
export * from "./signed/jws.ts";
export * from "./signed/key_document.ts";
export * from "./limits.ts";
export * from "./message_context.ts";
export * from "./message_proof.ts";
export * from "./names.ts";
export * from "./pair_key.ts";
export * from "./payload_bounds.ts";
export * from "./proof.ts";
export * from "./receipt_token.ts";
export * from "./registration.ts";
export * from "./sealed_body.ts";
export * from "./secrets.ts";
export * from "./ticket.ts";
export * from "./time.ts";
export * as accountsApi from "./api/accounts.ts";
export * as adminApi from "./api/admin.ts";
export * as agentsApi from "./api/agents.ts";
export * as auditApi from "./api/audit.ts";
export * as framesApi from "./api/frames.ts";
export * as invitesApi from "./api/invites.ts";
export * as metaApi from "./api/meta.ts";
export * as pairingApi from "./api/pairing.ts";
export * as receiptsApi from "./api/receipts.ts";
export * as relayApi from "./api/relay.ts";
export * as relayAdminApi from "./api/relay_admin.ts";
export * as servicesApi from "./api/services.ts";
export * as sessionsApi from "./api/sessions.ts";
