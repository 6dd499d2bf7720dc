/**
 * Ends and renews an agent. A deletion first revokes it permanently, then deletes its files, so that no active agent
 * loses its files. A new token leaves an intent marker, which shows the next run that an answer was lost: the registry
 * may have created a session with unknown tokens, so that run ends it first. After an interruption, running either
 * again completes it.
 */
import type { AgentReference } from "./agent_reference.ts";
import { AgentStore } from "./agent_store.ts";
import type { Context } from "../context.ts";
import { ApiError, wasRefused } from "../../shared/client/errors.ts";
import { type Owner, reissueWithSession } from "./registration.ts";
import { parseDid } from "../../shared/protocol/did.ts";
import { AGENT_FILES, type Identity } from "../../shared/client/agent_files.ts";

/** What a deleted agent was for its registry; `unknown` after the registry was restored from an older backup. */
export type StateBefore = "active" | "revoked" | "unknown";

/** Revokes the agent and deletes its local files. */
export async function deleteAgent(
  ctx: Context,
  { registry, apiKey }: Owner,
  { id, localName }: AgentReference,
): Promise<StateBefore> {
  const store = new AgentStore(ctx);
  const revoke = async (registryUrl?: string): Promise<StateBefore> => {
    try {
      await registry.deleteAgent(apiKey, id);
      return "active";
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.code === "AGENT_REVOKE_INVALID_STATE") return "revoked";
      // The agent of another person or registry gets the same code. Its key may be its only copy.
      const isOwn = error.code === "AGENT_NOT_FOUND" && registryUrl === registry.registryUrl;
      if (isOwn && await isUnknown(registry, id)) return "unknown";
      throw error;
    }
  };
  if (localName === null) return await revoke();
  return await store.lock(localName, async (held) => {
    const folder = await store.open(localName);
    const before = await revoke(folder.identity().registryUrl);
    await store.discard(folder, held);
    return before;
  });
}

/** Whether the registry has no agent with an ID, of no person. */
async function isUnknown(registry: Pick<Owner["registry"], "resolve">, id: string): Promise<boolean> {
  try {
    await registry.resolve(id);
    return false;
  } catch (error) {
    if (error instanceof ApiError && error.code === "AGENT_NOT_FOUND") return true;
    throw error;
  }
}

const INTENT = "reissue.pending";

export interface Reissued {
  identity: Identity;
  /** True when the session is new as well. */
  newSession: boolean;
}

/** Reissues the agent's identity token, and its session if none is active. */
export async function reissueAgent({ registry, apiKey }: Owner, store: AgentStore, name: string): Promise<Reissued> {
  return await store.lock(name, async () => {
    const folder = await store.open(name);
    const before = folder.identity();
    const id = parseDid(before.did)?.id ?? "";
    const wasInterrupted = folder.read(INTENT) !== null;
    await folder.write(INTENT, before.did);
    const { agent, ait, agentAuth } = wasInterrupted
      ? await reissueWithSession({ registry, apiKey }, id)
      : await registry.reissueAgent(apiKey, id).catch(async (error) => {
        if (wasRefused(error)) await folder.remove(INTENT);
        throw error;
      });
    await folder.write(AGENT_FILES.ait, ait);
    if (agentAuth !== undefined) await folder.writeJson(AGENT_FILES.auth, agentAuth);
    const identity: Identity = { ...before, expiresAt: agent.expiresAt };
    await folder.writeJson(AGENT_FILES.identity, identity);
    await folder.remove(INTENT);
    return { identity, newSession: agentAuth !== undefined };
  });
}
