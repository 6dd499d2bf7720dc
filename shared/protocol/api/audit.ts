/** Wire bodies of the audit log (D-50). */
import * as z from "zod";
import { LIMITS } from "../limits.ts";
import { IsoTime, PageLimit, Ulid } from "./fields.ts";

/** Query of `GET /v1/admin/audit`. */
export const AuditQuery = z.object({ limit: PageLimit.default(LIMITS.agentListDefault), cursor: Ulid.optional() });

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
  pagination: z.object({ limit: z.int(), nextCursor: Ulid.nullable() }),
});
export type AuditList = z.infer<typeof AuditList>;
