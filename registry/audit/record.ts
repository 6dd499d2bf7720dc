/**
 * The audit log (D-50): who did what, when, in which request. An entry is part of the commit it tells of, and is never
 * changed. Holds no secret and no digest of one.
 */
import { auditKeptMs, KEYS } from "../schema/kv_keys.ts";
import type { AuditRecord } from "../schema/records.ts";
import type { Clock } from "../../shared/clock.ts";
import type { NewId } from "../../shared/protocol/ids.ts";
import { toIso } from "../../shared/protocol/time.ts";

/** Everything that is audited. */
export const AUDIT_EVENTS = [
  "admin.bootstrapped",
  "admin.recovered",
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
] as const;

/** Adds an entry to a commit. */
export function audited(
  operation: Deno.AtomicOperation,
  deps: { clock: Clock; newId: NewId },
  entry: Pick<AuditRecord, "event" | "actor" | "subject" | "requestId">,
): Deno.AtomicOperation {
  const record: AuditRecord = { id: deps.newId(), at: toIso(deps.clock.now()), ...entry };
  return operation.set(KEYS.audit(record.id), record, { expireIn: auditKeptMs(entry.event) });
}
