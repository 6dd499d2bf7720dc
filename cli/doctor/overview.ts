/** The facts of `svc status`: services, person and agents of this machine. Changes nothing. */
import { effectiveConfig } from "../account/config_store.ts";
import { connect, type ConnectionOptions } from "../account/registry_access.ts";
import { type AgentFolder, AgentStore } from "../agents/agent_store.ts";
import { exchange, ExchangeError } from "../../shared/client/http.ts";
import { connectorOf } from "../connector/attach.ts";
import { presentPeers, readPeers } from "../connector/peers.ts";
import { describeError } from "../../shared/client/refusals.ts";
import { isConnectorHealthy, statusOf } from "../connector/status.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";

/** A service; `url` is `null` when none is configured, `problem` when it is healthy. */
export interface ServiceOverview {
  url: string | null;
  problem: string | null;
}

/** The person of the API key; `problem` says why they are unknown. */
export interface PersonOverview {
  name: string | null;
  did: string | null;
  problem: string | null;
}

export interface AgentOverview {
  name: string;
  did: string | null;
  connector: "running" | "unhealthy" | "not running";
  /** State of the link to the proxy; the last three are `null` without a connector. */
  link: string | null;
  /** Also `null` when messages go to a runtime: what waits for it is not unread. */
  unread: number | null;
  deadLetters: number | null;
  problem: string | null;
  hasPeers: boolean;
}

export interface Overview {
  registry: ServiceOverview;
  proxy: ServiceOverview;
  person: PersonOverview;
  agents: AgentOverview[];
}

export const NO_API_KEY = "no API key is saved";
const HEALTH_MS = 3_000;
const MAX_HEALTH_BYTES = 64 * 1024;

/** Reads everything at the same time. @throws {CliError} for configuration and options */
export async function overview(
  ctx: Context,
  options: ConnectionOptions & { agent?: string | undefined },
): Promise<Overview> {
  const connection = connect(ctx, options);
  const { registryUrl, config } = connection;
  const proxyUrl = effectiveConfig(ctx).proxyUrl ?? null;
  const store = new AgentStore(ctx);
  const names = options.agent === undefined ? (await store.names()).agents : [(await store.open(options.agent)).name];
  const registryHealth = healthOf(ctx, registryUrl);
  const [registry, proxy, person, agents] = await Promise.all([
    registryHealth,
    proxyUrl === registryUrl ? registryHealth : healthOf(ctx, proxyUrl, registryUrl),
    registryHealth.then(({ problem }) => personOf(connection.registry, config.apiKey, problem !== null)),
    Promise.all(names.map((name) => agentOf(ctx, store, name))),
  ]);
  return { registry, proxy, person, agents };
}

/** Asks a service for its health. `url` is `null` when none is configured. A newer version is fetched from the registry. */
export async function healthOf(ctx: Context, url: string | null, registryUrl = url): Promise<ServiceOverview> {
  if (url === null) return { url, problem: null };
  try {
    const { status, text } = await exchange(ctx, {
      method: "GET",
      url: `${url}/health`,
      timeoutMs: HEALTH_MS,
      maxBytes: MAX_HEALTH_BYTES,
      onTooLarge: "truncate",
    });
    const version = versionIn(text);
    if (version !== null && registryUrl !== null) ctx.onVersion?.({ version, registryUrl });
    return { url, problem: status === 200 ? null : `answers with status ${status}` };
  } catch (error) {
    if (!(error instanceof ExchangeError)) throw error;
    return { url, problem: error.message };
  }
}

/** The version in the answer of `/health`; `null` without one. */
function versionIn(text: string): string | null {
  try {
    const { version } = JSON.parse(text);
    return typeof version === "string" ? version : null;
  } catch {
    return null;
  }
}

async function personOf(
  registry: { me(apiKey: string): Promise<{ human: { displayName: string; did: string } }> },
  apiKey: string | undefined,
  isAway: boolean,
): Promise<PersonOverview> {
  const unknown = (problem: string) => ({ name: null, did: null, problem });
  if (apiKey === undefined) return unknown(NO_API_KEY);
  if (isAway) return unknown("unknown: the registry does not answer");
  try {
    const { displayName: name, did } = (await registry.me(apiKey)).human;
    return { name, did, problem: null };
  } catch (error) {
    return unknown(describeError(error));
  }
}

async function agentOf(ctx: Context, store: AgentStore, name: string): Promise<AgentOverview> {
  const nothing = { did: null, link: null, unread: null, deadLetters: null, hasPeers: false } as const;
  const stopped = { name, ...nothing, connector: "not running" } as const;
  let folder: AgentFolder, did: string;
  try {
    folder = await store.open(name);
    ({ did } = folder.identity());
  } catch (error) {
    // A damaged agent must not hide the others.
    if (!(error instanceof CliError)) throw error;
    return { ...stopped, problem: error.message };
  }
  try {
    const client = await connectorOf(ctx, folder);
    const hasPeers = Object.keys(presentPeers(readPeers(folder))).length > 0;
    if (client === null) return { ...stopped, did, hasPeers, problem: null };
    const status = await statusOf(client);
    const { connection, inbox, deadLetters, runtime } = status;
    return {
      name,
      did,
      connector: isConnectorHealthy(status) ? "running" : "unhealthy",
      link: connection.state,
      unread: runtime.url === null ? inbox.waiting : null,
      deadLetters,
      problem: connection.problem ?? runtime.problem,
      hasPeers,
    };
  } catch (error) {
    return { ...stopped, did, connector: "unhealthy", problem: describeError(error) };
  }
}
