/**
 * `svc serve`, `svc demo` and `svc store …` run the server's code, which checks every variable itself. `svc health`
 * asks a server whether it is ready, for a container or a script.
 */
import { asUnreachable, exchange } from "../../shared/client/http.ts";
import { Environment } from "../../shared/protocol/api/meta.ts";
import { UnreachableError } from "../../shared/client/errors.ts";
import { userFolder } from "../../shared/client/user_folder.ts";
import { join, resolve } from "node:path";
import { isLoopback, parseServiceUrl } from "../../shared/client/service_url.ts";
import { toBase64Url } from "../../shared/protocol/base64url.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { command } from "../command_line/command.ts";
import type { Context, Programs, ServerVariable, System } from "../context.ts";
import { CliError, EXIT } from "../errors.ts";
import { onStop } from "../terminal/interrupt.ts";
import { memberOf } from "../platforms/settings.ts";
import { tryParse } from "../../shared/protocol/json_text.ts";
import { fields } from "../terminal/output.ts";

/** Most bytes of the answer of `/readyz`. With less, a server with many missing links would seem to be another program. */
const READY_BYTES = 65_536;

const STORE_OPTION = {
  store: {
    value: "path",
    summary: "The store: a path or a URL (KV_URL, default: that of svc serve)",
    complete: "files",
  },
} as const;

const LOCAL_SERVER = "http://127.0.0.1:8787";

export const COMMANDS = [
  command({
    path: ["serve"],
    summary: "Run registry and proxy as one server, until Ctrl-C",
    details: [
      "Each option sets variables; every other variable of the server comes from the environment",
      "(docs/operations.md). Without --store and KV_URL the store is in the data folder of the user.",
    ],
    options: {
      "public-url": {
        value: "origin",
        summary: "The address that clients use; part of each identity (REGISTRY_URL, PROXY_URL)",
      },
      host: { value: "address", summary: "Address to listen on (HOST, default 127.0.0.1)" },
      port: { value: "n", summary: "Port, 0 for a free one (PORT, default 8787)" },
      store: { value: "path", summary: "The store: a path, :memory: or a URL (KV_URL)", complete: "files" },
      service: {
        value: "name",
        summary: "all, registry or proxy (SVC_SERVICE, default all)",
        complete: ["all", "registry", "proxy"],
      },
      environment: {
        value: "name",
        summary: "local, dev or production (ENVIRONMENT, default local)",
        complete: Environment.options,
      },
      "behind-proxy": { summary: "Trust X-Forwarded-For of a front on this machine (TRUSTED_PROXIES=127.0.0.1,::1)" },
      metrics: { value: "host:port", summary: "Serve metrics and readiness there too (METRICS_LISTEN)" },
      console: { summary: "Serve the console of svc admin open (CONSOLE=on)" },
      "access-log": { summary: "Log each success (ACCESS_LOG=on)" },
    },
    examples: {
      "svc serve": "For agents of this machine, at http://127.0.0.1:8787",
      "svc serve --behind-proxy --public-url https://svc.example": "Behind a tunnel or front with TLS",
    },
    async run(ctx, { options }) {
      const programs = programsOf(ctx);
      const plan = servePlan(ctx, options, await programs.environment());
      const { variables, optionOf } = plan;
      const server = await programs.serve({ variables, optionOf, purpose: "service" });
      const stopped = Promise.withResolvers<void>();
      onStop(ctx, () => stopped.resolve());
      try {
        const { address, metricsAddress = null } = server;
        announce(ctx, { ...plan, address, metricsAddress, isOpen: await server.bootstrapOpen() });
        await stopped.promise;
      } finally {
        await server.stop();
      }
    },
  }),
  command({
    path: ["demo"],
    summary: "Two agents exchange a message on this machine; ends by itself",
    details: [
      "Uses a server with a store in memory on a free port of this machine.",
      "Its agents have files while it runs; it leaves none.",
    ],
    options: {
      "temp-dir": {
        value: "path",
        summary: "Folder for demo files, created if absent (default: that of the system for temporary files)",
        complete: "files",
      },
    },
    examples: { "svc demo": "See identity, pairing, message, receipt, question and answer over MCP, and revocation" },
    async run(ctx, { options }) {
      const programs = programsOf(ctx);
      const { runDemo } = await import("../demo/demo.ts");
      await runDemo(ctx, programs, options["temp-dir"]);
    },
  }),
  command({
    path: ["store", "inspect"],
    summary: "Count the records of each kind in the store, and their bytes",
    options: STORE_OPTION,
    examples: { "svc store inspect": "See what grows, and the people with most revocations" },
    run: (ctx, { options }) => workOnStore(ctx, "inspect", options.store),
  }),
  command({
    path: ["store", "recover"],
    summary: "Create a new API key for the first admin when all are lost",
    options: STORE_OPTION,
    examples: { "svc store recover": "Get back in; revoke the lost keys afterwards" },
    run: (ctx, { options }) => workOnStore(ctx, "recover", options.store),
  }),
  command({
    path: ["store", "export"],
    summary: "Write every record as JSON lines; keep them private, because they hold the signing key",
    options: {
      ...STORE_OPTION,
      out: {
        value: "file",
        summary: "New file that only its owner can read (default: standard output)",
        complete: "files",
      },
    },
    examples: { "svc store export --out backup.jsonl": "Make a backup while the server is stopped" },
    run: (ctx, { options }) =>
      workOnStore(ctx, "export", options.store, options.out === undefined ? [] : ["--out", options.out]),
  }),
  command({
    path: ["store", "import"],
    summary: "Read an export from standard input into an empty store",
    options: STORE_OPTION,
    examples: { "svc store import --store new.kv <backup.jsonl": "Restore a backup" },
    run: (ctx, { options }) => workOnStore(ctx, "import", options.store),
  }),
  command({
    path: ["health"],
    summary: "Ask a server whether it is ready: exit 0 ready, 1 not ready, 5 not reachable",
    options: { url: { value: "origin", summary: `Address of the server (default ${LOCAL_SERVER})` } },
    examples: { "svc health": "The health check of a container" },
    async run(ctx, { options }) {
      const url = parseServiceUrl(options.url ?? LOCAL_SERVER);
      if (url === null) throw new CliError("CLI_USAGE", "--url must be an origin such as http://127.0.0.1:8787");
      ctx.out.doing(`Calling ${url}`);
      // No secret is sent, so plain http is accepted.
      const { status, text } = await exchange(ctx, {
        method: "GET",
        url: `${url}/readyz`,
        timeoutMs: LIMITS.registryTimeoutMs,
        connectMs: LIMITS.registryConnectMs,
        maxBytes: READY_BYTES,
        onTooLarge: "truncate",
      }).catch((error) => {
        const problem = asUnreachable(url, error);
        if (!(problem instanceof UnreachableError) || problem.code !== "CLI_UNREACHABLE") throw problem;
        // The usual fix of this code names the configuration, which this command does not use.
        const { message, cause, code, fix = "Check --url and that the server is running." } = problem;
        throw new CliError(code, message, { cause, fix });
      });
      const said = memberOf(tryParse(text), "ready"), ready = status === 200 && said === true;
      const problem = ready
        ? null
        : said === undefined
        ? "no svc server answers there"
        : `it answers with status ${status}`;
      ctx.out.result({ url, ready, problem }, ready ? `${url} is ready.` : `${url} is NOT ready: ${problem}.`);
      return ready ? EXIT.done : EXIT.failed;
    },
  }),
];

/**
 * Runs a command of `deploy_store.ts` on the store that an option or the environment names, else on that of `svc
 * serve`.
 */
async function workOnStore(
  ctx: Context,
  name: string,
  store: string | undefined,
  more: string[] = [],
): Promise<number> {
  const programs = programsOf(ctx);
  const path = store ?? (await programs.environment())("KV_URL") ?? defaultStore(ctx);
  const json = ctx.out.json ? ["--json"] : [];
  return await programs.store([name, `--store=${path}`, ...more, ...json]);
}

/** @throws {CliError} `CLI_NO_SERVER` */
function programsOf({ programs }: Context): Programs {
  if (programs) return programs;
  throw new CliError("CLI_NO_SERVER", "This svc is the command alone, without the server");
}

/** The options of `svc serve` that set one variable to their value. */
const VARIABLE_OF = {
  host: "HOST",
  port: "PORT",
  store: "KV_URL",
  service: "SVC_SERVICE",
  environment: "ENVIRONMENT",
  metrics: "METRICS_LISTEN",
} as const;

type ServeInput =
  & { [option in keyof typeof VARIABLE_OF]: string | undefined }
  & { "public-url": string | undefined; "behind-proxy": boolean; "access-log": boolean; console: boolean };

/** The variables that `--public-url` sets, by the value of `--service`. */
const ORIGINS_OF: ReadonlyMap<string, readonly string[]> = new Map([
  ["all", ["REGISTRY_URL", "PROXY_URL"]],
  ["registry", ["REGISTRY_URL"]],
  ["proxy", ["PROXY_URL"]],
]);

/** Returns what `svc serve` starts. A given option wins over its variable. @throws {CliError} `CLI_USAGE` */
export function servePlan(
  system: Pick<System, "env" | "os" | "random">,
  options: ServeInput,
  environ: ServerVariable,
) {
  const variables: Record<string, string> = {};
  for (const [option, name] of Object.entries(VARIABLE_OF)) {
    const given = options[option as keyof typeof VARIABLE_OF];
    if (given !== undefined) variables[name] = given;
  }
  const value: ServerVariable = (name) => variables[name] ?? environ(name);
  const isLocal = (value("ENVIRONMENT") ?? "local") === "local", service = value("SVC_SERVICE") ?? "all";
  // Only the origins of this service are set, because the other service may have another origin, and a proxy that took
  // itself for its registry would refuse every agent.
  const origins = ORIGINS_OF.get(service) ?? [];
  if (options["public-url"] !== undefined) {
    const origin = publicOriginOf(options["public-url"], isLocal);
    for (const name of origins) {
      const configured = environ(name);
      if (configured !== undefined && parseServiceUrl(configured) !== origin) {
        throw new CliError("CLI_USAGE", `--public-url is ${origin}, but ${name} is set to another origin`, {
          fix: `Unset ${name}, or leave --public-url out.`,
        });
      }
      variables[name] = origin;
    }
  }
  if (options["behind-proxy"]) variables.TRUSTED_PROXIES = "127.0.0.1,::1";
  if (options.console) variables.CONSOLE = "on";
  if (options["access-log"]) variables.ACCESS_LOG = "on";
  if (value("KV_URL") === undefined) variables.KV_URL = defaultStore(system);
  const hasSecret = environ("BOOTSTRAP_SECRET") !== undefined;
  const madeSecret = isLocal && !hasSecret ? toBase64Url(system.random.bytes(24)) : null;
  if (madeSecret !== null) variables.BOOTSTRAP_SECRET = madeSecret;
  const store = value("KV_URL") ?? "";
  const optionOf = Object.fromEntries(Object.entries(VARIABLE_OF).map(([option, name]) => [name, `--${option}`]));
  for (const name of origins) optionOf[name] = "--public-url";
  const isPath = store !== ":memory:" && !/^https?:/.test(store);
  return {
    variables,
    /** The option that sets each variable. */
    optionOf,
    /** Absolute path of the store, `:memory:`, or its URL. */
    store: isPath ? resolve(store) : store,
    /** The public origin; `null` when none is configured, so that clients use the address of the server. */
    publicUrl: value(service === "proxy" ? "PROXY_URL" : "REGISTRY_URL") ?? null,
    /** The bootstrap secret that this start has made; `null` when one is configured, or none may be made. */
    madeSecret,
    hasSecret,
    warnings: warningsOf(value),
  };
}

/** @throws {CliError} `CLI_USAGE` */
function publicOriginOf(text: string, isLocal: boolean): string {
  const origin = parseServiceUrl(text);
  if (origin === null) {
    const form = "must be an origin such as https://svc.example: no path, no query, no user";
    throw new CliError("CLI_USAGE", `--public-url ${form}`);
  }
  if (origin.startsWith("http:") && !isLocal) {
    throw new CliError("CLI_USAGE", "--public-url must be https unless ENVIRONMENT is local");
  }
  return origin;
}

/**
 * Returns a warning for each probable mistake: other machines cannot reach the server, others can read its traffic, all
 * its clients count as one, or agents do not find the proxy.
 */
function warningsOf(value: ServerVariable): string[] {
  const warnings: string[] = [];
  const host = value("HOST") ?? "127.0.0.1";
  const isPrivate = host === "localhost" || host === "::1" || host.startsWith("127.");
  const urls = [value("REGISTRY_URL"), value("PROXY_URL")].flatMap((url) => parseServiceUrl(url ?? "") ?? []);
  if (!isPrivate && urls.length === 0) {
    const isKept = value("KV_URL") !== ":memory:" && value("SVC_SERVICE") !== "proxy";
    const store = isKept ? " and a new --store, because a store keeps the address of its first start" : "";
    const need = `other machines need the address that they use: give it with --public-url${store}`;
    warnings.push(`HOST is ${host}, but ${need}`);
  }
  if (urls.some((url) => url.startsWith("http:") && !isLoopback(url))) {
    warnings.push("API keys travel unencrypted over plain http; clients on other machines need --allow-insecure");
  }
  if (isPrivate && value("TRUSTED_PROXIES") === undefined && urls.some((url) => url.startsWith("https:"))) {
    warnings.push("every client has the address of the front; --behind-proxy trusts its X-Forwarded-For");
  }
  if (value("SVC_SERVICE") === "registry" && value("PROXY_URL") === undefined) {
    warnings.push("agents would look for the proxy at this registry, so set PROXY_URL to the address of the proxy");
  }
  return warnings;
}

interface Announcement extends ReturnType<typeof servePlan> {
  address: string;
  /** The address of the metrics; `null` when they are not served. */
  metricsAddress: string | null;
  /** True until the first admin exists. */
  isOpen: boolean;
}

/** Prints the announcement: with `--json` one line, else several and then the warnings. */
export function announce(ctx: Pick<Context, "out" | "pid">, server: Announcement): void {
  const { out, pid } = ctx;
  const { address, metricsAddress, isOpen, madeSecret, store, warnings } = server;
  // The port is taken from the text, because `new URL` leaves out port 80.
  const publicUrl = server.publicUrl ?? `http://127.0.0.1:${address.slice(address.lastIndexOf(":") + 1)}`;
  const bootstrapSecret = isOpen && madeSecret !== null ? madeSecret : undefined;
  const metrics = metricsAddress === null ? undefined : `${metricsAddress}/metrics`;
  if (out.json) {
    for (const warning of warnings) out.warn(warning);
    out.jsonLine(JSON.stringify({ listening: address, publicUrl, store, pid, metrics, bootstrapSecret }));
    return;
  }
  out.result({}, [
    `listening on ${address}`,
    ...fields([["public", publicUrl], ["store", store], ["pid", pid], ["metrics", metrics]]),
    ...isOpen && store !== ":memory:" ? [`Every identity will name ${publicUrl}. It cannot be changed.`] : [],
    ...isOpen ? nextLines(out, server) : [],
  ]);
  for (const warning of warnings) out.warn(warning);
}

function nextLines(out: Context["out"], { address, madeSecret, hasSecret, publicUrl }: Announcement): string[] {
  if (madeSecret === null && !hasSecret) {
    return ["", "There is no admin yet. To create one, set BOOTSTRAP_SECRET and start again."];
  }
  const { hostname, port, origin } = new URL(address);
  // A server that listens on all addresses is reached at a loopback one.
  const url = ["0.0.0.0", "[::]"].includes(hostname) ? `http://127.0.0.1:${port}` : origin;
  // The printed command also saves the public address. If that has plain http, later commands would refuse it without
  // the option.
  const isPrivate = [url, publicUrl ?? url].every((one) => one.startsWith("https:") || isLoopback(one));
  const insecure = isPrivate ? [] : ["--allow-insecure"];
  // A secret may begin with a dash, which would read as an option, so it follows an equals sign. A configured secret is
  // not printed.
  const words = ["admin", "bootstrap", `--bootstrap-secret=${madeSecret ?? "-"}`, "--registry-url", url, ...insecure];
  const how = madeSecret === null ? " (type your BOOTSTRAP_SECRET, Enter, Ctrl-D)" : "";
  return ["", `Next, in another terminal, make yourself the admin${how}:`, "", ...out.commandLines(words), ""];
}

/**
 * Returns the path of the store in the data folder of the user.
 * @throws {CliError} `CLI_USAGE` without a home directory
 */
export function defaultStore(system: Pick<System, "env" | "os">): string {
  const folder = userFolder(system, "data");
  // On macOS the folder for data is also the one for settings, so the store gets a folder of its own in it.
  const isShared = folder !== undefined && folder === userFolder(system, "config");
  if (folder !== undefined) return join(folder, "svc", ...isShared ? ["server"] : [], "svc.kv");
  throw new CliError("CLI_USAGE", "No home directory is set", { fix: "Give --store <path>, or set KV_URL." });
}
