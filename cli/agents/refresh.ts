/**
 * Refreshes the tokens of an agent's session (D-83). One process at a time writes an intent marker, sends the request,
 * saves the answer and removes the marker. After a kill at any moment the next refresh recovers (D-44).
 */
import { sleep } from "../../shared/clock.ts";
import type { AgentAuth } from "../../shared/protocol/api/sessions.ts";
import { sha256 } from "../../shared/protocol/base64url.ts";
import { parseAit } from "../../shared/protocol/ait.ts";
import { AGENT_FILES, type AgentFolder, type AgentStore } from "./agent_store.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { ApiError } from "../../shared/client/errors.ts";
import type { RegistryClient } from "../client/registry_client.ts";

export interface Refreshed {
  auth: AgentAuth;
  /** `recovered` when an earlier answer was lost, `shared` when another process has just refreshed the session. */
  how: "refreshed" | "recovered" | "shared";
}

/** Marker file: a refresh with the token of this digest may have been sent. */
const INTENT = "refresh.pending";
/** A conflict ends with the current second. */
const AGAIN_AFTER_MS = 1_100;
const TRIES = 4;

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
  registryOf: (registryUrl: string) => Promise<RegistryClient>,
): Promise<Refreshed> {
  const before = (await store.open(name)).auth();
  return await store.lock(name, async () => {
    const folder = await store.open(name);
    const auth = folder.auth();
    if (auth.refreshToken !== before.refreshToken) return { auth, how: "shared" };
    const ait = folder.ait();
    const { privateKey } = await folder.keys();
    const registry = await registryOf(folder.identity().registryUrl);
    const isRecovery = await mark(folder, auth.refreshToken);
    ctx.out.doing(`Refreshing the session of ${name}`);
    const fresh = await send(ctx, registry, { ait, privateKey }, auth.refreshToken, isRecovery);
    try {
      await folder.writeJson(AGENT_FILES.auth, fresh);
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause);
      const fix =
        `Free disk space or make the directory writable, then run svc agent auth refresh ${name} to recover them.`;
      throw new CliError("CLI_SAVE_FAILED", `The new tokens could not be saved: ${why}`, { cause, fix });
    }
    await folder.remove(INTENT);
    return { auth: fresh, how: isRecovery ? "recovered" : "refreshed" };
  });
}

/**
 * Writes the marker of a refresh with this token.
 *
 * @returns true when an earlier refresh left a marker, so that its answer may be lost
 */
async function mark(folder: AgentFolder, refreshToken: string): Promise<boolean> {
  const digest = await sha256(refreshToken);
  const found = marker(folder);
  // A digest of another token remains from a refresh whose answer was saved. Damaged content may be this token's marker.
  if (found !== null && (found === digest || !/^[A-Za-z0-9_-]{43}$/.test(found))) return true;
  await folder.write(INTENT, digest);
  return false;
}

function marker(folder: AgentFolder): string | null {
  try {
    return folder.read(INTENT)?.trim() ?? null;
  } catch (error) {
    if (error instanceof CliError && error.code === "CLI_FILE_INVALID") return "";
    throw error;
  }
}

async function send(
  ctx: Context,
  registry: RegistryClient,
  signer: { ait: string; privateKey: CryptoKey },
  refreshToken: string,
  isRecovery: boolean,
): Promise<AgentAuth> {
  const origin = issuerOf(signer.ait) ?? registry.registryUrl;
  for (let tries = 1;; tries++) {
    try {
      return await registry.refresh(signer, refreshToken, isRecovery, origin);
    } catch (error) {
      // The marker stays after any rejection: an intermediary may have repeated the request, and the first may have worked.
      if (!(error instanceof ApiError) || error.status !== 409 || tries === TRIES) throw error;
      await sleep(ctx.clock, AGAIN_AFTER_MS);
    }
  }
}

/** Returns the registry's public origin from the unverified token. It is signed regardless of the dialled URL (D-24). */
function issuerOf(ait: string): string | null {
  try {
    const { iss } = JSON.parse(parseAit(ait).payloadJson) as { iss?: unknown };
    return typeof iss === "string" ? new URL(iss).origin : null;
  } catch {
    return null;
  }
}
