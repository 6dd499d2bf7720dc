/** How many people and agents there are, for admins and for the metrics. */
import type { Kv } from "../../shared/server/kv.ts";
import { KEYS } from "../schema/kv_keys.ts";
import type { AgentRecord, HumanRecord } from "../schema/records.ts";
import type { Clock } from "../../shared/clock.ts";
import type { AdminCounts } from "../../shared/protocol/api/admin.ts";
import { toIso } from "../../shared/protocol/time.ts";
import type { Metrics } from "../../shared/server/metrics/metrics.ts";
import { visitAll } from "../../shared/server/store/shared_count.ts";
import { isExpiring } from "./all_agents.ts";

export async function countRegistry(
  { kv, clock, metrics }: { kv: Kv; clock: Clock; metrics: Metrics },
): Promise<AdminCounts> {
  const now = clock.now();
  const people = { active: 0, suspended: 0 }, agents = { active: 0, revoked: 0 };
  let expiring7d = 0;
  const allPeople = await visitAll<HumanRecord>(kv, KEYS.humans(), ({ value }) => people[value.status]++);
  const allAgents = await visitAll<AgentRecord>(kv, KEYS.agents(), ({ value }) => {
    agents[value.status]++;
    if (isExpiring(value, now, 7)) expiring7d++;
  });
  for (const status of ["active", "revoked"] as const) metrics.set("agents", agents[status], status);
  metrics.set("agent_tokens_expiring_7d", expiring7d);
  return { at: toIso(now), people, agents, expiring7d, complete: allPeople && allAgents };
}
