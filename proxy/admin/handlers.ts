/** Handlers that report the state of the relay to an admin. They write nothing, and read no payload, ticket or pair. */
import type { KvEntry, KvKey } from "../../shared/server/kv.ts";
import { readAll } from "../../shared/server/store/batched_reads.ts";
import { aboveCursor, readPage } from "../../shared/server/store/pages.ts";
import {
  type AgentConnection,
  type ConnectionList,
  type ConnectionQuery,
  type DeliveryList,
  type DeliveryQuery,
  type IssuerList,
  type IssuerView,
  type Queue,
  type QueueList,
  type QueueQuery,
  Refusal,
  type RefusalList,
  type RefusalQuery,
} from "../../shared/protocol/api/relay_admin.ts";
import { authorityOf, formatDid, parseDid } from "../../shared/protocol/did.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { type Answer, type Input, json, pick } from "../../shared/server/http/route.ts";
import type { GroupCommit } from "../../shared/server/store/group_commit.ts";
import type { ServiceDeps } from "../../shared/server/http/app.ts";
import type { Mailbox } from "../relay/mailbox.ts";
import type { InstanceLeases } from "../relay/instance_leases.ts";
import { KEYS } from "../schema/kv_keys.ts";
import type { MailboxState, PairCount, Presence, Seen } from "../schema/records.ts";
import type { Admin } from "./authenticator.ts";
import type { Refusals } from "./refusals.ts";
import { timelinesOf } from "./timeline.ts";
import type { Issuers } from "../federation/issuers.ts";
import type { IssuerPolicy } from "../issuer_policy.ts";

interface RelayAdminDeps extends Pick<ServiceDeps, "kv" | "clock"> {
  commits: GroupCommit;
  config: { receiptKeptMs: number; registryUrl: string };
  leases: InstanceLeases;
  mailbox: Mailbox;
  refusals: Refusals;
  policy: IssuerPolicy;
  issuers: Issuers;
}

type Query<Q> = Input<undefined, Q, undefined, Admin>;

export async function deliveries(deps: RelayAdminDeps, { query }: Query<DeliveryQuery>): Promise<Answer> {
  return json({ deliveries: await timelinesOf(deps, query.requestId) } satisfies DeliveryList);
}

export function refusals({ refusals, leases }: RelayAdminDeps, { query }: Query<RefusalQuery>): Answer {
  const response: RefusalList = {
    refusals: refusals.list(query).map((refusal) => pick(Refusal, { ...refusal, at: toIso(refusal.at) })),
    instance: leases.instance,
    since: toIso(refusals.since),
  };
  if (query.group === "agent") {
    const { since, byAgent, others } = refusals.byAgent();
    const groups = byAgent.map((one) => ({ ...one, lastAt: toIso(one.lastAt) }));
    response.groups = { since: toIso(since), byAgent: groups, others };
  }
  return json(response);
}

/** Lists which agents are connected, and when each was connected last. @throws {StoreUnavailable} */
export async function connections(deps: RelayAdminDeps, { query }: Query<ConnectionQuery>): Promise<Answer> {
  const { kv, leases } = deps;
  const page = await pageByDid<Seen, AgentConnection>(deps, KEYS.allSeen(), query, async (entries) => {
    const dids = entries.map(({ key }) => String(key.at(-1)));
    const holders = await readAll<Presence>(kv, dids.map((did) => KEYS.presence(did)));
    const alive = await leases.aliveOf(holders.flatMap(({ value }) => value?.instance || []));
    return entries.map(({ value }, i) => {
      const holder = holders[i]?.value?.instance ?? "", online = alive.has(holder);
      if (query.online !== undefined && query.online !== online) return null;
      return {
        agentDid: dids[i] ?? "",
        online,
        instance: online ? holder : value.instance,
        connectedAt: toIso(value.connectedAt),
        disconnectedAt: value.disconnectedAt === null ? null : toIso(value.disconnectedAt),
      };
    });
  });
  return json({ connections: page.items, pagination: page.pagination } satisfies ConnectionList);
}

/** Lists how many messages wait for each recipient. Names no sender and reads no payload. @throws {StoreUnavailable} */
export async function queues(deps: RelayAdminDeps, { query }: Query<QueueQuery>): Promise<Answer> {
  const page = await pageByDid<MailboxState, Queue>(
    deps,
    KEYS.mailboxStates(),
    query,
    (entries) =>
      Promise.all(entries.map(async ({ key, value: { total, bySender } }) => {
        // The state of an emptied mailbox stays for a while, so it is left out here.
        const recipientAgentDid = String(key.at(-1));
        const [oldest] = total === 0 ? [] : await deps.mailbox.after(recipientAgentDid, 0, 1);
        if (oldest === undefined) return null;
        const senders = Object.keys(bySender).length;
        return { recipientAgentDid, messages: total, senders, oldestExpiresAt: toIso(oldest.expiresAt) };
      })),
  );
  return json({ queues: page.items, pagination: page.pagination } satisfies QueueList);
}

/**
 * Returns one page of the records below a prefix whose last key part is a DID, in order of the DIDs.
 *
 * @param query with `agents`, only the records of these are read, in this order
 * @param itemsOf returns the item of each record, in their order; `null` for a record that is not listed
 */
async function pageByDid<V, T>(
  { kv, config }: Pick<RelayAdminDeps, "kv" | "config">,
  prefix: KvKey,
  { limit, cursor, agents }: Pick<ConnectionQuery, "limit" | "cursor" | "agents">,
  itemsOf: (entries: readonly KvEntry<V>[]) => Promise<(T | null)[]>,
): Promise<{ items: T[]; pagination: { limit: number; nextCursor: string | null } }> {
  if (agents !== undefined) {
    const authority = authorityOf(config.registryUrl) ?? "";
    const keys = agents.map((id) => [...prefix, formatDid({ authority, kind: "agent", id })]);
    const found = await readAll<V>(kv, keys);
    const known = found.flatMap(({ key, value, versionstamp }) => value === null ? [] : [{ key, value, versionstamp }]);
    const items = (await itemsOf(known as KvEntry<V>[])).filter((item) => item !== null);
    return { items: items.slice(0, limit), pagination: { limit, nextCursor: null } };
  }
  const range = { limit, reverse: false };
  const { items, nextCursor } = await readPage<V, T>(kv, aboveCursor(prefix, cursor), range, itemsOf);
  return { items, pagination: { limit, nextCursor } };
}

/** Most visiting agents that are counted. With more, one request would read the records of all that ever visited. */
const AGENTS_MAX = 10_000;

/** Lists the registries whose agents have pairs here (D-280). */
export async function issuers({ kv, config, policy, issuers }: RelayAdminDeps): Promise<Answer> {
  const own = authorityOf(config.registryUrl) ?? "", found = new Map<string, IssuerView>();
  const known = new Map([...issuers.known].map(([issuer, one]) => [authorityOf(issuer), one]));
  let agents = 0;
  // Keys are in order, so the two ranges leave out the agents of this server, which stand between them.
  for (const range of [KEYS.pairCountsBefore(own), KEYS.pairCountsBehind(own)]) {
    for await (const { key, value } of kv.list<PairCount>(range, { limit: AGENTS_MAX + 1 })) {
      if (++agents > AGENTS_MAX) break;
      const authority = parseDid(String(key.at(-1)))?.authority ?? "", one = known.get(authority);
      const view = found.get(authority) ?? {
        authority,
        agents: 0,
        pairs: 0,
        allowed: policy.acceptsAuthority(authority),
        keysAgeSeconds: ageOf(one?.keysAgeSeconds),
        listAgeSeconds: ageOf(one?.list.ageSeconds),
        problem: one?.problem ?? null,
      };
      found.set(authority, { ...view, agents: view.agents + 1, pairs: view.pairs + value.pairs });
    }
  }
  const views = [...found.values()].sort((a, b) => a.authority < b.authority ? -1 : 1);
  return json({ issuers: views, areAll: agents <= AGENTS_MAX } satisfies IssuerList);
}

function ageOf(seconds = -1): number | null {
  return seconds < 0 ? null : seconds;
}
