/** Finds, creates and protects the configuration directory. */
import { isAbsolute, join } from "node:path";
import type { System } from "../context.ts";
import { CliError } from "../errors.ts";
import { close as takeRights, isOpen, type Owners, reason } from "./private_files.ts";

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
