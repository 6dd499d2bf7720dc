/**
 * Recovery: a new API key for the first admin when all admin keys are lost. It opens the store on the registry's host,
 * and no route does the same, because a stolen admin key could otherwise make another admin. The audit log records it.
 */
import { BatchedReads } from "../../shared/server/store/batched_reads.ts";
import { Changes } from "../../shared/server/store/changes.ts";
import type { StoreDeps } from "../../shared/server/store/open_store.ts";
import { audit } from "../audit/record.ts";
import { issueApiKey, type IssuedApiKey, putApiKey } from "../api_keys/store.ts";
import { KEYS } from "../schema/kv_keys.ts";
import { quotaOf } from "../quota.ts";
import type { BootstrapRecord, HumanRecord, SuspensionRecord } from "../schema/records.ts";

/** Creates another API key for the first admin and restores its role and status. Returns `null` when there was no bootstrap. */
export async function recoverAdmin(
  deps: StoreDeps & { maxChecks: number },
): Promise<{ human: HumanRecord; key: IssuedApiKey } | null> {
  const bootstrap = (await deps.kv.get<BootstrapRecord>(KEYS.bootstrap())).value;
  if (!bootstrap) return null;
  const changes = new Changes({ ...deps, reads: new BatchedReads(deps.kv) });
  return await changes.run(async (draft) => {
    const [entry, quota] = await Promise.all([
      draft.get<HumanRecord>(KEYS.human(bootstrap.humanId)),
      quotaOf(draft, bootstrap.humanId),
    ]);
    if (!entry.value) throw new Error("The store holds a bootstrap without its admin");
    const { suspendedAt, ...rest } = entry.value;
    const human: HumanRecord = { ...rest, role: "admin", status: "active" };
    const key = issueApiKey(deps, human.id, "recovered");
    draft.set(entry.key, human);
    // A quota does not refuse recovery, because an admin without a key could not make room.
    draft.set(quota.key, { ...quota.value, apiKeys: quota.value.apiKeys + 1 });
    draft.also((operation) => putApiKey(operation, key), { checks: 1 });
    if (suspendedAt !== undefined) {
      const restore: SuspensionRecord = { wanted: "active", cursor: null };
      draft.also((operation) => operation.set(KEYS.suspension(human.id), restore));
    }
    audit(draft, deps, { human: { did: "store recover" }, requestId: deps.newId() }, "admin.recovered", human.did);
    return { human, key };
  });
}
