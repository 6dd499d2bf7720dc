/** What the peers of an agent learn of its connection. */
import { KEYS } from "../schema/kv_keys.ts";
import type { Seen } from "../schema/records.ts";
import type { PeerList } from "../../shared/protocol/api/pairing.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { readAll } from "../../shared/server/store/batched_reads.ts";
import type { ServiceDeps } from "../../shared/server/http/app.ts";

export interface LastSeenDeps extends Pick<ServiceDeps, "kv" | "clock"> {
  /** Whether an instance runs; it may have ended without a record of the agents that it held. */
  leases: { isAlive(instance: string): Promise<boolean> };
}

type LastSeen = Pick<PeerList["peers"][number], "online" | "lastSeenAt">;

/** With the second, a peer could tell from its own messages when a person acts. */
const MINUTE_MS = 60_000;

export const NEVER_SEEN: LastSeen = { online: false, lastSeenAt: null };
/** What is told of an agent that hides its connection, and of an agent of another server. */
export const HIDDEN: LastSeen = { online: null, lastSeenAt: null };

/**
 * What the peers of agents learn of their connections, in their order: whether each is connected, and to the minute when
 * it was last, because the second would show when a person acts. Of one that hides it they learn neither.
 *
 * @throws {StoreUnavailable}
 */
export async function lastSeen({ kv, clock, leases }: LastSeenDeps, agentDids: readonly string[]): Promise<LastSeen[]> {
  const found = (await readAll<Seen>(kv, agentDids.map((did) => KEYS.seen(did)))).map(({ value }) => value);
  const holders = new Set(
    found.flatMap((seen) => seen !== null && seen.disconnectedAt === null ? [seen.instance] : []),
  );
  const alive = new Set<string>();
  for (const instance of holders) if (await leases.isAlive(instance)) alive.add(instance);
  return found.map((seen) => {
    if (seen === null) return NEVER_SEEN;
    if (seen.hidden) return HIDDEN;
    const { instance, connectedAt, disconnectedAt } = seen;
    const online = disconnectedAt === null && alive.has(instance);
    // An instance that was killed has recorded when the agent connected, but not the end.
    const at = online ? clock.now() : disconnectedAt ?? connectedAt;
    return { online, lastSeenAt: toIso(Math.floor(at / MINUTE_MS) * MINUTE_MS) };
  });
}
