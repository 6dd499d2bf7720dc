/**
 * Changes to a runtime's own files (D-90), and their undoing. What a file was like before the first change is kept until
 * it is put back; a file that somebody else has changed since is not touched.
 */
import { dirname } from "node:path";
import * as z from "zod";
import { sha256 } from "../../shared/protocol/base64url.ts";
import type { AgentFolder } from "../agent_store.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { kindOf, removeFile, writePrivate } from "../files.ts";

/** One file as it is to be. */
export interface FileChange {
  path: string;
  text: string;
}

/** What set-up would do; shown before it is done. */
export interface SetupPlan {
  changes: FileChange[];
  /** What a person has to do, if anything. */
  steps: string[];
  /** The token that the runtime will want; `null` for none. */
  hookToken: string | null;
  hookPath: string;
}

export const BACKUP_FILE = "setup-backup.json";

const Backup = z.array(z.object({
  path: z.string(),
  /** What it said before; `null` when there was no such file. */
  before: z.string().nullable(),
  /** Digest of what we wrote. */
  written: z.string(),
}));
type Backup = z.infer<typeof Backup>;

/** Carries the changes out, backup first. */
export async function applyChanges(ctx: Context, folder: AgentFolder, changes: readonly FileChange[]): Promise<void> {
  const backup = readBackup(folder);
  for (const { path, text } of changes) {
    if (await kindOf(dirname(path)) !== "directory") {
      throw new CliError("CLI_FILE_INVALID", `${dirname(path)} is not there: is the runtime installed for this user?`);
    }
    const current = await Deno.readTextFile(path).catch((error) => {
      if (error instanceof Deno.errors.NotFound) return null;
      throw new CliError("CLI_FILE_INVALID", `${path} cannot be read`);
    });
    const written = await sha256(text);
    const known = backup.find((entry) => entry.path === path);
    if (known && known.written === await sha256(current ?? "")) known.written = written;
    else if (known) Object.assign(known, { before: current, written });
    else backup.push({ path, before: current, written });
    await folder.writeJson(BACKUP_FILE, backup);
    await writePrivate(ctx.random, path, text);
  }
}

/** Puts back what was; which files. @throws {CliError} `CLI_FILE_INVALID` when one was changed since */
export async function undoChanges(ctx: Context, folder: AgentFolder): Promise<string[]> {
  const backup = readBackup(folder);
  for (const { path, written } of backup) {
    const current = await Deno.readTextFile(path).catch(() => null);
    if (current !== null && await sha256(current) === written) continue;
    throw new CliError(
      "CLI_FILE_INVALID",
      `${path} has been changed since; what it was before is in ${folder.path}/${BACKUP_FILE}`,
    );
  }
  for (const { path, before } of backup) {
    if (before === null) await removeFile(path);
    else await writePrivate(ctx.random, path, before);
  }
  if (folder.read(BACKUP_FILE) !== null) await folder.remove(BACKUP_FILE);
  return backup.map(({ path }) => path);
}

function readBackup(folder: AgentFolder): Backup {
  const text = folder.read(BACKUP_FILE);
  if (text === null) return [];
  try {
    return Backup.parse(JSON.parse(text));
  } catch {
    throw new CliError("CLI_FILE_INVALID", `${folder.path}/${BACKUP_FILE} is damaged`);
  }
}
