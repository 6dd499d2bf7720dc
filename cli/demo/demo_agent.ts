/** The two agents of the demo. Their files are those of `svc agent create`, and they call the proxy as commands do. */
import type * as z from "zod";
import { join } from "node:path";
import type { PairKey } from "../../shared/protocol/api/pairing.ts";
import { type PairSide, provePairKey, provesPairKey } from "../../shared/protocol/pair_key.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { directProxy } from "../connector/file_credentials.ts";
import { pinTicket, writePeers } from "../connector/peers/peers.ts";
import { CliError } from "../errors.ts";
import { maskSecret } from "../../shared/protocol/secrets.ts";
import type { Identity } from "../../shared/client/agent_files.ts";
import type { ProxyRequest } from "../link/proxy_caller.ts";
import type { AgentIdentity } from "../link/signed_headers.ts";
import { updateConfig } from "../account/config_store.ts";
import { type AgentFolder, AgentStore } from "../agents/agent_store.ts";
import { createAgent } from "../agents/registration.ts";
import { RegistryClient } from "../client/registry_client.ts";
import type { Context } from "../context.ts";

export interface DemoAgent {
  /** The context of its owner's commands. */
  ctx: Context;
  folder: AgentFolder;
  humanName: string;
  file: Identity;
  identity: AgentIdentity;
}

/** Creates an agent of a person, with its configuration in that person's folder below `parent`. */
export async function newDemoAgent(
  given: Context,
  { name: humanName, apiKey }: { name: string; apiKey: string },
  { name, url, parent }: { name: string; url: string; parent: string },
): Promise<DemoAgent> {
  const ctx = contextIn(given, join(parent, humanName.toLowerCase()));
  await updateConfig(ctx, { registryUrl: url, proxyUrl: url, humanName });
  await createAgent(ctx, { registry: new RegistryClient(ctx, url), apiKey }, { name });
  const folder = await new AgentStore(ctx).open(name);
  const file = folder.identity(), { accessToken } = folder.auth(), { privateKey } = await folder.keys();
  return { ctx, folder, humanName, file, identity: { did: file.did, ait: folder.ait(), privateKey, accessToken } };
}

/** A context with a configuration of its own, and without the environment of this user. */
function contextIn(ctx: Context, configDir: string): Context {
  // Copied member by member, because a spread would also look up this user's configuration folder.
  const { fetch, clock, random, terminal, stdin, stdinIsTerminal, interrupt, os, uid, pid, version, out } = ctx;
  const { onResponse } = ctx;
  return {
    ...{ fetch, clock, random, terminal, stdin, stdinIsTerminal, interrupt, os, uid, pid, version, out, onResponse },
    confirm: null,
    env: () => undefined,
    configDir,
    baseDir: configDir,
  };
}

export function aboutAgent({ file, folder }: DemoAgent): string[] {
  const { accessToken, accessExpiresAt } = folder.auth();
  return [
    `agent    ${file.name}  ${file.did}`,
    `owner    ${file.ownerDid}`,
    `token    AIT, valid until ${file.expiresAt}`,
    `session  access ${maskSecret(accessToken)} until ${accessExpiresAt}`,
    `files    ${folder.path}`,
  ];
}

/** Calls a route of the proxy as an agent, as a command does while no connector runs. */
export async function callAs<T>({ ctx, folder }: DemoAgent, answer: z.ZodType<T>, request: ProxyRequest): Promise<T> {
  using direct = await directProxy(ctx, folder);
  return answer.parse(await direct.proxy.ask(request));
}

/** How an agent of the demo introduces itself while it pairs. */
export function sideOf({ file, humanName }: DemoAgent, role: PairSide["role"]): PairSide {
  return { role, did: file.did, profile: { agentName: file.name, humanName } };
}

/** Proves the agent's key with the pair secret of a ticket, as its connector does. */
export async function keyProof(agent: DemoAgent, role: PairSide["role"], secret: string): Promise<PairKey> {
  return await provePairKey(secret, sideOf(agent, role), (await agent.folder.keys()).publicKey);
}

/** Keeps the key of a peer that has proven it, as a connector does. @throws {CliError} when it has not */
export async function pinPeer(
  { ctx, folder }: DemoAgent,
  secret: string,
  side: PairSide,
  key?: PairKey,
): Promise<void> {
  if (key === undefined || !await provesPairKey(secret, side, key)) {
    throw new CliError("CLI_UNEXPECTED", "The peer did not prove its key");
  }
  const { did, profile } = side;
  await writePeers(folder, pinTicket({}, { did, ...profile }, key.publicKey, toIso(ctx.clock.now())));
}
