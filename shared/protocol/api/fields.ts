/**
 * Schemas of members that several request and response bodies share. The rules that they apply are in the folder above,
 * and the route tables say which route has which body.
 */
import * as z from "zod";
import { AUTHORITY_LENGTH_MAX, isAgentDid, isHumanDid } from "../did.ts";
import { isPublicKey } from "../ed25519.ts";
import { isRequestId, isUlid, REQUEST_ID_FORM } from "../ids.ts";
import { AGENT_NAME_RULE, isAgentName, parseDisplayName, parseFramework } from "../names.ts";
import { LIMITS } from "../limits.ts";
import { isOrigin } from "../origins.ts";
import { parseIso } from "../time.ts";

function text(check: (value: string) => boolean, message: string, pattern: Record<string, unknown>) {
  return z.string({ error: message }).refine(check, message).meta(pattern);
}

// The patterns below are only for the API documents, so that a client can see there what a rule refuses. What is valid
// is decided by the rules themselves.
/** @internal */
export const ULID_PATTERN = "[0-7][0-9A-HJKMNP-TV-Z]{25}";
const LABEL_PATTERN = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?";
const OCTET_PATTERN = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
const AUTHORITY_PATTERN = `(?![^:]{${AUTHORITY_LENGTH_MAX + 1}})(?:(?:${OCTET_PATTERN}\\.){3}${OCTET_PATTERN}` +
  `|(?:${LABEL_PATTERN}\\.)*(?!(?:[0-9]+|0x[0-9a-f]*):)${LABEL_PATTERN})`;
/** Names that Windows keeps for devices. */
const DEVICE_PATTERN = "(?:[cC][oO][nN]|[pP][rR][nN]|[aA][uU][xX]|[nN][uU][lL]|[cC][oO][mM][0-9]|[lL][pP][tT][0-9])";
const CONTROL_OR_BIDI = "\\u0000-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069";
/** A text with at least one character that is not white space. */
const TEXT_PATTERN = `^[^${CONTROL_OR_BIDI}]*[^${CONTROL_OR_BIDI}\\s\\ufeff][^${CONTROL_OR_BIDI}]*$`;

/** Only ports of four or five digits, because others are rare, and a default port is not part of an origin. */
const ORIGIN_PATTERN = `^https?://(?:127\\.0\\.0\\.1|(?:${LABEL_PATTERN}\\.)*[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?)` +
  "(?::(?:[1-9][0-9]{3}|[1-5][0-9]{4}))?$";

/** Returns the schema of a text that a rule trims or refuses. */
export function parsedText(parse: (value: string) => string | null, message: string, maxLength: number) {
  return z.string({ error: message }).transform((value, ctx) => {
    const parsed = parse(value);
    if (parsed === null) ctx.addIssue({ code: "custom", message });
    return parsed ?? "";
  }).meta({ minLength: 1, maxLength, pattern: TEXT_PATTERN, examples: ["alpha"] });
}

export const Ulid = text(isUlid, "must be a ULID", {
  pattern: `^${ULID_PATTERN}$`,
  examples: ["01KHYQ5H00AAAAAAAAAAAAAAAA"],
});
export const AgentDid = text(isAgentDid, "must be the DID of an agent", {
  pattern: `^did:svc:${AUTHORITY_PATTERN}:agent:${ULID_PATTERN}$`,
  examples: ["did:svc:registry.example.test:agent:01KHYQ5H00AAAAAAAAAAAAAAAA"],
});
export const HumanDid = text(isHumanDid, "must be the DID of a human", {
  pattern: `^did:svc:${AUTHORITY_PATTERN}:human:${ULID_PATTERN}$`,
  examples: ["did:svc:registry.example.test:human:01KHYQ5H00CCCCCCCCCCCCCCCC"],
});
export const IsoTime = text((value) => parseIso(value) !== null, "must be an RFC 3339 time", {
  format: "date-time",
  pattern: "^[2-9][0-9]{3}-",
});
export const AgentName = text(isAgentName, `must be ${AGENT_NAME_RULE}`, {
  maxLength: 64,
  pattern: `^(?!${DEVICE_PATTERN}(?:\\.|$))[A-Za-z0-9](?:(?:[A-Za-z0-9_-]|\\.(?!\\.)){0,62}[A-Za-z0-9])?$`,
});
export const PublicKey = text(isPublicKey, "must be base64url of an Ed25519 public key", {
  pattern: "^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$",
  examples: ["iRSOjP63Dt2YWIPUuF3KABGDXODn7ZR5yEAIFPwaNcE"],
});
/** @internal */
export const Chars43 = z.string().regex(/^[A-Za-z0-9_-]{43}$/, "must be base64url of 32 bytes").meta({
  examples: ["iRSOjP63Dt2YWIPUuF3KABGDXODn7ZR5yEAIFPwaNcE"],
});
export const RequestId = text(isRequestId, `must be ${REQUEST_ID_FORM}`, {
  pattern: "^[A-Za-z0-9._:-]{8,128}$",
  examples: ["01KHYQ5H00EEEEEEEEEEEEEEEE"],
});
export const DisplayName = parsedText(
  parseDisplayName,
  `must be 1 to ${LIMITS.displayName} characters of text`,
  LIMITS.displayName,
);
/** A framework label, not trimmed, because it is signed exactly as sent; `parseFramework` trims it. */
export const FrameworkAsSent = text(
  (value) => parseFramework(value) !== null,
  `must be 1 to ${LIMITS.framework} characters of text`,
  { minLength: 1, maxLength: LIMITS.framework, pattern: TEXT_PATTERN },
);
export type IdPath = z.output<typeof IdPath>;
export const IdPath = z.object({ id: Ulid });
export const ActiveOrRevoked = z.enum(["active", "revoked"]);
export const Pagination = z.object({
  limit: z.int(),
  /** ID of the last record of this page; `null` on the last page. */
  nextCursor: Ulid.nullable(),
});
/** Returns the schema of a page size in a query, 1 to `max`. @internal */
export function pageLimit(max: number, pattern: string) {
  const message = `must be a whole number from ${LIMITS.agentListMin} to ${max}`;
  return z.string(message).regex(/^[1-9]\d{0,2}$/, message).meta({ pattern }).transform(Number)
    .pipe(z.int().max(max, message));
}
export const PageLimit = pageLimit(LIMITS.agentListMax, "^(?:[1-9][0-9]?|100)$");
/** Most characters of an unknown parameter's name in a message. With more, a caller's own text fills the answer. */
const SHOWN_NAME = 40;

/**
 * Returns the schema of a query. It refuses a parameter that it does not name, because a filter with a wrong name would
 * otherwise show every record as if it matched.
 *
 * @internal
 */
export function strictQuery<S extends z.core.$ZodLooseShape>(shape: S): z.ZodObject<S, z.core.$strict> {
  const names = Object.keys(shape);
  const known = names.length === 0 ? "no parameter" : `only ${names.join(", ")}`;
  return z.strictObject(shape, {
    error: (issue) => {
      if (issue.code !== "unrecognized_keys") return undefined;
      const [name = ""] = issue.keys;
      return `may name ${known}, and not ${JSON.stringify(name.slice(0, SHOWN_NAME))}`;
    },
  });
}

/** Query of the lists of keys, invites and services. A page has 100 records by default, newest first. */
export type PageQuery = z.output<typeof PageQuery>;
export const PageQuery = strictQuery({
  limit: PageLimit.default(LIMITS.listPageDefault),
  cursor: Ulid.optional(),
});
export const NoQuery = strictQuery({});

/** The origin of a service, in its only valid spelling. */
export const Origin = text(isOrigin, "must be an origin as https://proxy.example", {
  maxLength: 150,
  pattern: ORIGIN_PATTERN,
  examples: ["https://proxy.example.test"],
});

/** The origin of a service of another server. A server for trials also accepts http on loopback. */
export const ForeignOrigin = text(isOrigin, "must be an origin as https://proxy.example", {
  maxLength: "https://".length + AUTHORITY_LENGTH_MAX,
  pattern: `^https://(?:${LABEL_PATTERN}\\.)+[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?$`,
  examples: ["https://proxy.example.test"],
});
