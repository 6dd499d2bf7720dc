/**
 * Issues a new identity token for an agent on this machine (D-40). An intent marker shows the next run that an answer was
 * lost. The registry may then have created a session with unknown tokens, so the next run ends it first.
 */
import { parseDid } from "../../shared/protocol/did.ts";
import { AGENT_FILES, type Identity } from "../../shared/client/agent_files.ts";
import type { AgentStore } from "./agent_store.ts";
import { wasRefused } from "../../shared/client/errors.ts";
import { type Owner, reissueWithSession } from "./registration.ts";

const INTENT = "reissue.pending";

/** The result of `reissueAgent`. */
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
