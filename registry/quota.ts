/**
 * The quotas of one human. The counts are part of every commit that changes what they count, so a quota also holds when
 * requests race, and checking it costs the same for one agent as for thousands.
 */
import type { Kv, KvEntry } from "../shared/server/kv.ts";
import type { Quotas } from "./config.ts";
import { KEYS } from "./schema/kv_keys.ts";
import type { Expiring, QuotaRecord } from "./schema/records.ts";
import { DAY_MS, HOUR_MS, yieldToEventLoop } from "../shared/clock.ts";
import { ServiceError } from "../shared/protocol/errors.ts";
import { LIMITS } from "../shared/protocol/limits.ts";
import { decide, type WindowRecord } from "../shared/server/rate_limit.ts";
import type { RegistryStore } from "./store_deps.ts";
import type { Draft } from "../shared/server/store/changes.ts";

/**
 * How full the revocation list is when accounts with many entries are refused. With more, too little room is left for
 * the revocations of the others.
 */
const CRL_REFUSE_PERCENT = 80;
/** An account with more entries counts as one with many. With less, ordinary humans are refused because of a few. */
const CRL_REFUSE_ENTRIES = 100;

/** Stands for the end of an invite that does not expire. */
const NEVER = Number.MAX_SAFE_INTEGER;

export function newQuota(counts: Partial<QuotaRecord>): QuotaRecord {
  const none = { registrations: [], reissues: [], keyCreations: [], challenges: [], revocations: [], invites: [] };
  return { agents: 0, apiKeys: 0, ...none, ...counts };
}

/** Reads the counts of a human. They exist for every human, because they are written with it. */
export async function quotaOf(draft: Draft, humanId: string): Promise<KvEntry<QuotaRecord>> {
  const entry = await draft.get<QuotaRecord>(KEYS.quota(humanId));
  if (entry.value === null) throw new Error(`The store has no counts of the human ${humanId}`);
  return entry;
}

export function quotasOf({ reads }: RegistryStore, humanIds: readonly string[]): Promise<(QuotaRecord | null)[]> {
  return Promise.all(humanIds.map(async (id) => (await reads.get<QuotaRecord>(KEYS.quota(id))).value));
}

function liveCount(list: Expiring, now: number): number {
  return list.reduce((sum, [until, count]) => until > now ? sum + count : sum, 0);
}

/** Returns the list with one more entry, which counts until `until`, rounded up to a multiple of `grainMs`. */
function withOne(list: Expiring, { until, grainMs, now }: { until: number; grainMs: number; now: number }): Expiring {
  const end = until === NEVER ? NEVER : Math.ceil(until / grainMs) * grainMs;
  const live = list.filter(([other]) => other > now);
  const same = live.find(([other]) => other === end)?.[1] ?? 0;
  const others = live.filter(([other]) => other !== end);
  return [...others, [end, same + 1] as const].sort(([a], [b]) => a - b);
}

/** Returns the list without one entry, the first that ends at `until` or later. */
function withoutOne(list: Expiring, until: number): Expiring {
  const at = list.findIndex(([end]) => end >= until);
  return list.flatMap(([end, count], i) => i !== at ? [[end, count] as const] : count > 1 ? [[end, count - 1]] : []);
}

/** @throws {ServiceError} `QUOTA_EXCEEDED` */
function refuseOver(used: number, quota: number, what: string): void {
  if (used < quota) return;
  throw new ServiceError("QUOTA_EXCEEDED", { message: `The quota of ${quota} ${what} is used up` });
}

/** @throws {ServiceError} `RATE_LIMIT_EXCEEDED` with `Retry-After` */
function counted(record: WindowRecord, quota: number, now: number, what: string): WindowRecord {
  const rule = { name: "quota", requests: quota, windowMs: DAY_MS };
  const { allowed, resetMs, record: next } = decide(rule, record, now);
  if (allowed) return next();
  throw tooMany(`The quota of ${quota} ${what} in 24 h is used up`, resetMs);
}

function tooMany(message: string, retryMs: number): ServiceError {
  const seconds = Math.max(1, Math.ceil(retryMs / 1000));
  return new ServiceError("RATE_LIMIT_EXCEEDED", { message, headers: { "Retry-After": String(seconds) } });
}

/**
 * Refuses a change that adds to the revocation list when the human has too many entries on it.
 *
 * @throws {ServiceError} `QUOTA_EXCEEDED`, `RATE_LIMIT_EXCEEDED`
 */
function refuseByRevocations({ revocations }: QuotaRecord, quotas: Quotas, crlFill: number, now: number): void {
  const live = liveCount(revocations, now);
  refuseOver(live, quotas.revocations, "live revocation entries");
  if (crlFill * 100 >= CRL_REFUSE_PERCENT && live > CRL_REFUSE_ENTRIES) {
    throw tooMany("The revocation list is nearly full, and this account has many entries on it", HOUR_MS);
  }
}

/** @throws {ServiceError} `QUOTA_EXCEEDED`, `RATE_LIMIT_EXCEEDED` */
export function countRegistration(
  quota: QuotaRecord,
  challengeExpiresAt: number,
  { quotas, crlFill, now }: { quotas: Quotas; crlFill: number; now: number },
): QuotaRecord {
  refuseByRevocations(quota, quotas, crlFill, now);
  refuseOver(quota.agents, quotas.agents, "active agents");
  return {
    ...quota,
    agents: quota.agents + 1,
    challenges: withoutOne(quota.challenges, challengeExpiresAt),
    registrations: counted(quota.registrations, quotas.registrationsPerDay, now, "registrations"),
  };
}

/**
 * @param ofAgent the reissues of this agent so far
 * @throws {ServiceError} `QUOTA_EXCEEDED`, `RATE_LIMIT_EXCEEDED`
 */
export function countReissue(
  quota: QuotaRecord,
  ofAgent: WindowRecord,
  { quotas, crlFill, now }: { quotas: Quotas; crlFill: number; now: number },
): { quota: QuotaRecord; ofAgent: WindowRecord } {
  refuseByRevocations(quota, quotas, crlFill, now);
  const next = counted(ofAgent, quotas.agentReissuesPerDay, now, "reissues of this agent");
  const reissues = counted(quota.reissues, quotas.reissuesPerDay, now, "reissues");
  return { quota: { ...quota, reissues }, ofAgent: next };
}

/** Never refuses, because a stolen agent must always be stoppable (D-210). */
export function countDeletion(quota: QuotaRecord): QuotaRecord {
  return { ...quota, agents: Math.max(0, quota.agents - 1) };
}

/**
 * Never refuses, because the deletion of a stolen agent also adds an entry.
 *
 * @param keptUntilMs when the entry leaves the list, milliseconds since the Unix epoch
 */
export function countRevocation(quota: QuotaRecord, keptUntilMs: number, now: number): QuotaRecord {
  return { ...quota, revocations: withOne(quota.revocations, { until: keptUntilMs, grainMs: DAY_MS, now }) };
}

/** @throws {ServiceError} `QUOTA_EXCEEDED` */
export function countChallenge(quota: QuotaRecord, expiresAt: number, quotas: Quotas, now: number): QuotaRecord {
  refuseOver(liveCount(quota.challenges, now), quotas.challenges, "open challenges");
  // Times are rounded so that about 60 different ones remain, because each takes space in the record.
  const grainMs = Math.max(1000, Math.ceil((expiresAt - now) / 60));
  return { ...quota, challenges: withOne(quota.challenges, { until: expiresAt, grainMs, now }) };
}

/** @throws {ServiceError} `QUOTA_EXCEEDED`, `RATE_LIMIT_EXCEEDED` */
export function countApiKey(quota: QuotaRecord, quotas: Quotas, now: number): QuotaRecord {
  refuseOver(quota.apiKeys, quotas.apiKeys, "active API keys");
  // New keys per day are limited too, because a revoked key keeps its records for 90 days and would fill the store.
  const keyCreations = counted(quota.keyCreations, LIMITS.keyCreationsPerDay, now, "new API keys");
  return { ...quota, apiKeys: quota.apiKeys + 1, keyCreations };
}

/** Never refuses, because a stolen key must always be revocable. */
export function countApiKeyRevoked(quota: QuotaRecord): QuotaRecord {
  return { ...quota, apiKeys: Math.max(0, quota.apiKeys - 1) };
}

/** @throws {ServiceError} `QUOTA_EXCEEDED` */
export function countInvite(quota: QuotaRecord, expiresAt: number | null, now: number): QuotaRecord {
  refuseOver(liveCount(quota.invites, now), LIMITS.openInvites, "open invites");
  return { ...quota, invites: withOne(quota.invites, { until: expiresAt ?? NEVER, grainMs: HOUR_MS, now }) };
}

/** Counts an invite that was redeemed or deleted. It never refuses, because this only frees a place. */
export function countInviteClosed(quota: QuotaRecord, expiresAt: number | null): QuotaRecord {
  return { ...quota, invites: withoutOne(quota.invites, expiresAt ?? NEVER) };
}

/** Returns the humans with the most live revocation entries, largest number first. Reads every quota record. */
export async function mostRevocations(
  kv: Kv,
  { now, limit }: { now: number; limit: number },
): Promise<{ humanId: string; entries: number }[]> {
  let most: { humanId: string; entries: number }[] = [];
  let read = 0;
  for await (const { key, value } of kv.list<QuotaRecord>({ prefix: KEYS.quotas() }, { batchSize: 500 })) {
    if (++read % 500 === 0) await yieldToEventLoop();
    const entries = liveCount(value.revocations, now);
    if (entries === 0) continue;
    most.push({ humanId: String(key.at(-1)), entries });
    most = most.sort((a, b) => b.entries - a.entries).slice(0, limit);
  }
  return most;
}
