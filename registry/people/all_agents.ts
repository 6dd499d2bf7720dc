/** What an admin reads about the agents of all people, with a bound as in store.ts. Writes nothing. */
import { fitsQuery, pageOfAgents } from "../agents/store.ts";
import { beginsWith } from "./name_match.ts";
import { KEYS } from "../schema/kv_keys.ts";
import type { AgentRecord, HumanRecord, SessionRecord } from "../schema/records.ts";
import type { RegistryStore } from "../store_deps.ts";
import { DAY_MS } from "../../shared/clock.ts";
import { nearest } from "../../shared/did_you_mean.ts";
import type { AdminAgentQuery } from "../../shared/protocol/api/admin.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { parseIso } from "../../shared/protocol/time.ts";
import type { Page } from "../../shared/server/store/pages.ts";

export interface AgentWithSession {
  agent: AgentRecord;
  ownerName: string;
  session: SessionRecord | null;
}

export async function listAllAgents(
  deps: RegistryStore,
  query: AdminAgentQuery,
): Promise<Page<AgentWithSession>> {
  const { ownerId, expiringDays } = query, fits = fitsQuery(query);
  const now = deps.clock.now(), begins = beginsWith(query.name);
  const { items, nextCursor } = await pageOfAgents(
    deps,
    ownerId,
    query,
    (agent) =>
      fits(agent) && begins(agent.name) && (expiringDays === undefined || isExpiring(agent, now, expiringDays)),
  );
  return { items: await Promise.all(items.map((agent) => withOwner(deps, agent))), nextCursor };
}

async function withOwner({ reads }: RegistryStore, agent: AgentRecord): Promise<AgentWithSession> {
  const [owner, session] = await Promise.all([
    reads.get<HumanRecord>(KEYS.human(agent.ownerId)),
    reads.get<SessionRecord>(KEYS.session(agent.id)),
  ]);
  return { agent, ownerName: owner.value?.displayName ?? "", session: session.value };
}

/** Returns true for an active agent whose identity token has not ended and ends within some days. */
export function isExpiring({ status, expiresAt }: AgentRecord, now: number, days: number): boolean {
  const left = (parseIso(expiresAt) ?? 0) - now;
  return status === "active" && left > 0 && left <= days * DAY_MS;
}

/** @throws {ServiceError} `AGENT_NOT_FOUND` */
export async function readAgent(deps: RegistryStore, id: string): Promise<AgentWithSession> {
  const { value } = await deps.kv.get<AgentRecord>(KEYS.agent(id));
  if (value === null) throw new ServiceError("AGENT_NOT_FOUND", { message: "No such agent" });
  return await withOwner(deps, value);
}

/** Returns the name among the newest 1,000 agents that a mistyped one resembles. */
export async function nearestAgent({ kv }: RegistryStore, name: string): Promise<string | null> {
  const options = { reverse: true, limit: LIMITS.filteredPageReads };
  const agents = await Array.fromAsync(kv.list<AgentRecord>({ prefix: KEYS.agents() }, options));
  return nearest(name, agents.map(({ value }) => value.name));
}
