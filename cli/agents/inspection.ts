/**
 * Collects the facts about an agent on this machine: its files, the verification of its identity token, and its status
 * at the registry. Writes only the saved copy of the registry's keys.
 */
import { type AitClaims, parseAit } from "../../shared/protocol/signed/ait.ts";
import { parseDid } from "../../shared/protocol/did.ts";
import { TokenError } from "../../shared/protocol/signed/jws.ts";
import { toIso, unixSeconds } from "../../shared/protocol/time.ts";
import type { AgentFolder } from "./agent_store.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { ApiError, UnreachableError } from "../../shared/client/errors.ts";
import type { RegistryClient } from "../client/registry_client.ts";
import { trustedKeys } from "../verify/trusted_keys.ts";
import { evaluateToken } from "../verify/evaluate.ts";

/** The facts to show. A value that could not be determined is `null` or `unknown`. */
export interface AgentFacts {
  did: string;
  name: string;
  framework: string;
  ownerDid: string;
  /** `active`, `revoked`, or `unknown` when the registry is unreachable. */
  status: string;
  /**
   * `active`; `revoked` when the registry rejects the tokens of this machine; `interrupted` when the answer with new
   * tokens was lost; `unknown` when the registry is unreachable.
   */
  session: "active" | "revoked" | "interrupted" | "unknown";
  aitJti: string | null;
  issuedAt: string | null;
  expiresAt: string;
  kid: string | null;
  accessExpiresAt: string;
  refreshExpiresAt: string;
  registryUrl: string;
  verified: boolean;
  /** Why the token is not verified. */
  problem: string | null;
}

/** Marker files of requests whose answer may have been lost (D-83). */
const PENDING = ["refresh.pending", "reissue.pending"];

/** Returns the facts about an agent. `error` says why its token is invalid or could not be verified. */
export async function inspectAgent(
  ctx: Context,
  folder: AgentFolder,
  registry: RegistryClient,
): Promise<{ facts: AgentFacts; error: Error | null }> {
  const identity = folder.identity();
  const auth = folder.auth();
  const ait = folder.ait();
  const keys = await folder.keys();
  const kid = kidOf(ait);
  ctx.out.doing(`Calling ${registry.registryUrl}`);
  const [judged, status] = await Promise.all([judge(ctx, registry, ait), statusOf(registry, identity.did)]);
  const { claims } = judged;
  const session = claims === null ? "unknown" : await sessionOf(registry, folder, claims, auth.accessToken);
  const mismatch = claims && claims.cnf.jwk.x !== keys.publicKey
    ? "its key is not that of secret.key"
    : claims && claims.sub !== identity.did
    ? "its subject is not the agent of identity.json"
    : null;
  const refused = judged.refused ?? mismatch;
  const error = judged.unreachable ?? (refused === null ? null : new CliError("CLI_TOKEN_REFUSED", refused));
  const facts: AgentFacts = {
    did: identity.did,
    name: identity.name,
    framework: claims?.framework ?? identity.framework,
    ownerDid: claims?.ownerDid ?? identity.ownerDid,
    status,
    session,
    aitJti: claims?.jti ?? null,
    issuedAt: claims ? toIso(claims.iat * 1000) : null,
    expiresAt: claims ? toIso(claims.exp * 1000) : identity.expiresAt,
    kid,
    accessExpiresAt: auth.accessExpiresAt,
    refreshExpiresAt: auth.refreshExpiresAt,
    registryUrl: identity.registryUrl,
    verified: error === null,
    problem: error?.message ?? null,
  };
  return { facts, error };
}

interface Judged {
  claims: Awaited<ReturnType<typeof evaluateToken>>["claims"];
  refused: string | null;
  unreachable: UnreachableError | null;
}

async function judge(ctx: Context, registry: RegistryClient, ait: string): Promise<Judged> {
  try {
    const trusted = await trustedKeys(ctx, registry);
    const nowSeconds = unixSeconds(ctx.clock.now());
    const { checks, claims } = await evaluateToken(ait, {
      trusted,
      crl: "the registry reports the status",
      nowSeconds,
    });
    const bad = checks.find(({ result }) => result === "failed");
    return { claims, refused: bad ? `${bad.name}: ${bad.detail}` : null, unreachable: null };
  } catch (error) {
    if (!(error instanceof UnreachableError)) throw error;
    return { claims: null, refused: null, unreachable: error };
  }
}

/** Returns the agent's status from the public route, so that inspecting needs no API key. */
async function statusOf(registry: RegistryClient, did: string): Promise<string> {
  try {
    return (await registry.resolve(parseDid(did)?.id ?? "")).status;
  } catch (error) {
    if (error instanceof ApiError || error instanceof UnreachableError) return "unknown";
    throw error;
  }
}

/**
 * Returns the state of the session whose tokens are on this machine. An expired access token is not the end of a
 * session.
 */
async function sessionOf(
  registry: RegistryClient,
  folder: AgentFolder,
  { sub, jti }: Pick<AitClaims, "sub" | "jti">,
  accessToken: string,
): Promise<AgentFacts["session"]> {
  if (PENDING.some((file) => folder.read(file) !== null)) return "interrupted";
  try {
    await registry.validate(sub, jti, accessToken);
    return "active";
  } catch (error) {
    if (error instanceof ApiError && error.code === "AGENT_AUTH_VALIDATE_UNAUTHORIZED") return "revoked";
    // The next command refreshes an expired access token.
    if (error instanceof ApiError && error.code === "AGENT_AUTH_VALIDATE_EXPIRED") return "active";
    if (error instanceof ApiError || error instanceof UnreachableError) return "unknown";
    throw error;
  }
}

function kidOf(ait: string): string | null {
  try {
    return parseAit(ait).kid;
  } catch (error) {
    if (error instanceof TokenError) return null;
    throw error;
  }
}
