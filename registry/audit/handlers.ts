/**
 * HTTP of the audit log (D-50): pages, newest first.
 */
import type * as z from "zod";
import type { AuditQuery } from "../../shared/protocol/api/audit.ts";
import { type Input, json } from "../../shared/server/route.ts";
import type { ApiKeyCaller } from "../auth.ts";
import type { RegistryDeps } from "../deps.ts";
import { KEYS } from "../keys.ts";
import type { AuditRecord } from "./record.ts";

export async function listAudit(
  deps: RegistryDeps,
  { query }: Input<undefined, z.output<typeof AuditQuery>, undefined, ApiKeyCaller>,
): Promise<Response> {
  const prefix = KEYS.auditLog();
  const selector = query.cursor ? { prefix, end: KEYS.audit(query.cursor) } : { prefix };
  const page = deps.kv.list<AuditRecord>(selector, { reverse: true, limit: query.limit + 1 });
  const events = (await Array.fromAsync(page)).map((entry) => entry.value);
  const nextCursor = events.length > query.limit ? events[query.limit - 1]?.id ?? null : null;
  return json({ events: events.slice(0, query.limit), pagination: { limit: query.limit, nextCursor } });
}
