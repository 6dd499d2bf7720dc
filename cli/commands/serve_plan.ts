/**
 * What `svc serve` starts: the variables that its options set, the facts that it prints, and its warnings. Pure; the
 * server itself checks every variable.
 */
import { join, resolve } from "node:path";
import { isLoopback, parseServiceUrl } from "../../shared/client/service_url.ts";
import { toBase64Url } from "../../shared/protocol/base64url.ts";
import type { Context, ServerVariable, System } from "../context.ts";
import { CliError } from "../errors.ts";
import { userFolder } from "../files/config_dir.ts";
import { fields } from "../terminal/output.ts";

/** Options of `svc serve` that set a variable. */
export const VARIABLE_OF = {
  host: "HOST",
  port: "PORT",
  store: "KV_URL",
  service: "SVC_SERVICE",
  environment: "ENVIRONMENT",
  metrics: "METRICS_LISTEN",
} as const;

export type ServeInput =
  & { [option in keyof typeof VARIABLE_OF]: string | undefined }
  & { "public-url": string | undefined; "behind-proxy": boolean; "access-log": boolean; console: boolean };

export interface ServePlan {
  variables: Record<string, string>;
  /** The option that sets each variable. */
  optionOf: Record<string, string>;
  /** Absolute path of the store, `:memory:`, or its URL. */
  store: string;
  /** The public origin; `null` when none is configured, so that clients use the address of the server. */
  publicUrl: string | null;
  /** The bootstrap secret that this start has made; `null` when one is configured, or none may be made. */
  madeSecret: string | null;
  /** True when `BOOTSTRAP_SECRET` is set. */
  hasSecret: boolean;
  warnings: string[];
}

/** Addresses of a reverse proxy on this machine. */
const FRONTS = "127.0.0.1,::1";

/**
 * Returns what to start. A given option wins over its variable.
 *
 * @throws {CliError} `CLI_USAGE`
 */
export function servePlan(
  system: Pick<System, "env" | "os" | "random">,
  options: ServeInput,
  environ: ServerVariable,
): ServePlan {
  const variables: Record<string, string> = {};
  for (const [option, name] of Object.entries(VARIABLE_OF)) {
    const given = options[option as keyof typeof VARIABLE_OF];
    if (given !== undefined) variables[name] = given;
  }
  const value: ServerVariable = (name) => variables[name] ?? environ(name);
  const isLocal = (value("ENVIRONMENT") ?? "local") === "local";
  if (options["public-url"] !== undefined) {
    const origin = publicOriginOf(options["public-url"], isLocal);
    for (const name of ["REGISTRY_URL", "PROXY_URL"]) {
      refuseOther(name, environ(name), origin);
      variables[name] = origin;
    }
  }
  if (options["behind-proxy"]) variables.TRUSTED_PROXIES = FRONTS;
  if (options.console) variables.CONSOLE = "on";
  if (options["access-log"]) variables.ACCESS_LOG = "on";
  if (value("KV_URL") === undefined) variables.KV_URL = defaultStore(system);
  const hasSecret = environ("BOOTSTRAP_SECRET") !== undefined;
  const madeSecret = isLocal && !hasSecret ? toBase64Url(system.random.bytes(24)) : null;
  if (madeSecret !== null) variables.BOOTSTRAP_SECRET = madeSecret;
  const store = value("KV_URL") ?? "";
  const optionOf = Object.fromEntries(Object.entries(VARIABLE_OF).map(([option, name]) => [name, `--${option}`]));
  // The two services of other processes may have two origins, which one option cannot set.
  if ((value("SVC_SERVICE") ?? "all") === "all") optionOf.REGISTRY_URL = optionOf.PROXY_URL = "--public-url";
  const isPath = store !== ":memory:" && !/^https?:/.test(store);
  return {
    variables,
    optionOf,
    store: isPath ? resolve(store) : store,
    publicUrl: value(value("SVC_SERVICE") === "proxy" ? "PROXY_URL" : "REGISTRY_URL") ?? null,
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

/** @throws {CliError} `CLI_USAGE` when a variable of the environment names another origin */
function refuseOther(name: string, configured: string | undefined, origin: string): void {
  if (configured === undefined || parseServiceUrl(configured) === origin) return;
  throw new CliError("CLI_USAGE", `--public-url is ${origin}, but ${name} is set to another origin`, {
    fix: `Unset ${name}, or leave --public-url out.`,
  });
}

/** A line for each probable mistake: others cannot reach the server, can read the traffic, or count as one client. */
function warningsOf(value: ServerVariable): string[] {
  const warnings: string[] = [];
  const host = value("HOST") ?? "127.0.0.1";
  const isPrivate = host === "localhost" || host === "::1" || host.startsWith("127.");
  const urls = [value("REGISTRY_URL"), value("PROXY_URL")].flatMap((url) => parseServiceUrl(url ?? "") ?? []);
  if (!isPrivate && urls.length === 0) {
    warnings.push(`HOST is ${host}, but other machines need the address that they use: give it with --public-url`);
  }
  if (urls.some((url) => url.startsWith("http:") && !isLoopback(url))) {
    warnings.push("API keys travel unencrypted over plain http; clients on other machines need --allow-insecure");
  }
  if (isPrivate && value("TRUSTED_PROXIES") === undefined && urls.some((url) => url.startsWith("https:"))) {
    warnings.push("every client has the address of the front; --behind-proxy trusts its X-Forwarded-For");
  }
  return warnings;
}

export interface Announcement extends ServePlan {
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
  const publicUrl = server.publicUrl ?? `http://127.0.0.1:${portOf(address)}`;
  const bootstrapSecret = isOpen ? madeSecret : null;
  if (out.json) {
    for (const warning of warnings) out.warn(warning);
    const shown = { listening: address, publicUrl, store, pid, ...bootstrapSecret === null ? {} : { bootstrapSecret } };
    out.jsonLine(JSON.stringify(shown));
    return;
  }
  out.result({}, [
    `listening on ${address}`,
    ...fields([["public", publicUrl], ["store", store], ["pid", pid]]),
    ...metricsAddress === null ? [] : fields([["metrics", `${metricsAddress}/metrics`]]),
    ...isOpen && store !== ":memory:" ? [`Every identity will name ${publicUrl}. It cannot be changed.`] : [],
    ...isOpen ? nextLines(out, server) : [],
  ]);
  for (const warning of warnings) out.warn(warning);
}

function nextLines(out: Context["out"], { address, madeSecret, hasSecret, publicUrl }: Announcement): string[] {
  if (madeSecret === null && !hasSecret) {
    return ["", "There is no admin yet. To create one, set BOOTSTRAP_SECRET and start again."];
  }
  const url = reachable(address);
  // The command saves the public address too, which later commands would otherwise refuse.
  const isPrivate = [url, publicUrl ?? url].every((one) => one.startsWith("https:") || isLoopback(one));
  const insecure = isPrivate ? [] : ["--allow-insecure"];
  // A secret may begin with a dash, so it follows an equals sign. A configured one is not printed.
  const words = ["admin", "bootstrap", `--bootstrap-secret=${madeSecret ?? "-"}`, "--registry-url", url, ...insecure];
  const how = madeSecret === null ? " (type your BOOTSTRAP_SECRET, Enter, Ctrl-D)" : "";
  return ["", `Next, in another terminal, make yourself the admin${how}:`, "", ...out.commandLines(words), ""];
}

/** Returns the port, also 80, which `URL` leaves out. */
function portOf(address: string): string {
  return address.slice(address.lastIndexOf(":") + 1);
}

/** Returns an address of this machine for a server that listens on all of them. */
function reachable(address: string): string {
  const url = new URL(address);
  return ["0.0.0.0", "[::]"].includes(url.hostname) ? `http://127.0.0.1:${url.port}` : url.origin;
}

/** Returns the path of the store in the data folder of the user. @throws {CliError} `CLI_USAGE` without a home directory */
export function defaultStore(system: Pick<System, "env" | "os">): string {
  const folder = userFolder(system, "data");
  // On macOS both folders are the same one, so the store gets a folder of its own in it.
  const isShared = folder !== undefined && folder === userFolder(system, "config");
  if (folder !== undefined) return join(folder, "svc", ...isShared ? ["server"] : [], "svc.kv");
  throw new CliError("CLI_USAGE", "No home directory is set", { fix: "Give --store <path>, or set KV_URL." });
}
