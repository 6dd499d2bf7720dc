/**
 * Changes the files of a runtime, and undoes the changes. The content before the first change is kept until it is
 * restored. A file that another program has changed since is not restored, because that change would be lost. A file
 * keeps its permissions.
 */
import { dirname } from "node:path";
import { sha256 } from "../../shared/protocol/base64url.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { withHostsLock } from "../files/lock.ts";
import {
  kindOf,
  MAX_SETTINGS_BYTES,
  type OtherFile,
  type PrivateFolder,
  replaceUnchanged,
  textOf,
} from "../files/private_files.ts";
import { type FileChange, PLATFORM_IDS, type PlatformId } from "./platform.ts";
import * as z from "zod";

export const BACKUP_FILE = "setup-backup.json";

const Backup = z.array(z.object({
  /** Whose file it is, because the undo of one runtime would otherwise switch off the hooks of another. */
  platform: z.enum(PLATFORM_IDS),
  path: z.string(),
  /** Previous content; `null` when the file did not exist. */
  before: z.string().nullable(),
  /** SHA-256 of the content that svc wrote. */
  written: z.string(),
}));
type Backup = z.infer<typeof Backup>;

/** Largest backup file. With less, a large settings file would have no backup to restore. */
const MAX_BACKUP_BYTES = 4 * MAX_SETTINGS_BYTES;

/**
 * Backs up a file, then changes it, unless its program has changed it since the plan, or changes it meanwhile.
 *
 * @throws {CliError} `CLI_FILE_INVALID` without its folder, or if unreadable; `CLI_BUSY`
 */
export async function applyChange(
  ctx: Context,
  folder: PrivateFolder,
  platform: PlatformId,
  change: FileChange,
): Promise<void> {
  const { path, before, text } = change;
  const backup = readBackup(folder);
  if (await kindOf(dirname(path)) !== "directory") {
    throw new CliError("CLI_FILE_INVALID", `${dirname(path)} is not there: is the runtime installed for this user?`, {
      fix: "Start the runtime once, so that it makes its folder, then run the command again.",
    });
  }
  const current = await currentOf(path);
  if (current.text === before) {
    const written = await sha256(text);
    const known = backup.find((entry) => entry.path === path);
    if (known && known.written === await sha256(before ?? "")) known.written = written;
    else if (known) Object.assign(known, { before, written });
    else backup.push({ platform, path, before, written });
    await folder.writeJson(BACKUP_FILE, backup, MAX_BACKUP_BYTES);
    if (await replaceUnchanged(ctx, current, text)) return;
  }
  throw new CliError("CLI_BUSY", `${path} was changed by another program at the same moment`, {
    fix: "Run the command again.",
  });
}

/**
 * Restores the files of a platform, or without one of all, and returns their paths.
 *
 * @throws {CliError} `CLI_FILE_INVALID` when one was changed since
 */
export async function undoChanges(ctx: Context, folder: PrivateFolder, of?: PlatformId): Promise<string[]> {
  return await withHostsLock(ctx, async () => {
    const { backup = [], others = [] } = Object.groupBy(
      readBackup(folder),
      ({ platform }) => of === undefined || platform === of ? "backup" : "others",
    );
    const changes: { before: string | null; current: OtherFile }[] = [], restored: string[] = [];
    for (const { path, before, written } of backup) {
      const current = await currentOf(path).catch(() => null);
      // Without the file, as after its program was removed, nothing of svc is left in it.
      if (current?.text === null && before !== null) continue;
      restored.push(path);
      // An undo that failed at another file has restored this one. It is skipped, so that the undo can be repeated.
      if (current?.text === before) continue;
      if (current?.text == null || await sha256(current.text) !== written) throw changedSince(path, folder);
      changes.push({ before, current });
    }
    for (const { before, current } of changes) {
      if (!await replaceUnchanged(ctx, current, before)) throw changedSince(current.path, folder);
    }
    if (others.length > 0) await folder.writeJson(BACKUP_FILE, others, MAX_BACKUP_BYTES);
    else await folder.remove(BACKUP_FILE);
    return restored;
  });
}

function changedSince(path: string, folder: PrivateFolder): CliError {
  return new CliError(
    "CLI_FILE_INVALID",
    `${path} has been changed since. Undo svc's part by hand, then delete its entry in ${folder.path}/${BACKUP_FILE}, ` +
      "which holds the content before",
    { fix: "" },
  );
}

/** The files that `undoChanges` would restore. @throws {CliError} `CLI_FILE_INVALID` */
export function changedFiles(folder: PrivateFolder, of?: PlatformId): string[] {
  return readBackup(folder).filter(({ platform }) => of === undefined || platform === of).map(({ path }) => path);
}

/** @throws {CliError} `CLI_FILE_INVALID` when the file is not UTF-8 or too large */
async function currentOf(path: string): Promise<OtherFile> {
  const stat = await Deno.stat(path).catch(() => null), text = textOf(path);
  if (text !== undefined) return { path, text, mode: text === null ? null : stat?.mode ?? null };
  const isLarge = stat !== null && stat.size > MAX_SETTINGS_BYTES;
  const what = isLarge ? `is over ${MAX_SETTINGS_BYTES / 1024 ** 2} MiB: change it by hand` : "cannot be read as text";
  throw new CliError("CLI_FILE_INVALID", `${path} ${what}`, { fix: "" });
}

function readBackup(folder: PrivateFolder): Backup {
  return folder.readJson(BACKUP_FILE, Backup, { maxBytes: MAX_BACKUP_BYTES }) ?? [];
}
