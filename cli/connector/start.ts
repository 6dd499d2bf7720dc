/**
 * `svc connector start`: builds a connector from an agent's files and options, runs it and cleans up. Passes everything of
 * this machine to connector.ts.
 */
import { join } from "node:path";
import { ulidSource } from "../../shared/protocol/ids.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { type AgentFolder, AgentStore } from "../agents/agent_store.ts";
import { connect } from "../account/registry_access.ts";
import { effectiveConfig } from "../account/config_store.ts";
import type { Context } from "../context.ts";
import { CliError, EXIT } from "../errors.ts";
import { PLATFORMS } from "../platforms/table.ts";
import { Connector } from "./connector.ts";
import { Database } from "./delivery/database.ts";
import { reportDefects } from "./defects.ts";
import { explainEnd } from "./link/final_refusal.ts";
import { openLink, type ProxyPlace } from "./link/socket_link.ts";
import { announce, makeToken, openPort, withdraw } from "./local_api/discovery_file.ts";
import { localApi } from "./local_api/local_api.ts";
import { lockConnector } from "./connector_lock.ts";
import { readPeers, writePeers } from "./peers.ts";
import { proxyAddress } from "./link/proxy_address.ts";
import { pairingHint, ticketLines } from "./local_api/pairing_hint.ts";
import { describeError } from "./link/refusals.ts";
import { Runtime } from "./delivery/runtime.ts";
import {
  RUNTIME_FILE,
  runtimeSettings,
  runtimeTarget,
  type TargetOptions,
  withTarget,
} from "./delivery/runtime_file.ts";
import { ServiceClock } from "./link/service_clock.ts";
import { FileCredentials } from "./link/credentials.ts";
import { statusLine } from "./status.ts";
import { type ConsoleView, viewOf } from "./console_view.ts";

export interface StartOptions extends TargetOptions {
  "proxy-ws-url"?: string | undefined;
  port?: string | undefined;
  /** Save the runtime's address and token for later starts. */
  save?: boolean;
}

const RUNTIME_OPTIONS = ["runtime-base-url", "openclaw-base-url", "hook-path", "hook-token"] as const;

const SAVE_HINT = "          To keep these runtime settings for later starts: add --save.";

/** Registers a function that stops the connector. Returns a function that removes it. */
export type OnStop = (stop: () => void) => () => void;

/** Runs the connector of an agent until it is stopped or fails. Returns the exit code. */
export async function startConnector(
  ctx: Context,
  name: string,
  options: StartOptions,
  onStop: OnStop,
): Promise<number> {
  const store = new AgentStore(ctx);
  const folder = await store.open(name);
  const identity = folder.identity();
  const proxy = proxyAddress(ctx, options["proxy-ws-url"], options["allow-insecure"]);
  const settings = runtimeSettings(folder);
  const target = runtimeTarget(ctx, settings?.file ?? null, identity.framework, options, settings?.source);
  const isGiven = RUNTIME_OPTIONS.some((option) => options[option] !== undefined);
  if (options.save && !isGiven) {
    throw new CliError("CLI_USAGE", `--save needs one of ${RUNTIME_OPTIONS.map((name) => `--${name}`).join(", ")}`);
  }
  const port = parsePort(options.port);
  using _lock = await lockConnector(folder, ctx.pid);
  if (options.save) await folder.writeJson(RUNTIME_FILE, withTarget(settings?.file ?? null, target));
  using database = Database.open(join(folder.path, "connector.db"));
  const serviceClock = new ServiceClock(ctx.clock);
  const parts: { connector?: Connector } = {};
  const view = viewOf({
    clock: ctx.clock,
    terminal: ctx.terminal,
    json: ctx.out.json,
    line: () => parts.connector ? statusLine(parts.connector.status()) : null,
  });
  const tell: ConsoleView["event"] = (event, fields) => view.event(event, fields);
  const onResponse = (headers: Headers) => {
    ctx.onResponse?.(headers);
    serviceClock.see(headers.get("Date"));
  };
  const registryOf = async (registryUrl: string) => {
    const wanted = { "allow-insecure": options["allow-insecure"] };
    return (await connect({ ...ctx, clock: serviceClock, onResponse }, wanted, registryUrl)).registry;
  };
  const session = await FileCredentials.open({
    ctx,
    clock: serviceClock,
    store,
    name,
    tell,
    registryOf,
  });
  const newId = ulidSource(ctx.clock.now, ctx.random.bytes);
  const connector = parts.connector = new Connector({
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
    runtime: new Runtime({ fetch: ctx.fetch, clock: ctx.clock, reach: ctx.reach }, PLATFORMS[target.platform], target),
    peers: { read: () => readPeers(folder), write: (peers) => writePeers(folder, peers) },
  }, {
    agent: { name, did: identity.did },
    profile: { agentName: identity.name, humanName: effectiveConfig(ctx).humanName ?? "someone" },
    proxy,
    version: ctx.version,
    pid: ctx.pid,
  });
  session.onEnd = (error) => connector.fail(error);
  session.watch();
  const hints = [...pairingHint(folder), ...isGiven && !options.save ? [SAVE_HINT] : []];
  const explain = (error: unknown) => explainEnd(error, identity, () => registryOf(identity.registryUrl));
  return await serve(ctx, { connector, store, folder, proxy, view, port, hints, explain, onStop });
}

interface Serving {
  connector: Connector;
  folder: AgentFolder;
  proxy: ProxyPlace;
  view: ConsoleView;
  store: AgentStore;
  port: number | null;
  /** Lines to print on a terminal. */
  hints: readonly string[];
  /** The error to show in place of the one that ended the connector. */
  explain(error: unknown): Promise<unknown>;
  onStop: OnStop;
}

/** Opens the local API, runs the connector, then closes and removes what it opened. */
async function serve(ctx: Context, serving: Serving): Promise<number> {
  const { connector, store, folder, proxy, view, onStop } = serving;
  const token = makeToken(ctx.random);
  const onTicket = (ticket: string, until: string) => void ticketLines(ticket, until).then((lines) => view.show(lines));
  let response: ReturnType<typeof localApi> | null = null;
  const early = () => Promise.resolve(new Response(null, { status: 503 }));
  const { listener, movedFrom } = await openPort(
    store,
    folder,
    serving.port,
    (request) => (response ?? early)(request),
  );
  response = localApi({ connector, token, port: listener.port, onTicket });
  const url = `http://127.0.0.1:${listener.port}`;
  connector.api = { url, movedFrom };
  const forget = onStop(() => void connector.stop());
  const endReports = reportDefects((name, fields) => view.event(name, fields));
  try {
    const { did: agentDid } = connector.options.agent;
    const startedAt = toIso(ctx.clock.now());
    await announce(folder, { url, port: listener.port, token, pid: ctx.pid, agentDid, startedAt });
    view.event("started", {
      agent: folder.name,
      api: url,
      proxy: proxy.dialUrl,
      runtime: connector.deps.runtime.url,
      platform: connector.deps.runtime.platform.id,
    });
    if (movedFrom !== null) view.event("port_moved", { from: movedFrom, to: listener.port });
    view.show(serving.hints);
    const ended = await connector.run();
    const why = ended === null ? null : await serving.explain(ended);
    view.event("stopped", why === null ? {} : { why: describeError(why) });
    if (why !== null) throw why;
    return EXIT.done;
  } finally {
    forget();
    endReports();
    view.stop();
    void listener.close();
    await withdraw(folder, token);
  }
}

function parsePort(text: string | undefined): number | null {
  if (text === undefined) return null;
  const port = /^\d{1,5}$/.test(text) ? Number(text) : NaN;
  if (port >= 1 && port <= 65_535) return port;
  throw new CliError("CLI_USAGE", `--port must be a number from 1 to 65535, not "${text}"`);
}
