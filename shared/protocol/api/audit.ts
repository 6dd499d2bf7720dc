/** Query and response body of the audit log. */
import * as z from "zod";
import { LIMITS } from "../limits.ts";
import { IsoTime, PageLimit, Pagination, strictQuery, Ulid } from "./fields.ts";

/** Every event, with the words in which the console shows it. */
export const AUDIT_WORDS = {
  "admin.bootstrapped": "First admin created",
  "admin.recovered": "Admin recovered",
  "person.suspended": "Person suspended",
  "person.restored": "Person restored",
  "invite.created": "Invite created",
  "invite.deleted": "Invite taken back",
  "invite.redeemed": "Invite used",
  "api_key.created": "API key created",
  "api_key.revoked": "API key revoked",
  "agent.registered": "Agent registered",
  "agent.reissued": "Identity issued again",
  "agent.deleted": "Agent revoked",
  "session.refreshed": "Session refreshed",
  "session.recovered": "Session recovered",
  "session.revoked": "Session ended",
  "session.reuse_detected": "Old token used: session ended",
  "service.created": "Service created",
  "service.rotated": "Secret of a service renewed",
  "service.deleted": "Service revoked",
  "signing_key.rotated": "Signing key renewed",
  "admin.token_issued": "Looked at the relay",
  "console.opened": "Console opened",
} as const;

export type AuditEvent = keyof typeof AUDIT_WORDS;
export const AUDIT_EVENTS = Object.keys(AUDIT_WORDS) as readonly AuditEvent[];

/** What a query may ask for: every event, and every group of events such as `agent.`. */
export const AUDIT_FILTERS: readonly string[] = [
  ...new Set(AUDIT_EVENTS.flatMap((event) => [event, event.slice(0, event.indexOf(".") + 1)])),
];

const name = z.string().min(1).max(LIMITS.auditFilter).optional();

export type AuditQuery = z.output<typeof AuditQuery>;
export const AuditQuery = strictQuery({
  /** Only this event, or only a group of events such as `agent.`. */
  event: z.string().refine(
    (text) => AUDIT_FILTERS.includes(text),
    "must be an event, or the beginning of events up to their dot",
  )
    .meta({ enum: [...AUDIT_FILTERS] })
    .optional(),
  /** Only entries of this actor: a DID, or `store recover`. */
  actor: name,
  /** Only entries about this record: a DID or an ID. */
  subject: name,
  since: IsoTime.optional(),
  until: IsoTime.optional(),
  order: z.enum(["asc", "desc"]).default("desc"),
  limit: PageLimit.default(LIMITS.listPageDefault),
  cursor: Ulid.optional(),
});

export type AuditEntry = z.output<typeof AuditEntry>;
export const AuditEntry = z.object({
  id: Ulid,
  at: IsoTime,
  event: z.string(),
  /** DID of the caller, or `store recover` for the command on the registry's host. */
  actor: z.string(),
  /** DID or ID of the changed record. */
  subject: z.string(),
  requestId: z.string(),
  detail: z.string().optional(),
});

/** With a filter, a page may be short although it is not the last. */
export type AuditList = z.output<typeof AuditList>;
export const AuditList = z.object({
  events: z.array(AuditEntry),
  pagination: Pagination,
});
