/** Which agents are connected, and when each was connected last (D-173). */
import type { AgentConnection, ConnectionQuery } from "../../shared/protocol/api/relay_admin.ts";
import { toIso } from "../../shared/protocol/time.ts";
import type { PresenceStore } from "../relay/presence.ts";
import { KEYS } from "../schema/kv_keys.ts";
import type { Presence, Seen } from "../schema/records.ts";
import { type DidPage, pageByDid } from "./page_by_did.ts";

/** Most keys of one `getMany`. */
const READ_TOGETHER = 10;

/** @throws {StoreUnavailable} */
export function listConnections(
  { kv, presence }: { kv: Deno.Kv; presence: Pick<PresenceStore, "isAlive"> },
  query: ConnectionQuery,
): Promise<DidPage<AgentConnection>> {
  const alive = new Map<string, Promise<boolean>>();
  const isAlive = (instance: string) => {
    const known = alive.get(instance) ?? presence.isAlive(instance);
    alive.set(instance, known);
    return known;
  };
  return pageByDid<Seen, AgentConnection>(kv, KEYS.allSeen(), query, async (entries) => {
    const dids = entries.map(({ key }) => String(key.at(-1)));
    const holders = await holdersOf(kv, dids);
    return await Promise.all(entries.map(async ({ value }, i) => {
      const holder = holders[i] ?? "";
      const online = holder !== "" && await isAlive(holder);
      if (query.online !== undefined && query.online !== online) return null;
      return {
        agentDid: dids[i] ?? "",
        online,
        instance: online ? holder : value.instance,
        connectedAt: toIso(value.connectedAt),
        disconnectedAt: value.disconnectedAt === null ? null : toIso(value.disconnectedAt),
      };
    }));
  });
}

/** Returns the instance that each agent's presence names; empty for none. */
async function holdersOf(kv: Deno.Kv, dids: readonly string[]): Promise<string[]> {
  const keys = dids.map((did) => KEYS.presence(did));
  const parts = Array.from(
    { length: Math.ceil(keys.length / READ_TOGETHER) },
    (_, i) => keys.slice(i * READ_TOGETHER, (i + 1) * READ_TOGETHER),
  );
  const found = await Promise.all(parts.map((part) => kv.getMany<Presence[]>(part)));
  return found.flat().map(({ value }) => value?.instance ?? "");
}
