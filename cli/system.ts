/** The real system of a command: network, clock, entropy, terminal. No other file of the CLI reads the environment. */
import { isOfOtherUser } from "../shared/client/port_owner.ts";
import type { FetchOptions } from "../shared/client/http.ts";
import { isLoopback } from "../shared/client/service_url.ts";
import type { EnvironmentName, Programs, System } from "./context.ts";
import { firstBytes } from "./files/private_files.ts";
import { Interrupt } from "./terminal/interrupt.ts";
import { systemKeyboard } from "./terminal/keyboard.ts";
import { layOut } from "./terminal/text_width.ts";
import { settledWithin, systemClock } from "../shared/clock.ts";
import { withLoopback } from "../shared/no_proxy.ts";
import { systemRandom } from "../shared/random.ts";

/**
 * The system of this machine. When an HTTP proxy is configured, it sets `NO_PROXY`, because requests to this machine
 * would otherwise go to that proxy.
 */
export function realSystem(version: string, programs: Programs | null = null): System {
  const env = (name: EnvironmentName) => Deno.env.get(name) || undefined;
  const isAsked = Deno.stdin.isTerminal() && Deno.stderr.isTerminal();
  const isProxied = PROXIES.some((name) => env(name) !== undefined);
  if (isProxied) Deno.env.set("NO_PROXY", withLoopback(env("NO_PROXY") ?? env("no_proxy")));
  return {
    fetch: sentOnce([]),
    trusting: (pem) => sentOnce([pem]),
    // With an HTTP proxy, a direct connection does not show whether requests reach the service.
    reach: async (url) => isProxied && !isLoopback(new URL(url).origin) || await reachable(url),
    isOfOtherUser: (url) =>
      isOfOtherUser({ os: Deno.build.os, uid: Deno.uid(), read: readText, run, reach: reachable }, url),
    openFile: (path) => openFile(path, env("DISPLAY") ?? env("WAYLAND_DISPLAY")),
    exec: {
      isAllowed: async (command) => (await Deno.permissions.query({ name: "run", command })).state === "granted",
      run: runNamed,
    },
    writeSocket,
    clock: systemClock,
    random: systemRandom,
    terminal: {
      stdout: (text) => write(Deno.stdout, text),
      write: (bytes) => Deno.stdout.write(bytes),
      stderr: (text) => void write(Deno.stderr, text),
      stdoutIsTerminal: Deno.stdout.isTerminal(),
      stderrIsTerminal: Deno.stderr.isTerminal(),
      columns: () => sizeOf("columns"),
      rows: () => sizeOf("rows"),
    },
    stdin: (maxBytes) => firstBytes(Deno.stdin.readable, maxBytes),
    stdinIsTerminal: Deno.stdin.isTerminal(),
    keyboard: systemKeyboard(run),
    confirm: isAsked ? confirmOnTerminal : null,
    ask: isAsked ? lineOnTerminal : null,
    interrupt: new Interrupt(systemClock),
    env,
    programs,
    os: Deno.build.os,
    uid: Deno.uid(),
    pid: Deno.pid,
    version,
  };
}

/** Longest time for a program that looks something up, milliseconds. With more, one that hangs would delay messages. */
const RUN_MS = 2_000;
const PROXIES = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] as const;

/** How connections are kept for the next request of the connector to the proxy. */
const KEPT = {
  /** With more, a burst of messages would leave many open at the server. */
  poolMaxIdlePerHost: 8,
  /**
   * Milliseconds for which an idle connection is kept: a message, its answer and its receipt often follow each other
   * within this time. With more, a message would more often be written to a connection that a server or a pulled cable
   * has ended, and its loss would be noticed only later.
   */
  poolIdleTimeout: 1_000,
  /**
   * Over HTTP/2 all requests share one connection. After its cable was pulled, none would arrive for as long as another
   * one follows within a second.
   */
  http2: false,
};

/**
 * Returns a `fetch` that sends each request once, because a repeated POST would redeem an invite or refresh a session
 * twice, and a repeated GET would be refused for its nonce. Deno repeats a request when a connection that was used
 * before ends before the response. It cannot repeat a `Blob`, so only requests with a body keep their connections.
 */
function sentOnce(caCerts: string[]): typeof fetch {
  const clientOf = (kept: boolean) =>
    Deno.createHttpClient({
      ...(kept ? KEPT : { poolMaxIdlePerHost: 0 }),
      ...(caCerts.length > 0 ? { caCerts } : {}),
    });
  // With certificates a client is created at once, so that an invalid certificate is reported before any request.
  let single = caCerts.length > 0 ? clientOf(false) : undefined, kept: Deno.HttpClient | undefined;
  return (input: RequestInfo | URL, init: FetchOptions = {}) => {
    const { keepsConnection = false, ...options } = init;
    const body = typeof init.body === "string" && init.body !== "" ? new Blob([init.body]) : null;
    const client = keepsConnection && body !== null ? kept ??= clientOf(true) : single ??= clientOf(false);
    return fetch(input, { ...options, body: body ?? init.body ?? null, client });
  };
}

function sizeOf(side: "columns" | "rows"): number | null {
  try {
    return Deno.consoleSize()[side] || null;
  } catch {
    return null;
  }
}

/** Writes the whole text. Returns false when its reader has ended: a pipe (`svc … | head -1`), or a closed terminal. */
function write(stream: { writeSync(bytes: Uint8Array): number }, text: string): boolean {
  const bytes = new TextEncoder().encode(text);
  try {
    for (let at = 0; at < bytes.length;) at += stream.writeSync(bytes.subarray(at));
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.BrokenPipe || error instanceof Error && "code" in error && error.code === "EIO") {
      return false;
    }
    throw error;
  }
}

async function confirmOnTerminal(question: string, isYes = false): Promise<boolean> {
  const line = await lineOnTerminal(`${question} ${isYes ? "[Y/n]" : "[y/N]"} `);
  const answer = line?.trim();
  return /^y(es)?$/i.test(answer ?? "") || isYes && answer === "";
}

/** Returns the line that a person types; `null` at the end of the input. A terminal hands over one line at a time. */
async function lineOnTerminal(question: string): Promise<string | null> {
  const room = (sizeOf("columns") ?? Infinity) - 1;
  write(Deno.stderr, `${layOut(question.trimEnd(), room).join("\n")} `);
  const buffer = new Uint8Array(1_000);
  const length = await Deno.stdin.read(buffer);
  // The next line would otherwise stand behind the question.
  if (length === null) write(Deno.stderr, "\n");
  return length === null ? null : new TextDecoder().decode(buffer.subarray(0, length));
}

const readText = (path: string): Promise<string | null> => Deno.readTextFile(path).catch(() => null);

/** What a program prints; `null` when it cannot run, or takes longer than `RUN_MS`. */
async function run(command: string, args: string[]): Promise<string | null> {
  const late = new AbortController();
  let printed: string | null = null;
  try {
    const options = { args, stdin: "null", stdout: "piped", stderr: "null", signal: late.signal } as const;
    const reading = new Deno.Command(command, options).output()
      .then(({ stdout }) => printed = new TextDecoder().decode(stdout));
    // The wait is bounded, because a program that the command has started can keep the output open for long.
    await settledWithin(systemClock, reading, RUN_MS);
    return printed;
  } catch {
    return null;
  } finally {
    late.abort();
  }
}

/** Streams of a program that reads nothing and whose output is dropped. */
const QUIET = { stdin: "null", stdout: "null", stderr: "null" } as const;

async function runNamed(program: string, env: Record<string, string>, signal: AbortSignal): Promise<number> {
  // A signal that has aborted already calls no listener, so the program would run without an end.
  signal.throwIfAborted();
  const child = new Deno.Command(program, { ...QUIET, env, clearEnv: true }).spawn();
  // Not SIGTERM, because a program that handles it could run on, and all later messages would wait for it.
  const end = () => child.kill("SIGKILL");
  signal.addEventListener("abort", end);
  const { code } = await child.status;
  signal.removeEventListener("abort", end);
  return code;
}

/** Programs that show a file in the browser, by system. */
const OPENERS: Partial<Record<typeof Deno.build.os, string>> = { darwin: "open", windows: "explorer.exe" };

function openFile(path: string, display: string | undefined): boolean {
  const opener = OPENERS[Deno.build.os] ?? (display === undefined ? null : "xdg-open");
  if (opener === null) return false;
  try {
    // Not waited for, because xdg-open may run as long as the browser, and explorer.exe ends with 1 after a success.
    new Deno.Command(opener, { args: [path], ...QUIET }).spawn().unref();
    return true;
  } catch {
    return false;
  }
}

async function writeSocket(path: string, text: string): Promise<void> {
  using connection = await Deno.connect({ transport: "unix", path });
  const bytes = new TextEncoder().encode(text);
  for (let at = 0; at < bytes.length;) at += await connection.write(bytes.subarray(at));
  connection.closeWrite();
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
