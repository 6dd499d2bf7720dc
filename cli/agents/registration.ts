/**
 * Creates an agent. Its key and a note of what was begun are on disk before the first request. All files are written in
 * a pending folder, which one rename turns into the agent's folder. After any interruption the same command resumes,
 * because the name would otherwise stay blocked, or a registered identity would be lost.
 */
import * as z from "zod";
import { decodeTime } from "ulid";
import type { Agent, RegisterAnswer } from "../../shared/protocol/api/agents.ts";
import { type KeyPair, keyPairFromSeed } from "../../shared/protocol/ed25519.ts";
import { isUlid } from "../../shared/protocol/ids.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { AGENT_FILES, type Identity } from "../../shared/client/agent_files.ts";
import { type AgentFolder, AgentStore, unlessDamaged } from "./agent_store.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { ApiError, UnreachableError, wasRefused } from "../../shared/client/errors.ts";
import { PAGES_MAX, pagesOf, type RegistryClient, type WantedAgent } from "../client/registry_client.ts";
import { unixSeconds } from "../../shared/protocol/time.ts";
import { trustedKeys } from "../verify/trusted_keys.ts";
import { evaluateToken } from "../verify/evaluate.ts";

export interface CreatedAgent {
  identity: Identity;
  path: string;
  resumed: boolean;
}

export interface Owner {
  registry: RegistryClient;
  apiKey: string;
}

/** Marker file of a registration in progress, with its challenge once there is one. */
const INTENT = "registration.pending";
const Intent = z.object({
  registryUrl: z.string(),
  challenge: z.object({ challengeId: z.string().refine(isUlid), nonce: z.string(), ownerDid: z.string() }).optional(),
});
type Intent = z.infer<typeof Intent>;

/** How far apart the clocks of registry instances may be. With less, `recover` could miss an agent that exists. */
const CLOCKS_APART_MS = 10_000;

/** Creates an agent, or resumes its creation. @throws {CliError} `CLI_AGENT_EXISTS` before anything is sent */
export async function createAgent(ctx: Context, owner: Owner, wanted: WantedAgent): Promise<CreatedAgent> {
  const store = new AgentStore(ctx);
  return await store.lockPending(wanted.name, async (folder, isNew, held) => {
    let identity = isNew ? null : await completeIdentity(folder);
    if (identity === null) {
      try {
        identity = await register(ctx, owner, wanted, folder);
      } catch (error) {
        // Frees the name, because no agent was registered, or its token cannot be used.
        const isUseless = error instanceof CliError && error.code === "CLI_TOKEN_REFUSED";
        if (isUseless || (isNew && isRefusal(error))) await store.discard(folder, held);
        throw error;
      }
    }
    await folder.remove(INTENT);
    return { identity, path: await store.finish(folder, held), resumed: !isNew };
  });
}

/** Returns the identity when all files of the folder are complete, else `null`. */
function completeIdentity(folder: AgentFolder): Promise<Identity | null> {
  return unlessDamaged(async () => {
    const identity = folder.identity();
    const { publicKey } = await folder.keys();
    return folder.auth() && folder.ait() !== "" && folder.read(AGENT_FILES.publicKey)?.trim() === publicKey
      ? identity
      : null;
  }, null);
}

async function register(ctx: Context, owner: Owner, wanted: WantedAgent, folder: AgentFolder): Promise<Identity> {
  const { registryUrl } = owner.registry;
  const intent = await unlessDamaged(() => folder.readJson(INTENT, Intent), "damaged" as const);
  const keys = await ensureKeys(ctx, folder, intent !== null);
  ctx.out.doing(`Registering ${wanted.name}`);
  const issued = (intent && await goOn(ctx, owner, keys, wanted, intent)) ??
    await begin(owner, keys, wanted, folder);
  const { agent, ait, agentAuth } = issued;
  if (agent.publicKey !== keys.publicKey) throw new UnreachableError(`${registryUrl} returned another agent`);
  await verifyOrDelete(ctx, owner, issued, keys.publicKey);
  if (agent.name !== wanted.name) {
    ctx.out.warn(`The registry calls the agent "${agent.name}"; its local name is ${wanted.name}`);
  }
  const { did, framework, ownerDid, expiresAt } = agent;
  const identity: Identity = { did, name: wanted.name, framework, ownerDid, expiresAt, registryUrl };
  await folder.write(AGENT_FILES.ait, ait);
  await folder.writeJson(AGENT_FILES.auth, agentAuth);
  await folder.writeJson(AGENT_FILES.identity, identity);
  return identity;
}

/** Saves a new challenge before answering it, because goOn() could not resume without the challenge after a crash. */
async function begin(
  { registry, apiKey }: Owner,
  keys: KeyPair,
  wanted: WantedAgent,
  folder: AgentFolder,
): Promise<RegisterAnswer> {
  const { registryUrl } = registry;
  await folder.writeJson(INTENT, { registryUrl } satisfies Intent);
  const { challengeId, nonce, ownerDid } = await registry.challenge(apiKey, keys.publicKey);
  const challenge = { challengeId, nonce, ownerDid };
  await folder.writeJson(INTENT, { registryUrl, challenge } satisfies Intent);
  return await registry.answerChallenge(apiKey, keys, wanted, challenge);
}

/**
 * Resumes the registration of an earlier run by answering its challenge again. If the registry accepts the answer,
 * nothing was registered before. If it reports a replay, the agent exists. So a key is never registered twice, even if
 * the earlier request is still in transit.
 *
 * @returns `null` when the registration must start again
 */
async function goOn(
  ctx: Context,
  owner: Owner,
  keys: KeyPair,
  wanted: WantedAgent,
  intent: Intent | "damaged",
): Promise<RegisterAnswer | null> {
  if (intent === "damaged") return await recover(owner, keys, wanted.name, 0);
  const { challenge, registryUrl } = intent;
  if (challenge === undefined) return null;
  try {
    return await owner.registry.answerChallenge(owner.apiKey, keys, wanted, challenge);
  } catch (error) {
    switch (error instanceof ApiError ? error.code : null) {
      case "AGENT_REGISTRATION_CHALLENGE_EXPIRED":
      case "AGENT_REGISTRATION_PROOF_MISMATCH":
        return null;
      case "AGENT_REGISTRATION_CHALLENGE_REPLAYED":
      case "AGENT_REGISTRATION_CHALLENGE_NOT_FOUND": {
        const found = await recover(owner, keys, wanted.name, decodeTime(challenge.challengeId) - CLOCKS_APART_MS);
        if (found === null && registryUrl !== owner.registry.registryUrl) {
          ctx.out.warn(`${wanted.name} was started at ${registryUrl}; if it is registered there, delete it there`);
        }
        return found;
      }
      default:
        throw error;
    }
  }
}

/**
 * Returns the key of an earlier run, or a new one. It is on disk before its first use, because a kill could otherwise
 * lose the key of a registered agent.
 */
async function ensureKeys(ctx: Context, folder: AgentFolder, wasSent: boolean): Promise<KeyPair> {
  const found = await folder.keysIfAny();
  if (found === null && wasSent) {
    ctx.out.warn(
      `The key of an earlier attempt to create ${folder.name} is damaged; if that agent was registered, delete it`,
    );
  }
  const keys = found ?? await keyPairFromSeed(ctx.random.bytes(LIMITS.publicKeyBytes));
  if (found === null) await folder.write(AGENT_FILES.seed, keys.seed);
  await folder.write(AGENT_FILES.publicKey, keys.publicKey);
  return keys;
}

/**
 * Recovers an agent whose registration answer was lost. The tokens of its session are unknown here, so that session is
 * ended, and identity token and session are issued again. Returns `null` when the key is not registered.
 *
 * @param sinceMs earliest time of the registration, by the registry's clock
 */
async function recover(owner: Owner, keys: KeyPair, name: string, sinceMs: number): Promise<RegisterAnswer | null> {
  const agent = await findByKey(owner, keys.publicKey, name, sinceMs);
  return agent && await reissueWithSession(owner, agent.id);
}

/** Issues a new identity token and a new session; the previous session ends. */
export async function reissueWithSession({ registry, apiKey }: Owner, agentId: string): Promise<RegisterAnswer> {
  await registry.revokeAgentAuth(apiKey, agentId);
  const { agent, ait, agentAuth } = await registry.reissueAgent(apiKey, agentId);
  if (agentAuth === undefined) throw new UnreachableError(`${registry.registryUrl} sent no session with the new token`);
  return { agent, ait, agentAuth };
}

async function findByKey(
  { registry, apiKey }: Owner,
  publicKey: string,
  name: string,
  sinceMs: number,
): Promise<Agent | null> {
  const read = (cursor?: string) => registry.agents(apiKey, { status: "active", limit: LIMITS.agentListMax, cursor });
  for await (const { agents } of pagesOf(read, undefined, PAGES_MAX)) {
    for (const { id, name: found } of agents) {
      // The list is sorted newest first, so all following agents are older.
      if (decodeTime(id) < sinceMs) return null;
      if (found !== name) continue;
      const agent = await registry.agent(apiKey, id);
      if (agent.publicKey === publicKey) return agent;
    }
  }
  return null;
}

/** True when nothing was registered. A replay does not show this, because this key may have used the challenge. */
function isRefusal(error: unknown): error is ApiError {
  return wasRefused(error) && error.code !== "AGENT_REGISTRATION_CHALLENGE_REPLAYED";
}

/**
 * Verifies signature, issuer, times, subject and key of the token. If the token is invalid, the agent is deleted at the
 * registry, because it would stay registered although no machine can use it.
 *
 * @param publicKey the agent's own key, base64url
 * @throws {CliError} `CLI_TOKEN_REFUSED` when the token is invalid
 * @throws {UnreachableError} when the registry's keys cannot be fetched, so that the token cannot be checked
 */
async function verifyOrDelete(
  ctx: Context,
  { registry, apiKey }: Owner,
  { agent, ait }: RegisterAnswer,
  publicKey: string,
): Promise<void> {
  const trusted = await trustedKeys(ctx, registry).catch((cause) => {
    // Reported as unreachable, because an ApiError would count as a refusal, and the key of the agent, which is
    // registered already, would be discarded.
    if (cause instanceof ApiError) throw new UnreachableError(`No keys to verify with: ${cause.message}`, { cause });
    throw cause;
  });
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
  // Not a refusal of the token, because the saved keys may lack the newest one, and a refusal discards the agent's key.
  if (trusted.stale !== null) throw new UnreachableError(`The saved keys do not verify the token: ${trusted.stale}`);
  await registry.deleteAgent(apiKey, agent.id).catch(() => {
    ctx.out.warn(`The agent ${agent.id} is registered but unusable; delete it with: svc agent delete ${agent.id}`);
  });
  throw new CliError("CLI_TOKEN_REFUSED", `The issued identity token does not verify: ${problem}`, {
    fix: "Check this machine's clock and the registry's address, then run the command again. Nothing was saved.",
  });
}
