/** What an admin and the metrics see of the relay at a glance. It reads no message and names no agent. */
import type { RelayOverview } from "../../shared/protocol/api/relay_admin.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { DAY_MS } from "../../shared/clock.ts";
import { type Answer, json } from "../../shared/server/http/route.ts";
import { type SharedCount, visitAll } from "../../shared/server/store/shared_count.ts";
import type { StoreReserve } from "../../shared/server/store/store_reserve.ts";
import type { ServiceDeps } from "../../shared/server/http/app.ts";
import type { ProxyConfig } from "../config.ts";
import type { InstanceLeases } from "../relay/instance_leases.ts";
import type { InstanceLinks } from "../relay/instance_links.ts";
import type { MessageForwarder } from "../relay/message_forwarder.ts";
import type { Mailbox, MailboxCounts } from "../relay/mailbox.ts";
import { KEYS } from "../schema/kv_keys.ts";
import type { Presence, Seen } from "../schema/records.ts";
import type { Refusals } from "./refusals.ts";

/** Numbers that are counted in the store, because no instance knows those of the others. */
export interface RelayCounts {
  /** Milliseconds since the Unix epoch. */
  at: number;
  agents: { online: number; offlineOver1d: number };
  queues: MailboxCounts;
  /** False when the store has more records than were counted. */
  complete: boolean;
}

interface CountDeps extends Pick<ServiceDeps, "kv" | "clock"> {
  leases: Pick<InstanceLeases, "aliveOf">;
  mailbox: Pick<Mailbox, "count">;
}

interface OverviewDeps {
  config: ProxyConfig;
  counts: SharedCount<RelayCounts>;
  leases: Pick<InstanceLeases, "instance">;
  links: Pick<InstanceLinks, "size" | "missing">;
  forwarder: Pick<MessageForwarder, "crossed">;
  refusals: Pick<Refusals, "since">;
  reserve: Pick<StoreReserve, "space">;
  storeBytes?(): number | null;
  residentBytes?(): number;
}

export async function overview(deps: OverviewDeps): Promise<Answer> {
  const { config, leases, refusals, reserve } = deps;
  const { at, agents, complete, queues: { messages, recipients, oldestAt } } = await deps.counts.current();
  const bytes = deps.storeBytes?.() ?? null, { space } = reserve;
  const response: RelayOverview = {
    version: config.version,
    instance: leases.instance,
    startedAt: toIso(refusals.since),
    at: toIso(at),
    agents,
    complete,
    queues: { messages, recipients, oldestAt: oldestAt === null ? null : toIso(oldestAt) },
    memoryBytes: deps.residentBytes?.() ?? 0,
    store: bytes === null || space === null ? null : { bytes, ...space },
    links: { open: deps.links.size, missing: deps.links.missing },
    crossed: { ...deps.forwarder.crossed },
    agentLimit: { requests: config.agentRequests, windowMs: config.agentWindowMs },
    limits: {
      ownerRequests: config.ownerRequests,
      pairs: config.pairQuota,
      mailboxBytes: config.mailboxOwnerBytes,
      mailboxSeconds: config.mailboxTtlSeconds,
      receiptSeconds: config.receiptKeptMs / 1000,
    },
  };
  return json(response);
}

/** Counts what the overview and the metrics show. @throws {StoreUnavailable} */
export async function countRelay(deps: CountDeps): Promise<RelayCounts> {
  const at = deps.clock.now();
  const [agents, { areAll, ...queues }] = await Promise.all([countAgents(deps, at), deps.mailbox.count()]);
  const { areAll: areAllAgents, ...counted } = agents;
  return { at, agents: counted, queues, complete: areAll && areAllAgents };
}

/** Counts the agents with a socket at a live instance, and those that were last connected over a day ago. */
async function countAgents(
  { kv, leases }: CountDeps,
  now: number,
): Promise<RelayCounts["agents"] & { areAll: boolean }> {
  const holders = new Map<string, string>();
  const areHeld = await visitAll<Presence>(kv, KEYS.allPresences(), ({ key, value: { instance } }) => {
    holders.set(String(key.at(-1)), instance);
  });
  const alive = await leases.aliveOf(holders.values());
  const recent = new Set<string>();
  // The lease of an instance that was killed or stopped is kept for a day. While it exists, the agents of that instance
  // cannot have been offline for over a day. An imported store has no lease, so the connection must be that old too.
  await visitAll(kv, KEYS.instances(), ({ key }) => recent.add(String(key.at(-1))));
  let online = 0, offlineOver1d = 0;
  const areSeen = await visitAll<Seen>(
    kv,
    KEYS.allSeen(),
    ({ key, value: { instance, connectedAt, disconnectedAt } }) => {
      const mayBeOnline = disconnectedAt === null && recent.has(instance);
      if (alive.has(holders.get(String(key.at(-1))) ?? "")) online++;
      else if (!mayBeOnline && now - (disconnectedAt ?? connectedAt) > DAY_MS) offlineOver1d++;
    },
  );
  return { online, offlineOver1d, areAll: areHeld && areSeen };
}
