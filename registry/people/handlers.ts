/** HTTP handlers of the admin's routes for people and agents. */
import {
  type AdminAgentAnswer,
  type AdminAgentList,
  type AdminAgentQuery,
  AdminAgentSummary,
  type AdminCounts,
  type PeopleList,
  type PeopleQuery,
  Person,
  type PersonAnswer,
  type SuspensionAnswer,
  type SuspensionBody,
} from "../../shared/protocol/api/admin.ts";
import { ApiKey } from "../../shared/protocol/api/accounts.ts";
import { Agent } from "../../shared/protocol/api/agents.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { type Answer, json, pick } from "../../shared/server/http/route.ts";
import type { SharedCount } from "../../shared/server/store/shared_count.ts";
import { deleteAgent as deleteAnyAgent } from "../agents/store.ts";
import { doneById, type WithId, type WithQuery } from "../callers.ts";
import type { HumanRecord } from "../schema/records.ts";
import { shownState } from "../sessions/session_rules.ts";
import { revokeSession } from "../sessions/store.ts";
import type { RegistryStore } from "../store_deps.ts";
import * as store from "./store.ts";
import type { Suspensions } from "./suspensions.ts";

export async function counts({ counts }: { counts: SharedCount<AdminCounts> }): Promise<Answer> {
  return json(await counts.current());
}

export async function listPeople(deps: RegistryStore, { query }: WithQuery<PeopleQuery>): Promise<Answer> {
  const { items, nextCursor } = await store.listPeople(deps, query);
  return json<PeopleList>({ people: items.map(personView), pagination: { limit: query.limit, nextCursor } });
}

export async function getPerson(deps: RegistryStore, { params }: WithId): Promise<Answer> {
  const { human, apiKeys, agents, lastUsedAt } = await store.readPerson(deps, params.id);
  return json<PersonAnswer>({
    person: personView(human),
    apiKeys: apiKeys.map((key) => pick(ApiKey, key)),
    agents,
    lastUsedAt,
  });
}

export const suspendPerson = changeTo("suspended");
export const restorePerson = changeTo("active");

function changeTo(wanted: Person["status"]) {
  return async (
    { suspensions }: { suspensions: Suspensions },
    { params, body, caller }: WithId<SuspensionBody>,
  ): Promise<Answer> => {
    const { human, complete } = await suspensions.change(params.id, { wanted, by: caller, reason: body.reason });
    return json<SuspensionAnswer>({ person: personView(human), complete });
  };
}

export async function listAgents(deps: RegistryStore, { query }: WithQuery<AdminAgentQuery>): Promise<Answer> {
  const { items, nextCursor } = await store.listAllAgents(deps, query);
  const now = deps.clock.now();
  return json<AdminAgentList>({
    agents: items.map(({ agent, ownerName, session }) =>
      pick(AdminAgentSummary, {
        ...agent,
        ownerName,
        expires: agent.expiresAt,
        session: session === null ? null : shownState(session, now),
      })
    ),
    pagination: { limit: query.limit, nextCursor },
  });
}

export async function getAgent(deps: RegistryStore, { params }: WithId): Promise<Answer> {
  const { agent, ownerName, session } = await store.readAgent(deps, params.id);
  return json<AdminAgentAnswer>({
    agent: pick(Agent, agent),
    ownerName,
    session: session && {
      status: shownState(session, deps.clock.now()),
      accessExpiresAt: toIso(session.accessExpiresAt),
      refreshExpiresAt: toIso(session.refreshExpiresAt),
      refreshedAt: session.refreshedAtSeconds === 0 ? null : toIso(session.refreshedAtSeconds * 1000),
    },
  });
}

export const deleteAgent = doneById(async (deps: RegistryStore, by, id) =>
  await deleteAnyAgent(deps, by, (await store.readAgent(deps, id)).agent)
);

export const revokeAgentAuth = doneById(async (deps: RegistryStore, by, id) =>
  await revokeSession(deps, by, (await store.readAgent(deps, id)).agent)
);

function personView(human: HumanRecord): Person {
  return pick(Person, { ...human, suspendedAt: human.suspendedAt ?? null });
}
