/**
 * API keys (PATs) in the store: kept by digest, listed by owner. A key in the clear exists only on its way out.
 */
import type { ApiKey } from "../../shared/protocol/api/accounts.ts";
import { makeSecret } from "../../shared/protocol/secrets.ts";
import { digest } from "../../shared/server/crypto.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { parseIso, toIso } from "../../shared/protocol/time.ts";
import { optimistically } from "../../shared/server/kv.ts";
import { audited } from "../audit/record.ts";
import type { HumanRecord } from "../accounts/store.ts";
import type { RecordSeams, RegistryDeps } from "../deps.ts";
import { KEYS } from "../keys.ts";

export interface ApiKeyRecord extends ApiKey {
  humanId: string;
  digest: string;
}

/** A new key, not yet stored, with the token that is shown once. */
export interface IssuedApiKey {
  record: ApiKeyRecord;
  token: string;
}

export function issueApiKey(deps: RecordSeams, humanId: string, name: string): IssuedApiKey {
  const token = makeSecret("pat", deps.random.bytes);
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

/** Adds a new key to a commit. */
export function putApiKey(operation: Deno.AtomicOperation, { record }: IssuedApiKey): Deno.AtomicOperation {
  return operation
    .check({ key: KEYS.apiKey(record.digest), versionstamp: null })
    .set(KEYS.apiKey(record.digest), record)
    .set(KEYS.apiKeyOf(record.humanId, record.id), record.digest);
}

/** The key as it is listed: without token and digest. */
export function apiKeyView({ id, name, status, createdAt, lastUsedAt }: ApiKeyRecord): ApiKey {
  return { id, name, status, createdAt, lastUsedAt };
}

export async function createApiKey(
  deps: RegistryDeps,
  owner: HumanRecord,
  name: string,
  requestId: string,
): Promise<IssuedApiKey> {
  const key = issueApiKey(deps, owner.id, name);
  const subject = key.record.id;
  return await optimistically(deps, () => {
    const operation = putApiKey(deps.kv.atomic(), key);
    audited(operation, deps, { event: "api_key.created", actor: owner.did, subject, requestId });
    return { operation, result: key };
  });
}

/** The keys of a human, newest first. */
export async function listApiKeys(deps: RegistryDeps, humanId: string): Promise<ApiKeyRecord[]> {
  const keys: ApiKeyRecord[] = [];
  const index = deps.kv.list<string>({ prefix: KEYS.apiKeysOf(humanId) }, { reverse: true });
  for await (const { value: digest } of index) {
    const { value } = await deps.kv.get<ApiKeyRecord>(KEYS.apiKey(digest));
    if (value) keys.push(value);
  }
  return keys;
}

/**
 * Revokes one key of a human; again changes nothing.
 *
 * @throws {ServiceError} `API_KEY_NOT_FOUND`
 */
export async function revokeApiKey(
  deps: RegistryDeps,
  owner: HumanRecord,
  id: string,
  requestId: string,
): Promise<void> {
  const digest = (await deps.kv.get<string>(KEYS.apiKeyOf(owner.id, id))).value;
  if (digest === null) throw new ServiceError("API_KEY_NOT_FOUND");
  await optimistically(deps, async () => {
    const entry = await deps.kv.get<ApiKeyRecord>(KEYS.apiKey(digest));
    if (!entry.value) throw new ServiceError("API_KEY_NOT_FOUND");
    const operation = deps.kv.atomic().check(entry);
    if (entry.value.status === "revoked") return { operation, result: undefined };
    operation.set(entry.key, { ...entry.value, status: "revoked" });
    audited(operation, deps, { event: "api_key.revoked", actor: owner.did, subject: id, requestId });
    return { operation, result: undefined };
  });
}

export async function findApiKey(deps: RegistryDeps, token: string): Promise<Deno.KvEntryMaybe<ApiKeyRecord>> {
  return await deps.kv.get<ApiKeyRecord>(KEYS.apiKey(digest(token)));
}

/** Notes the use of a key, at most once a minute. Losing against another change is fine: that one counts. */
export async function touchApiKey(deps: RegistryDeps, entry: Deno.KvEntry<ApiKeyRecord>): Promise<void> {
  const { lastUsedAt } = entry.value;
  const now = deps.clock.now();
  const last = lastUsedAt === null ? null : parseIso(lastUsedAt);
  if (last !== null && Math.abs(now - last) < LIMITS.apiKeyTouchMs) return;
  await deps.kv.atomic().check(entry).set(entry.key, { ...entry.value, lastUsedAt: toIso(now) }).commit();
}
