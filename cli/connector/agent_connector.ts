/**
 * Starts the connector of one agent in this process, with its lock, database, credentials, local API and discovery
 * file. Prints nothing, because the caller reports its events. Releases everything when the connector ends.
 */
import { createHmac, hash } from "node:crypto";
import { join } from "node:path";
import { DAY_MS, settledWithin } from "../../shared/clock.ts";
import { useHashes } from "../../shared/protocol/hashes.ts";
import { openingKey } from "../../shared/protocol/sealed_body.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { type AgentFolder, AgentStore } from "../agents/agent_store.ts";
import { effectiveConfig } from "../account/config_store.ts";
import { readProfile, secureServiceUrl } from "../files/profile.ts";
import type { Context } from "../context.ts";
import { PLATFORMS } from "../platforms/table.ts";
import { Connector } from "./connector.ts";
import { isConnectorLocked, lockConnector } from "./connector_lock.ts";
import { Database } from "./store/database.ts";
import { ConnectorStore } from "./store/store.ts";
import { Runtime } from "./runtime/runtime.ts";
import {
  confirmChange,
  isStrict,
  parseReplies,
  rememberInbox,
  RUNTIME_FILE,
  runtimeSettings,
  runtimeTarget,
  withTarget,
} from "./runtime/runtime_file.ts";
import { type EmitEvent, orReport, withAlias } from "./events.ts";
import { openFileCredentials, proxyAddress } from "./file_credentials.ts";
import { describeError } from "../../shared/client/refusals.ts";
import { type RegistryTrust, registryTrust } from "./registry_trust.ts";
import { openLink } from "../link/link.ts";
import { announce, makeToken, removeDiscoveryFiles, withdraw } from "./local_api/discovery_file.ts";
import { firstPort, openPort, wantedPort } from "./local_api/port.ts";
import { CONNECTOR_LIMITS } from "./limits.ts";
import { readA2aPeers } from "./local_api/a2a_peers.ts";
import type { LocalCalls } from "../../shared/client/local_client.ts";
import { PAGE_FILE } from "../../shared/client/agent_files.ts";
import { localApi, ownCalls } from "./local_api/local_api.ts";
import type { LocalPages } from "./pages/local_pages.ts";
import { readPeers, writePeers } from "./peers/peers.ts";
import type { PeerBook } from "./peers/peer_book.ts";
import type { StartOptions } from "./start_options.ts";
import { explainEnd } from "../agents/lifecycle.ts";

// Only a connector uses these hashes. They take time to load, which pays when each message is hashed, but would slow a
// short command.
useHashes({
  sha256: (data) => hash("sha256", data, "base64url"),
  hmacSha256: (key, data) => createHmac("sha256", key).update(data).digest(),
});

/** Ports at which runtimes listen unless they are told otherwise, so an agent without a port chooses none of them. */
const RUNTIME_PORTS = Object.values(PLATFORMS).flatMap((platform) =>
  platform.id === "inbox" ? [] : [Number(new URL(platform.defaults.baseUrl).port)]
);

interface ConnectorHooks {
  emit: EmitEvent;
  /** Keys and revocation list of each registry, which the connectors of one process share. */
  trusts?: Map<string, RegistryTrust>;
  onTicket?: (ticket: string, until: string) => void;
  /** Called at the first start of an agent that reads its own messages because no platform was ever chosen. */
  onDefault?: () => Promise<void>;
  /** Called when the connector was stopped, with the number of messages that are not sent. */
  onUnsent?: (messages: number) => void;
}

export interface RunningConnector {
  connector: Connector;
  folder: AgentFolder;
  /**
   * The local API, called without a socket. A call need not check first who listens at the port, so a tool gets its
   * answer a millisecond sooner.
   */
  calls: LocalCalls;
  /** Resolves when everything is released: with `null` after `stop()`, else with the error. Never rejects. */
  ended: Promise<unknown>;
  stop(): Promise<void>;
}

/**
 * Asks what the start of an agent's connector would ask, because the keys of an open view would take the answer, and its
 * redraw would erase the question. Asks nothing where the start fails anyway. Returns true when a person has agreed.
 *
 * @throws {CliError} `CLI_PLATFORM_CHANGE` when the person declines; for its options and files, as the start
 */
export async function confirmStart(ctx: Context, name: string, options: StartOptions): Promise<boolean> {
  const folder = await new AgentStore(ctx).open(name);
  if (await isConnectorLocked(folder)) return false;
  proxyAddress(ctx, options["proxy-ws-url"]);
  return await confirmChange(ctx, folder, settingsOf(ctx, folder, options).target, isAgreed(options));
}

function settingsOf(ctx: Context, folder: AgentFolder, options: StartOptions) {
  const settings = runtimeSettings(folder), { framework } = folder.identity();
  return { settings, target: runtimeTarget(ctx, settings?.file ?? null, framework, options, settings?.source) };
}

function isAgreed({ save, yes }: StartOptions): boolean {
  return save === true || yes === true;
}

/**
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
  let peers: PeerBook | null = null;
  const emit: EmitEvent = (event, fields) => hooks.emit(event, withAlias(fields, (did) => peers?.aliasOf(did) ?? null));
  const identity = folder.identity();
  const proxy = proxyAddress(ctx, options["proxy-ws-url"]);
  const { settings, target } = settingsOf(ctx, folder, options);
  const wanted = await wantedPort(store, folder, options.port);
  await using opened = new AsyncDisposableStack();
  opened.use(await lockConnector(folder, ctx.pid, target !== null));
  // Removed first, because another program may have the old connector's port by now, and would get a token or a
  // message.
  await removeDiscoveryFiles(folder);
  await confirmChange(ctx, folder, target, isAgreed(options));
  if (options.save || options.inbox) {
    const saved = { replies: parseReplies(options.replies), strict: options.strict };
    await folder.writeJson(RUNTIME_FILE, withTarget(settings?.file ?? null, target, saved));
  } else if (target === null && settings === null && await rememberInbox(folder)) {
    await hooks.onDefault?.();
  }
  const { session, clock: serviceClock, registryOf } = await openFileCredentials(ctx, name, emit);
  const trust = hooks.trusts?.get(identity.registryUrl) ?? registryTrust(ctx, folder);
  hooks.trusts?.set(identity.registryUrl, trust);
  const { fetch, clock, random, onResponse, authority } = ctx;
  const historyMs = readProfile(ctx).historyDays * DAY_MS;
  const isHidden = options.hidden === true || ctx.env("SVC_HIDDEN") === "1";
  const runtime = target && new Runtime(ctx, PLATFORMS[target.platform], target);
  const keys = await folder.keys();
  const connector: Connector = new Connector({
    clock,
    serviceClock,
    random,
    fetch,
    onResponse,
    session,
    publicKey: keys.publicKey,
    openingKey: await openingKey(keys),
    openStore: (options) =>
      opened.use(new ConnectorStore(Database.open(join(folder.path, "connector.db")), { ...options, historyMs })),
    emit,
    trust,
    checkOrigin: (origin) => void secureServiceUrl(ctx, origin, "The server of the peer"),
    open: (agent, events) =>
      openLink({ clock: serviceClock, random, newId: connector.newId, authority, isHidden }, proxy, agent, events),
    runtime,
    peers: readPeers(folder),
    writePeers: (all) => writePeers(folder, all),
  }, {
    agent: { name, did: identity.did },
    profile: { agentName: identity.name, humanName: effectiveConfig(ctx).humanName ?? "someone" },
    proxy,
    strict: isStrict(ctx, settings?.file ?? null, options.strict),
    version: ctx.version,
    pid: ctx.pid,
  });
  peers = connector.peers;
  const token = makeToken(random);
  let respond: ReturnType<typeof localApi> = () => Promise.resolve(new Response(null, { status: 503 }));
  let hasFailed = false;
  // Reported once, because a process that has no file handle left tries to listen twice a second and would fill the
  // log.
  const onFailed = (cause: unknown) => {
    if (!hasFailed) emit("defect", { why: `The local API is away: ${describeError(cause)}` });
    hasFailed = true;
  };
  const choice = { first: firstPort(ctx), reserved: RUNTIME_PORTS, onFailed };
  // Both parameters are named, because Deno counts them: with none, a later request on the connection got an empty 400.
  const { listener, movedFrom } = await openPort(
    store,
    folder,
    wanted,
    (request, info) => respond(request, info),
    choice,
  );
  // Waiting calls still get their answers. The wait is bounded, because one slow request could otherwise keep the
  // connector from ending.
  opened.defer(async () => void await settledWithin(clock, listener.shutdown(), CONNECTOR_LIMITS.closeMs));
  const { port } = listener.addr;
  // After a move to another port there is no page, because the address that a browser knows leads to another program
  // (D-119).
  const hasPage = movedFrom === null;
  const local = {
    connector,
    token,
    port,
    a2aPeers: () => readA2aPeers(folder),
    onTicket: hooks.onTicket,
    page: hasPage ? async () => await (await pages()).open() : null,
  };
  const api = localApi(local), calls = ownCalls(local);
  const url = `http://127.0.0.1:${port}`;
  const file = { url, port, token, pid: ctx.pid, agentDid: identity.did, startedAt: toIso(clock.now()) };
  // The file opens the page until its code is used or has expired. A failure does no harm, because the code then no
  // longer opens anything.
  const removePageFile = () => folder.remove(PAGE_FILE).catch(() => {});
  // Loaded with the first page, because most connectors show none.
  let loading: Promise<LocalPages> | null = null;
  const pages = () =>
    loading ??= import("./pages/local_pages.ts").then(({ LocalPages }) =>
      new LocalPages(connector, calls, port, () => void removePageFile())
    );
  respond = async (request, info) => {
    const isPage = hasPage && !API_PATHS.some((start) => new URL(request.url).pathname.startsWith(start));
    return isPage && await (await pages()).answer(request) || await api(request, info);
  };
  opened.defer(removePageFile);
  connector.api = { url, movedFrom };
  opened.defer(() => withdraw(folder, token));
  await announce(folder, file);
  const { platform, url: runtimeUrl } = connector.status().runtime;
  const replies = target?.replies ?? false;
  emit("started", { agent: name, api: url, proxy: proxy.dialUrl, runtime: runtimeUrl, platform, replies });
  if (movedFrom !== null) emit("port_moved", { from: movedFrom, to: port });
  session.onEnd = (error) => void connector.stop(error);
  if (!options.offline) session.watch();
  const owned = opened.move();
  const ended = (async (): Promise<unknown> => {
    await using _owned = owned;
    const error = await connector.run(options.offline);
    if (error === null) hooks.onUnsent?.(orReport(emit, () => connector.store.sent.unsent, 0));
    const stateOf = async () => await registryOf(identity.registryUrl).stateOf(identity.did);
    const why = error && await explainEnd(error, identity.name, stateOf);
    emit("stopped", why === null ? {} : { why: describeError(why) });
    return why;
  })().catch((error) => error);
  const stop = async () => {
    void connector.stop();
    await ended;
  };
  return { connector, folder, calls, ended, stop };
}

/** Beginnings of the paths of the local API; another path may be a page. */
const API_PATHS = ["/v1/", "/a2a/", "/openapi.json"];
