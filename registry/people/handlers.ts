/**
 * HTTP handlers of the admin's routes for people and agents (D-169 to D-171).
 */
import type {
  AdminAgentAnswer,
  AdminAgentList,
  AdminAgentQuery,
  AgentSession,
  PeopleList,
  PeopleQuery,
  Person,
  PersonAnswer,
  PersonPath,
  SuspensionAnswer,
  SuspensionBody,
} from "../../shared/protocol/api/admin.ts";
import type { AgentPath } from "../../shared/protocol/api/agents.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { type Answer, type Input, json, noContent } from "../../shared/server/http/route.ts";
import { type AgentDeps, agentView, deleteAgent as deleteAnyAgent } from "../agents/store.ts";
import { apiKeyView } from "../api_keys/store.ts";
import type { ApiKeyCaller } from "../callers.ts";
import type { HumanRecord, SessionRecord } from "../schema/records.ts";
import { sessionState } from "../sessions/session_rules.ts";
import { revokeSession } from "../sessions/store.ts";
import * as store from "./store.ts";
import type { Suspensions } from "./suspensions.ts";

type OfPerson<B = undefined> = Input<PersonPath, undefined, B, ApiKeyCaller>;
type OfAgent = Input<AgentPath, undefined, undefined, ApiKeyCaller>;

export async function listPeople(
  deps: store.PeopleDeps,
  { query }: Input<undefined, PeopleQuery, undefined, ApiKeyCaller>,
): Promise<Answer> {
  const { items, nextCursor } = await store.listPeople(deps, query);
  const response: PeopleList = { people: items.map(personView), pagination: { limit: query.limit, nextCursor } };
  return json(response);
}

export async function getPerson(deps: store.PeopleDeps, { params }: OfPerson): Promise<Answer> {
  const { human, apiKeys, agents, lastUsedAt } = await store.readPerson(deps, params.id);
  const response: PersonAnswer = { person: personView(human), apiKeys: apiKeys.map(apiKeyView), agents, lastUsedAt };
  return json(response);
}

export function suspendPerson(deps: SuspendDeps, input: OfPerson<SuspensionBody>): Promise<Answer> {
  return changeStatus(deps, "suspended", input);
}

export function restorePerson(deps: SuspendDeps, input: OfPerson<SuspensionBody>): Promise<Answer> {
  return changeStatus(deps, "active", input);
}

interface SuspendDeps {
  suspensions: Suspensions;
}

async function changeStatus(
  { suspensions }: SuspendDeps,
  wanted: Person["status"],
  { params, body, caller, exchange }: OfPerson<SuspensionBody>,
): Promise<Answer> {
  const { reason } = body;
  const { requestId } = exchange;
  const { human, complete } = await suspensions.change(params.id, { wanted, admin: caller.human, reason, requestId });
  const response: SuspensionAnswer = { person: personView(human), complete };
  return json(response);
}

export async function listAgents(
  deps: AgentDeps,
  { query }: Input<undefined, AdminAgentQuery, undefined, ApiKeyCaller>,
): Promise<Answer> {
  const { items, nextCursor } = await store.listAllAgents(deps, query);
  const now = deps.clock.now();
  const response: AdminAgentList = {
    agents: items.map(({ agent, session }) => ({
      id: agent.id,
      did: agent.did,
      name: agent.name,
      framework: agent.framework,
      status: agent.status,
      ownerDid: agent.ownerDid,
      expires: agent.expiresAt,
      createdAt: agent.createdAt,
      session: session === null ? null : sessionState(session, now),
    })),
    pagination: { limit: query.limit, nextCursor },
  };
  return json(response);
}

export async function getAgent(deps: AgentDeps, { params }: OfAgent): Promise<Answer> {
  const { agent, session } = await store.readAgent(deps, params.id);
  const response: AdminAgentAnswer = {
    agent: agentView(agent),
    session: session === null ? null : sessionView(session, deps.clock.now()),
  };
  return json(response);
}

export async function deleteAgent(deps: AgentDeps, { params, caller, exchange }: OfAgent): Promise<Answer> {
  const { agent } = await store.readAgent(deps, params.id);
  await deleteAnyAgent(deps, caller.human, agent, exchange.requestId);
  return noContent();
}

export async function revokeAgentAuth(deps: AgentDeps, { params, caller, exchange }: OfAgent): Promise<Answer> {
  const { agent } = await store.readAgent(deps, params.id);
  const { requestId } = exchange;
  await revokeSession(deps, agent.id, {
    event: "session.revoked",
    actor: caller.human.did,
    subject: agent.did,
    requestId,
  });
  return noContent();
}

function personView({ id, did, displayName, role, status, createdAt, suspendedAt }: HumanRecord): Person {
  return { id, did, displayName, role, status, createdAt, suspendedAt: suspendedAt ?? null };
}

function sessionView(session: SessionRecord, now: number): AgentSession {
  return {
    status: sessionState(session, now),
    accessExpiresAt: toIso(session.accessExpiresAt),
    refreshExpiresAt: toIso(session.refreshExpiresAt),
    refreshedAt: session.refreshedAtSeconds === 0 ? null : toIso(session.refreshedAtSeconds * 1000),
  };
}
