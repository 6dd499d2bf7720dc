/**
 * Files that hold secrets (D-81): private from the first byte, whole or not there at all, and never through a link.
 * Knows modes and renames, not what the files say.
 */
import { dirname, join } from "node:path";
import process from "node:process";
import { toBase64Url, utf8Bytes } from "../../shared/protocol/base64url.ts";
import type { Random } from "../../shared/random.ts";
import { CliError } from "../errors.ts";

const TEMPORARY = /^\.svc-[A-Za-z0-9_-]{16}\.tmp$/;
const LEFTOVER_AFTER_MS = 600_000;
const OTHERS_MAY_WRITE = 0o022;

/** Text of a file, or `null` when there is none. Reads no link, no device, and no more than `maxBytes`. */
export function readPrivate(path: string, maxBytes: number): string | null {
  // Loaded here, since it takes longer than all the rest of the program, and Deno's own open() has no O_NOFOLLOW.
  const { closeSync, constants, fstatSync, openSync, readFileSync } = process.getBuiltinModule("node:fs");
  // O_NONBLOCK: opening a pipe must not wait for somebody to write into it.
  const flags = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);
  if (isLink(path)) throw unsafe(path, "is a link");
  let fd: number;
  try {
    fd = openSync(path, flags);
  } catch (error) {
    // Where only --allow-all may go (/dev, /proc) nobody keeps a file of ours.
    if (errorCode(error) === "ENOENT" || errorCode(error) === "ENOTDIR" || isForbidden(error)) return null;
    if (errorCode(error) === "ELOOP") throw unsafe(path, "is a link");
    throw new CliError("CLI_FILE_INVALID", `${path} cannot be read: ${reason(error)}`);
  }
  try {
    const stat = fstatSync(fd);
    if (!stat.isFile()) throw unsafe(path, "is not a plain file");
    if (stat.size > maxBytes) throw new CliError("CLI_FILE_INVALID", `${path} is over ${maxBytes} bytes`);
    return new TextDecoder("utf-8", { fatal: true }).decode(readFileSync(fd));
  } catch (error) {
    if (error instanceof CliError) throw error;
    throw new CliError("CLI_FILE_INVALID", `${path} cannot be read as text`);
  } finally {
    closeSync(fd);
  }
}

/**
 * Replaces a file in one step: a new temporary file beside it (0600), fsync, rename, fsync of the directory. The old
 * content stays until the new one is safe.
 *
 * @param mode the permissions of the new file, for a file of another program; private (0600) unless given
 * @throws {CliError} `CLI_SAVE_FAILED`; `CLI_FILE_UNSAFE` when the path is a link
 */
export async function writePrivate(random: Random, path: string, text: string, mode?: number | null): Promise<void> {
  if (isLink(path)) throw unsafe(path, "is a link");
  const temporary = join(dirname(path), `.svc-${toBase64Url(random.bytes(12))}.tmp`);
  let made = false;
  try {
    const file = await Deno.open(temporary, { write: true, createNew: true, mode: 0o600 });
    made = true;
    try {
      const bytes = utf8Bytes(text);
      for (let at = 0; at < bytes.length;) at += await file.write(bytes.subarray(at));
      await file.sync();
    } finally {
      file.close();
    }
    if (mode !== undefined && mode !== null) await Deno.chmod(temporary, mode & 0o777);
    await Deno.rename(temporary, path);
    made = false;
    await syncDirectory(dirname(path));
  } catch (error) {
    if (made) await Deno.remove(temporary).catch(() => {});
    throw new CliError("CLI_SAVE_FAILED", `${path} could not be written: ${reason(error)}`, { cause: error });
  }
}

/** Removes a file and makes that last; a missing one is fine. */
export async function removeFile(path: string): Promise<void> {
  try {
    await Deno.remove(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return;
    throw new CliError("CLI_SAVE_FAILED", `${path} could not be removed: ${reason(error)}`, { cause: error });
  }
  await syncDirectory(dirname(path));
}

/** Removes temporary files that a killed process left: those too old to be somebody's who is still writing. */
export async function removeLeftovers(directory: string, now: number): Promise<void> {
  for await (const { name } of Deno.readDir(directory)) {
    const path = join(directory, name);
    const written = TEMPORARY.test(name) ? statOf(path)?.mtime : null;
    if (written && now - written.getTime() > LEFTOVER_AFTER_MS) await Deno.remove(path).catch(() => {});
  }
}

/** Makes what happened to a directory's entries last, where the system can. */
export async function syncDirectory(path: string): Promise<void> {
  if (Deno.build.os === "windows") return;
  const directory = await Deno.open(path);
  try {
    await directory.sync();
  } finally {
    directory.close();
  }
}

/** User ids whose directories are trusted; `null` where the system has none. */
export type Owners = readonly number[] | null;

/** A private directory is there: made with 0700, or one that `judgeDirectory` lets pass. */
export async function ensureDirectory(path: string, owners: Owners): Promise<void> {
  try {
    await Deno.mkdir(path, { mode: 0o700 });
    await syncDirectory(dirname(path));
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) {
      throw new CliError("CLI_SAVE_FAILED", `${path} could not be made: ${reason(error)}`, { cause: error });
    }
    await checkDirectory(path, owners);
  }
}

/**
 * A directory that holds secrets must be a real one, of a trusted owner, and nobody else's to write: the mode of one
 * that others can write into is put right.
 *
 * @throws {CliError} `CLI_FILE_UNSAFE`
 */
export async function checkDirectory(path: string, owners: Owners): Promise<void> {
  const stat = await Deno.lstat(path);
  if (stat.isSymlink) throw unsafe(path, "is a link");
  if (!stat.isDirectory) throw unsafe(path, "is not a directory");
  if (owners === null || stat.mode === null) return;
  if (stat.uid !== null && !owners.includes(stat.uid)) throw unsafe(path, "belongs to another user");
  if (isOpen(stat.mode)) await close(path);
}

/** Whether others may put entries into a directory of this mode, or take them away. */
export function isOpen(mode: number): boolean {
  return (mode & OTHERS_MAY_WRITE) !== 0;
}

/** Takes a directory's rights from everybody else. */
export async function close(path: string): Promise<void> {
  try {
    await Deno.chmod(path, 0o700);
  } catch {
    throw unsafe(path, "can be written by others");
  }
}

/** What is at a path, links not followed. */
export async function kindOf(path: string): Promise<"none" | "directory" | "other"> {
  try {
    return (await Deno.lstat(path)).isDirectory ? "directory" : "other";
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return "none";
    throw new CliError("CLI_FILE_UNSAFE", `${path} cannot be looked at: ${reason(error)}`);
  }
}

/** True for a directory, links not followed. */
export function isDirectory(path: string): boolean {
  return statOf(path)?.isDirectory ?? false;
}

function isLink(path: string): boolean {
  return statOf(path)?.isSymlink ?? false;
}

function statOf(path: string): Deno.FileInfo | null {
  try {
    return Deno.lstatSync(path);
  } catch {
    return null;
  }
}

function unsafe(path: string, what: string): CliError {
  return new CliError("CLI_FILE_UNSAFE", `${path} ${what}`);
}

function errorCode(error: unknown): unknown {
  return error instanceof Error && "code" in error ? error.code : undefined;
}

/** True where Deno itself does not let a program without all permissions go. */
function isForbidden(error: unknown): boolean {
  return error instanceof Deno.errors.NotCapable || error instanceof Deno.errors.PermissionDenied &&
      error.message.startsWith("Requires ");
}

/** The system's reason without the path, which the message names already. */
export function reason(error: unknown): string {
  if (isForbidden(error)) return "svc does not touch such places";
  const text = error instanceof Error ? error.message : String(error);
  return text.replace(/^[A-Z]+: /, "").replace(/ \(os error \d+\).*$/s, "").replace(/, \w+ '.*'$/s, "");
}
