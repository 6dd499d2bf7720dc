/** Where `svc serve` keeps its store when nothing names one (D-161). */
import { isAbsolute, join } from "node:path";
import type { System } from "../context.ts";
import { CliError } from "../errors.ts";

/** Returns the path of the store in the data folder of the user. @throws {CliError} `CLI_USAGE` without a home directory */
export function defaultStore({ env, os }: Pick<System, "env" | "os">): string {
  const folder = os === "windows" ? windowsFolder(env) : dataFolder(env, os);
  if (folder !== undefined) return join(folder, "svc.kv");
  throw new CliError("CLI_USAGE", "No home directory is set", { fix: "Give --store <path>, or set KV_URL." });
}

function windowsFolder(env: System["env"]): string | undefined {
  const local = env("LOCALAPPDATA");
  return local === undefined ? undefined : join(local, "svc");
}

function dataFolder(env: System["env"], os: System["os"]): string | undefined {
  const xdg = env("XDG_DATA_HOME");
  // The XDG specification says to ignore a relative path.
  if (xdg !== undefined && isAbsolute(xdg)) return join(xdg, "svc");
  const home = env("HOME");
  if (home === undefined) return undefined;
  // On macOS the configuration folder has the same parent.
  return os === "darwin"
    ? join(home, "Library", "Application Support", "svc", "server")
    : join(home, ".local", "share", "svc");
}
