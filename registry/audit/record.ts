/**
 * The audit log: event, actor, subject, time and request. An entry is written once, in the commit of its change,
 * because the change could otherwise be missing from the log. An entry holds no secret and no digest of one, because
 * every admin can read it.
 */
import type { AtomicOperation } from "../../shared/server/kv.ts";
import { KEYS } from "../schema/kv_keys.ts";
import { auditKeptMs } from "../schema/retention.ts";
import type { Asker } from "../callers.ts";
import type { AuditRecord } from "../schema/records.ts";
import type { AuditEvent } from "../../shared/protocol/api/audit.ts";
import { toIso } from "../../shared/protocol/time.ts";
import type { Draft } from "../../shared/server/store/changes.ts";
import type { StoreDeps } from "../../shared/server/store/open_store.ts";

type AuditDeps = Pick<StoreDeps, "clock" | "newId">;

/** @param detail the reason that the admin gave, if any */
export function audit(
  draft: Draft,
  deps: AuditDeps,
  { human, requestId }: Asker<{ did: string }>,
  event: AuditEvent,
  subject: string,
  detail?: string,
): void {
  const facts = { event, actor: human.did, subject, requestId, ...(detail === undefined ? {} : { detail }) };
  draft.also((operation) => audited(operation, deps, facts));
}

export function audited(
  operation: AtomicOperation,
  deps: AuditDeps,
  facts: Omit<AuditRecord, "id" | "at">,
): AtomicOperation {
  // The time is read before the ID is made, because a page that begins at a time starts at the first ID of that time,
  // and would miss an entry whose ID is older than its own time.
  const at = toIso(deps.clock.now());
  const record: AuditRecord = { id: deps.newId(), at, ...facts };
  return operation.set(KEYS.audit(record.id), record, { expireIn: auditKeptMs(facts.event) });
}
