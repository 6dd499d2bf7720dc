/**
 * Deletes or reissues an agent, or refreshes the tokens of its session, in one process at a time (D-83). A kill may
 * happen at any moment, so each of the three can be run again to complete it:
 *
 * - A deletion revokes the agent before it removes the files, because an agent that stays active would otherwise lose
 *   its key.
 * - A reissue writes a marker first. If a run finds one, an answer may be lost, so the registry may have opened a
 *   session whose tokens are unknown here. The run ends that session.
 * - A refresh writes a marker, sends the request, saves the new tokens and removes the marker. If the marker is still
 *   there, the next refresh asks for a recovery (D-44).
 */
import { type AgentFolder, type AgentReference, AgentStore, unlessDamaged } from "./agent_store.ts";
import type { Context } from "../context.ts";
import { ApiError, wasRefused } from "../../shared/client/errors.ts";
import { isRevoked } from "../../shared/client/refusals.ts";
import { type Owner, reissueWithSession } from "./registration.ts";
import { parseDid } from "../../shared/protocol/did.ts";
import { parseAit, readAitClaims } from "../../shared/protocol/signed/ait.ts";
import { AGENT_FILES, type Identity } from "../../shared/client/agent_files.ts";
import type { AgentAuth } from "../../shared/protocol/api/sessions.ts";
import { issuerOf } from "../link/signed_headers.ts";
import { sha256 } from "../../shared/protocol/base64url.ts";
import { sleep } from "../../shared/clock.ts";
import { CliError } from "../errors.ts";
import type { AgentState, RegistryClient } from "../client/registry_client.ts";

/**
 * Revokes an agent and deletes its files on this machine. Returns the state that the agent had at the registry before.
 *
 * @param beforeFiles called when the agent is revoked and its files still exist
 */
export async function deleteAgent(
  ctx: Context,
  { registry, apiKey }: Owner,
  { id, localName }: Pick<AgentReference, "id" | "localName">,
  beforeFiles: (folder: AgentFolder) => Promise<void> = () => Promise.resolve(),
): Promise<AgentState> {
  const store = new AgentStore(ctx);
  const revoke = async (registryUrl?: string): Promise<AgentState> => {
    try {
      await registry.deleteAgent(apiKey, id);
      return "active";
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.code === "AGENT_REVOKE_INVALID_STATE") return "revoked";
      // An agent of another person or registry gets the same code. Its files stay, because they may hold its only key.
      const isOwn = error.code === "AGENT_NOT_FOUND" && registryUrl === registry.registryUrl;
      if (isOwn && await registry.stateOf(id) === "unknown") return "unknown";
      throw error;
    }
  };
  if (localName === null) return await revoke();
  return await store.lock(localName, async (folder, held) => {
    const before = await revoke(folder.identity().registryUrl);
    await beforeFiles(folder);
    await store.discard(folder, held);
    return before;
  });
}

const INTENT = "reissue.pending";

/** Reissues the agent's identity token, and its session if none is active. */
export async function reissueAgent(ctx: Context, { registry, apiKey }: Owner, name: string) {
  return await new AgentStore(ctx).lock(name, async (folder) => {
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

/** The marker file of a refresh. It holds the digest of the refresh token that a request may have carried. */
const REFRESH_MARKER = "refresh.pending";
/** More than a second, because the registry answers 409 to a recovery dated in the second of the last refresh. */
const AGAIN_AFTER_MS = 1_100;
const TRIES = 4;

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
  name: string,
  registryOf: (registryUrl: string) => RegistryClient,
): Promise<Refreshed> {
  const store = new AgentStore(ctx);
  const before = (await store.open(name)).auth();
  return await store.lock(name, async (folder) => {
    const known = folder.auth(), { refreshToken } = known;
    if (refreshToken !== before.refreshToken) return { auth: known, how: "shared" };
    const ait = folder.ait();
    const { privateKey } = await folder.keys();
    const registry = registryOf(folder.identity().registryUrl);
    const origin = issuerOf(ait) ?? registry.registryUrl;
    ctx.out.doing(`Refreshing the session of ${name}`);
    const isRecovery = await mark(folder, refreshToken);
    for (let tries = 1;; tries++) {
      try {
        const auth = await registry.refresh({ ait, privateKey }, refreshToken, isRecovery, origin);
        await saveTokens(folder, auth);
        await folder.remove(REFRESH_MARKER);
        return { auth, how: isRecovery ? "recovered" : "refreshed" };
      } catch (error) {
        if (error instanceof ApiError && error.code === "AGENT_NOT_FOUND") {
          const again = `svc agent delete ${name}, then svc agent create ${name}, and pair it again`;
          error.fix = `Ask its administrator. To begin again: ${again}`;
        }
        // The marker stays after any other refusal, because an intermediary may have sent the request twice, and the
        // first copy may have worked. A session that has ended has no tokens left to recover.
        if (error instanceof ApiError && error.code === "AGENT_AUTH_REFRESH_REVOKED") {
          await folder.remove(REFRESH_MARKER);
        }
        if (!(error instanceof ApiError) || error.status !== 409 || tries === TRIES) throw error;
        await sleep(ctx.clock, AGAIN_AFTER_MS);
      }
    }
  });
}

/** Writes the marker. Returns true when an earlier refresh with this token left one, so that its answer may be lost. */
async function mark(folder: AgentFolder, refreshToken: string): Promise<boolean> {
  const digest = await sha256(refreshToken);
  const found = await unlessDamaged(() => folder.read(REFRESH_MARKER)?.trim() ?? null, "");
  // A digest of another token is left from a refresh whose answer was saved, so nothing was lost. Damaged content may
  // be the marker of this token, so it counts as one.
  if (found !== null && (found === digest || !/^[A-Za-z0-9_-]{43}$/.test(found))) return true;
  await folder.write(REFRESH_MARKER, digest);
  return false;
}

async function saveTokens(folder: AgentFolder, auth: AgentAuth): Promise<void> {
  try {
    await folder.writeJson(AGENT_FILES.auth, auth);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    const fix =
      `Free disk space or make the directory writable, then run svc agent auth refresh ${folder.name} to recover them.`;
    throw new CliError("CLI_SAVE_FAILED", `The new tokens could not be saved: ${why}`, { cause, fix });
  }
}

export type SessionState = "active" | "revoked" | "interrupted";

/**
 * Asks the registry for the state of the session whose tokens are on this machine. It is interrupted when these tokens
 * do not work and an answer with new ones may have been lost.
 *
 * @throws {ApiError|UnreachableError} when the registry does not tell
 */
export async function sessionOf(registry: RegistryClient, folder: AgentFolder): Promise<SessionState> {
  const { sub, jti } = readAitClaims(parseAit(folder.ait()));
  try {
    await registry.validate(sub, jti, folder.auth().accessToken);
    return "active";
  } catch (error) {
    // An expired access token does not end a session, because the next command refreshes it.
    if (error instanceof ApiError && error.code === "AGENT_AUTH_VALIDATE_EXPIRED") return "active";
    if (!(error instanceof ApiError) || error.code !== "AGENT_AUTH_VALIDATE_UNAUTHORIZED") throw error;
    return [REFRESH_MARKER, INTENT].some((file) => folder.read(file) !== null) ? "interrupted" : "revoked";
  }
}

/** The fix for an agent that was deleted, or that its registry lost when an older backup was restored. */
export function againFrom(name: string): string {
  return `Make it again: svc agent delete ${name}, then svc agent create ${name}, and pair it by new tickets`;
}

/**
 * Says why the registry does not let an agent in, and what to do; `null` when it does.
 *
 * @throws {ApiError|UnreachableError} when the registry does not tell
 */
export async function endOf(
  registry: RegistryClient,
  folder: AgentFolder,
): Promise<{ why: string; fix: string } | null> {
  const state = await registry.stateOf(folder.identity().did), fix = againFrom(folder.name);
  if (state === "revoked") return { why: "the agent was deleted", fix };
  if (state === "unknown") return { why: "it has no such agent; perhaps it was restored from an older backup", fix };
  if (await sessionOf(registry, folder) !== "revoked") return null;
  const why = "it refuses the saved tokens: the session was ended, or the agent was reissued elsewhere";
  return { why, fix: `For a new session: svc agent reissue ${folder.name}` };
}

/**
 * Returns the error to show. For a deleted agent it says that the agent was deleted, because the services refuse a
 * deleted agent and a reissued token with the same code, and the owner can repair only the second.
 */
export async function explainEnd(error: unknown, name: string, stateOf: () => Promise<string>): Promise<unknown> {
  if (!isRevoked(error)) return error;
  // If the registry does not answer, the error stays as it is, because the agent may still exist.
  if (await stateOf().catch(() => null) !== "revoked") return error;
  const deleted = new ApiError(error.status, error.code, `The agent ${name} was deleted`, error.requestId);
  deleted.fix =
    `To make it again: svc agent delete ${name}, then svc agent create ${name}, and pair it by a new ticket.`;
  return deleted;
}
