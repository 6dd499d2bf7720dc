/**
 * The composition root: it reads the configuration, opens the store, builds one service or both on it, and starts,
 * drains and stops them. It holds none of their rules.
 */
import { lookup } from "node:dns/promises";
import config from "./deno.json" with { type: "json" };
import { createProxy, type Proxy } from "./proxy/app.ts";
import { readProxyConfig } from "./proxy/config.ts";
import { MemoryGuard } from "./proxy/relay/memory_guard.ts";
import { proxyHealth, proxyReady } from "./proxy/meta/handlers.ts";
import { PROXY_DOCUMENT } from "./proxy/routes.ts";
import { bootstrapOpen } from "./registry/accounts/store.ts";
import { createRegistry, type Registry } from "./registry/app.ts";
import { readRegistryConfig } from "./registry/config.ts";
import { registryHealth, registryReady } from "./registry/meta/handlers.ts";
import { REGISTRY_DOCUMENT } from "./registry/routes.ts";
import { repeat, settledWithin, sleep, systemClock } from "./shared/clock.ts";
import { type Listening, listenOn } from "./shared/listening.ts";
import type { ServiceHealth } from "./shared/protocol/api/meta.ts";
import { toBase64Url } from "./shared/protocol/base64url.ts";
import { ulidSource } from "./shared/protocol/ids.ts";
import { LIMITS } from "./shared/protocol/limits.ts";
import { systemRandom } from "./shared/random.ts";
import { ConfigReader, type Environ, keepLocal, processEnviron, StartRefused } from "./shared/server/config_reader.ts";
import { apiDocsOf } from "./shared/server/http/api_docs.ts";
import { Entry, type Served } from "./shared/server/http/entry.ts";
import {
  addressText,
  isLoopbackHost,
  type ListenAddress,
  listenAt,
  type Listener,
  refusedAddress,
} from "./shared/server/http/listen_address.ts";
import { openStore, refusedByStore, type Store } from "./shared/server/store/open_store.ts";
import { jsonLog, LimitedLog, type Log, logDefects } from "./shared/server/log.ts";
import { memoryBytes, processorMs } from "./shared/server/machine.ts";
import { LogQueue } from "./shared/log_queue.ts";
import { exportTelemetry, Metrics } from "./shared/server/metrics/metrics.ts";
import {
  acceptedOrigins,
  isNetworkStore,
  readServerConfig,
  validateServerConfig,
} from "./shared/server/server_config.ts";
import { confirmCommits } from "./shared/server/confirmed_commits.ts";
import { TimerWheel } from "./shared/server/timer_wheel.ts";
import { OpenSockets } from "./shared/server/http/open_sockets.ts";
import { serveMetrics } from "./shared/server/http/probes.ts";
import { type Answer, json } from "./shared/server/http/route.ts";
import { readWithFormatCheck } from "./shared/server/store/store_format.ts";

/**
 * Time that a stop leaves for closing the sockets. With less, connections are cut before their last answer is sent;
 * with more, the proxy has less time for its own last work.
 */
const CLOSE_MS = 700;

/** The services that the OpenAPI document describes, for each value of `SVC_SERVICE`. */
const DOCUMENTED = {
  all: [REGISTRY_DOCUMENT, PROXY_DOCUMENT],
  registry: [REGISTRY_DOCUMENT],
  proxy: [PROXY_DOCUMENT],
} as const;

export interface RunningServer {
  /** The address it listens on, for example `http://127.0.0.1:8787`. */
  address: string;
  metricsAddress: string | null;
  bootstrapOpen(): Promise<boolean>;
  /** Drains the requests under way and stops, within 5 s in total. */
  stop(): Promise<void>;
}

/**
 * Parts of a process that does nothing but serve. Demos and tests do without them, because `onStoreReplaced` ends the
 * process, and with it their other work.
 */
interface OwnProcess {
  /** Lines of the log that are not yet written to standard error. */
  lines: LogQueue;
  /**
   * Called when another file, or none, is at the store's path. The process must end then, because its writes are lost.
   */
  onStoreReplaced(): void;
}

export { processEnviron, StartRefused } from "./shared/server/config_reader.ts";
export { silentLog } from "./shared/server/log.ts";

/** Registry address that the command `svc` uses by default, so the printed command needs no option for it. */
const DEFAULT_REGISTRY_URL = "http://127.0.0.1:8787";

/**
 * Deno Deploy sets this variable to choose what `Deno.openKv` does without a remote database. With `error`, Deno
 * rejects every store that is not remote. With `warn`, it opens a store in memory instead, even for the path of a file.
 */
const REMOTE_ONLY = "DENO_KV_REQUIRES_DISTRIBUTED_DATABASE";

/** @throws {StartRefused} with every problem of the configuration */
function readConfiguration(environ: Environ) {
  const reader = new ConfigReader(environ);
  const isOnDeploy = environ("DENO_DEPLOYMENT_ID") !== undefined;
  const server = readServerConfig(reader, { isOnDeploy });
  const database = server.kvUrl ?? environ("DENO_KV_DEFAULT_PATH") ?? null;
  if (environ(REMOTE_ONLY) === "warn" && !isOnDeploy && server.kvUrl !== ":memory:" && !isNetworkStore(database)) {
    reader.problem(
      REMOTE_ONLY,
      "with warn Deno keeps this store in memory only; attach a database, or set it to error",
    );
  }
  if (isNetworkStore(server.kvUrl) && !environ("DENO_KV_ACCESS_TOKEN")) {
    reader.problem("DENO_KV_ACCESS_TOKEN", "is missing: set it to the access token of the store at KV_URL");
  }
  const draft = { environment: server.environment, registryUrl: "", proxyUrl: "", version: config.version };
  const registry = readRegistryConfig(reader, draft);
  const proxy = readProxyConfig(reader, draft);
  validateServerConfig(reader, server, {
    signingKeysGiven: registry.signingKeys !== null,
    serviceCredentialGiven: proxy.serviceCredential !== null,
    denoVersion: Deno.version.deno,
    isOnDeploy,
    database,
  });
  return reader.finish({ server, registry, proxy });
}

/**
 * Builds the services on a store. The default addresses and the accepted origins contain `port`, so the server listens
 * before this is called.
 */
async function compose(
  { server, registry: registryConfig, proxy: proxyConfig }: ReturnType<typeof readConfiguration>,
  store: Store,
  port: number,
  { log, metrics, between }: { log: Log; metrics: Metrics; between: InstanceListener | null },
): Promise<{ registry: Registry | null; proxy: Proxy | null; guard: MemoryGuard | null; sockets: OpenSockets }> {
  const { environment, service, trustedProxies, accessLog } = server;
  const own = `http://127.0.0.1:${port}`;
  const place = { registryUrl: server.registryUrl ?? own, proxyUrl: server.proxyUrl ?? own };
  const deps = {
    ...store,
    clock,
    random: systemRandom,
    newId,
    log,
    metrics,
    accessLog,
    ...server.exportsTelemetry ? { labelSpan: await exportTelemetry(metrics, config.version) } : {},
    trustedProxies,
    documents: apiDocsOf(DOCUMENTED[service], config.version),
  };
  if (service === "proxy") await readWithFormatCheck(store, []);
  const heldBytes = () => Deno.memoryUsage().rss;
  const sockets = new OpenSockets();
  let proxy: Proxy | null = null;
  const registry = service === "proxy" ? null : await createRegistry(
    {
      ...deps,
      origins: acceptedOrigins(environment, place.registryUrl, port),
      onDeleted: () => proxy?.deps.crl.refreshAgain(),
      callProxy: (request) => proxy ? proxy.fetch(request, { from: "process" }) : fetch(request),
    },
    { ...registryConfig, ...place },
  );
  proxy = service === "registry" ? null : createProxy({
    ...deps,
    origins: acceptedOrigins(environment, place.proxyUrl, port),
    // If the registry runs in this process too, calls to it need no socket and no credential.
    ...registry
      ? { send: (request) => registry.fetch(request, { from: "process" }), judgeAccess: registry.judgeAccess }
      : { send: (request) => fetch(request) },
    upgrade: sockets.upgrade,
    dial: { fetch: (url, init) => fetch(url, { ...init, redirect: "error" }), open: (url) => new WebSocket(url) },
    // `RegistryClient` follows no redirect, because a redirect would lead past the check of the address.
    abroad: { send: (request) => fetch(request), lookup: (host) => lookup(host, { all: true }) },
    storeBytes: store.bytes,
    residentBytes: heldBytes,
  }, { ...proxyConfig, ...place });
  const guard = proxy && new MemoryGuard(
    { ...proxy.deps, heldBytes, processorMs, file: store.isExclusive ? store.kv : null },
    proxyConfig.memoryGuardBytes ?? (memoryBytes() ?? Infinity) * GUARDED_SHARE,
  );
  guard?.start();
  if (registry && proxy) registry.deps.signing.onChanged = () => proxy.deps.keys.forget();
  between?.open(proxy);
  await proxy?.start({ isSole: store.isExclusive, address: between?.address });
  // In one process the revocation list is available at once. Read here, it makes the proxy ready for its first request.
  if (registry) await proxy?.deps.crl.refresh();
  return { registry, proxy, guard, sockets };
}

/**
 * Share of the memory of the machine or its container. If the process holds more, the proxy asks each socket for a
 * heartbeat and closes those that do not answer. With a larger share, the memory could be full before they are closed.
 */
const GUARDED_SHARE = 0.7;

/**
 * Starts the services that the environment selects.
 *
 * @param own for a process that only serves; `null` in a demo or a test
 * @throws {StartRefused} with every problem of the configuration; also when the address cannot be used, when another
 * process uses the store, or when the store has another format
 */
export async function startServer(environ: Environ, log: Log, own: OwnProcess | null = null): Promise<RunningServer> {
  const configuration = readConfiguration(environ);
  const { host, port: wanted, kvUrl, metricsListen, instanceListen, service, registryUrl } = configuration.server;
  const { trustedProxies, accessLog } = configuration.server;
  if (service === "proxy" && registryUrl !== null) requireRegistry(registryUrl);
  const store = await openStore(kvUrl, clock);
  if (!store.isExclusive) confirmCommits(store.kv, newId());
  const metrics = new Metrics();
  metrics.describe({ version: config.version, service }, systemClock);
  const stopped = new AbortController();
  if (own) {
    metrics.read("log_lines_dropped_total", () => own.lines.dropped);
    void watchStore(store, own.onStoreReplaced, stopped.signal);
  }
  metrics.read("store_bytes", store.bytes);
  metrics.read("store_free_bytes", () => store.diskSpace()?.freeBytes ?? null);
  const entry = new Entry({ clock, newId, log, metrics, trustedProxies, accessLog });
  metrics.beforeRead(async () => metrics.set("ready", await entry.isReady() ? 1 : 0));
  const http = listen({ host, port: wanted }, entry, { log, store });
  const { port } = http.addr;
  let scraped: Listener | null = null;
  let between: InstanceListener | null = null;
  try {
    if (metricsListen) scraped = serveMetrics(metricsListen, { clock, metrics, log, entry });
    if (instanceListen && service !== "registry") between = listenForInstances(instanceListen);
    const { registry, proxy, guard, sockets } = await compose(configuration, store, port, { log, metrics, between });
    entry.open(servedBy(registry, proxy));
    if (registry) {
      const stopResuming = repeat(systemClock, () => RESUME_MS, () => registry.deps.suspensions.resume());
      stopped.signal.addEventListener("abort", stopResuming);
    }
    if (!isLoopbackHost(host)) {
      const message = "anyone who reaches this address can use the server and read its plain HTTP; " +
        "put a reverse proxy with TLS in front of it, or leave HOST out to listen on this machine only";
      log("warn", "plain_http", { host, port, message });
    }
    return {
      address: `http://${addressText({ host, port })}`,
      metricsAddress: scraped && `http://${scraped.address}`,
      bootstrapOpen: async () => registry !== null && await bootstrapOpen(store.kv),
      async stop() {
        stopped.abort();
        guard?.stop();
        await stop(entry, http, registry, proxy, sockets, store);
        await scraped?.stop();
        await between?.stop();
      },
    };
  } catch (error) {
    stopped.abort();
    await scraped?.stop();
    await between?.stop();
    entry.giveUp();
    await settledWithin(systemClock, http.shutdown(), CLOSE_MS);
    store.close();
    throw refusedByStore(error, store);
  }
}

/**
 * Time between two looks at the file of the store. With more, a process whose file was replaced loses messages for
 * longer; with less, it asks the disk more often.
 */
const STORE_LOOK_MS = 2_000;

/** Waits until the store is no longer the file at its path, then calls `onReplaced` once. */
async function watchStore(store: Store, onReplaced: () => void, stopped: AbortSignal): Promise<void> {
  do {
    await sleep(systemClock, STORE_LOOK_MS, stopped);
    if (stopped.aborted) return;
  } while (!(await store.isReplaced()));
  onReplaced();
}

/** Time between two looks for suspensions that another instance left when it stopped. With more, sessions last longer. */
const RESUME_MS = 60_000;

/**
 * Refuses to start a proxy without the permission to call its registry, because it would then refuse every agent.
 *
 * @throws {StartRefused}
 */
function requireRegistry(registryUrl: string): void {
  const { hostname, port, protocol } = new URL(registryUrl);
  const host = `${hostname}:${port || (protocol === "https:" ? 443 : 80)}`;
  if (Deno.permissions.querySync({ name: "net", host }).state === "granted") return;
  throw new StartRefused(
    `REGISTRY_URL: this process may not connect to ${host}. Use svc serve or deno task start, or add --allow-net=${host}`,
  );
}

/**
 * Clock for the deadlines of requests. A shutdown uses the system clock instead, because the timers of this one may
 * fire up to 250 ms late.
 */
const clock = new TimerWheel(systemClock);

const newId = ulidSource(systemClock.now, systemRandom.bytes);

function servedBy(registry: Registry | null, proxy: Proxy | null): Served {
  return {
    registry,
    proxy,
    async isReady() {
      const ready = [registry && registryReady(registry.deps), proxy && proxyReady(proxy.deps)];
      return !(await Promise.all(ready)).includes(false);
    },
    linksMissing: () => proxy?.deps.links.missing ?? [],
    health: registry && proxy ? () => healthOfBoth(registry, proxy) : null,
  };
}

async function healthOfBoth(registry: Registry, proxy: Proxy): Promise<Answer> {
  const [ofRegistry, ofProxy] = await Promise.all([registryHealth(registry.deps), proxyHealth(proxy.deps)]);
  const ready = ofRegistry.ready && ofProxy.ready;
  const { version, environment } = ofRegistry;
  const status = ready ? "ok" : "unavailable";
  const body: ServiceHealth = { status, version, environment, ready, registry: ofRegistry, proxy: ofProxy };
  return json(body, ready ? 200 : 503);
}

function listen({ host, port }: ListenAddress, entry: Entry, { log, store }: { log: Log; store: Store }): Listening {
  try {
    return listenOn(
      { hostname: host, port, onFailed: (cause) => log("error", "listener_failed", { cause }) },
      (request, info) => entry.answer(request, { from: "socket", address: info.remoteAddr.hostname, info }),
    );
  } catch (error) {
    store.close();
    throw refusedAddress({ host: "HOST", port: "PORT" }, { host, port }, error);
  }
}

interface InstanceListener extends Listener {
  /** Passes requests of other instances to this proxy from now on; before, each gets a 503. */
  open(proxy: Proxy | null): void;
}

/** @throws {StartRefused} when the address cannot be used */
function listenForInstances(at: ListenAddress): InstanceListener {
  let proxy: Proxy | null = null;
  const answer = (request: Request) => proxy?.deps.links.answer(request) ?? new Response(null, { status: 503 });
  return { ...listenAt("INSTANCE_LISTEN", at, answer), open: (opened) => void (proxy = opened) };
}

/**
 * Refuses new requests, waits for those under way until 3.5 s after the call, closes the sockets with 1001 and ends
 * within 5 s. If there may be other instances, it first says that it is not ready, closes its sockets in parts and goes
 * on serving for a second, because load balancers learn late that an instance ends.
 */
async function stop(
  entry: Entry,
  http: Listening,
  registry: Registry | null,
  proxy: Proxy | null,
  sockets: OpenSockets,
  store: Store,
): Promise<void> {
  const began = systemClock.uptime();
  const left = () => LIMITS.shutdownMs - (systemClock.uptime() - began);
  entry.leave();
  if (!store.isExclusive) {
    void proxy?.leave();
    await sleep(systemClock, LIMITS.stopNoticeMs);
  }
  entry.drain();
  while (entry.underWay > 0 && systemClock.uptime() - began < LIMITS.drainMs) await sleep(systemClock, 20);
  registry?.stop();
  await proxy?.stop(left() - CLOSE_MS);
  proxy?.closeSockets();
  // The end of the server cuts off sockets that are still open, so their agents would not learn when to connect again.
  await sockets.closed(left() - 550);
  await settledWithin(systemClock, http.shutdown(), left() - 500);
  store.close();
}

/**
 * Starts the server as the only work of this process: it survives rejections that no code handles, gives up the right
 * to start programs, and logs to standard error.
 *
 * @throws {StartRefused} as `startServer`
 */
export async function runServer(environ: Environ): Promise<RunningServer> {
  const lines = new LogQueue(
    (bytes) => Deno.stderr.write(bytes),
    (dropped) => log("warn", "log_lines_dropped", { lines: dropped }),
  );
  // Deno's console waits for the reader of standard error, so a reader that is stuck would stop the server. The console
  // is used only for OpenTelemetry and Deno Deploy, because they take the log from it.
  const toConsole = environ("OTEL_DENO") === "true" || environ("DENO_DEPLOYMENT_ID") !== undefined;
  const all = jsonLog(systemClock, "svc", toConsole ? console.error : (line) => lines.add(line));
  const limited = new LimitedLog(all, systemClock), { log } = limited;
  const written = async () => {
    limited.endSecond();
    await lines.written(systemClock, LOG_END_MS);
  };
  logDefects(log, written);
  // Without a listener, SIGXFSZ (file size limit) ends the process. Ignoring it is safe, because the store reports the
  // same failure as an error.
  if (Deno.build.os !== "windows") Deno.addSignalListener("SIGXFSZ", () => {});
  await startNoPrograms();
  const onStoreReplaced = async () => {
    log("error", "store_replaced", {
      message:
        "another file is at the path of the store, or none; this process ends, because it would write to a lost file",
    });
    await written();
    Deno.exit(1);
  };
  try {
    const server = await startServer(environ, log, { lines, onStoreReplaced });
    return { ...server, stop: () => server.stop().finally(written) };
  } catch (error) {
    await written();
    throw error;
  }
}

/**
 * How long the end of the process waits for its log. With more, a log that is not read delays the end; with less, a
 * slow reader misses the last lines.
 */
const LOG_END_MS = 250;

/**
 * Gives up the rights to start programs and to know the user, because the server needs neither, and hostile input that
 * takes control of it could use them.
 */
export async function startNoPrograms(): Promise<void> {
  await Deno.permissions.revoke({ name: "run" });
  await Deno.permissions.revoke({ name: "sys", kind: "uid" });
}

/** Runs until a signal arrives. With `--dev` it makes a bootstrap secret if none is set, and prints the next step. */
async function main(args: readonly string[]): Promise<void> {
  const isDev = args.includes("--dev");
  // The secret must not begin with a dash, because the printed command would take it for an option.
  const devSecret = toBase64Url(systemRandom.bytes(24)).replace(/^-/, "0");
  const environ: Environ = (name) =>
    processEnviron(name) ?? (isDev ? { BOOTSTRAP_SECRET: devSecret, CONSOLE: "on" }[name] : undefined);
  let server: RunningServer;
  try {
    keepLocal();
    server = await runServer(environ);
  } catch (error) {
    const isExplained = error instanceof StartRefused;
    console.error(isExplained ? error.message : error);
    Deno.exit(isExplained && !error.mayPass ? 2 : 1);
  }
  let stopping = false;
  // Windows has no SIGTERM, so a service manager sends SIGBREAK there.
  for (const signal of ["SIGINT", Deno.build.os === "windows" ? "SIGBREAK" : "SIGTERM"] as const) {
    Deno.addSignalListener(signal, () => {
      if (stopping) return;
      stopping = true;
      server.stop().finally(() => Deno.exit(0));
    });
  }
  console.log(`listening on ${server.address}`);
  if (server.metricsAddress !== null) console.log(`metrics on ${server.metricsAddress}/metrics`);
  if (isDev) await sayWhatIsNext(server, environ("BOOTSTRAP_SECRET") === devSecret ? devSecret : null);
}

// Broken by hand into lines of at most 80 columns, because a terminal would break longer ones inside words.
const NOT_EMPTY = "This server has an administrator. To try with an empty one:\n" +
  `  KV_URL=.data/other.kv npx -y deno@${Deno.version.deno} task dev`;
const README = "`svc` is as in the README, which says how to define it\nin this folder without installing anything.";

/** @param made the bootstrap secret that this start has made; `null` for a configured one, which is never printed */
async function sayWhatIsNext({ address, bootstrapOpen }: RunningServer, made: string | null): Promise<void> {
  console.log(`registry and proxy, pid ${Deno.pid}; stop with Ctrl-C`);
  if (!(await bootstrapOpen())) return console.log(NOT_EMPTY);
  if (made !== null) console.log(`bootstrap secret: ${made}`);
  const { hostname, port, origin } = new URL(address);
  const url = ["0.0.0.0", "[::]"].includes(hostname) ? `http://127.0.0.1:${port}` : origin;
  const insecure = isLoopbackHost(new URL(url).hostname) ? "" : " --allow-insecure";
  const registry = url === DEFAULT_REGISTRY_URL ? "" : ` --registry-url ${url}${insecure}`;
  // A configured secret is not printed, because a log of this output would hold it; its owner can type it instead.
  const how = made === null ? " (type your BOOTSTRAP_SECRET, Enter, Ctrl-D)" : "";
  console.log(`\nNext, in another terminal, make yourself the admin${how}:\n`);
  const secret = made ?? "-";
  console.log(`  svc admin bootstrap --bootstrap-secret ${secret}${registry}\n`);
  console.log(README);
}

if (import.meta.main) await main(Deno.args);
