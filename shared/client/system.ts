/** What the client library needs from Deno or Node. No other file of it reads globals, so tests can replace them. */
import { type Clock, systemClock } from "../clock.ts";
import { type Random, systemRandom } from "../random.ts";
import { isOfOtherUser, type PortSystem } from "./port_owner.ts";
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { connect } from "node:net";

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
  /** Tells whether a process of this user has the ID. @throws {Error} when Deno does not permit to find out */
  isRunning(pid: number): boolean;
  /** Tells whether another user's process listens at an address of this machine; false if the system does not tell. */
  isOfOtherUser(url: string): Promise<boolean>;
}

/** The part of `process` that both runtimes have. */
interface HostProcess {
  platform: string;
  env: Record<string, string | undefined>;
  versions: Record<string, string | undefined>;
  getuid?(): number;
  kill(pid: number, signal: 0): boolean;
}

export function hostSystem(): ClientSystem {
  const { process: host } = globalThis as unknown as { process: HostProcess };
  const env = (name: string) => allowed(() => host.env[name]) || undefined;
  const uid = allowed(() => host.getuid?.()) ?? null;
  return {
    fetch: globalThis.fetch,
    clock: systemClock,
    random: systemRandom,
    os: host.platform,
    uid,
    usesProxyVariables: host.versions.deno !== undefined || env("NODE_USE_ENV_PROXY") === "1",
    env,
    isRunning(pid) {
      // Throws without the permission, because the connector's port could then be another user's, who would get the token.
      host.getuid?.();
      try {
        return host.kill(pid, 0);
      } catch (error) {
        // ESRCH means that there is no such process, EPERM that it belongs to another user.
        if (error instanceof Error && "code" in error && typeof error.code === "string") return false;
        throw error;
      }
    },
    isOfOtherUser: (url) => isOfOtherUser({ os: host.platform, uid, ...listeningSockets }, url),
  };
}

/** Returns what `read` returns, or `undefined` when Deno does not permit the read. */
function allowed<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

/** Tells whether a request to this machine would go to the proxy of `HTTP_PROXY`, with its secrets unencrypted. */
export function leavesMachine(system: Pick<ClientSystem, "usesProxyVariables" | "env">): boolean {
  if (!system.usesProxyVariables) return false;
  const one = (...names: string[]) => names.map(system.env).find((value) => value !== undefined);
  if (one("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY") === undefined) return false;
  const spared = (one("no_proxy", "NO_PROXY") ?? "").split(",").map((entry) => entry.trim());
  return !spared.some((entry) => ["127.0.0.1", "127.0.0.0/8", "0.0.0.0/0"].includes(entry));
}

/** Time for one look. With more, a program that hangs or an address that does not answer holds up a call for longer. */
const LOOK_MS = 2_000;

/** Without permissions, each of these finds nothing: `null`, or false for `reach`. */
export const listeningSockets: Pick<PortSystem, "read" | "run" | "reach"> = {
  read: (path) => readFile(path, "utf8").catch(() => null),

  run(command, args) {
    return new Promise((resolve) => {
      try {
        // With the default of 1 MiB, another user could make the look fail with some thousand sockets at the port.
        execFile(command, args, { timeout: LOOK_MS, maxBuffer: Infinity }, (error, stdout) => {
          resolve(error === null || typeof error.code === "number" ? stdout : null);
        });
      } catch {
        resolve(null);
      }
    });
  },

  reach(url) {
    const { hostname, port } = new URL(url);
    return new Promise((resolve) => {
      const socket = connect({ host: hostname.replace(/^\[|\]$/g, ""), port: Number(port), timeout: LOOK_MS });
      const end = (isOpen: boolean) => {
        socket.destroy();
        resolve(isOpen);
      };
      socket.on("connect", () => end(true)).on("error", () => end(false)).on("timeout", () => end(false));
    });
  },
};
