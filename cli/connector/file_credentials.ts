/**
 * Reads an agent's credentials from its files, and finds the address of its proxy. A refresh takes a lock, because a
 * refresh token that two processes use ends the session.
 */
import { type SessionStore, StoredCredentials } from "../link/agent_credentials.ts";
import { ServiceClock } from "../link/service_clock.ts";
import { effectiveConfig } from "../account/config_store.ts";
import { connect } from "../account/registry_access.ts";
import type { ProxyPlace } from "../link/link.ts";
import { type AgentFolder, AgentStore } from "../agents/agent_store.ts";
import { refreshAgent } from "../agents/lifecycle.ts";
import type { RegistryClient } from "../client/registry_client.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { Output } from "../terminal/output.ts";
import { issuerOf } from "../link/signed_headers.ts";
import type { EmitEvent } from "./events.ts";
import { secureServiceUrl } from "../files/profile.ts";
import { PeerProxies } from "../link/peer_proxies.ts";
import { ProxyCaller } from "../link/proxy_caller.ts";

export async function openFileCredentials(ctx: Context, name: string, emit: EmitEvent) {
  const clock = new ServiceClock(ctx.clock, (offsetMs) => emit("clock_offset_refused", { offsetMs }));
  // The connector owns the terminal, so the progress of a refresh is not printed.
  const out = new Output(ctx.terminal, clock, { json: true, colour: false });
  const store = new AgentStore({ ...ctx, out });
  const registryOf = (registryUrl: string) => registryAt(ctx, clock, registryUrl);
  const { did } = (await store.open(name)).identity();
  const isGone = (error: unknown) => error instanceof CliError && error.code === "CLI_AGENT_UNKNOWN";
  const files: SessionStore = {
    read: async (isSettled = false) => {
      const opening = isSettled ? store.lock(name, (folder) => Promise.resolve(folder)) : store.open(name);
      const folder = await opening.catch((error) => {
        if (!isGone(error)) throw error;
        const fix = `To make it again: svc agent create ${name}, then pair it by a new ticket.`;
        throw new CliError("CLI_AGENT_UNKNOWN", `The agent ${name} was deleted from this machine`, { fix });
      });
      const identity = folder.identity();
      if (identity.did !== did) {
        const fix = `Start its connector again: svc connector start ${name}`;
        throw new CliError("CLI_AGENT_UNKNOWN", `The agent ${name} was deleted and made again`, { fix });
      }
      const auth = folder.auth(), { privateKey } = await folder.keys();
      return {
        identity: { did, ait: folder.ait(), privateKey, accessToken: auth.accessToken },
        auth,
        aitExpiresAt: Date.parse(identity.expiresAt),
      };
    },
    visit: async (agent, audience) => {
      const { registryUrl } = (await store.open(name)).identity();
      return await registryOf(registryUrl).visit(agent, audience, issuerOf(agent.ait) ?? registryUrl);
    },
    refresh: async () => (await refreshAgent({ ...ctx, clock, out }, name, registryOf)).auth,
  };
  const session = new StoredCredentials({ clock, store: files, emit, isGone }, await files.read());
  return { session, clock, registryOf };
}

/** Returns a client of the registry. The clock notes the times in its answers. */
export function registryAt(ctx: Context, clock: ServiceClock, registryUrl: string): RegistryClient {
  const onResponse = (headers: Headers) => {
    ctx.onResponse?.(headers);
    clock.see(headers.get("Date"));
  };
  return connect({ ...ctx, clock, onResponse }, {}, registryUrl).registry;
}

/**
 * Returns a way to call the proxy as the agent from a command, when the agent's connector does not run. Takes no
 * connector lock; refreshes the session as every other process does (D-83).
 *
 * @throws {CliError} `CLI_USAGE`, `CLI_INSECURE_URL`, `CLI_FILE_INVALID`
 */
export async function directProxy(ctx: Context, folder: AgentFolder) {
  const place = proxyAddress(ctx);
  const emit = () => {};
  const { session, clock } = await openFileCredentials(ctx, folder.name, emit);
  const { fetch, random, onResponse } = ctx, calls = { fetch, onResponse, random, session, emit };
  const proxy = new ProxyCaller({ ...calls, clock }, place);
  const check = (origin: string) => void secureServiceUrl(ctx, origin, "The server of the peer");
  const elsewhere = new PeerProxies({ ...calls, machine: ctx.clock, check }, proxy, () => undefined);
  const at = (origin: string | undefined) => origin === undefined ? proxy : elsewhere.at(origin);
  return { proxy, at, [Symbol.dispose]: () => session.stop() };
}

/**
 * The URL to connect to and the public origin that is signed (D-24), from `--proxy-ws-url`, `SVC_PROXY_WS_URL`, then
 * the configuration.
 *
 * @throws {CliError} `CLI_USAGE`, `CLI_INSECURE_URL`
 */
export function proxyAddress(ctx: Context, wsUrl?: string): ProxyPlace {
  const configured = effectiveConfig(ctx).proxyUrl;
  const given = wsUrl ?? ctx.env("SVC_PROXY_WS_URL");
  if (given !== undefined) {
    const dialUrl = parseWsUrl(ctx, given, wsUrl === undefined ? "SVC_PROXY_WS_URL" : "--proxy-ws-url");
    return { dialUrl, origin: configured === undefined ? dialUrl : new URL(configured).origin };
  }
  if (configured === undefined) {
    throw new CliError("CLI_USAGE", "No proxy is configured: run svc config init, or give --proxy-ws-url");
  }
  const origin = secureServiceUrl(ctx, configured, "proxyUrl");
  return { dialUrl: origin, origin };
}

function parseWsUrl(ctx: Context, text: string, what: string): string {
  if (!/^wss?:\/\//i.test(text)) {
    throw new CliError("CLI_USAGE", `${what} is not an address such as wss://proxy.example: "${text}"`);
  }
  const http = text.replace(/^ws/i, "http").replace(/\/v1\/relay\/connect\/?$/, "");
  return secureServiceUrl(ctx, http, what);
}
