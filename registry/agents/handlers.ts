/**
 * HTTP handlers of agents. A foreign and an unknown agent give the same answer, because the difference would tell a
 * stranger which IDs exist.
 */
import type * as z from "zod";
import {
  Agent,
  type AgentListQuery,
  type AgentPath,
  AgentSummary,
  type Challenge,
  type ChallengeBody,
  type RegisterAnswer,
  type RegisterBody,
  type ReissueAnswer,
  ResolvedAgent,
} from "../../shared/protocol/api/agents.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { parseFramework } from "../../shared/protocol/names.ts";
import { REGISTRATION_TEMPLATE } from "../../shared/protocol/registration.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { type Answer, type Input, json, noContent, pick } from "../../shared/server/http/route.ts";
import type { ApiKeyCaller } from "../callers.ts";
import { revokeSession } from "../sessions/store.ts";
import * as store from "./store.ts";
import type { AgentDeps } from "./store.ts";

type OfAgent<B = undefined> = Input<z.output<typeof AgentPath>, undefined, B, ApiKeyCaller>;

export async function createChallenge(
  deps: AgentDeps,
  { body, caller }: Input<undefined, undefined, z.output<typeof ChallengeBody>, ApiKeyCaller>,
): Promise<Answer> {
  const challenge = await store.createChallenge(deps, caller.human, body.publicKey);
  const response: Challenge = {
    challengeId: challenge.id,
    nonce: challenge.nonce,
    ownerDid: challenge.ownerDid,
    expiresAt: toIso(challenge.expiresAt),
    algorithm: "Ed25519",
    messageTemplate: REGISTRATION_TEMPLATE,
  };
  return json(response, 201);
}

export async function registerAgent(
  deps: AgentDeps,
  { body, caller, exchange }: Input<undefined, undefined, z.output<typeof RegisterBody>, ApiKeyCaller>,
): Promise<Answer> {
  const { agent, ait, agentAuth } = await store.registerAgent(deps, caller.human, body, exchange.requestId);
  const response: RegisterAnswer = { agent: pick(Agent, agent), ait, agentAuth };
  return json(response, 201);
}

export async function listAgents(
  deps: AgentDeps,
  { query, caller }: Input<undefined, z.output<typeof AgentListQuery>, undefined, ApiKeyCaller>,
): Promise<Answer> {
  const framework = query.framework === undefined ? undefined : parseFramework(query.framework) ?? undefined;
  const { agents, nextCursor } = await store.listAgents(deps, caller.human, { ...query, framework });
  const summaries = agents.map((agent) => pick(AgentSummary, { ...agent, expires: agent.expiresAt }));
  return json({ agents: summaries, pagination: { limit: query.limit, nextCursor } });
}

export async function getAgent(deps: AgentDeps, { params, caller }: OfAgent): Promise<Answer> {
  const entry = await store.findOwnAgent(deps, caller.human, params.id);
  return json({ agent: pick(Agent, entry.value) });
}

export async function reissueAgent(deps: AgentDeps, { params, caller, exchange }: OfAgent): Promise<Answer> {
  const issued = await store.reissueAgent(deps, caller.human, params.id, exchange.requestId);
  const response: ReissueAnswer = { ...issued, agent: pick(Agent, issued.agent) };
  return json(response);
}

export async function deleteAgent(deps: AgentDeps, { params, caller, exchange }: OfAgent): Promise<Answer> {
  const { value: agent } = await store.findOwnAgent(deps, caller.human, params.id);
  await store.deleteAgent(deps, caller.human, agent, exchange.requestId);
  return noContent();
}

export async function revokeAgentAuth(deps: AgentDeps, { params, caller, exchange }: OfAgent): Promise<Answer> {
  const { value: agent } = await store.findOwnAgent(deps, caller.human, params.id);
  const { requestId } = exchange;
  await revokeSession(deps, agent.id, {
    event: "session.revoked",
    actor: caller.human.did,
    subject: agent.did,
    requestId,
  });
  return noContent();
}

/** The caller is anonymous, so the message names no owner. */
export async function resolveAgent(
  deps: AgentDeps,
  { params }: Input<z.output<typeof AgentPath>, undefined, undefined, null>,
): Promise<Answer> {
  const agent = await store.findAgent(deps, params.id);
  if (!agent) throw new ServiceError("AGENT_NOT_FOUND", { message: "no such agent" });
  return json(pick(ResolvedAgent, agent));
}
