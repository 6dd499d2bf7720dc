/** The two agents of the demo. Their files are those of `svc agent create`, and they call the proxy as commands do. */
import type * as z from "zod";
import { join } from "node:path";
import { call, type LocalRequest } from "../../shared/client/local_client.ts";
import { access } from "../connector/attach.ts";
import { directProxy } from "../connector/file_credentials.ts";
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
  return { ctx, folder, file, identity: { did: file.did, ait: folder.ait(), privateKey, accessToken } };
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
  return await direct.proxy.ask(request, answer);
}

/** Calls the local API of the agent's connector, which runs in this process for the call, without a link. */
export async function callConnector<S extends z.ZodType>(
  { ctx, folder }: DemoAgent,
  answer: S,
  request: LocalRequest,
): Promise<z.output<S>> {
  await using connector = await access(ctx, folder, { inbox: true, offline: true });
  return await call(connector, answer, request);
}
