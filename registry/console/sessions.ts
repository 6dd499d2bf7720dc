/**
 * The codes and sessions of the console in the store, where a session outlives a restart of the registry. Only digests
 * are stored, because a reader of the store could otherwise use them. Each request reads the API key and the person
 * again, so that a revoked key, a suspended person or a lost role ends the session at once.
 */
import type { KvEntry } from "../../shared/server/kv.ts";
import { audited } from "../audit/record.ts";
import type { ApiKeyCaller, Asker } from "../callers.ts";
import { KEYS } from "../schema/kv_keys.ts";
import type { ApiKeyRecord, ConsoleRecord, HumanRecord } from "../schema/records.ts";
import { newCode } from "../../shared/page/page_app.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import type { RequestContext } from "../../shared/server/http/route.ts";
import type { BatchedReads } from "../../shared/server/store/batched_reads.ts";
import type { StoreDeps } from "../../shared/server/store/open_store.ts";
import { StoreBusy } from "../../shared/server/store/store_errors.ts";

/** How long a code works. With more, another reader of the browser's history has longer to use it. */
const CODE_MS = LIMITS.pageCodeMs;
const SESSION_MS = 8 * 3_600_000;
const IDLE_MS = 1_800_000;
/** How often a session's last use is written. With less, each click would be a write. */
const SEEN_EVERY_MS = 60_000;
/** Most codes, and sessions, of each person. With more, a program that makes or opens codes fills the store. */
const CODES_MAX = 10, SESSIONS_MAX = 10;

/** With the queue for what any caller may invent, as codes and cookies are. */
type SessionDeps = StoreDeps & { keyReads: Pick<BatchedReads, "get"> };

/** A request with a code or a cookie. */
type Visit = Pick<RequestContext, "requestId" | "ip">;

/** Makes a code that opens the console once. @throws {ServiceError} `RATE_LIMIT_EXCEEDED` @throws {StoreBusy} */
export async function createConsoleCode(
  deps: StoreDeps,
  { human, key }: ApiKeyCaller,
): Promise<{ code: string; expiresAt: number }> {
  const now = deps.clock.now();
  const person = await deps.kv.get<HumanRecord>(KEYS.human(human.id));
  if ((await recordsOf(deps, human.id, "code")).length >= CODES_MAX) {
    throw new ServiceError("RATE_LIMIT_EXCEEDED", {
      message: `${CODES_MAX} addresses of the console are open; each ends after a minute`,
      headers: { "Retry-After": String(CODE_MS / 1000) },
    });
  }
  const { code, digest } = await newCode(deps.random.bytes);
  const record: ConsoleRecord = { kind: "code", humanId: human.id, keyId: key.id, createdAt: now, seenAt: now };
  // The person is written again, because of two requests at once each would otherwise count before the other writes.
  const { ok } = await deps.kv.atomic().check(person).set(person.key, person.value)
    .set(KEYS.console(digest), record, { expireIn: CODE_MS }).commit();
  if (!ok) throw new StoreBusy(new Error("Another address of the console was made at the same time"));
  return { code, expiresAt: now + CODE_MS };
}

/** Uses up a code and begins the session in one commit, so that of two callers with the same code only one gets in. */
export async function takeConsoleCode(
  deps: SessionDeps,
  codeDigest: string,
  digest: string,
  { requestId, ip }: Visit,
): Promise<Asker | null> {
  const found = await recordOf(deps, codeDigest, { kind: "code", ip });
  if (found === null) return null;
  const { entry, record, by } = found, { human } = by, now = deps.clock.now();
  const session: ConsoleRecord = { ...record, kind: "session", createdAt: now, seenAt: now };
  const operation = deps.kv.atomic().check(entry).delete(entry.key)
    .set(KEYS.console(digest), session, { expireIn: SESSION_MS });
  const others = await recordsOf(deps, human.id, "session");
  const oldest = others.sort((a, b) => b.value.createdAt - a.value.createdAt).slice(SESSIONS_MAX - 1);
  for (const { key } of oldest) operation.delete(key);
  audited(operation, deps, { event: "console.opened", actor: human.did, subject: human.did, requestId });
  return (await operation.commit()).ok ? { ...by, requestId } : null;
}

export async function findConsoleSession(
  deps: SessionDeps,
  digest: string,
  { requestId, ip, isUse }: Visit & { isUse: boolean },
): Promise<Asker | null> {
  const found = await recordOf(deps, digest, { kind: "session", ip });
  if (found === null) return null;
  const { entry, record, by } = found, now = deps.clock.now();
  if (isUse && Math.abs(now - record.seenAt) >= SEEN_EVERY_MS) {
    const expireIn = Math.max(1, record.createdAt + SESSION_MS - now);
    // If another write comes first, this one is dropped, because the other has stored its time or ended the session.
    await deps.kv.atomic().check(entry).set(entry.key, { ...record, seenAt: now }, { expireIn }).commit();
  }
  return { ...by, requestId };
}

export async function endConsoleSession({ kv }: Pick<StoreDeps, "kv">, digest: string): Promise<void> {
  await kv.delete(KEYS.console(digest));
}

function isLive({ kind, createdAt, seenAt }: ConsoleRecord, wanted: ConsoleRecord["kind"], now: number): boolean {
  if (kind !== wanted) return false;
  // A time in the future comes from a clock that was set back. Its distance counts too, because a session that began
  // far ahead would otherwise be valid all that time.
  const isWithin = (since: number, ms: number) => Math.abs(now - since) < ms;
  return kind === "code" ? isWithin(createdAt, CODE_MS) : isWithin(createdAt, SESSION_MS) && isWithin(seenAt, IDLE_MS);
}

/**
 * Returns a console record with the person and the API key that opened it. It is `null` unless the record is valid, the
 * account is an active admin and the key is active, because a revoked key would otherwise keep its console.
 */
async function recordOf(
  { kv, keyReads, clock }: SessionDeps,
  digest: string,
  { kind, ip }: Pick<ConsoleRecord, "kind"> & Pick<Visit, "ip">,
) {
  const entry = await keyReads.get<ConsoleRecord>(KEYS.console(digest), ip), record = entry.value;
  if (record === null || !isLive(record, kind, clock.now())) return null;
  const [human, keyDigest] = await kv.getMany<[HumanRecord, string]>([
    KEYS.human(record.humanId),
    KEYS.apiKeyOf(record.humanId, record.keyId),
  ]);
  if (human.value?.role !== "admin" || human.value.status !== "active" || keyDigest.value === null) return null;
  const { value: key } = await kv.get<ApiKeyRecord>(KEYS.apiKey(keyDigest.value));
  return key?.status === "active" ? { entry, record, by: { human: human.value, key } } : null;
}

async function recordsOf(
  { kv, clock }: Pick<StoreDeps, "kv" | "clock">,
  humanId: string,
  kind: ConsoleRecord["kind"],
): Promise<KvEntry<ConsoleRecord>[]> {
  const own: KvEntry<ConsoleRecord>[] = [];
  // All records are read, because with a bound some of this person's would be missed. Each admin has only a few.
  for await (const entry of kv.list<ConsoleRecord>({ prefix: KEYS.consoles() })) {
    if (entry.value.humanId === humanId && isLive(entry.value, kind, clock.now())) own.push(entry);
  }
  return own;
}
