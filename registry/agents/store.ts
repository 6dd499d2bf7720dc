/**
 * Agents in the store: registration, reissue and deletion. Each is one commit of agent, session, revocation and counts,
 * because a part that was written alone would leave, for example, a deleted agent with a valid token.
 */
import { audit } from "../audit/record.ts";
import type { ApiKeyCaller, Asker } from "../callers.ts";
import { countChallenge, countDeletion, countRegistration, countReissue, quotaOf } from "../quota.ts";
import type { CrlPublisher } from "../revocation/crl.ts";
import { addRevocation } from "../revocation/store.ts";
import { KEYS } from "../schema/kv_keys.ts";
import { ENDED_KEPT_MS } from "../schema/retention.ts";
import type { AgentRecord, ChallengeRecord, HumanRecord, SessionRecord } from "../schema/records.ts";
import { isLive } from "../sessions/session_rules.ts";
import { issueSession, keptFor, revoked } from "../sessions/store.ts";
import type { Signing } from "../signing_keys.ts";
import type { RegistryStore } from "../store_deps.ts";
import { DAY_MS, settledWithin } from "../../shared/clock.ts";
import { signAit } from "../../shared/protocol/signed/ait.ts";
import type { RegisterBody } from "../../shared/protocol/api/agents.ts";
import type { AgentAuth } from "../../shared/protocol/api/sessions.ts";
import { toBase64Url, utf8Bytes } from "../../shared/protocol/base64url.ts";
import { formatDid } from "../../shared/protocol/did.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { DEFAULT_FRAMEWORK, parseFramework } from "../../shared/protocol/names.ts";
import { toIso, unixSeconds } from "../../shared/protocol/time.ts";
import { readAll } from "../../shared/server/store/batched_reads.ts";
import type { PageQuery } from "../../shared/protocol/api/fields.ts";
import { belowCursor, type Page, readPage } from "../../shared/server/store/pages.ts";
import { registrationMessage } from "../../shared/protocol/registration.ts";
import { readPublicKey, verify } from "../../shared/server/crypto.ts";

/** How long a deletion waits for a proxy in this process. With more, a long list holds up its answer. */
const LIST_WAIT_MS = 1_000;

export interface AgentDeps extends RegistryStore {
  signing: Signing;
  crl: CrlPublisher;
}

export async function findAgent({ kv }: Pick<RegistryStore, "kv">, id: string): Promise<AgentRecord | null> {
  return (await kv.get<AgentRecord>(KEYS.agent(id))).value;
}

/** @throws {ServiceError} `AGENT_NOT_FOUND`, also when another human owns the agent */
export async function findOwnAgent(deps: RegistryStore, owner: HumanRecord, id: string): Promise<AgentRecord> {
  const agent = await findAgent(deps, id);
  if (agent?.ownerId !== owner.id) throw new ServiceError("AGENT_NOT_FOUND");
  return agent;
}

export async function createChallenge(
  deps: RegistryStore,
  owner: HumanRecord,
  publicKey: string,
): Promise<ChallengeRecord> {
  const challenge: ChallengeRecord = {
    id: deps.newId(),
    ownerId: owner.id,
    ownerDid: owner.did,
    publicKey,
    nonce: toBase64Url(deps.random.bytes(LIMITS.challengeNonceBytes)),
    expiresAt: deps.clock.now() + deps.config.challengeTtlSeconds * 1000,
    usedAt: null,
  };
  return await deps.changes.run(async (draft) => {
    const quota = await quotaOf(draft, owner.id);
    const { quotas } = deps.config;
    draft.set(quota.key, countChallenge(quota.value, challenge.expiresAt, quotas, deps.clock.now()));
    const kept = challengeKept(challenge, deps.clock.now());
    draft.also((operation) => operation.set(KEYS.challenge(challenge.id), challenge, kept));
    return challenge;
  });
}

/** Counts from the end of the challenge, because one with a long `CHALLENGE_TTL_SECONDS` would otherwise be lost before. */
function challengeKept({ expiresAt }: ChallengeRecord, now: number): { expireIn: number } {
  return { expireIn: expiresAt + LIMITS.challengeKeptSeconds * 1000 - now };
}

/**
 * Registers an agent. One commit marks the challenge as used, stores agent and session, and raises the owner's counts.
 *
 * @throws {ServiceError} `AGENT_REGISTRATION_CHALLENGE_NOT_FOUND`, those of `checkRegistration`, `QUOTA_EXCEEDED`,
 * `RATE_LIMIT_EXCEEDED`, `ACCOUNT_SUSPENDED`
 */
export async function registerAgent(
  deps: AgentDeps,
  by: ApiKeyCaller,
  request: RegisterBody,
): Promise<{ agent: AgentRecord; ait: string; agentAuth: AgentAuth }> {
  const owner = by.human;
  const challenge = (await deps.reads.get<ChallengeRecord>(KEYS.challenge(request.challengeId))).value;
  if (challenge?.ownerId !== owner.id) throw new ServiceError("AGENT_REGISTRATION_CHALLENGE_NOT_FOUND");
  const now = deps.clock.now();
  checkRegistration(challenge, request, now);
  const id = deps.newId();
  const ttlDays = request.ttlDays ?? LIMITS.aitTtlDaysDefault;
  const { agent, ait } = await withNewAit(deps, {
    id,
    did: formatDid({ authority: deps.authority, kind: "agent", id }),
    ownerDid: owner.did,
    ownerId: owner.id,
    name: request.name,
    framework: parseFramework(request.framework) ?? DEFAULT_FRAMEWORK,
    publicKey: request.publicKey,
    ttlDays,
    status: "active",
    createdAt: toIso(now),
  });
  const session = issueSession(deps);
  const crlFill = await deps.crl.fill();
  await deps.changes.run(async (draft) => {
    const [entry, quota] = await Promise.all([
      draft.get<ChallengeRecord>(KEYS.challenge(challenge.id)),
      quotaOf(draft, owner.id),
    ]);
    if (entry.value === null) throw new ServiceError("AGENT_REGISTRATION_CHALLENGE_NOT_FOUND");
    if (entry.value.usedAt !== null) throw new ServiceError("AGENT_REGISTRATION_CHALLENGE_REPLAYED");
    const options = { quotas: deps.config.quotas, crlFill, now };
    const counted = countRegistration(quota.value, challenge.expiresAt, options);
    const used: ChallengeRecord = { ...entry.value, usedAt: now };
    draft.set(entry.key, used, challengeKept(used, now));
    draft.set(quota.key, counted);
    draft.also((operation) =>
      operation.check({ key: KEYS.agent(id), versionstamp: null })
        .set(KEYS.agent(id), agent)
        .set(KEYS.agentOf(owner.id, id), true)
        .set(KEYS.session(id), session.record, keptFor(deps, session.record)), { checks: 1 });
    await audit(draft, deps, by, "agent.registered", agent.did);
  });
  deps.metrics?.count("agents_registered_total");
  deps.metrics?.count("aits_issued_total");
  return { agent, ait, agentAuth: session.agentAuth };
}

/**
 * Issues a new AIT and revokes the previous one. An agent without a live session also gets a new session, because
 * otherwise it could never work again.
 *
 * @throws {ServiceError} `AGENT_NOT_FOUND`, `QUOTA_EXCEEDED`, `RATE_LIMIT_EXCEEDED`, `ACCOUNT_SUSPENDED`;
 * `AGENT_REISSUE_INVALID_STATE` when the agent is revoked or another change came first
 */
export async function reissueAgent(deps: AgentDeps, by: ApiKeyCaller, id: string) {
  const owner = by.human;
  const before = await findOwnAgent(deps, owner, id);
  const issued = await withNewAit(deps, before);
  const newSession = issueSession(deps);
  const crlFill = await deps.crl.fill();
  const reissued = await deps.changes.run(async (draft) => {
    const [entry, session, quota] = await Promise.all([
      draft.get<AgentRecord>(KEYS.agent(id)),
      draft.get<SessionRecord>(KEYS.session(id)),
      quotaOf(draft, owner.id),
    ]);
    const isSame = entry.value?.status === "active" && entry.value.currentJti === before.currentJti;
    if (!isSame) throw new ServiceError("AGENT_REISSUE_INVALID_STATE");
    const now = deps.clock.now();
    const options = { quotas: deps.config.quotas, crlFill, now };
    const counted = countReissue(quota.value, before.reissues ?? [], options);
    await addRevocation(deps, draft, before, "reissued", { key: quota.key, value: counted.quota });
    const agent: AgentRecord = { ...issued.agent, reissues: counted.ofAgent };
    draft.set(entry.key, agent);
    const isNew = !isLive(session.value, now);
    if (isNew) draft.set(session.key, newSession.record, keptFor(deps, newSession.record));
    await audit(draft, deps, by, "agent.reissued", agent.did);
    return { agent, ait: issued.ait, ...isNew ? { agentAuth: newSession.agentAuth } : {} };
  });
  deps.metrics?.count("aits_issued_total");
  return reissued;
}

/**
 * Revokes an agent permanently: puts its AIT on the revocation list and ends its session. It succeeds even if a reissue
 * or refresh commits first, and no quota refuses it, because a stolen agent must always be stoppable.
 *
 * @param by the owner, or an admin
 * @throws {ServiceError} `AGENT_NOT_FOUND`, `AGENT_REVOKE_INVALID_STATE`
 */
export async function deleteAgent(
  deps: RegistryStore,
  by: Asker,
  { id, ownerId }: Pick<AgentRecord, "id" | "ownerId">,
): Promise<void> {
  await deps.changes.run(async (draft) => {
    const [entry, session, quota] = await Promise.all([
      draft.get<AgentRecord>(KEYS.agent(id)),
      draft.get<SessionRecord>(KEYS.session(id)),
      quotaOf(draft, ownerId),
    ]);
    const agent = entry.value;
    if (agent === null) throw new ServiceError("AGENT_NOT_FOUND");
    if (agent.status !== "active") throw new ServiceError("AGENT_REVOKE_INVALID_STATE");
    const counted = countDeletion(quota.value);
    await addRevocation(deps, draft, agent, "agent_deleted", { key: quota.key, value: counted });
    const now = deps.clock.now();
    const kept = { expireIn: ENDED_KEPT_MS };
    const deleted: AgentRecord = { ...agent, status: "revoked", updatedAt: toIso(now) };
    draft.set(entry.key, deleted, kept);
    if (session.value) draft.set(session.key, revoked(deps, session.value), kept);
    draft.also((operation) => operation.set(KEYS.agentOf(ownerId, id), now + ENDED_KEPT_MS, kept));
    await audit(draft, deps, by, "agent.deleted", agent.did);
  });
  deps.metrics?.count("agents_revoked_total");
  // The answer waits for the list, because the proxy would otherwise accept messages to the agent after it.
  await settledWithin(deps.clock, Promise.resolve(deps.onDeleted?.()), LIST_WAIT_MS);
}

/**
 * Most agents of one owner that are read for a page, 0.03 ms each. An owner may ask 600 times a minute, so with 1,000 a
 * filter that fits no agent would take a third of a core.
 */
const OWN_AGENTS_READ = 200;

/**
 * Returns one page of the agents that fit, newest first, of one owner or of all. The agents that it reads have a bound, so
 * a page may hold fewer agents than its limit, or none, and still have a cursor.
 */
export async function pageOfAgents(
  deps: RegistryStore,
  ownerId: string | undefined,
  query: PageQuery,
  fits: (agent: AgentRecord) => boolean,
): Promise<Page<AgentRecord>> {
  const fitting = (agent: AgentRecord | null) => agent !== null && fits(agent) ? agent : null;
  const selector = belowCursor(ownerId === undefined ? KEYS.agents() : KEYS.agentsOf(ownerId), query.cursor);
  const bounded = { limit: query.limit, ...ownerId !== undefined && { most: OWN_AGENTS_READ } };
  return await readPage<AgentRecord>(deps.kv, selector, bounded, async (entries) => {
    if (ownerId === undefined) return entries.map(({ value }) => fitting(value));
    const agents = await readAll<AgentRecord>(deps.kv, entries.map(({ key }) => KEYS.agent(String(key.at(-1)))));
    return agents.map(({ value }) => fitting(value));
  });
}

/** Returns a test for status and framework. A filter that is absent fits every agent. */
export function fitsQuery(
  { status, framework }: { status?: AgentRecord["status"] | undefined; framework?: string | undefined },
): (agent: AgentRecord) => boolean {
  const label = framework === undefined ? null : parseFramework(framework);
  return (agent) => (status === undefined || agent.status === status) && (label === null || agent.framework === label);
}

async function withNewAit(
  deps: AgentDeps,
  base: Omit<AgentRecord, "currentJti" | "expiresAt" | "updatedAt">,
): Promise<{ agent: AgentRecord; ait: string }> {
  const issuedAtSeconds = unixSeconds(deps.clock.now());
  const jti = deps.newId();
  const grant = { ...base, issuer: deps.config.registryUrl, agentDid: base.did, jti, issuedAtSeconds };
  const ait = await signAit(grant, await deps.signing.current());
  const agent: AgentRecord = {
    ...base,
    currentJti: jti,
    expiresAt: toIso(issuedAtSeconds * 1000 + base.ttlDays * DAY_MS),
    updatedAt: toIso(deps.clock.now()),
  };
  return { agent, ait };
}

/**
 * Checks a registration. The errors differ, because the client has to do different things: request a new challenge, use
 * the right key, or sign correctly.
 *
 * @throws {ServiceError} `AGENT_REGISTRATION_CHALLENGE_REPLAYED`, `…_CHALLENGE_EXPIRED`, `…_PROOF_MISMATCH`,
 * `…_PROOF_INVALID`
 */
function checkRegistration(challenge: ChallengeRecord, request: RegisterBody, now: number): void {
  if (challenge.usedAt !== null) throw new ServiceError("AGENT_REGISTRATION_CHALLENGE_REPLAYED");
  if (now >= challenge.expiresAt) throw new ServiceError("AGENT_REGISTRATION_CHALLENGE_EXPIRED");
  if (challenge.publicKey !== request.publicKey) throw new ServiceError("AGENT_REGISTRATION_PROOF_MISMATCH");
  const { nonce, ownerDid } = challenge;
  const message = registrationMessage({ ...request, nonce, ownerDid });
  if (!verify(readPublicKey(request.publicKey), request.challengeSignature, utf8Bytes(message))) {
    throw new ServiceError("AGENT_REGISTRATION_PROOF_INVALID");
  }
}
