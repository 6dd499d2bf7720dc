/** What the client library needs of the program that uses it, in Deno and in Node. Nothing else reads globals. */
import { type Clock, systemClock } from "../../clock.ts";
import { type Random, systemRandom } from "../../random.ts";

export interface ClientSystem {
  fetch: typeof fetch;
  clock: Clock;
  random: Random;
  /** `linux`, `darwin`, `win32`, … */
  os: string;
  /** `null` on a system without user IDs, or without permission to read it. */
  uid: number | null;
  /** True when `fetch` uses the proxy that `HTTP_PROXY` names. */
  usesProxyVariables: boolean;
  /** The value of a variable; `undefined` when it is unset, empty, or may not be read. */
  env(name: string): string | undefined;
  /** True when a process of this user has the ID. */
  isRunning(pid: number): boolean;
}

/** The part of `process` that both runtimes have. */
interface HostProcess {
  platform: string;
  env: Record<string, string | undefined>;
  versions: Record<string, string | undefined>;
  getuid?(): number;
  kill(pid: number, signal: 0): boolean;
}

/** The system of this process. */
export function hostSystem(): ClientSystem {
  const { process: host } = globalThis as unknown as { process: HostProcess };
  const env = (name: string) => allowed(() => host.env[name]) || undefined;
  return {
    fetch: globalThis.fetch,
    clock: systemClock,
    random: systemRandom,
    os: host.platform,
    uid: allowed(() => host.getuid?.()) ?? null,
    usesProxyVariables: host.versions.deno !== undefined || env("NODE_USE_ENV_PROXY") === "1",
    env,
    isRunning(pid) {
      try {
        return host.kill(pid, 0);
      } catch (error) {
        // ESRCH: no such process. EPERM: a process of another user.
        if (error instanceof Error && "code" in error && typeof error.code === "string") return false;
        throw error;
      }
    },
  };
}

/** `undefined` where Deno does not permit it. */
function allowed<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

/** True when a request to this machine would go to the proxy of `HTTP_PROXY`, with its secrets in clear (D-224). */
export function leavesMachine(system: Pick<ClientSystem, "usesProxyVariables" | "env">): boolean {
  if (!system.usesProxyVariables) return false;
  const one = (...names: string[]) => names.map(system.env).find((value) => value !== undefined);
  if (one("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY") === undefined) return false;
  const spared = (one("no_proxy", "NO_PROXY") ?? "").split(",").map((entry) => entry.trim());
  return !spared.some((entry) => ["127.0.0.1", "127.0.0.0/8", "0.0.0.0/0"].includes(entry));
}
