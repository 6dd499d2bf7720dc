/**
 * The audit log (D-50): event, actor, subject, time and request. An entry is part of the commit that it records and never
 * changes. It holds no secret and no digest of one.
 */
import { auditKeptMs, KEYS } from "../schema/kv_keys.ts";
import type { AuditRecord } from "../schema/records.ts";
import type { Clock } from "../../shared/clock.ts";
import type { NewId } from "../../shared/protocol/ids.ts";
import { toIso } from "../../shared/protocol/time.ts";

/** Adds an audit event to a commit. */
export function audited(
  operation: Deno.AtomicOperation,
  deps: { clock: Clock; newId: NewId },
  entry: Pick<AuditRecord, "event" | "actor" | "subject" | "requestId">,
): Deno.AtomicOperation {
  const record: AuditRecord = { id: deps.newId(), at: toIso(deps.clock.now()), ...entry };
  return operation.set(KEYS.audit(record.id), record, { expireIn: auditKeptMs(entry.event) });
}
