/** Finds, creates and protects the configuration directory. */
import { usualConfigDir } from "../../shared/client/user_folder.ts";
import type { System } from "../context.ts";
import { CliError } from "../errors.ts";
import { type Owners, saveFailed, takeRights } from "./private_files.ts";

/** Returns the configuration directory for a command without `--config-dir`. @throws {CliError} `CLI_NO_CONFIG_DIR` */
export function defaultConfigDir({ env, os }: Pick<System, "env" | "os">): string {
  const folder = env("SVC_CONFIG_DIR") ?? usualConfigDir({ env, os });
  if (folder === undefined) throw new CliError("CLI_NO_CONFIG_DIR", "No home directory is set");
  return folder;
}

/**
 * Creates the configuration directory if needed. Sets mode 0700 if others may write to it and it is not sticky. The
 * user chooses its path, so the path may contain links. A path below it must not, because a link could lead secrets to
 * another place.
 *
 * @returns the owners whose directories below it are trusted
 * @throws {CliError} `CLI_SAVE_FAILED`, `CLI_FILE_UNSAFE`
 */
export async function ensureConfigDir(
  { configDir, uid }: Pick<System, "uid"> & { configDir: string },
): Promise<Owners> {
  let stat: Deno.FileInfo;
  try {
    await Deno.mkdir(configDir, { recursive: true, mode: 0o700 });
    stat = await Deno.stat(configDir);
  } catch (error) {
    // A file, or a link that leads nowhere. Free disk space, the usual advice, would not help.
    if (error instanceof Deno.errors.AlreadyExists || error instanceof Deno.errors.NotADirectory) {
      throw new CliError("CLI_FILE_UNSAFE", `${configDir} is not a directory`);
    }
    throw saveFailed(configDir, "created", error);
  }
  if (uid === null || stat.mode === null || stat.uid === null) return null;
  // In a sticky directory such as /tmp, other users can add entries but cannot change ours, so its mode stays.
  const isSticky = (stat.mode & 0o1000) !== 0;
  if (!isSticky) await takeRights(configDir, stat.mode);
  return isSticky ? [uid, 0] : [uid, 0, stat.uid];
}
