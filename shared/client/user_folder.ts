/**
 * The folders of this user. The commands of `svc` and the client library share these rules, because a program would
 * otherwise not find the agents that a command has made.
 */
import { isAbsolute, join } from "node:path";

interface Machine {
  /** As Deno or Node names it. */
  os: string;
  env(name: "HOME" | "XDG_CONFIG_HOME" | "XDG_DATA_HOME" | "APPDATA" | "LOCALAPPDATA"): string | undefined;
}

/** The configuration directory without `--config-dir` and `SVC_CONFIG_DIR`; `undefined` without a home directory. */
export function usualConfigDir(machine: Machine): string | undefined {
  const parent = userFolder(machine, "config");
  return parent === undefined ? undefined : join(parent, "svc");
}

/** The folder in which programs of this user keep settings, or data; `undefined` without a home directory. */
export function userFolder({ env, os }: Machine, kind: "config" | "data"): string | undefined {
  if (os === "windows" || os === "win32") return env(kind === "config" ? "APPDATA" : "LOCALAPPDATA");
  const xdg = env(kind === "config" ? "XDG_CONFIG_HOME" : "XDG_DATA_HOME");
  // The XDG specification says to ignore a relative path.
  if (xdg !== undefined && isAbsolute(xdg)) return xdg;
  const home = env("HOME");
  if (home === undefined) return undefined;
  if (os === "darwin") return join(home, "Library", "Application Support");
  return kind === "config" ? join(home, ".config") : join(home, ".local", "share");
}

export const PROFILES_FOLDER = "profiles";
/** The name of the profile that is the configuration folder itself. */
export const DEFAULT_PROFILE = "default";

export function isProfileName(text: string): boolean {
  return /^[a-z0-9-]{1,32}$/.test(text);
}

export function profileFolder(baseDir: string, name: string): string {
  return name === DEFAULT_PROFILE ? baseDir : join(baseDir, PROFILES_FOLDER, name);
}
