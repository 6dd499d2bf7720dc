/**
 * Explains why a connector has ended permanently (D-249). The services refuse a deleted agent and a reissued token with
 * the same code, and the owner can repair only the second.
 */
import { parseDid } from "../../../shared/protocol/did.ts";
import type { Identity } from "../../../shared/client/agent_files.ts";
import { ApiError } from "../../../shared/client/errors.ts";
import type { RegistryClient } from "../../client/registry_client.ts";

const REVOKED: ReadonlySet<string | null> = new Set(["PROXY_AUTH_REVOKED", "AGENT_AUTH_REFRESH_REVOKED"]);

/** The error to show: for a deleted agent one that says so, else the same error. */
export async function explainEnd(
  error: unknown,
  { did, name }: Identity,
  registry: () => Promise<Pick<RegistryClient, "resolve">>,
): Promise<unknown> {
  if (!(error instanceof ApiError) || !REVOKED.has(error.code)) return error;
  try {
    const { status } = await (await registry()).resolve(parseDid(did)?.id ?? "");
    if (status === "active") return error;
  } catch {
    // The registry does not answer, so the reason stays unknown.
    return error;
  }
  const deleted = new ApiError(error.status, error.code, `The agent ${name} was deleted`, error.requestId);
  deleted.fix = "Create a new one with svc agent create <name>, and pair it again.";
  return deleted;
}
