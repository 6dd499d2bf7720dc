/**
 * Recovery (D-52): a new API key for the first admin when all admin keys are lost. It opens the store on the registry's
 * host; no route does the same. The audit log records it.
 */
import type { StoreDeps } from "../../shared/server/store/open_store.ts";
import { commitOptimistically } from "../../shared/server/store/optimistic_commit.ts";
import { audited } from "../audit/record.ts";
import { issueApiKey, type IssuedApiKey, putApiKey } from "../api_keys/store.ts";
import { KEYS } from "../schema/kv_keys.ts";
import type { BootstrapRecord, HumanRecord, QuotaRecord, SuspensionRecord } from "../schema/records.ts";

/** Creates another API key for the first admin and restores its role and status. Returns `null` when there was no bootstrap. */
export async function recoverAdmin(deps: StoreDeps): Promise<{ human: HumanRecord; key: IssuedApiKey } | null> {
  const bootstrap = (await deps.kv.get<BootstrapRecord>(KEYS.bootstrap())).value;
  if (!bootstrap) return null;
  return await commitOptimistically(deps, async () => {
    const entry = await deps.kv.get<HumanRecord>(KEYS.human(bootstrap.humanId));
    if (!entry.value) throw new Error("The store holds a bootstrap without its admin");
    const { suspendedAt, ...rest } = entry.value;
    const human: HumanRecord = { ...rest, role: "admin", status: "active" };
    const key = issueApiKey(deps, human.id, "recovered");
    const operation = putApiKey(deps.kv.atomic().check(entry).set(entry.key, human), key);
    // A quota does not refuse recovery. Without the record, the next change that needs it counts the keys.
    const quota = await deps.kv.get<QuotaRecord>(KEYS.quota(human.id));
    operation.check(quota);
    if (suspendedAt !== undefined) {
      const restore: SuspensionRecord = { wanted: "active", cursor: null };
      operation.set(KEYS.suspension(human.id), restore);
    }
    if (quota.value) operation.set(quota.key, { ...quota.value, apiKeys: quota.value.apiKeys + 1 });
    const requestId = deps.newId();
    audited(operation, deps, { event: "admin.recovered", actor: "store recover", subject: human.did, requestId });
    return { operation, result: { human, key } };
  });
}
