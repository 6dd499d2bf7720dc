/** The agent's credentials for the connector, from its files. cli/agents/refresh.ts locks out other processes. */
import { type SessionStore, StoredCredentials, type StoredSession } from "../link/agent_credentials.ts";
import type { ServiceClock } from "../link/service_clock.ts";
import type { AgentFolder, AgentStore } from "../agents/agent_store.ts";
import { refreshAgent } from "../agents/refresh.ts";
import type { RegistryClient } from "../client/registry_client.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { Output } from "../terminal/output.ts";
import { issuerOf } from "../link/session_refresh.ts";
import type { EmitEvent } from "./events.ts";

interface FileCredentialsDeps {
  ctx: Context;
  clock: ServiceClock;
  store: AgentStore;
  name: string;
  registryOf: (registryUrl: string) => RegistryClient;
  emit: EmitEvent;
}

export async function openFileCredentials(deps: FileCredentialsDeps): Promise<StoredCredentials> {
  const { ctx, clock, store, name, registryOf, emit } = deps;
  // The connector owns the terminal, so the progress of a refresh is not printed.
  const out = new Output(ctx.terminal, clock, { json: true, colour: false });
  const { did } = (await store.open(name)).identity();
  const files: SessionStore = {
    read: async () => {
      const read = await readFiles(await store.open(name));
      if (read.identity.did === did) return read;
      const fix = `Start its connector again: svc connector start ${name}`;
      throw new CliError("CLI_AGENT_UNKNOWN", `The agent ${name} was deleted and made again`, { fix });
    },
    visit: async (agent, audience) => {
      const folder = await store.open(name), { registryUrl } = folder.identity();
      const registry = registryOf(registryUrl);
      return await registry.visit(agent, audience, issuerOf(agent.ait) ?? registryUrl);
    },
    refresh: async () => (await refreshAgent({ ...ctx, clock, out }, store, name, registryOf)).auth,
  };
  const isGone = (error: unknown) => error instanceof CliError && error.code === "CLI_AGENT_UNKNOWN";
  return await StoredCredentials.open({ clock, store: files, emit, isGone });
}

async function readFiles(folder: AgentFolder): Promise<StoredSession> {
  const { did, expiresAt } = folder.identity();
  const auth = folder.auth();
  const { privateKey } = await folder.keys();
  return {
    identity: { did, ait: folder.ait(), privateKey, accessToken: auth.accessToken },
    auth,
    aitExpiresAt: Date.parse(expiresAt),
  };
}
