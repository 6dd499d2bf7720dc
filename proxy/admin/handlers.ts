/** HTTP handlers of what the proxy reports to an admin (D-173). Each one reads only: no payload, no ticket, no pair. */
import type {
  ConnectionList,
  ConnectionQuery,
  DeliveryList,
  DeliveryQuery,
  QueueList,
  QueueQuery,
  RefusalList,
  RefusalQuery,
} from "../../shared/protocol/api/relay_admin.ts";
import { toIso } from "../../shared/protocol/time.ts";
import type { Clock } from "../../shared/clock.ts";
import { type Answer, type Input, json } from "../../shared/server/http/route.ts";
import type { GroupCommit } from "../../shared/server/store/group_commit.ts";
import type { Mailbox } from "../relay/mailbox.ts";
import type { PresenceStore } from "../relay/presence.ts";
import type { Admin } from "./authenticator.ts";
import { listConnections } from "./connections.ts";
import { listQueues } from "./queues.ts";
import type { Refusals } from "./refusals.ts";
import { timelinesOf } from "./timeline.ts";

interface RelayAdminDeps {
  kv: Deno.Kv;
  clock: Clock;
  commits: GroupCommit;
  config: { receiptKeptMs: number };
  presence: PresenceStore;
  mailbox: Mailbox;
  refusals: Refusals;
}

type Query<Q> = Input<undefined, Q, undefined, Admin>;

export async function connections(deps: RelayAdminDeps, { query }: Query<ConnectionQuery>): Promise<Answer> {
  const { items, nextCursor } = await listConnections(deps, query);
  const response: ConnectionList = { connections: items, pagination: { limit: query.limit, nextCursor } };
  return json(response);
}

export async function queues(deps: RelayAdminDeps, { query }: Query<QueueQuery>): Promise<Answer> {
  const { items, nextCursor } = await listQueues(deps, query);
  const response: QueueList = { queues: items, pagination: { limit: query.limit, nextCursor } };
  return json(response);
}

export async function deliveries(deps: RelayAdminDeps, { query }: Query<DeliveryQuery>): Promise<Answer> {
  const response: DeliveryList = { deliveries: await timelinesOf(deps, query.requestId) };
  return json(response);
}

export function refusals({ refusals, presence }: RelayAdminDeps, { query }: Query<RefusalQuery>): Answer {
  const response: RefusalList = {
    refusals: refusals.list(query).map(({ number: _, at, ...refusal }) => ({ at: toIso(at), ...refusal })),
    instance: presence.instance,
    since: toIso(refusals.since),
  };
  return json(response);
}
