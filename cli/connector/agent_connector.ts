/**
 * Starts the connector of one agent in this process: lock, database, credentials, local API, discovery file. Prints
 * nothing; the caller reports its events. Releases everything when the connector ends.
 */
import { join } from "node:path";
import { settledWithin } from "../../shared/clock.ts";
import { ulidSource } from "../../shared/protocol/ids.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { type AgentFolder, AgentStore } from "../agents/agent_store.ts";
import { connect } from "../account/registry_access.ts";
import { effectiveConfig } from "../account/config_store.ts";
import type { Context } from "../context.ts";
import { PLATFORMS } from "../platforms/table.ts";
import { Connector } from "./connector.ts";
import { lockConnector } from "./connector_lock.ts";
import { Database } from "./delivery/database.ts";
import { Runtime } from "./delivery/runtime.ts";
import { parseReplies, RUNTIME_FILE, runtimeSettings, runtimeTarget, withTarget } from "./delivery/runtime_file.ts";
import { type EmitEvent, withAlias } from "./events.ts";
import { openFileCredentials } from "./link/credentials.ts";
import { explainEnd } from "./link/final_refusal.ts";
import { proxyAddress } from "./link/proxy_address.ts";
import { describeError } from "../../shared/client/refusals.ts";
import { ServiceClock } from "../../shared/client/service_clock.ts";
import { openLink } from "../../shared/client/link.ts";
import { announce, makeToken, openPort, removeDiscoveryFiles, withdraw } from "./local_api/discovery_file.ts";
import { CONNECTOR_LIMITS } from "./limits.ts";
import { readA2aPeers } from "./local_api/a2a_peers.ts";
import { localApi } from "./local_api/local_api.ts";
import { aliasesOf, readPeers, shownAliases, writePeers } from "./peers.ts";
import { parsePort, type StartOptions } from "./start_options.ts";

/** What a connector reports to its caller. */
export interface ConnectorHooks {
  tell: EmitEvent;
  /** Called with the ticket of a pairing that the local API started, and with the time when it expires. */
  onTicket?: (ticket: string, until: string) => void;
  /** Called with the alias of a peer that has confirmed a ticket of this agent. */
  onPaired?: (alias: string) => void;
}

/** A connector that runs in this process. */
export interface RunningConnector {
  connector: Connector;
  folder: AgentFolder;
  /** Address and token of its local API. */
  url: string;
  token: string;
  /** Resolves when everything is released: with `null` after `stop()`, else with the error. Never rejects. */
  ended: Promise<unknown>;
  /** Stops it. Resolves when everything is released. */
  stop(): Promise<void>;
}

/**
 * Starts the connector of an agent.
 *
 * @throws {import("./connector_lock.ts").ConnectorLockedError} when another process runs this agent's connector
 * @throws {import("../errors.ts").CliError} for its options and files
 */
export async function startAgentConnector(
  ctx: Context,
  name: string,
  options: StartOptions,
  hooks: ConnectorHooks,
): Promise<RunningConnector> {
  const store = new AgentStore(ctx);
  const folder = await store.open(name);
  let aliases = shownAliases(folder);
  const tell: EmitEvent = (event, fields) => hooks.tell(event, withAlias(fields, aliases));
  const identity = folder.identity();
  const proxy = proxyAddress(ctx, options["proxy-ws-url"], options["allow-insecure"]);
  const settings = runtimeSettings(folder);
  const target = runtimeTarget(ctx, settings?.file ?? null, identity.framework, options, settings?.source);
  const wantedPort = parsePort(options.port);
  await using opened = new AsyncDisposableStack();
  opened.use(await lockConnector(folder, ctx.pid));
  // From an ended connector. Another program may have its port by now, and must not get a token or a message.
  await removeDiscoveryFiles(folder);
  if (options.save) {
    await folder.writeJson(RUNTIME_FILE, withTarget(settings?.file ?? null, target, parseReplies(options.replies)));
  }
  const database = opened.use(Database.open(join(folder.path, "connector.db")));
  const serviceClock = new ServiceClock(ctx.clock);
  const onResponse = (headers: Headers) => {
    ctx.onResponse?.(headers);
    serviceClock.see(headers.get("Date"));
  };
  const registryOf = async (registryUrl: string) => {
    const wanted = { "allow-insecure": options["allow-insecure"] };
    return (await connect({ ...ctx, clock: serviceClock, onResponse }, wanted, registryUrl)).registry;
  };
  const session = await openFileCredentials({ ctx, clock: serviceClock, store, name, tell, registryOf });
  const newId = ulidSource(ctx.clock.now, ctx.random.bytes);
  const { fetch, clock, reach } = ctx;
  const runtime = target && new Runtime({ fetch, clock, reach }, PLATFORMS[target.platform], target);
  const connector = new Connector({
    clock: ctx.clock,
    serviceClock,
    random: ctx.random,
    fetch: ctx.fetch,
    onResponse: ctx.onResponse,
    session,
    database,
    tell,
    open: (agent, events) => {
      const { random, authority } = ctx;
      return openLink({ clock: serviceClock, random, newId, authority }, proxy, agent, events);
    },
    runtime,
    peers: {
      read: () => readPeers(folder),
      write: async (peers) => {
        await writePeers(folder, peers);
        aliases = aliasesOf(peers);
      },
    },
    onPaired: (did) => {
      const alias = aliases.get(did);
      if (alias !== undefined) hooks.onPaired?.(alias);
    },
  }, {
    agent: { name, did: identity.did },
    profile: { agentName: identity.name, humanName: effectiveConfig(ctx).humanName ?? "someone" },
    proxy,
    version: ctx.version,
    pid: ctx.pid,
  });
  const token = makeToken(ctx.random);
  let response: ReturnType<typeof localApi> | null = null;
  const early = () => Promise.resolve(new Response(null, { status: 503 }));
  const { listener, movedFrom } = await openPort(store, folder, wantedPort, (request) => (response ?? early)(request));
  // Calls that waited get their answers; a request that takes longer must not delay the end.
  opened.defer(() => settledWithin(ctx.clock, listener.close(), CONNECTOR_LIMITS.closeMs));
  const { port } = listener;
  response = localApi({
    connector,
    token,
    port,
    a2aPeers: () => readA2aPeers(folder),
    ...(hooks.onTicket === undefined ? {} : { onTicket: hooks.onTicket }),
  });
  const url = `http://127.0.0.1:${port}`;
  connector.api = { url, movedFrom };
  opened.defer(() => withdraw(folder, token));
  const startedAt = toIso(ctx.clock.now());
  await announce(folder, { url, port, token, pid: ctx.pid, agentDid: identity.did, startedAt });
  const { platform, url: runtimeUrl } = connector.status().runtime;
  const replies = target?.replies ?? false;
  tell("started", { agent: name, api: url, proxy: proxy.dialUrl, runtime: runtimeUrl, platform, replies });
  if (movedFrom !== null) tell("port_moved", { from: movedFrom, to: port });
  session.onEnd = (error) => connector.fail(error);
  session.watch();
  const ended = untilEnd(connector, opened.move(), async (error) => {
    const why = error && await explainEnd(error, identity, () => registryOf(identity.registryUrl));
    tell("stopped", why === null ? {} : { why: describeError(why) });
    return why;
  });
  const stop = async () => {
    void connector.stop();
    await ended;
  };
  return { connector, folder, url, token, ended, stop };
}

/** Runs the connector and releases what belongs to it. Returns `null` after a stop, else the error. */
async function untilEnd(
  connector: Connector,
  opened: AsyncDisposableStack,
  report: (error: unknown) => Promise<unknown>,
): Promise<unknown> {
  try {
    await using _opened = opened;
    return await report(await connector.run());
  } catch (error) {
    return error;
  }
}
