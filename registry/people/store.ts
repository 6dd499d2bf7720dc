/**
 * What an admin reads about people. Every read has a bound, because an operator with many people would
 * otherwise stop the server by looking. Writes nothing.
 */
import { listApiKeys } from "../api_keys/store.ts";
import { KEYS } from "../schema/kv_keys.ts";
import type { AgentRecord, ApiKeyRecord, HumanRecord } from "../schema/records.ts";
import type { RegistryStore } from "../store_deps.ts";
import { nearest } from "../../shared/did_you_mean.ts";
import type { PeopleQuery } from "../../shared/protocol/api/admin.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { belowCursor, type Page, readFilteredPage } from "../../shared/server/store/pages.ts";
import { listAllAgents } from "./all_agents.ts";
import { beginsWith, isSameName } from "./name_match.ts";

/** With more, an answer about a person would grow with all the API keys that have ended. */
const API_KEYS_SHOWN_MAX = 100;
/** With more, a list of people reads many ended keys of each. */
const KEYS_LOOKED_AT = 20;

export async function listPeople(deps: RegistryStore, query: PeopleQuery): Promise<Page<HumanRecord>> {
  const begins = beginsWith(query.name);
  const fits = ({ status, role, displayName }: HumanRecord) =>
    (query.status === undefined || status === query.status) && (query.role === undefined || role === query.role) &&
    begins(displayName);
  return await readFilteredPage<HumanRecord>(
    deps.kv,
    belowCursor(KEYS.humans(), query.cursor),
    query,
    (entries) => entries.map(({ value }) => fits(value) ? value : null),
  );
}

/** Returns the name that is most like `name` among the newest 1,000 people; `null` when none is like it. */
export async function nearestPerson({ kv }: RegistryStore, name: string): Promise<string | null> {
  const options = { reverse: true, limit: LIMITS.filteredPageReads };
  const people = await Array.fromAsync(kv.list<HumanRecord>({ prefix: KEYS.humans() }, options));
  return nearest(name, people.map(({ value }) => value.displayName));
}

/** @throws {ServiceError} `PERSON_NOT_FOUND` */
export async function readPerson(deps: RegistryStore, id: string) {
  const { value: human } = await deps.kv.get<HumanRecord>(KEYS.human(id));
  if (human === null) throw new ServiceError("PERSON_NOT_FOUND");
  const [{ items: apiKeys }, agents] = await Promise.all([
    listApiKeys(deps, id, { limit: LIMITS.filteredPageReads }),
    countAgents(deps, id),
  ]);
  // Active keys first, so many revoked ones do not hide an active one.
  const shown = [...apiKeys.filter(isActive), ...apiKeys.filter((key) => !isActive(key))].slice(0, API_KEYS_SHOWN_MAX);
  return { human, apiKeys: shown, agents, lastUsedAt: lastUse(apiKeys) };
}

const isActive = ({ status }: ApiKeyRecord): boolean => status === "active";

async function countAgents({ kv, reads }: RegistryStore, humanId: string) {
  const limit = LIMITS.filteredPageReads;
  const index = await Array.fromAsync(kv.list({ prefix: KEYS.agentsOf(humanId) }, { reverse: true, limit }));
  const agents = await Promise.all(index.map(({ key }) => reads.get<AgentRecord>(KEYS.agent(String(key.at(-1))))));
  const known = agents.flatMap(({ value }) => value === null ? [] : [value]);
  const active = known.filter(({ status }) => status === "active").length;
  return { active, revoked: known.length - active };
}

/** Returns when one of a person's newest keys was last used; `null` before the first use. */
export async function lastUseOf(deps: RegistryStore, id: string): Promise<string | null> {
  return lastUse((await listApiKeys(deps, id, { limit: KEYS_LOOKED_AT })).items);
}

function lastUse(keys: readonly ApiKeyRecord[]): string | null {
  return keys.flatMap(({ lastUsedAt }) => lastUsedAt === null ? [] : [lastUsedAt]).sort().at(-1) ?? null;
}

/** Returns the DIDs of the people and active agents with a name, among the newest 1,000 of each. */
export async function findByName(deps: RegistryStore, name: string): Promise<string[]> {
  const limit = LIMITS.agentListMax;
  const [people, agents] = await Promise.all([
    listPeople(deps, { name, limit }),
    listAllAgents(deps, { name, status: "active", limit }),
  ]);
  return [
    ...people.items.filter(({ displayName }) => isSameName(displayName, name)).map(({ did }) => did),
    ...agents.items.filter(({ agent }) => isSameName(agent.name, name)).map(({ agent }) => agent.did),
  ];
}
