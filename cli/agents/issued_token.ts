/** Verifies an identity token that a registry has just issued, before it is saved (D-249). */
import type { Agent } from "../../shared/protocol/api/agents.ts";
import { unixSeconds } from "../../shared/protocol/time.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { ApiError, UnreachableError } from "../../shared/client/errors.ts";
import type { RegistryClient } from "../client/registry_client.ts";
import { type TrustedKeys, trustedKeys } from "../verify/trusted_keys.ts";
import { evaluateToken } from "../verify/evaluate.ts";

/**
 * Checks signature, issuer, times, subject and key of the token.
 *
 * @param publicKey the agent's own key, base64url
 * @throws {CliError} `CLI_TOKEN_REFUSED` when the token is invalid
 * @throws {UnreachableError} when the registry's keys cannot be fetched, so that the token cannot be checked
 */
export async function verifyIssuedToken(
  ctx: Context,
  registry: RegistryClient,
  ait: string,
  agent: Pick<Agent, "did" | "ownerDid">,
  publicKey: string,
): Promise<void> {
  const trusted = await keysOf(ctx, registry);
  const nowSeconds = unixSeconds(ctx.clock.now());
  const { checks, claims } = await evaluateToken(ait, { trusted, crl: "just issued", nowSeconds });
  const failed = checks.find(({ result }) => result === "failed");
  const problem = failed
    ? `${failed.name}: ${failed.detail}`
    : claims?.sub !== agent.did || claims.ownerDid !== agent.ownerDid
    ? "it is for another agent or owner"
    : claims.cnf.jwk.x !== publicKey
    ? "it is for another key"
    : null;
  if (problem === null) return;
  throw new CliError("CLI_TOKEN_REFUSED", `The issued identity token does not verify: ${problem}`, {
    fix: "Check this machine's clock and the registry's address, then run the command again. Nothing was saved.",
  });
}

async function keysOf(ctx: Context, registry: RegistryClient): Promise<TrustedKeys> {
  try {
    return await trustedKeys(ctx, registry);
  } catch (cause) {
    // This error does not reject the registration. That has succeeded, and the next run resumes it.
    if (cause instanceof ApiError) throw new UnreachableError(`No keys to verify with: ${cause.message}`, { cause });
    throw cause;
  }
}
