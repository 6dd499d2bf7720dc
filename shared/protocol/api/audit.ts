/** Request and response bodies of the audit log (D-50). */
import * as z from "zod";
import type { Shape } from "../shape.ts";
import { IsoTime, Pagination, Ulid } from "./fields.ts";

/** Response of `GET /v1/admin/audit`, newest first. */
export interface AuditList {
  /** One page of audit events. */
  events: {
    id: string;
    at: string;
    event: string;
    actor: string;
    subject: string;
    requestId: string;
  }[];
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
  })),
  pagination: Pagination,
});
