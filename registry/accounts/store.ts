/** Human accounts in the store, and the bootstrap that creates the first one. */
import type { AtomicOperation, Kv } from "../../shared/server/kv.ts";
import { issueApiKey, type IssuedApiKey, putApiKey } from "../api_keys/store.ts";
import { audit } from "../audit/record.ts";
import { type IssuedService, issueService, putService } from "../internal_services/store.ts";
import { newQuota } from "../quota.ts";
import { KEYS } from "../schema/kv_keys.ts";
import type { BootstrapRecord, HumanRecord } from "../schema/records.ts";
import type { Human } from "../../shared/protocol/api/accounts.ts";
import { SERVICE_SCOPES } from "../../shared/protocol/api/services.ts";
import { formatDid } from "../../shared/protocol/did.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { toIso } from "../../shared/protocol/time.ts";
import type { Changes } from "../../shared/server/store/changes.ts";
import type { StoreDeps } from "../../shared/server/store/open_store.ts";

export interface AccountDeps extends StoreDeps {
  authority: string;
  changes: Changes;
}

export function newHuman(deps: Omit<AccountDeps, "changes">, displayName: string, role: Human["role"]): HumanRecord {
  const id = deps.newId();
  const did = formatDid({ authority: deps.authority, kind: "human", id });
  return { id, did, displayName, role, status: "active", createdAt: toIso(deps.clock.now()) };
}

/** Adds a new human, its first API key and its counts to a commit. Adds two checks. */
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
 * Creates the first admin, its API key and the proxy's service credential in one commit. Of concurrent calls one
 * succeeds.
 *
 * @throws {ServiceError} `ADMIN_BOOTSTRAP_ALREADY_COMPLETED`
 */
export async function bootstrapAdmin(
  deps: AccountDeps,
  names: { displayName: string; apiKeyName: string },
  requestId: string,
): Promise<{ human: HumanRecord; key: IssuedApiKey; service: IssuedService }> {
  const human = newHuman(deps, names.displayName, "admin");
  const key = issueApiKey(deps, human.id, names.apiKeyName);
  const service = issueService(deps, "proxy", [...SERVICE_SCOPES]);
  const record: BootstrapRecord = { humanId: human.id, at: human.createdAt };
  return await deps.changes.run(async (draft) => {
    const entry = await draft.get(KEYS.bootstrap());
    if (entry.value !== null) throw new ServiceError("ADMIN_BOOTSTRAP_ALREADY_COMPLETED");
    await putService(draft, service);
    draft.set(entry.key, record);
    draft.also((operation) => putHuman(operation, human, key), { checks: 2 });
    audit(draft, deps, { human, requestId }, "admin.bootstrapped", human.did);
    return { human, key, service };
  });
}
