/**
 * The injected world of every command: files, network, clock, entropy, terminal, environment. The only file that reads
 * the environment; whoever builds a `World` of other parts runs the same commands in a test.
 */
import type { Interrupt } from "./terminal/interrupt.ts";
import type { Output, Terminal } from "./terminal/output.ts";
import type { Authority } from "./client/tls.ts";
import type { Clock } from "../shared/clock.ts";
import type { Random } from "../shared/random.ts";

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
  /** Called with the headers of each response of a service. */
  onResponse?: ((headers: Headers) => void) | undefined;
}

/**
 * The value of `NO_PROXY` with which no proxy of the environment gets what is meant for this machine (D-224): secrets go
 * to loopback addresses in clear. `*` means every address; the platform itself matches only names with it.
 */
export function withLoopback(given: string | undefined): string {
  const list = (given ?? "").split(",").map((entry) => entry.trim()).filter((entry) => entry !== "");
  return [...list, ...list.includes("*") ? ["0.0.0.0/0", "::/0"] : [], "localhost", "127.0.0.0/8", "::1"].join(",");
}
