/**
 * Schemas of members that several request and response bodies share. The rules themselves are in the folder above.
 */
import * as z from "zod";
import type { Shape } from "../shape.ts";
import { isAgentDid, isHumanDid } from "../did.ts";
import { isPublicKey } from "../ed25519.ts";
import { isRequestId, isUlid } from "../ids.ts";
import { isAgentName, parseDisplayName, parseFramework } from "../names.ts";
import { LIMITS } from "../limits.ts";
import { parseIso } from "../time.ts";

function text(check: (value: string) => boolean, message: string, pattern: Record<string, unknown>) {
  return z.string({ error: message }).refine(check, message).meta(pattern);
}

/** Schema of a text that a rule trims or refuses. */
export function parsedText(parse: (value: string) => string | null, message: string, maxLength: number) {
  return z.string({ error: message }).transform((value, ctx) => {
    const parsed = parse(value);
    if (parsed === null) ctx.addIssue({ code: "custom", message });
    return parsed ?? "";
  }).meta({ minLength: 1, maxLength });
}

/** ULID of a record. */
export const Ulid = text(isUlid, "must be a ULID", { pattern: "^[0-7][0-9A-HJKMNP-TV-Z]{25}$" });
/** DID of an agent. */
export const AgentDid = text(isAgentDid, "must be the DID of an agent", {
  example: "did:svc:<authority>:agent:<ulid>",
});
/** DID of a human. */
export const HumanDid = text(isHumanDid, "must be the DID of a human", { example: "did:svc:<authority>:human:<ulid>" });
/** ISO-8601 time. */
export const IsoTime = text((value) => parseIso(value) !== null, "must be an RFC 3339 time", { format: "date-time" });
/** Agent name (D-05). */
export const AgentName = text(isAgentName, "must be 1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-'", { maxLength: 64 });
/** Ed25519 public key. */
export const PublicKey = text(isPublicKey, "must be base64url of an Ed25519 public key", { maxLength: 43 });
/** Request ID (D-11). */
export const RequestId = text(isRequestId, "must be 8 to 128 of A-Z, a-z, 0-9, '.', '_', ':' and '-'", {
  pattern: "^[A-Za-z0-9._:-]{8,128}$",
});
/** Display name, trimmed (D-06). */
export const DisplayName = parsedText(
  parseDisplayName,
  `must be 1 to ${LIMITS.displayName} characters of text`,
  LIMITS.displayName,
);
/** Framework label, not trimmed; trim it with `parseFramework` (D-07, D-23). */
export const FrameworkAsSent = text(
  (value) => parseFramework(value) !== null,
  `must be 1 to ${LIMITS.framework} characters of text`,
  { maxLength: LIMITS.framework },
);
/** `active` or `revoked`. */
export const ActiveOrRevoked = z.enum(["active", "revoked"]);
/** Where the next page of a list begins (D-215). */
export interface Pagination {
  limit: number;
  /** ID of the last record of this page; `null` on the last page. */
  nextCursor: string | null;
}
/** Schema of `Pagination`. */
export const Pagination: Shape<Pagination> = z.object({ limit: z.int(), nextCursor: Ulid.nullable() });
/** Page size in a query: 1 to 100. */
export const PageLimit = z.string().regex(/^[1-9]\d{0,2}$/).transform(Number)
  .pipe(z.int().min(LIMITS.agentListMin).max(LIMITS.agentListMax));
/** Query of a list other than that of agents: 100 records a page (default), newest first (D-215). */
export interface PageQuery {
  limit: number;
  cursor?: string | undefined;
}
/** Schema of `PageQuery`. */
export const PageQuery: Shape<PageQuery> = z.object({
  limit: PageLimit.default(LIMITS.listPageDefault),
  cursor: Ulid.optional(),
});
