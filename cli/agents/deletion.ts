/**
 * Deletes an agent: first revokes it permanently, then deletes its files, so that no active agent loses its files. After
 * an interruption, running it again completes the deletion.
 */
import type { AgentReference } from "./agent_reference.ts";
import { AgentStore } from "./agent_store.ts";
import type { Context } from "../context.ts";
import { ApiError } from "../../shared/client/errors.ts";
import type { Owner } from "./registration.ts";

/** Revokes the agent and deletes its local files. `wasRevoked` is true when the registry had revoked it before. */
export async function deleteAgent(
  ctx: Context,
  { registry, apiKey }: Owner,
  { id, localName }: AgentReference,
): Promise<{ wasRevoked: boolean }> {
  const store = new AgentStore(ctx);
  const revoke = async () => {
    try {
      await registry.deleteAgent(apiKey, id);
      return { wasRevoked: false };
    } catch (error) {
      if (error instanceof ApiError && error.code === "AGENT_REVOKE_INVALID_STATE") return { wasRevoked: true };
      throw error;
    }
  };
  if (localName === null) return await revoke();
  return await store.lock(localName, async (held) => {
    const folder = await store.open(localName);
    const outcome = await revoke();
    await store.discard(folder, held);
    return outcome;
  });
}
