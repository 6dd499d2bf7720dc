/**
 * Agents in the store: registration, reissue, deletion. Each is one commit of agent, session, revocation and what it
 * uses up; whoever loses a race learns it.
 */
import type { Agent } from "../../shared/protocol/api/agents.ts";
import type { AgentAuth } from "../../shared/protocol/api/sessions.ts";
import { signAit } from "../../shared/protocol/ait.ts";
import { toBase64Url } from "../../shared/protocol/base64url.ts";
import { formatDid } from "../../shared/protocol/did.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { DEFAULT_FRAMEWORK, parseFramework } from "../../shared/protocol/names.ts";
import { parseIso, toIso, unixSeconds } from "../../shared/protocol/time.ts";
import { optimistically } from "../../shared/server/kv.ts";
import type { HumanRecord } from "../accounts/store.ts";
import { audited } from "../audit/record.ts";
import type { RegistryDeps } from "../deps.ts";
import { KEYS } from "../keys.ts";
import { withRevocation } from "../revocation/store.ts";
import { isLive, type SessionRecord } from "../sessions/session.ts";
import { issueSession } from "../sessions/store.ts";
import { type ChallengeRecord, judgeRegistration, type RegistrationRequest } from "./registration.ts";

/** An agent as stored: the record as it is answered, and its owner's id. */
export interface AgentRecord extends Agent {
  ownerId: string;
}

const DAY_MS = 86_400_000;

/** The agent as it is answered. */
export function agentView({ ownerId: _, ...agent }: AgentRecord): Agent {
  return agent;
}

export async function findAgent(deps: RegistryDeps, id: string): Promise<AgentRecord | null> {
  return (await deps.kv.get<AgentRecord>(KEYS.agent(id))).value;
}

/** @throws {ServiceError} `AGENT_NOT_FOUND`, the same for a foreign agent and none */
export async function findOwnAgent(
  deps: RegistryDeps,
  owner: HumanRecord,
  id: string,
): Promise<Deno.KvEntry<AgentRecord>> {
  const entry = await deps.kv.get<AgentRecord>(KEYS.agent(id));
  if (entry.value === null || entry.value.ownerId !== owner.id) throw new ServiceError("AGENT_NOT_FOUND");
  return entry;
}

export async function createChallenge(
  deps: RegistryDeps,
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
  await deps.kv.set(KEYS.challenge(challenge.id), challenge, { expireIn: LIMITS.challengeKeptSeconds * 1000 });
  return challenge;
}

/** An agent with a fresh AIT, and a session where one was made. */
export interface IssuedAgent {
  agent: AgentRecord;
  ait: string;
  agentAuth?: AgentAuth;
}

/**
 * Registers an agent: challenge used, agent and session stored, in one commit.
 *
 * @throws {ServiceError} `AGENT_REGISTRATION_CHALLENGE_NOT_FOUND` and those of `judgeRegistration`
 */
export async function registerAgent(
  deps: RegistryDeps,
  owner: HumanRecord,
  request: RegistrationRequest,
  requestId: string,
): Promise<IssuedAgent & { agentAuth: AgentAuth }> {
  return await optimistically(deps, async () => {
    const entry = await deps.kv.get<ChallengeRecord>(KEYS.challenge(request.challengeId));
    if (entry.value?.ownerId !== owner.id) throw new ServiceError("AGENT_REGISTRATION_CHALLENGE_NOT_FOUND");
    const now = deps.clock.now();
    judgeRegistration(entry.value, request, now);
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
    const used: ChallengeRecord = { ...entry.value, usedAt: now };
    const operation = deps.kv.atomic()
      .check(entry, { key: KEYS.agent(id), versionstamp: null })
      .set(entry.key, used, { expireIn: LIMITS.challengeKeptSeconds * 1000 })
      .set(KEYS.agent(id), agent)
      .set(KEYS.agentOf(owner.id, id), true)
      .set(KEYS.session(id), session.record);
    audited(operation, deps, { event: "agent.registered", actor: owner.did, subject: agent.did, requestId });
    return { operation, result: { agent, ait, agentAuth: session.agentAuth } };
  });
}

/**
 * Issues a new AIT and revokes the one before; an agent without a live session gets a new one too (D-40).
 *
 * @throws {ServiceError} `AGENT_NOT_FOUND`, `AGENT_REISSUE_INVALID_STATE` when revoked or when another change won
 */
export async function reissueAgent(
  deps: RegistryDeps,
  owner: HumanRecord,
  id: string,
  requestId: string,
): Promise<IssuedAgent> {
  const entry = await findOwnAgent(deps, owner, id);
  if (entry.value.status !== "active") throw new ServiceError("AGENT_REISSUE_INVALID_STATE");
  const session = await deps.kv.get<SessionRecord>(KEYS.session(id));
  const issued = await withNewAit(deps, entry.value);
  const fresh = isLive(session.value, deps.clock.now()) ? null : issueSession(deps);
  const committed = await withRevocation(
    deps,
    entry.value,
    "reissued",
    (operation) => {
      operation.check(entry).set(entry.key, issued.agent);
      if (fresh) operation.check(session).set(session.key, fresh.record);
      return audited(operation, deps, {
        event: "agent.reissued",
        actor: owner.did,
        subject: entry.value.did,
        requestId,
      });
    },
    entry,
    ...(fresh ? [session] : []),
  );
  if (!committed) throw new ServiceError("AGENT_REISSUE_INVALID_STATE");
  return fresh ? { ...issued, agentAuth: fresh.agentAuth } : issued;
}

/**
 * Revokes an agent for good: its AIT goes on the list, its session ends (D-41).
 *
 * @throws {ServiceError} `AGENT_NOT_FOUND`, `AGENT_REVOKE_INVALID_STATE`
 */
export async function deleteAgent(
  deps: RegistryDeps,
  owner: HumanRecord,
  id: string,
  requestId: string,
): Promise<void> {
  // A reissue or refresh may win a race; the deletion then starts over with what it left.
  for (let tries = 0; tries < LIMITS.commitRetries; tries++) {
    const entry = await findOwnAgent(deps, owner, id);
    if (entry.value.status !== "active") throw new ServiceError("AGENT_REVOKE_INVALID_STATE");
    const session = await deps.kv.get<SessionRecord>(KEYS.session(id));
    const revoked: AgentRecord = { ...entry.value, status: "revoked", updatedAt: toIso(deps.clock.now()) };
    const committed = await withRevocation(
      deps,
      entry.value,
      "agent_deleted",
      (operation) => {
        operation.check(entry).set(entry.key, revoked).check(session);
        if (session.value) operation.set(session.key, { ...session.value, status: "revoked" });
        return audited(operation, deps, {
          event: "agent.deleted",
          actor: owner.did,
          subject: entry.value.did,
          requestId,
        });
      },
      entry,
      session,
    );
    if (committed) return;
  }
  throw new ServiceError("AGENT_REVOKE_INVALID_STATE");
}

/** One page of a human's agents, newest first. */
export async function listAgents(
  deps: RegistryDeps,
  owner: HumanRecord,
  query: { status?: string | undefined; framework?: string | undefined; limit: number; cursor?: string | undefined },
): Promise<{ agents: AgentRecord[]; nextCursor: string | null }> {
  const prefix = KEYS.agentsOf(owner.id);
  const selector = query.cursor ? { prefix, end: KEYS.agentOf(owner.id, query.cursor) } : { prefix };
  const agents: AgentRecord[] = [];
  for await (const { key } of deps.kv.list<true>(selector, { reverse: true })) {
    const agent = await findAgent(deps, String(key.at(-1)));
    if (!agent || (query.status && agent.status !== query.status)) continue;
    if (query.framework !== undefined && agent.framework !== query.framework) continue;
    if (agents.length === query.limit) return { agents, nextCursor: agents.at(-1)?.id ?? null };
    agents.push(agent);
  }
  return { agents, nextCursor: null };
}

async function withNewAit(
  deps: RegistryDeps,
  base: Omit<AgentRecord, "currentJti" | "expiresAt" | "updatedAt">,
): Promise<{ agent: AgentRecord; ait: string }> {
  const issuedAtSeconds = unixSeconds(deps.clock.now());
  const jti = deps.newId();
  const ait = await signAit({
    issuer: deps.config.registryUrl,
    agentDid: base.did,
    ownerDid: base.ownerDid,
    name: base.name,
    framework: base.framework,
    publicKey: base.publicKey,
    jti,
    issuedAtSeconds,
    ttlDays: base.ttlDays,
  }, await deps.signing.current());
  const agent: AgentRecord = {
    ...base,
    currentJti: jti,
    expiresAt: toIso(issuedAtSeconds * 1000 + base.ttlDays * DAY_MS),
    updatedAt: toIso(deps.clock.now()),
  };
  return { agent, ait };
}

/** When the agent's current AIT expires, milliseconds since the Unix epoch. */
export function aitExpiry(agent: AgentRecord): number {
  return parseIso(agent.expiresAt) ?? 0;
}
