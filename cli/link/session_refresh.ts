/**
 * One refresh of an agent's session that survives a kill at any moment (D-83): a marker is written, the request is sent,
 * the new tokens are saved, the marker is removed. After a kill the next refresh recovers (D-44). The caller has the files.
 */
import { type Clock, sleep } from "../../shared/clock.ts";
import { parseAit } from "../../shared/protocol/signed/ait.ts";
import { type AgentAuth, RefreshAnswer, VisitAnswer } from "../../shared/protocol/api/sessions.ts";
import { HEADERS } from "../../shared/protocol/proof.ts";
import { sha256 } from "../../shared/protocol/base64url.ts";
import { ApiError } from "../../shared/client/errors.ts";
import { callService, type HttpDeps } from "./service_call.ts";
import { type AgentIdentity, signedHeaders } from "./signed_headers.ts";

export interface RefreshFiles {
  /** The digest in the marker, `null` without a marker, any other text when its content is damaged. */
  readMarker(): string | null;
  writeMarker(digest: string): Promise<void>;
  removeMarker(): Promise<void>;
  save(auth: AgentAuth): Promise<void>;
}

/** Name of the marker file: a refresh with the token of this digest may have been sent. */
export const REFRESH_MARKER = "refresh.pending";
/** A conflict ends with the current second. */
const AGAIN_AFTER_MS = 1_100;
const TRIES = 4;

/**
 * Refreshes the session and saves the new tokens.
 *
 * @param send sends the request; its argument says whether the answer to an earlier one may be lost
 * @returns the tokens, and whether an earlier refresh had left a marker
 * @throws {ApiError} when the registry refuses
 */
export async function refreshSession(
  clock: Clock,
  files: RefreshFiles,
  refreshToken: string,
  send: (isRecovery: boolean) => Promise<AgentAuth>,
): Promise<{ auth: AgentAuth; isRecovered: boolean }> {
  const isRecovered = await mark(files, refreshToken);
  for (let tries = 1;; tries++) {
    try {
      const auth = await send(isRecovered);
      await files.save(auth);
      await files.removeMarker();
      return { auth, isRecovered };
    } catch (error) {
      // The marker stays after any rejection, because an intermediary may have repeated the request, and the first may
      // have worked.
      if (!(error instanceof ApiError) || error.status !== 409 || tries === TRIES) throw error;
      await sleep(clock, AGAIN_AFTER_MS);
    }
  }
}

/** Writes the marker. Returns true when an earlier refresh with this token left one, so that its answer may be lost. */
async function mark(files: RefreshFiles, refreshToken: string): Promise<boolean> {
  const digest = await sha256(refreshToken);
  const found = files.readMarker();
  // A digest of another token remains from a refresh whose answer was saved. Damaged content may be this token's marker.
  if (found !== null && (found === digest || !/^[A-Za-z0-9_-]{43}$/.test(found))) return true;
  await files.writeMarker(digest);
  return false;
}

/**
 * Asks the registry for new tokens.
 *
 * @param origin the registry's public origin, which is signed regardless of the dialled URL (D-24)
 * @throws {ApiError} when the registry refuses
 * @throws {import("../../shared/client/errors.ts").UnreachableError} when no registry answers
 */
export async function postRefresh(
  deps: HttpDeps,
  registryUrl: string,
  agent: Pick<AgentIdentity, "ait" | "privateKey">,
  refreshToken: string,
  isRecovery: boolean,
  origin: string,
): Promise<AgentAuth> {
  const target = "/v1/agents/auth/refresh";
  const body = JSON.stringify({ refreshToken, ...(isRecovery ? { recovery: true } : {}) });
  const headers = await signedHeaders(deps, agent, { method: "POST", url: origin, target, body });
  const response = await callService(deps, {
    method: "POST",
    url: registryUrl + target,
    headers,
    body,
    response: RefreshAnswer,
  });
  return response.agentAuth;
}

/**
 * Asks the registry for a token with which the agent visits the proxy at `audience`.
 *
 * @param origin the registry's public origin, which is signed
 * @throws {ApiError} when the registry refuses
 * @throws {import("../../shared/client/errors.ts").UnreachableError} when no registry answers
 */
export async function postVisit(
  deps: HttpDeps,
  registryUrl: string,
  agent: AgentIdentity,
  audience: string,
  origin: string,
): Promise<VisitAnswer> {
  const target = "/v1/agents/auth/visit", body = JSON.stringify({ audience });
  const signed = await signedHeaders(deps, agent, { method: "POST", url: origin, target, body });
  return await callService(deps, {
    method: "POST",
    url: registryUrl + target,
    headers: { ...signed, [HEADERS.access]: agent.accessToken },
    body,
    response: VisitAnswer,
  });
}

/** Returns the registry's public origin from the unverified token; `null` when it names none. */
export function issuerOf(ait: string): string | null {
  try {
    const { iss } = JSON.parse(parseAit(ait).payloadJson) as { iss?: unknown };
    return typeof iss === "string" ? new URL(iss).origin : null;
  } catch {
    return null;
  }
}
