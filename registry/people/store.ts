/**
 * What an admin reads about people and agents (D-169). Every read has a bound. Writes nothing.
 */
import { listApiKeysOf } from "../api_keys/store.ts";
import { KEYS } from "../schema/kv_keys.ts";
import type { AgentRecord, ApiKeyRecord, HumanRecord, SessionRecord } from "../schema/records.ts";
import type { AdminAgentQuery, PeopleQuery } from "../../shared/protocol/api/admin.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { parseFramework } from "../../shared/protocol/names.ts";
import type { BatchedReads } from "../../shared/server/store/batched_reads.ts";
import { belowCursor, type Page, readFilteredPage } from "../../shared/server/store/pages.ts";

export interface PeopleDeps {
  kv: Deno.Kv;
  reads: BatchedReads;
}

/** An agent with its session. */
export interface AgentWithSession {
  agent: AgentRecord;
  session: SessionRecord | null;
}

/** A person with its API keys, the number of its agents, and the last use of a key. */
export interface PersonDetails {
  human: HumanRecord;
  apiKeys: ApiKeyRecord[];
  agents: { active: number; revoked: number };
  lastUsedAt: string | null;
}

/** Returns one page of all people, newest first. */
export async function listPeople(deps: PeopleDeps, query: PeopleQuery): Promise<Page<HumanRecord>> {
  const fits = ({ status, role }: HumanRecord) =>
    (query.status === undefined || status === query.status) && (query.role === undefined || role === query.role);
  return await readFilteredPage<HumanRecord, HumanRecord>(
    deps.kv,
    belowCursor(KEYS.humans(), query.cursor),
    query,
    (entries) => entries.map(({ value }) => fits(value) ? value : null),
  );
}

/** @throws {ServiceError} `PERSON_NOT_FOUND` */
export async function readPerson(deps: PeopleDeps, id: string): Promise<PersonDetails> {
  const { value: human } = await deps.kv.get<HumanRecord>(KEYS.human(id));
  if (human === null) throw new ServiceError("PERSON_NOT_FOUND");
  const [apiKeys, agents] = await Promise.all([
    listApiKeysOf(deps, id, LIMITS.filteredPageReads),
    countAgents(deps, id),
  ]);
  const used = apiKeys.flatMap(({ lastUsedAt }) => lastUsedAt === null ? [] : [lastUsedAt]).sort();
  // Active keys first: many revoked ones do not hide an active one.
  const shown = [...apiKeys.filter(isActive), ...apiKeys.filter((key) => !isActive(key))].slice(0, LIMITS.listPageMax);
  return { human, apiKeys: shown, agents, lastUsedAt: used.at(-1) ?? null };
}

const isActive = ({ status }: ApiKeyRecord): boolean => status === "active";

async function countAgents({ kv, reads }: PeopleDeps, humanId: string): Promise<{ active: number; revoked: number }> {
  const limit = LIMITS.filteredPageReads;
  const index = await Array.fromAsync(kv.list({ prefix: KEYS.agentsOf(humanId) }, { reverse: true, limit }));
  const agents = await Promise.all(index.map(({ key }) => reads.get<AgentRecord>(KEYS.agent(String(key.at(-1))))));
  const known = agents.flatMap(({ value }) => value === null ? [] : [value]);
  const active = known.filter(({ status }) => status === "active").length;
  return { active, revoked: known.length - active };
}

/** Returns one page of all agents, or of those of one owner, newest first. */
export async function listAllAgents(deps: PeopleDeps, query: AdminAgentQuery): Promise<Page<AgentWithSession>> {
  const { status, ownerId, cursor } = query;
  const framework = query.framework === undefined ? undefined : parseFramework(query.framework);
  const fits = (agent: AgentRecord | null) =>
    agent !== null && (status === undefined || agent.status === status) &&
    (framework === undefined || agent.framework === framework);
  const fitting = (agent: AgentRecord | null) => fits(agent) ? agent : null;
  const { items, nextCursor } = ownerId === undefined
    ? await readFilteredPage<AgentRecord, AgentRecord>(
      deps.kv,
      belowCursor(KEYS.agents(), cursor),
      query,
      (entries) => entries.map(({ value }) => fitting(value)),
    )
    : await readFilteredPage<unknown, AgentRecord>(
      deps.kv,
      belowCursor(KEYS.agentsOf(ownerId), cursor),
      query,
      async (entries) => {
        const ids = entries.map(({ key }) => String(key.at(-1)));
        const agents = await Promise.all(ids.map((id) => deps.reads.get<AgentRecord>(KEYS.agent(id))));
        return agents.map(({ value }) => fitting(value));
      },
    );
  const sessions = await Promise.all(items.map(({ id }) => deps.reads.get<SessionRecord>(KEYS.session(id))));
  return { items: items.map((agent, i) => ({ agent, session: sessions[i]?.value ?? null })), nextCursor };
}

/** @throws {ServiceError} `AGENT_NOT_FOUND` */
export async function readAgent({ kv }: PeopleDeps, id: string): Promise<AgentWithSession> {
  const [agent, session] = await kv.getMany<[AgentRecord, SessionRecord]>([KEYS.agent(id), KEYS.session(id)]);
  if (agent.value === null) throw new ServiceError("AGENT_NOT_FOUND", { message: "No such agent" });
  return { agent: agent.value, session: session.value };
}
