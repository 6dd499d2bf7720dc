/**
 * The injected world of every command: files, network, clock, entropy, terminal, environment. The only file that reads
 * the environment; whoever builds a `World` of other parts runs the same commands in a test.
 */
import { isAbsolute, join } from "node:path";
import { type Clock, systemClock } from "../shared/clock.ts";
import { type Random, systemRandom } from "../shared/random.ts";
import { CliError } from "./errors.ts";
import type { Owners } from "./files/private_files.ts";
import { close as takeRights, isOpen, reason } from "./files/private_files.ts";
import { Interrupt } from "./terminal/interrupt.ts";
import type { Output, Terminal } from "./terminal/output.ts";
import { isLoopback } from "./client/service_url.ts";
import type { Authority } from "./tls.ts";

/** Every environment variable that is read; the compiled binary may read no other. */
export const ENVIRONMENT = [
  "SVC_CONFIG_DIR",
  "SVC_REGISTRY_URL",
  "SVC_PROXY_URL",
  "SVC_API_KEY",
  "SVC_HUMAN_NAME",
  "SVC_BOOTSTRAP_SECRET",
  "SVC_INVITE_CODE",
  "SVC_PROXY_WS_URL",
  "SVC_RUNTIME_BASE_URL",
  "SVC_HOOK_PATH",
  "SVC_HOOK_TOKEN",
  "OPENCLAW_BASE_URL",
  "OPENCLAW_CONFIG_PATH",
  "OPENCLAW_STATE_DIR",
  "XDG_RUNTIME_DIR",
  "XDG_CONFIG_HOME",
  "HOME",
  "APPDATA",
  "NO_COLOR",
  "HTTP_PROXY",
  "HTTPS_PROXY",
  "ALL_PROXY",
  "http_proxy",
  "https_proxy",
  "all_proxy",
  "NO_PROXY",
  "no_proxy",
  "SVC_CA",
] as const;
export type EnvironmentName = (typeof ENVIRONMENT)[number];

/** Everything outside the program. */
export interface System {
  fetch: typeof fetch;
  /** The same `fetch`, which also trusts these authorities (PEM). Absent where no TLS is used. */
  trusting?: (pem: string) => typeof fetch;
  /** The authorities that are trusted in addition to the system's. */
  authority?: Authority;
  /** Whether somebody accepts connections at an address; absent where that cannot be asked. */
  reach?: (url: string) => Promise<boolean>;
  clock: Clock;
  random: Random;
  terminal: Terminal;
  /** Standard input to its end. */
  stdin(): Promise<Uint8Array<ArrayBuffer>>;
  /** Asks a person, who must answer `y`; `null` when there is no person to ask. */
  confirm: ((question: string) => Promise<boolean>) | null;
  /** A command that has something to finish takes Ctrl-C over; every other ends at once. */
  interrupt: Interrupt;
  /** A variable that is set to something; an empty one counts as unset. */
  env(name: EnvironmentName): string | undefined;
  os: typeof Deno.build.os;
  uid: number | null;
  pid: number;
  version: string;
}

/** The world as one command sees it. */
export interface Context extends System {
  configDir: string;
  out: Output;
}

/** `{config_dir}` without a flag (PROTOCOL section 6). */
export function defaultConfigDir({ env, os }: Pick<System, "env" | "os">): string {
  const given = env("SVC_CONFIG_DIR");
  if (given !== undefined) return given;
  const parent = os === "windows" ? env("APPDATA") : configHome(env, os);
  if (parent === undefined) throw new CliError("CLI_NO_CONFIG_DIR", "There is no home directory to keep files in");
  return join(parent, "svc");
}

function configHome(env: System["env"], os: System["os"]): string | undefined {
  const xdg = env("XDG_CONFIG_HOME");
  // A relative one is to be ignored, says the XDG specification.
  if (xdg !== undefined && isAbsolute(xdg)) return xdg;
  const home = env("HOME");
  if (home === undefined) return undefined;
  return os === "darwin" ? join(home, "Library", "Application Support") : join(home, ".config");
}

/**
 * The configuration directory is there, private to its owner, and fit to hold secrets. The way to it is the person's
 * own choice and may lead through links; nothing below it may.
 *
 * @returns whose directories below it are trusted
 */
export async function ensureConfigDir(
  { configDir, uid }: Pick<System, "uid"> & { configDir: string },
): Promise<Owners> {
  let stat: Deno.FileInfo;
  try {
    await Deno.mkdir(configDir, { recursive: true, mode: 0o700 });
    stat = await Deno.stat(configDir);
  } catch (error) {
    throw new CliError("CLI_SAVE_FAILED", `${configDir} could not be made: ${reason(error)}`, { cause: error });
  }
  if (uid === null || stat.mode === null || stat.uid === null) return null;
  // In a sticky directory such as /tmp others can add entries, but not touch ours.
  const isSticky = (stat.mode & 0o1000) !== 0;
  if (isOpen(stat.mode) && !isSticky) await takeRights(configDir);
  return isSticky ? [uid, 0] : [uid, 0, stat.uid];
}

/** The machine as it is. */
export function realSystem(version: string): System {
  const env = (name: EnvironmentName) => Deno.env.get(name) || undefined;
  const isProxied = PROXIES.some((name) => env(name) !== undefined);
  if (isProxied) Deno.env.set("NO_PROXY", withLoopback(env("NO_PROXY") ?? env("no_proxy")));
  return {
    fetch: sentOnce([]),
    trusting: (pem) => sentOnce([pem]),
    // Behind an HTTP proxy a direct connection says nothing about the way that requests take.
    reach: async (url) => isProxied && !isLoopback(new URL(url).origin) || await reachable(url),
    clock: systemClock,
    random: systemRandom,
    terminal: systemTerminal(),
    stdin: readStandardInput,
    confirm: Deno.stdin.isTerminal() && Deno.stderr.isTerminal() ? confirmOnTerminal : null,
    interrupt: new Interrupt(systemClock),
    env,
    os: Deno.build.os,
    uid: Deno.uid(),
    pid: Deno.pid,
    version,
  };
}

const PROXIES = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] as const;

/**
 * The value of `NO_PROXY` with which no proxy of the environment gets what is meant for this machine (D-224): secrets go
 * to loopback addresses in clear. `*` means every address; the platform itself matches only names with it.
 */
export function withLoopback(given: string | undefined): string {
  const list = (given ?? "").split(",").map((entry) => entry.trim()).filter((entry) => entry !== "");
  return [...list, ...list.includes("*") ? ["0.0.0.0/0", "::/0"] : [], "localhost", "127.0.0.0/8", "::1"].join(",");
}

/**
 * `fetch` that sends a POST once. By itself the platform sends it again when a connection ends before the answer: always
 * (Deno 2.7), or when the connection was kept from an earlier request; also when it redeems an invite or turns a
 * refresh token. It cannot repeat a body that is a stream, nor find a kept connection where none are kept.
 */
function sentOnce(caCerts: string[]): typeof fetch {
  // Created at once where certificates may be refused, else only when a request is sent.
  let client = caCerts.length > 0 ? Deno.createHttpClient({ poolMaxIdlePerHost: 0, caCerts }) : undefined;
  return (input: RequestInfo | URL, init?: RequestInit) => {
    client ??= Deno.createHttpClient({ poolMaxIdlePerHost: 0 });
    return fetch(input, { ...init, ...(init?.method === "POST" ? { body: streamed(init.body) } : {}), client });
  };
}

function streamed(body: BodyInit | null | undefined): ReadableStream | null {
  return new Response(body ?? "").body;
}

function systemTerminal(): Terminal {
  return {
    stdout: (text) => write(Deno.stdout, text),
    stderr: (text) => write(Deno.stderr, text),
    stdoutIsTerminal: Deno.stdout.isTerminal(),
    stderrIsTerminal: Deno.stderr.isTerminal(),
    columns,
  };
}

function columns(): number | null {
  try {
    return Deno.consoleSize().columns || null;
  } catch {
    return null;
  }
}

function write(stream: { writeSync(bytes: Uint8Array): number }, text: string): void {
  const bytes = new TextEncoder().encode(text);
  try {
    for (let at = 0; at < bytes.length;) at += stream.writeSync(bytes.subarray(at));
  } catch (error) {
    // Whoever read along has gone (`svc … | head -1`): what is done is done all the same.
    if (!(error instanceof Deno.errors.BrokenPipe)) throw error;
  }
}

async function readStandardInput(): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await new Response(Deno.stdin.readable).arrayBuffer());
}

async function confirmOnTerminal(question: string): Promise<boolean> {
  write(Deno.stderr, `${question} [y/N] `);
  const buffer = new Uint8Array(64);
  const length = await Deno.stdin.read(buffer) ?? 0;
  return /^y(es)?$/i.test(new TextDecoder().decode(buffer.subarray(0, length)).trim());
}

async function reachable(url: string): Promise<boolean> {
  const { hostname, port, protocol } = new URL(url);
  const abort = new AbortController();
  const cancel = systemClock.after(1_000, () => abort.abort());
  try {
    const connection = await Deno.connect({
      hostname: hostname.replace(/^\[|\]$/g, ""),
      port: Number(port || (protocol === "https:" ? 443 : 80)),
      signal: abort.signal,
    });
    connection.close();
    return true;
  } catch {
    return false;
  } finally {
    cancel();
  }
}
