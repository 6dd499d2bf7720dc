/**
 * Internal services in the store, with their scopes. The scopes are narrow, because the stolen secret of a proxy must
 * not open what the proxy does not need. Secrets are stored as digests, and a rotated secret works for one more hour.
 */
import type { KvEntry } from "../../shared/server/kv.ts";
import { audit } from "../audit/record.ts";
import type { Asker } from "../callers.ts";
import { touch } from "../api_keys/store.ts";
import { KEYS } from "../schema/kv_keys.ts";
import { ENDED_KEPT_MS } from "../schema/retention.ts";
import type { ServiceRecord } from "../schema/records.ts";
import type { RegistryStore } from "../store_deps.ts";
import type { ServiceScope } from "../../shared/protocol/api/services.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { isUlid } from "../../shared/protocol/ids.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { makeSecret } from "../../shared/protocol/secrets.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { digest, equalDigests } from "../../shared/server/crypto.ts";
import type { BatchedReads } from "../../shared/server/store/batched_reads.ts";
import type { Draft } from "../../shared/server/store/changes.ts";
import type { StoreDeps } from "../../shared/server/store/open_store.ts";

/** A new or rotated service, with its secret. The secret is shown once, because only its digest is stored. */
export interface IssuedService {
  record: ServiceRecord;
  secret: string;
}

export function issueService(
  deps: Pick<StoreDeps, "clock" | "random" | "newId">,
  name: string,
  scopes: ServiceScope[],
): IssuedService {
  const secret = makeSecret("service", deps.random.bytes);
  const record: ServiceRecord = {
    id: deps.newId(),
    name,
    scopes,
    status: "active",
    createdAt: toIso(deps.clock.now()),
    rotatedAt: null,
    lastUsedAt: null,
    digest: digest(secret),
    previousDigest: null,
    previousUntil: 0,
  };
  return { record, secret };
}

/** Adds a new service to a change. @throws {ServiceError} `INTERNAL_SERVICE_ALREADY_EXISTS` when the name is taken */
export async function putService(draft: Draft, { record }: IssuedService): Promise<void> {
  const name = await draft.get(KEYS.serviceName(record.name));
  if (name.value !== null) throw new ServiceError("INTERNAL_SERVICE_ALREADY_EXISTS");
  draft.set(name.key, record.id);
  draft.also((operation) => operation.set(KEYS.service(record.id), record));
}

/** @throws {ServiceError} `INTERNAL_SERVICE_ALREADY_EXISTS` */
export async function createService(
  deps: RegistryStore,
  by: Asker,
  { name, scopes }: { name: string; scopes: ServiceScope[] },
): Promise<IssuedService> {
  const service = issueService(deps, name, scopes);
  return await deps.changes.run(async (draft) => {
    await putService(draft, service);
    await audit(draft, deps, by, "service.created", service.record.id);
    return service;
  });
}

/**
 * Creates a new secret for a service. The old one works for another hour, so that a running proxy is not locked out
 * before it has the new one.
 *
 * @throws {ServiceError} `INTERNAL_SERVICE_NOT_FOUND`
 */
export async function rotateService(deps: RegistryStore, by: Asker, id: string): Promise<IssuedService> {
  const secret = makeSecret("service", deps.random.bytes);
  const renewed = digest(secret);
  return await deps.changes.run(async (draft) => {
    const entry = await activeService(draft, id);
    const now = deps.clock.now();
    const record: ServiceRecord = {
      ...entry.value,
      digest: renewed,
      rotatedAt: toIso(now),
      previousDigest: entry.value.digest,
      previousUntil: now + LIMITS.serviceOverlapSeconds * 1000,
    };
    draft.set(entry.key, record);
    await audit(draft, deps, by, "service.rotated", id);
    return { record, secret };
  });
}

/** Revokes a service and frees its name. @throws {ServiceError} `INTERNAL_SERVICE_NOT_FOUND` */
export async function deleteService(deps: RegistryStore, by: Asker, id: string): Promise<void> {
  await deps.changes.run(async (draft) => {
    const entry = await activeService(draft, id);
    const name = await draft.get(KEYS.serviceName(entry.value.name));
    const revoked: ServiceRecord = { ...entry.value, status: "revoked", deletedAt: toIso(deps.clock.now()) };
    draft.set(entry.key, revoked, { expireIn: ENDED_KEPT_MS });
    draft.delete(name.key);
    await audit(draft, deps, by, "service.deleted", id);
  });
}

/** Returns the service with these credentials, or `null`. Records the use at most once a minute. */
export async function authenticateService(
  deps: RegistryStore & { serviceReads: BatchedReads },
  { id, secret, ip }: { id: string; secret: string; ip: string },
): Promise<ServiceRecord | null> {
  if (!isUlid(id)) return null;
  const given = digest(secret);
  const entry = await deps.serviceReads.get<ServiceRecord>(KEYS.service(id), ip);
  if (entry.value === null || entry.value.status !== "active") return null;
  const record = entry.value;
  const now = deps.clock.now();
  const isCurrent = equalDigests(record.digest, given);
  const isPrevious = record.previousDigest !== null && equalDigests(record.previousDigest, given) &&
    now < record.previousUntil;
  if (!isCurrent && !isPrevious) return null;
  await touch(deps, entry);
  return record;
}

/** @throws {ServiceError} `INTERNAL_SERVICE_NOT_FOUND` */
async function activeService(draft: Draft, id: string): Promise<KvEntry<ServiceRecord>> {
  const entry = await draft.get<ServiceRecord>(KEYS.service(id));
  if (entry.value === null || entry.value.status !== "active") throw new ServiceError("INTERNAL_SERVICE_NOT_FOUND");
  return entry;
}
