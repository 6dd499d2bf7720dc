/**
 * Recovery (D-52): a new admin key when all are lost. Works on the store itself, on the registry's host; there is no
 * route to it. Audited like everything else.
 */
import type { StoreDeps } from "../../shared/server/store/open_store.ts";
import { commitOptimistically } from "../../shared/server/store/optimistic_commit.ts";
import { audited } from "../audit/record.ts";
import { issueApiKey, type IssuedApiKey, putApiKey } from "../api_keys/store.ts";
import { KEYS } from "../schema/kv_keys.ts";
import type { BootstrapRecord, HumanRecord, QuotaRecord } from "../schema/records.ts";

/** Gives the first admin a further API key, and its role back; `null` when there was never a bootstrap. */
export async function recoverAdmin(deps: StoreDeps): Promise<{ human: HumanRecord; key: IssuedApiKey } | null> {
  const bootstrap = (await deps.kv.get<BootstrapRecord>(KEYS.bootstrap())).value;
  if (!bootstrap) return null;
  return await commitOptimistically(deps, async () => {
    const entry = await deps.kv.get<HumanRecord>(KEYS.human(bootstrap.humanId));
    if (!entry.value) throw new Error("The store holds a bootstrap without its admin");
    const human: HumanRecord = { ...entry.value, role: "admin" };
    const key = issueApiKey(deps, human.id, "recovered");
    const operation = putApiKey(deps.kv.atomic().check(entry).set(entry.key, human), key);
    // Recovery is not refused by a quota. Without the record, the first change that needs it counts the keys.
    const quota = await deps.kv.get<QuotaRecord>(KEYS.quota(human.id));
    operation.check(quota);
    if (quota.value) operation.set(quota.key, { ...quota.value, apiKeys: quota.value.apiKeys + 1 });
    const requestId = deps.newId();
    audited(operation, deps, { event: "admin.recovered", actor: "store recover", subject: human.did, requestId });
    return { operation, result: { human, key } };
  });
}
