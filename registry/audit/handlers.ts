/**
 * HTTP handler of the audit log (D-50): pages, newest first.
 */
import type * as z from "zod";
import type { PageQuery } from "../../shared/protocol/api/fields.ts";
import { type Input, json } from "../../shared/server/http/route.ts";
import { readPage } from "../../shared/server/store/pages.ts";
import type { ApiKeyCaller } from "../callers.ts";
import { KEYS } from "../schema/kv_keys.ts";
import type { AuditRecord } from "../schema/records.ts";

export async function listAudit(
  deps: { kv: Deno.Kv },
  { query }: Input<undefined, z.output<typeof PageQuery>, undefined, ApiKeyCaller>,
): Promise<Response> {
  const { items: events, nextCursor } = await readPage<AuditRecord>(deps.kv, KEYS.auditLog(), query);
  return json({ events, pagination: { limit: query.limit, nextCursor } });
}
