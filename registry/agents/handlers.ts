/**
 * HTTP handlers of agents. An agent of another owner gets the same answer as one that does not exist, because with a
 * difference a person could try out IDs faster than the limit of `resolveAgent` allows.
 */
import {
  Agent,
  type AgentListQuery,
  AgentSummary,
  type Challenge,
  type ChallengeBody,
  type RegisterAnswer,
  type RegisterBody,
  type ReissueAnswer,
  ResolvedAgent,
} from "../../shared/protocol/api/agents.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { REGISTRATION_TEMPLATE } from "../../shared/protocol/registration.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { type Answer, json, pick } from "../../shared/server/http/route.ts";
import { doneById, type WithBody, type WithId, type WithQuery } from "../callers.ts";
import { revokeSession } from "../sessions/store.ts";
import * as store from "./store.ts";
import type { AgentDeps } from "./store.ts";

export async function createChallenge(deps: AgentDeps, { body, caller }: WithBody<ChallengeBody>): Promise<Answer> {
  const challenge = await store.createChallenge(deps, caller.human, body.publicKey);
  return json<Challenge>({
    challengeId: challenge.id,
    nonce: challenge.nonce,
    ownerDid: challenge.ownerDid,
    expiresAt: toIso(challenge.expiresAt),
    algorithm: "Ed25519",
    messageTemplate: REGISTRATION_TEMPLATE,
  }, 201);
}

export async function registerAgent(deps: AgentDeps, { body, caller }: WithBody<RegisterBody>): Promise<Answer> {
  const { agent, ait, agentAuth } = await store.registerAgent(deps, caller, body);
  return json<RegisterAnswer>({ agent: pick(Agent, agent), ait, agentAuth }, 201);
}

export async function listAgents(deps: AgentDeps, { query, caller }: WithQuery<AgentListQuery>): Promise<Answer> {
  const { limit } = query;
  const { items, nextCursor } = await store.pageOfAgents(deps, caller.human.id, query, store.fitsQuery(query));
  const agents = items.map((agent) => pick(AgentSummary, { ...agent, expires: agent.expiresAt }));
  return json({ agents, pagination: { limit, nextCursor } });
}

export async function getAgent(deps: AgentDeps, { params, caller }: WithId): Promise<Answer> {
  return json({ agent: pick(Agent, await store.findOwnAgent(deps, caller.human, params.id)) });
}

export async function reissueAgent(deps: AgentDeps, { params, caller }: WithId): Promise<Answer> {
  const issued = await store.reissueAgent(deps, caller, params.id);
  return json<ReissueAnswer>({ ...issued, agent: pick(Agent, issued.agent) });
}

export const deleteAgent = doneById(async (deps: AgentDeps, by, id) =>
  await store.deleteAgent(deps, by, await store.findOwnAgent(deps, by.human, id))
);

export const revokeAgentAuth = doneById(async (deps: AgentDeps, by, id) =>
  await revokeSession(deps, by, await store.findOwnAgent(deps, by.human, id))
);

/** The usual message adds that the caller may not own the agent, but this caller is anonymous. */
export async function resolveAgent(deps: AgentDeps, { params }: Pick<WithId, "params">): Promise<Answer> {
  const agent = await store.findAgent(deps, params.id);
  if (!agent) throw new ServiceError("AGENT_NOT_FOUND", { message: "no such agent" });
  return json(pick(ResolvedAgent, agent));
}
