/**
 * Where an `Agent` has its session (D-125): in the folder of the agent, or with the program. Takes no lock. Another program
 * that refreshes the session at the same time costs one refusal and another read (D-43, D-44).
 */
import { type Clock, sleep } from "../../clock.ts";
import { fromBase64Url } from "../../protocol/base64url.ts";
import { keyPairFromSeed } from "../../protocol/ed25519.ts";
import { parseAit } from "../../protocol/signed/ait.ts";
import type { SessionStore, StoredSession } from "../agent_credentials.ts";
import { ApiError } from "../errors.ts";
import type { HttpDeps } from "../service_call.ts";
import { issuerOf, postRefresh, type RefreshFiles, refreshSession } from "../session_refresh.ts";
import type { AgentAuth } from "./agent_api.ts";
import type { AgentDirectory } from "./directory_store.ts";
import { SvcError } from "./svc_error.ts";

/** After a refused refresh: how often the tokens are read again, and the wait in between, milliseconds. */
const READS = 5;
const READ_AGAIN_MS = 1_000;

/** The session in an agent's folder. */
export function directorySession(deps: HttpDeps, directory: AgentDirectory, registryUrl: string): SessionStore {
  let known: AgentAuth | null = null;
  return {
    async read() {
      const session = await directory.session();
      known = session.auth;
      return session;
    },
    async refresh() {
      const session = await directory.session();
      // Another program has refreshed the session.
      if (known !== null && session.auth.refreshToken !== known.refreshToken) return known = session.auth;
      try {
        return known = await refreshed(deps, registryUrl, session, directory.refreshFiles());
      } catch (error) {
        const newer = await newerAuth(deps.clock, directory, session.auth, error);
        if (newer === null) throw error;
        return known = newer;
      }
    },
  };
}

/** The tokens of another program that used the refresh token first; `null` when there is none, or for another error. */
async function newerAuth(
  clock: Clock,
  directory: AgentDirectory,
  used: AgentAuth,
  error: unknown,
): Promise<AgentAuth | null> {
  if (!(error instanceof ApiError) || error.code !== "AGENT_AUTH_REFRESH_INVALID") return null;
  for (let reads = 1; reads <= READS; reads++) {
    const auth = await directory.auth();
    if (auth.refreshToken !== used.refreshToken) return auth;
    if (reads < READS) await sleep(clock, READ_AGAIN_MS);
  }
  return null;
}

/** A session that the program keeps. */
export interface KeptSession {
  did: string;
  ait: string;
  /** base64url of the 32-byte seed. */
  secretKey: string;
  agentAuth: AgentAuth;
}

/**
 * The session of a program that keeps it elsewhere.
 *
 * @param save stores new tokens; the refresh is repeated later when it rejects
 * @throws {SvcError} `CLI_USAGE` for a key or an identity token that is damaged
 */
export async function keptSession(
  deps: HttpDeps,
  { did, ait, secretKey, agentAuth }: KeptSession,
  registryUrl: string,
  save: (auth: AgentAuth) => Promise<void>,
): Promise<SessionStore> {
  const seed = fromBase64Url(secretKey);
  if (seed?.length !== 32) throw new SvcError("CLI_USAGE", "secretKey is not 32 bytes as base64url");
  const { privateKey } = await keyPairFromSeed(seed);
  const aitExpiresAt = expiryOf(ait);
  let auth = agentAuth;
  // Damaged content means that a refresh may have been sent: the program may have ended before it saved the new tokens.
  let marker: string | null = "";
  const session = (): StoredSession => ({
    identity: { did, ait, privateKey, accessToken: auth.accessToken },
    auth,
    aitExpiresAt,
  });
  const files: RefreshFiles = {
    readMarker: () => marker,
    writeMarker: (digest) => Promise.resolve(void (marker = digest)),
    removeMarker: () => Promise.resolve(void (marker = null)),
    auth: () => auth,
    save: (fresh) => save(auth = fresh),
  };
  return {
    read: () => Promise.resolve(session()),
    refresh: () => refreshed(deps, registryUrl, session(), files),
  };
}

async function refreshed(
  deps: HttpDeps,
  registryUrl: string,
  { identity, auth }: StoredSession,
  files: RefreshFiles,
): Promise<AgentAuth> {
  const origin = issuerOf(identity.ait) ?? registryUrl;
  const { refreshToken } = auth;
  const send = (isRecovery: boolean) => postRefresh(deps, registryUrl, identity, refreshToken, isRecovery, origin);
  return (await refreshSession(deps.clock, files, refreshToken, send)).auth;
}

function expiryOf(ait: string): number {
  try {
    const { exp } = JSON.parse(parseAit(ait).payloadJson) as { exp?: unknown };
    if (typeof exp === "number") return exp * 1000;
  } catch {
    // Reported below.
  }
  throw new SvcError("CLI_USAGE", "ait is not an identity token");
}
