/** Wire bodies of the audit log (D-50). */
import * as z from "zod";
import { IsoTime, Pagination, Ulid } from "./fields.ts";

/** Answer of `GET /v1/admin/audit`, newest first. */
export const AuditList = z.object({
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
export type AuditList = z.infer<typeof AuditList>;
