/**
 * Refreshes the tokens of an agent's session in its folder (D-83), one process at a time. The steps of a refresh are in
 * cli/link/session_refresh.ts.
 */
import { ApiError } from "../../shared/client/errors.ts";
import type { AgentAuth } from "../../shared/protocol/api/sessions.ts";
import { issuerOf, REFRESH_MARKER, type RefreshFiles, refreshSession } from "../link/session_refresh.ts";
import { AGENT_FILES } from "../../shared/client/agent_files.ts";
import type { AgentFolder, AgentStore } from "./agent_store.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import type { RegistryClient } from "../client/registry_client.ts";

export interface Refreshed {
  auth: AgentAuth;
  /** `recovered` when an earlier answer was lost, `shared` when another process has just refreshed the session. */
  how: "refreshed" | "recovered" | "shared";
}

/**
 * Refreshes the session, or returns the tokens that another process has just received.
 *
 * @param registryOf returns the registry client for the URL in the agent's identity
 * @throws {CliError} `CLI_SAVE_FAILED` when the new tokens cannot be saved
 */
export async function refreshAgent(
  ctx: Context,
  store: AgentStore,
  name: string,
  registryOf: (registryUrl: string) => RegistryClient,
): Promise<Refreshed> {
  const before = (await store.open(name)).auth();
  return await store.lock(name, async () => {
    const folder = await store.open(name);
    const auth = folder.auth();
    if (auth.refreshToken !== before.refreshToken) return { auth, how: "shared" };
    const ait = folder.ait();
    const { privateKey } = await folder.keys();
    const registry = registryOf(folder.identity().registryUrl);
    const origin = issuerOf(ait) ?? registry.registryUrl;
    ctx.out.doing(`Refreshing the session of ${name}`);
    const refreshed = await refreshSession(
      ctx.clock,
      filesOf(folder),
      auth.refreshToken,
      (isRecovery) => registry.refresh({ ait, privateKey }, auth.refreshToken, isRecovery, origin),
    ).catch((error) => {
      if (error instanceof ApiError && error.code === "AGENT_NOT_FOUND") error.fix = wayBack(name);
      throw error;
    });
    return { auth: refreshed.auth, how: refreshed.isRecovered ? "recovered" : "refreshed" };
  });
}

/** What the owner of an agent does that its registry does not have any longer. */
function wayBack(name: string): string {
  return `Ask its administrator. To begin again: svc agent delete ${name}, then svc agent create ${name}, and pair it again`;
}

function filesOf(folder: AgentFolder): RefreshFiles {
  return {
    readMarker: () => marker(folder),
    writeMarker: (digest) => folder.write(REFRESH_MARKER, digest),
    removeMarker: () => folder.remove(REFRESH_MARKER),
    async save(auth) {
      try {
        await folder.writeJson(AGENT_FILES.auth, auth);
      } catch (cause) {
        const why = cause instanceof Error ? cause.message : String(cause);
        const fix =
          `Free disk space or make the directory writable, then run svc agent auth refresh ${folder.name} to recover them.`;
        throw new CliError("CLI_SAVE_FAILED", `The new tokens could not be saved: ${why}`, { cause, fix });
      }
    },
  };
}

function marker(folder: AgentFolder): string | null {
  try {
    return folder.read(REFRESH_MARKER)?.trim() ?? null;
  } catch (error) {
    if (error instanceof CliError && error.code === "CLI_FILE_INVALID") return "";
    throw error;
  }
}
