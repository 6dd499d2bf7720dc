/**
 * What an admin reads about people and all agents. Every read has a bound, because an operator with many people would
 * otherwise stop the server just by looking.
 */
import { fitsQuery, pageOfAgents } from "../agents/store.ts";
import { listApiKeys } from "../api_keys/store.ts";
import { quotasOf } from "../quota.ts";
import { KEYS } from "../schema/kv_keys.ts";
import type { AgentRecord, ApiKeyRecord, HumanRecord, SessionRecord } from "../schema/records.ts";
import type { RegistryStore } from "../store_deps.ts";
import { DAY_MS } from "../../shared/clock.ts";
import { nearest } from "../../shared/did_you_mean.ts";
import type { Kv, KvKey } from "../../shared/server/kv.ts";
import type { AdminAgentQuery, AdminCounts, PeopleQuery } from "../../shared/protocol/api/admin.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { parseIso, toIso } from "../../shared/protocol/time.ts";
import { readAll } from "../../shared/server/store/batched_reads.ts";
import type { StoreDeps } from "../../shared/server/store/open_store.ts";
import { belowCursor, type Page, readPage } from "../../shared/server/store/pages.ts";
import { visitAll } from "../../shared/server/store/shared_count.ts";

/** Most API keys in an answer about a person. With more, the answer would grow with all the keys that have ended. */
const API_KEYS_SHOWN_MAX = 100;
/** Keys of each person that are read for the last use. With more, a list of people reads many ended keys of each. */
const KEYS_LOOKED_AT = 20;

export async function listPeople(deps: RegistryStore, query: PeopleQuery): Promise<Page<HumanRecord>> {
  const begins = beginsWith(query.name);
  const fits = ({ status, role, displayName }: HumanRecord) =>
    (query.status === undefined || status === query.status) && (query.role === undefined || role === query.role) &&
    begins(displayName);
  return await readPage<HumanRecord>(
    deps.kv,
    belowCursor(KEYS.humans(), query.cursor),
    query,
    (entries) => entries.map(({ value }) => fits(value) ? value : null),
  );
}

/** Returns the name most like `name` among the newest 1,000 people, or `null` when none is like it. */
export async function nearestPerson({ kv }: RegistryStore, name: string): Promise<string | null> {
  return nearest(name, (await newest<HumanRecord>(kv, KEYS.humans())).map(({ displayName }) => displayName));
}

/** As `nearestPerson`, among the newest 1,000 agents. */
export async function nearestAgent({ kv }: RegistryStore, name: string): Promise<string | null> {
  return nearest(name, (await newest<AgentRecord>(kv, KEYS.agents())).map(({ name }) => name));
}

async function newest<T>(kv: Kv, prefix: KvKey): Promise<T[]> {
  const entries = kv.list<T>({ prefix }, { reverse: true, limit: LIMITS.filteredPageReads });
  return await Array.fromAsync(entries, ({ value }) => value);
}

/** @throws {ServiceError} `PERSON_NOT_FOUND` */
export async function readPerson(deps: RegistryStore, id: string) {
  const { value: human } = await deps.kv.get<HumanRecord>(KEYS.human(id));
  if (human === null) throw new ServiceError("PERSON_NOT_FOUND");
  const [[quota], revoked] = await Promise.all([quotasOf(deps, [id]), countRevoked(deps, id)]);
  const apiKeys = await keysOf(deps, id, Math.min(quota?.apiKeys ?? 0, API_KEYS_SHOWN_MAX));
  // Active keys come first, because a person with many revoked ones would otherwise seem to have none that works.
  const shown = [...apiKeys.filter(isActive), ...apiKeys.filter((key) => !isActive(key))].slice(0, API_KEYS_SHOWN_MAX);
  return { human, apiKeys: shown, agents: { active: quota?.agents ?? 0, revoked }, lastUsedAt: lastUse(apiKeys) };
}

/**
 * Reads the newest keys of a person, until so many active ones are among them. A person makes at most 100 keys a day,
 * and a revoked one is kept for 90 days, so this ends.
 */
async function keysOf(deps: RegistryStore, id: string, active: number): Promise<ApiKeyRecord[]> {
  const keys: ApiKeyRecord[] = [];
  let cursor: string | undefined;
  for (;;) {
    const page = await listApiKeys(deps, id, { limit: LIMITS.filteredPageReads, cursor });
    keys.push(...page.items);
    if (page.nextCursor === null || keys.filter(isActive).length >= active) return keys;
    cursor = page.nextCursor;
  }
}

const isActive = ({ status }: ApiKeyRecord): boolean => status === "active";

/** Reads only the index, which has the end of each revoked agent, and `true` for an active one. */
async function countRevoked({ kv }: RegistryStore, humanId: string): Promise<number> {
  const ends = await newest<true | number>(kv, KEYS.agentsOf(humanId));
  return ends.filter((end) => end !== true).length;
}

/** Returns when a person last used one of their newest keys, or `null` before the first use. */
export async function lastUseOf(deps: RegistryStore, id: string): Promise<string | null> {
  return lastUse((await listApiKeys(deps, id, { limit: KEYS_LOOKED_AT })).items);
}

function lastUse(keys: readonly ApiKeyRecord[]): string | null {
  return keys.flatMap(({ lastUsedAt }) => lastUsedAt === null ? [] : [lastUsedAt]).sort().at(-1) ?? null;
}

export interface AgentWithSession {
  agent: AgentRecord;
  ownerName: string;
  session: SessionRecord | null;
}

export async function listAllAgents(deps: RegistryStore, query: AdminAgentQuery): Promise<Page<AgentWithSession>> {
  const { ownerId, expiringDays } = query, now = deps.clock.now();
  const fitsFields = fitsQuery(query), begins = beginsWith(query.name);
  const fits = (agent: AgentRecord) =>
    fitsFields(agent) && begins(agent.name) && (expiringDays === undefined || isExpiring(agent, now, expiringDays));
  const { items, nextCursor } = await pageOfAgents(deps, ownerId, query, fits);
  return { items: await withOwners(deps, items), nextCursor };
}

/** Reads owners and sessions of agents, whose order stays. */
export async function withOwners({ kv }: RegistryStore, agents: readonly AgentRecord[]): Promise<AgentWithSession[]> {
  const [owners, sessions] = await Promise.all([
    readAll<HumanRecord>(kv, agents.map(({ ownerId }) => KEYS.human(ownerId))),
    readAll<SessionRecord>(kv, agents.map(({ id }) => KEYS.session(id))),
  ]);
  return agents.map((agent, i) => ({
    agent,
    ownerName: owners[i]?.value?.displayName ?? "",
    session: sessions[i]?.value ?? null,
  }));
}

/** Tells whether an agent is active and its identity token ends within the given days. */
function isExpiring({ status, expiresAt }: AgentRecord, now: number, days: number): boolean {
  const left = (parseIso(expiresAt) ?? 0) - now;
  return status === "active" && left > 0 && left <= days * DAY_MS;
}

/** @throws {ServiceError} `AGENT_NOT_FOUND` */
export async function readAgent(deps: RegistryStore, id: string): Promise<AgentWithSession> {
  const { value } = await deps.kv.get<AgentRecord>(KEYS.agent(id));
  if (value === null) throw new ServiceError("AGENT_NOT_FOUND", { message: "No such agent" });
  const [found] = await withOwners(deps, [value]);
  return found as AgentWithSession;
}

/** Returns a test for the beginning of a name. It ignores case, because an admin may not know how a name is written. */
export function beginsWith(text: string | undefined): (name: string) => boolean {
  const wanted = (text ?? "").toLowerCase();
  return (name) => name.toLowerCase().startsWith(wanted);
}

/** Counts people and agents, for admins and for the metrics. */
export async function countRegistry(
  { kv, clock, metrics }: Pick<StoreDeps, "kv" | "clock" | "metrics">,
): Promise<AdminCounts> {
  const now = clock.now();
  const people = { active: 0, suspended: 0 }, agents = { active: 0, revoked: 0 };
  let expiring7d = 0;
  const allPeople = await visitAll<HumanRecord>(kv, KEYS.humans(), ({ value }) => people[value.status]++);
  const allAgents = await visitAll<AgentRecord>(kv, KEYS.agents(), ({ value }) => {
    agents[value.status]++;
    if (isExpiring(value, now, 7)) expiring7d++;
  });
  for (const status of ["active", "revoked"] as const) metrics?.set("agents", agents[status], status);
  metrics?.set("agent_tokens_expiring_7d", expiring7d);
  return { at: toIso(now), people, agents, expiring7d, complete: allPeople && allAgents };
}

/** Returns the DIDs of the people and active agents with a name, among the newest 1,000 of each. */
export async function findByName({ kv }: RegistryStore, name: string): Promise<string[]> {
  const wanted = name.toLowerCase();
  const [people, agents] = await Promise.all([
    newest<HumanRecord>(kv, KEYS.humans()),
    newest<AgentRecord>(kv, KEYS.agents()),
  ]);
  return [
    ...people.filter(({ displayName }) => displayName.toLowerCase() === wanted),
    ...agents.filter(({ name, status }) => status === "active" && name.toLowerCase() === wanted),
  ].map(({ did }) => did);
}
