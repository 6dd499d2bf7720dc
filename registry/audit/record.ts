/**
 * The audit log: event, actor, subject, time and request. An entry is written once, in the commit of its change,
 * because the change could otherwise be missing from the log. An entry holds no secret and no digest of one, because
 * every admin can read it.
 */
import type { AtomicOperation } from "../../shared/server/kv.ts";
import { KEYS } from "../schema/kv_keys.ts";
import { auditKeptMs } from "../schema/retention.ts";
import type { Asker } from "../callers.ts";
import type { ApiKeyRecord, AuditRecord, HumanRecord } from "../schema/records.ts";
import type { AuditEvent } from "../../shared/protocol/api/audit.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { toIso } from "../../shared/protocol/time.ts";
import type { Draft } from "../../shared/server/store/changes.ts";
import type { StoreDeps } from "../../shared/server/store/open_store.ts";

type AuditDeps = Pick<StoreDeps, "clock" | "newId">;

/**
 * Adds the entry of a change. The commit then depends on the API key and the person of the request, because both may
 * have ended since it began: its body may take 10 s to arrive.
 *
 * @param detail the reason that the admin gave, if any
 * @throws {ServiceError} `API_KEY_REVOKED`, `ACCOUNT_SUSPENDED`
 */
export async function audit(
  draft: Draft,
  deps: AuditDeps,
  { human, requestId, key }: Asker<{ did: string }>,
  event: AuditEvent,
  subject: string,
  detail?: string,
): Promise<void> {
  if (key) {
    const [present, person] = await Promise.all([
      draft.get<ApiKeyRecord>(KEYS.apiKey(key.digest)),
      draft.get<HumanRecord>(KEYS.human(key.humanId)),
    ]);
    if (present.value?.status !== "active") throw new ServiceError("API_KEY_REVOKED");
    if (person.value?.status !== "active") throw new ServiceError("ACCOUNT_SUSPENDED");
  }
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
