/**
 * API keys in the store, found by digest and by owner. Only a digest of each key is stored, because the holder of a
 * backup could otherwise use every key in it.
 */
import type { AtomicOperation, KvEntry } from "../../shared/server/kv.ts";
import { audit } from "../audit/record.ts";
import type { Asker } from "../callers.ts";
import { countApiKey, countApiKeyRevoked, quotaOf } from "../quota.ts";
import { KEYS } from "../schema/kv_keys.ts";
import { ENDED_KEPT_MS } from "../schema/retention.ts";
import type { ApiKeyRecord } from "../schema/records.ts";
import type { RegistryStore } from "../store_deps.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { makeSecret } from "../../shared/protocol/secrets.ts";
import { parseIso, toIso } from "../../shared/protocol/time.ts";
import { digest } from "../../shared/server/crypto.ts";
import { readAll } from "../../shared/server/store/batched_reads.ts";
import type { StoreDeps } from "../../shared/server/store/open_store.ts";
import type { PageQuery } from "../../shared/protocol/api/fields.ts";
import { belowCursor, type Page, readPage } from "../../shared/server/store/pages.ts";

/** A new API key that is not stored yet, with its token. The token is shown once, because only its digest is stored. */
export interface IssuedApiKey {
  record: ApiKeyRecord;
  token: string;
}

export function issueApiKey(
  deps: Pick<StoreDeps, "clock" | "random" | "newId">,
  humanId: string,
  name: string,
  token = makeSecret("pat", deps.random.bytes),
): IssuedApiKey {
  const record: ApiKeyRecord = {
    id: deps.newId(),
    name,
    status: "active",
    createdAt: toIso(deps.clock.now()),
    lastUsedAt: null,
    humanId,
    digest: digest(token),
  };
  return { record, token };
}

/** Adds a new key to a commit, with one check that no key has its digest. */
export function putApiKey(operation: AtomicOperation, { record }: IssuedApiKey): AtomicOperation {
  return operation
    .check({ key: KEYS.apiKey(record.digest), versionstamp: null })
    .set(KEYS.apiKey(record.digest), record)
    .set(KEYS.apiKeyOf(record.humanId, record.id), record.digest);
}

/** @throws {ServiceError} `QUOTA_EXCEEDED`, `RATE_LIMIT_EXCEEDED` */
export async function createApiKey(deps: RegistryStore, by: Asker, name: string): Promise<IssuedApiKey> {
  const owner = by.human;
  const key = issueApiKey(deps, owner.id, name);
  return await deps.changes.run(async (draft) => {
    const quota = await quotaOf(draft, owner.id);
    draft.set(quota.key, countApiKey(quota.value, deps.config.quotas, deps.clock.now()));
    draft.also((operation) => putApiKey(operation, key), { checks: 1 });
    await audit(draft, deps, by, "api_key.created", key.record.id);
    return key;
  });
}

export async function listApiKeys(deps: RegistryStore, humanId: string, query: PageQuery): Promise<Page<ApiKeyRecord>> {
  const page = await readPage<string>(deps.kv, belowCursor(KEYS.apiKeysOf(humanId), query.cursor), query);
  const keys = await readAll<ApiKeyRecord>(deps.kv, page.items.map((digest) => KEYS.apiKey(digest)));
  return { items: keys.map(({ value }) => value).filter((value) => value !== null), nextCursor: page.nextCursor };
}

/** Revokes one key of a human; a second call changes nothing. @throws {ServiceError} `API_KEY_NOT_FOUND` */
export async function revokeApiKey(deps: RegistryStore, by: Asker, id: string): Promise<void> {
  const owner = by.human;
  const digest = (await deps.kv.get<string>(KEYS.apiKeyOf(owner.id, id))).value;
  if (digest === null) throw new ServiceError("API_KEY_NOT_FOUND");
  await deps.changes.run(async (draft) => {
    const [entry, quota] = await Promise.all([
      draft.get<ApiKeyRecord>(KEYS.apiKey(digest)),
      quotaOf(draft, owner.id),
    ]);
    if (!entry.value) throw new ServiceError("API_KEY_NOT_FOUND");
    if (entry.value.status === "revoked") return;
    const revoked: ApiKeyRecord = { ...entry.value, status: "revoked", revokedAt: toIso(deps.clock.now()) };
    const options = { expireIn: ENDED_KEPT_MS };
    draft.set(entry.key, revoked, options);
    draft.set(quota.key, countApiKeyRevoked(quota.value));
    draft.also((operation) => operation.set(KEYS.apiKeyOf(owner.id, id), digest, options));
    await audit(draft, deps, by, "api_key.revoked", id);
  });
}

/**
 * Records when an API key or a service was last used, at most once a minute, because each request would otherwise cost
 * a write. If another write comes first, this one is dropped, because it would undo the other, such as a revocation.
 */
export async function touch<T extends { lastUsedAt: string | null }>(
  deps: Pick<StoreDeps, "kv" | "clock">,
  { key, value, versionstamp }: KvEntry<T>,
): Promise<void> {
  const now = deps.clock.now();
  const last = value.lastUsedAt === null ? null : parseIso(value.lastUsedAt);
  if (last !== null && Math.abs(now - last) < LIMITS.apiKeyTouchMs) return;
  await deps.kv.atomic().check({ key, versionstamp }).set(key, { ...value, lastUsedAt: toIso(now) }).commit();
}
