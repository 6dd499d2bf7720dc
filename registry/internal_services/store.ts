/**
 * Internal services in the store: who may call the registry as a service, and with which scopes (D-46, D-47).
 * Secrets are kept as digests; a rotated one lives for another hour.
 */
import { audited } from "../audit/record.ts";
import type { RegistryDeps } from "../deps.ts";
import { type Page, type PageQuery, readPage } from "../pages.ts";
import { ENDED_KEPT_MS, KEYS } from "../schema/kv_keys.ts";
import type { HumanRecord, ServiceRecord } from "../schema/records.ts";
import type { InternalService, ServiceScope } from "../../shared/protocol/api/services.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { isUlid } from "../../shared/protocol/ids.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { makeSecret } from "../../shared/protocol/secrets.ts";
import { parseIso, toIso } from "../../shared/protocol/time.ts";
import { digest, equalDigests } from "../../shared/server/crypto.ts";
import { commitOptimistically } from "../../shared/server/store/optimistic_commit.ts";

/** A new or rotated service with the secret that is shown once. */
export interface IssuedService {
  record: ServiceRecord;
  secret: string;
}

export function issueService(deps: RegistryDeps, name: string, scopes: ServiceScope[]): IssuedService {
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

/** Adds a new service to a commit; its name must be free. */
export function putService(operation: Deno.AtomicOperation, { record }: IssuedService): Deno.AtomicOperation {
  return operation
    .check({ key: KEYS.serviceName(record.name), versionstamp: null })
    .set(KEYS.serviceName(record.name), record.id)
    .set(KEYS.service(record.id), record);
}

/** The service as it is listed. */
export function serviceView(record: ServiceRecord): InternalService {
  const { id, name, scopes, status, createdAt, rotatedAt, lastUsedAt } = record;
  return { id, name, scopes, status, createdAt, rotatedAt, lastUsedAt };
}

/** @throws {ServiceError} `INTERNAL_SERVICE_ALREADY_EXISTS` */
export async function createService(
  deps: RegistryDeps,
  admin: HumanRecord,
  { name, scopes }: { name: string; scopes: ServiceScope[] },
  requestId: string,
): Promise<IssuedService> {
  const service = issueService(deps, name, scopes);
  return await commitOptimistically(deps, async () => {
    if ((await deps.kv.get(KEYS.serviceName(name))).value !== null) {
      throw new ServiceError("INTERNAL_SERVICE_ALREADY_EXISTS");
    }
    const operation = putService(deps.kv.atomic(), service);
    audited(operation, deps, { event: "service.created", actor: admin.did, subject: service.record.id, requestId });
    return { operation, result: service };
  });
}

/** One page of all services, newest first. */
export async function listServices(deps: RegistryDeps, query: PageQuery): Promise<Page<ServiceRecord>> {
  return await readPage(deps.kv, KEYS.services(), query);
}

/**
 * Gives a service a new secret; the old one works for an hour more.
 *
 * @throws {ServiceError} `INTERNAL_SERVICE_NOT_FOUND`
 */
export async function rotateService(
  deps: RegistryDeps,
  admin: HumanRecord,
  id: string,
  requestId: string,
): Promise<IssuedService> {
  const secret = makeSecret("service", deps.random.bytes);
  const renewed = digest(secret);
  return await commitOptimistically(deps, async () => {
    const entry = await activeService(deps, id);
    const now = deps.clock.now();
    const record: ServiceRecord = {
      ...entry.value,
      digest: renewed,
      rotatedAt: toIso(now),
      previousDigest: entry.value.digest,
      previousUntil: now + LIMITS.serviceOverlapSeconds * 1000,
    };
    const operation = deps.kv.atomic().check(entry).set(entry.key, record);
    audited(operation, deps, { event: "service.rotated", actor: admin.did, subject: id, requestId });
    return { operation, result: { record, secret } };
  });
}

/**
 * Revokes a service; its name is free again.
 *
 * @throws {ServiceError} `INTERNAL_SERVICE_NOT_FOUND`
 */
export async function deleteService(
  deps: RegistryDeps,
  admin: HumanRecord,
  id: string,
  requestId: string,
): Promise<void> {
  await commitOptimistically(deps, async () => {
    const entry = await activeService(deps, id);
    const operation = deps.kv.atomic().check(entry)
      .set(entry.key, { ...entry.value, status: "revoked", deletedAt: toIso(deps.clock.now()) }, {
        expireIn: ENDED_KEPT_MS,
      })
      .delete(KEYS.serviceName(entry.value.name));
    audited(operation, deps, { event: "service.deleted", actor: admin.did, subject: id, requestId });
    return { operation, result: undefined };
  });
}

/** The service that these credentials are of, or `null`. */
export async function authenticateService(
  deps: RegistryDeps,
  id: string,
  secret: string,
): Promise<ServiceRecord | null> {
  if (!isUlid(id)) return null;
  const given = digest(secret);
  const entry = await deps.reads.get<ServiceRecord>(KEYS.service(id));
  const record = entry.value;
  if (record?.status !== "active") return null;
  const now = deps.clock.now();
  const isCurrent = equalDigests(record.digest, given);
  const isPrevious = record.previousDigest !== null && equalDigests(record.previousDigest, given) &&
    now < record.previousUntil;
  if (!isCurrent && !isPrevious) return null;
  const last = record.lastUsedAt === null ? null : parseIso(record.lastUsedAt);
  if (last === null || Math.abs(now - last) >= LIMITS.apiKeyTouchMs) {
    await deps.kv.atomic().check(entry).set(entry.key, { ...record, lastUsedAt: toIso(now) }).commit();
  }
  return record;
}

async function activeService(deps: RegistryDeps, id: string): Promise<Deno.KvEntry<ServiceRecord>> {
  const entry = await deps.kv.get<ServiceRecord>(KEYS.service(id));
  if (entry.value === null || entry.value.status !== "active") throw new ServiceError("INTERNAL_SERVICE_NOT_FOUND");
  return entry;
}
