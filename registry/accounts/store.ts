/** Human accounts in the store, and the bootstrap that creates the first one. */
import type { AtomicOperation, Kv } from "../../shared/server/kv.ts";
import { issueApiKey, type IssuedApiKey, putApiKey } from "../api_keys/store.ts";
import { audit } from "../audit/record.ts";
import { type IssuedService, issueService, putService } from "../internal_services/store.ts";
import { newQuota, quotaOf } from "../quota.ts";
import { KEYS } from "../schema/kv_keys.ts";
import type { BootstrapRecord, HumanRecord, SuspensionRecord } from "../schema/records.ts";
import type { RegistryStore } from "../store_deps.ts";
import type { Human } from "../../shared/protocol/api/accounts.ts";
import { SERVICE_SCOPES } from "../../shared/protocol/api/services.ts";
import { formatDid } from "../../shared/protocol/did.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { Changes } from "../../shared/server/store/changes.ts";
import type { StoreDeps } from "../../shared/server/store/open_store.ts";
import { BatchedReads } from "../../shared/server/store/batched_reads.ts";

export function newHuman(deps: RegistryStore, displayName: string, role: Human["role"]): HumanRecord {
  const id = deps.newId();
  const did = formatDid({ authority: deps.authority, kind: "human", id });
  return { id, did, displayName, role, status: "active", createdAt: toIso(deps.clock.now()) };
}

/** Adds a new human, its counts and its first API key to a commit, with one check for the human and one for the key. */
export function putHuman(operation: AtomicOperation, human: HumanRecord, key: IssuedApiKey): AtomicOperation {
  return putApiKey(
    operation.check({ key: KEYS.human(human.id), versionstamp: null })
      .set(KEYS.human(human.id), human)
      .set(KEYS.quota(human.id), newQuota({ apiKeys: 1 })),
    key,
  );
}

export async function findHuman(deps: Pick<StoreDeps, "kv">, id: string): Promise<HumanRecord | null> {
  return (await deps.kv.get<HumanRecord>(KEYS.human(id))).value;
}

export async function bootstrapOpen(kv: Kv): Promise<boolean> {
  return (await kv.get(KEYS.bootstrap())).value === null;
}

/**
 * Creates the first admin, its API key and the proxy's service credential in one commit. Of several calls at once, only
 * one succeeds.
 *
 * @throws {ServiceError} `ADMIN_BOOTSTRAP_ALREADY_COMPLETED`
 */
export async function bootstrapAdmin(
  deps: RegistryStore,
  names: { displayName: string; apiKeyName: string },
  requestId: string,
): Promise<{ human: HumanRecord; key: IssuedApiKey; service: IssuedService }> {
  const human = newHuman(deps, names.displayName, "admin");
  const key = issueApiKey(deps, human.id, names.apiKeyName);
  const service = issueService(deps, "proxy", [...SERVICE_SCOPES]);
  const record: BootstrapRecord = { humanId: human.id, at: human.createdAt };
  // Read before the bootstrap, because the name that another instance's bootstrap has taken since would be refused.
  const name = KEYS.serviceName(service.record.name);
  return await deps.changes.run(async (draft) => {
    const entry = await draft.get(KEYS.bootstrap());
    if (entry.value !== null) throw new ServiceError("ADMIN_BOOTSTRAP_ALREADY_COMPLETED");
    await putService(draft, service);
    draft.set(entry.key, record);
    draft.also((operation) => putHuman(operation, human, key), { checks: 2 });
    await audit(draft, deps, { human, requestId }, "admin.bootstrapped", human.did);
    return { human, key, service };
  }, [name]);
}

/**
 * Creates another API key for the first admin and restores its role and status. Returns `null` if there was no
 * bootstrap. It has no route, because with one a stolen admin key could make another admin; only the command
 * `store recover` on the registry's host calls it.
 */
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
    // No quota can refuse recovery, because an admin without a key has no way to make room.
    draft.set(quota.key, { ...quota.value, apiKeys: quota.value.apiKeys + 1 });
    draft.also((operation) => putApiKey(operation, key), { checks: 1 });
    if (suspendedAt !== undefined) {
      const restore: SuspensionRecord = { wanted: "active", cursor: null };
      draft.also((operation) => operation.set(KEYS.suspension(human.id), restore));
    }
    await audit(
      draft,
      deps,
      { human: { did: "store recover" }, requestId: deps.newId() },
      "admin.recovered",
      human.did,
    );
    return { human, key };
  });
}
