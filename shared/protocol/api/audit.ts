/** Query and response body of the audit log (D-50, D-174). */
import * as z from "zod";
import { LIMITS } from "../limits.ts";
import type { Shape } from "../shape.ts";
import { IsoTime, PageLimit, Pagination, Ulid } from "./fields.ts";

/** All audit events. */
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
] as const;

/** The name of an audit event. */
export type AuditEvent = (typeof AUDIT_EVENTS)[number];

/** Returns true for an event, and for a group of events such as `agent.`. */
export function isAuditFilter(text: string): boolean {
  return AUDIT_EVENTS.some((event) => event === text || (text.endsWith(".") && event.startsWith(text)));
}

const name = z.string().min(1).max(LIMITS.auditFilter).optional();

/** Query of `GET /v1/admin/audit`. */
export interface AuditQuery {
  /** Only this event, or a group of events such as `agent.`. */
  event?: string | undefined;
  /** Only entries of this actor: a DID, or `store recover`. */
  actor?: string | undefined;
  /** Only entries about this record: a DID or an ID. */
  subject?: string | undefined;
  /** Only entries from this time on, ISO 8601. */
  since?: string | undefined;
  /** Only entries before this time, ISO 8601. */
  until?: string | undefined;
  /** Newest first (`desc`, default) or oldest first. */
  order: "asc" | "desc";
  /** Records per page. */
  limit: number;
  /** `nextCursor` of the previous page. */
  cursor?: string | undefined;
}
/** Schema of `AuditQuery`. */
export const AuditQuery: Shape<AuditQuery> = z.object({
  event: z.string().refine(isAuditFilter, "must be an event, or the beginning of events up to their dot").optional(),
  actor: name,
  subject: name,
  since: IsoTime.optional(),
  until: IsoTime.optional(),
  order: z.enum(["asc", "desc"]).default("desc"),
  limit: PageLimit.default(LIMITS.listPageDefault),
  cursor: Ulid.optional(),
});

/** An entry of the audit log. */
export interface AuditEntry {
  /** ULID of the entry. */
  id: string;
  /** Time of the event, ISO 8601. */
  at: string;
  /** What happened. */
  event: string;
  /** DID of the caller, or `store recover`. */
  actor: string;
  /** DID or ID of the changed record. */
  subject: string;
  /** Request ID of the call. */
  requestId: string;
  /** The reason that the actor gave. */
  detail?: string | undefined;
}

/** Response of `GET /v1/admin/audit`. A page with a filter may be short and not be the last (D-215). */
export interface AuditList {
  /** One page of audit events. */
  events: AuditEntry[];
  /** Position in the list. */
  pagination: {
    limit: number;
    nextCursor: string | null;
  };
}
/** Schema of `AuditList`. */
export const AuditList: Shape<AuditList> = z.object({
  events: z.array(z.object({
    id: Ulid,
    at: IsoTime,
    event: z.string(),
    actor: z.string(),
    subject: z.string(),
    requestId: z.string(),
    detail: z.string().optional(),
  })),
  pagination: Pagination,
});
