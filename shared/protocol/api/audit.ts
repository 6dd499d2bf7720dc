/** Query and response body of the audit log. */
import * as z from "zod";
import { LIMITS } from "../limits.ts";
import { adminQuery, IsoTime, PageLimit, Pagination, Ulid } from "./fields.ts";

export const AUDIT_EVENTS = [
  "admin.bootstrapped",
  "admin.recovered",
  "person.suspended",
  "person.restored",
  "invite.created",
  "invite.deleted",
  "invite.redeemed",
  "api_key.created",
  "api_key.revoked",
  "agent.registered",
  "agent.reissued",
  "agent.deleted",
  "session.refreshed",
  "session.recovered",
  "session.revoked",
  "session.reuse_detected",
  "service.created",
  "service.rotated",
  "service.deleted",
  "signing_key.rotated",
  "admin.token_issued",
  "console.opened",
] as const;

export type AuditEvent = (typeof AUDIT_EVENTS)[number];

/** Returns true for an event, and for a group of events such as `agent.`. */
export function isAuditFilter(text: string): boolean {
  return AUDIT_EVENTS.some((event) => event === text || (text.endsWith(".") && event.startsWith(text)));
}

const name = z.string().min(1).max(LIMITS.auditFilter).optional();

export type AuditQuery = z.output<typeof AuditQuery>;
export const AuditQuery = adminQuery({
  /** Only this event, or a group of events such as `agent.`. */
  event: z.string().refine(isAuditFilter, "must be an event, or the beginning of events up to their dot")
    .meta({ enum: [...new Set(AUDIT_EVENTS.flatMap((event) => [event, event.slice(0, event.indexOf(".") + 1)]))] })
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
  /** DID of the caller, or `store recover`. */
  actor: z.string(),
  /** DID or ID of the changed record. */
  subject: z.string(),
  requestId: z.string(),
  detail: z.string().optional(),
});

/** A page with a filter may be short and not be the last. */
export type AuditList = z.output<typeof AuditList>;
export const AuditList = z.object({
  events: z.array(AuditEntry),
  pagination: Pagination,
});
