/**
 * Reads and writes files with secrets. They are private from the first byte and are never reached through a link,
 * because another user could otherwise read or redirect them. They are written completely or not at all, because a kill
 * could otherwise leave half a file.
 */
import { dirname, join } from "node:path";
import { toBase64Url, utf8Bytes } from "../../shared/protocol/base64url.ts";
import type { Random } from "../../shared/random.ts";
import type * as z from "zod";
import { CliError, NOT_YOURS } from "../errors.ts";
import type { Context } from "../context.ts";

const TEMPORARY = /^\.svc-[A-Za-z0-9_-]{16}\.tmp$/;
const LEFTOVER_AFTER_MS = 600_000;
const OTHERS_MAY_WRITE = 0o022;
/**
 * How often a file may be replaced while it is opened. A save of svc replaces it once; without a bound, a program that
 * replaces it all the time would hold up the command.
 */
const LOOKS_MAX = 5;

/**
 * Returns the text of a file, or `null` when it does not exist. Rejects links, devices and files over `maxBytes`.
 *
 * @throws {CliError} `CLI_FILE_UNSAFE`, `CLI_FILE_INVALID`
 */
export function readPrivate(path: string, maxBytes: number): string | null {
  const opened = openPlain(path);
  if (opened === null) return null;
  using file = opened.file;
  const { size } = opened;
  if (size > maxBytes) throw new CliError("CLI_FILE_INVALID", `${path} is larger than ${maxBytes} bytes`);
  try {
    const bytes = new Uint8Array(size);
    let length = 0;
    for (let read = 1; read > 0; length += read) read = file.readSync(bytes.subarray(length)) ?? 0;
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(0, length));
  } catch {
    throw new CliError("CLI_FILE_INVALID", `${path} cannot be read as text`);
  }
}

/**
 * Opens a plain file, and never through a link. Returns `null` when it does not exist. node:fs could refuse a link in
 * the open itself, but with it each command would start a fifth slower.
 */
function openPlain(path: string): { file: Deno.FsFile; size: number } | null {
  for (let look = 0; look < LOOKS_MAX; look++) {
    let named: Deno.FileInfo, file: Deno.FsFile;
    try {
      named = Deno.lstatSync(path);
      if (named.isSymlink) throw unsafe(path, "is a link");
      // Checked before the file is opened, because opening a pipe waits for a writer.
      if (!named.isFile) throw unsafe(path, "is not a plain file");
      file = Deno.openSync(path);
    } catch (error) {
      if (error instanceof CliError) throw error;
      // A place that needs --allow-all (/dev, /proc) never holds a file of svc, so the file counts as missing.
      if (isMissing(error) || isForbidden(error)) return null;
      const fix = error instanceof Deno.errors.PermissionDenied ? NOT_YOURS : undefined;
      throw new CliError("CLI_FILE_INVALID", `${path} cannot be read: ${reason(error)}`, { fix });
    }
    const open = file.statSync();
    if (isSame(named, open)) return { file, size: open.size };
    // Meanwhile a link or another file has taken its place. The next look finds out which.
    file.close();
  }
  throw unsafe(path, "is replaced while it is read");
}

/** Returns true when an open file is the one that `lstat` saw. Else its path leads through a link or was replaced. */
export function isSame(named: Deno.FileInfo, open: Deno.FileInfo): boolean {
  // Windows has no inode numbers to compare, but there creating a link needs a right that ordinary users do not have.
  return named.ino === null || open.ino === null || named.ino === open.ino && named.dev === open.dev;
}

/**
 * Replaces a file atomically: it writes a temporary file beside it (mode 0600), syncs it, renames it and syncs the
 * directory. The old content stays until the new content is on disk.
 *
 * @param mode the permissions of the new file, for a file of another program (default 0600)
 * @param isReady called when the new content is on disk beside the file; `false` leaves the old content
 * @returns false when the file was not replaced because of `isReady`
 * @throws {CliError} `CLI_SAVE_FAILED`; `CLI_FILE_UNSAFE` when the path is a link
 */
export async function writePrivate(
  random: Random,
  path: string,
  text: string,
  mode?: number | null,
  isReady: () => boolean = () => true,
): Promise<boolean> {
  if (statOf(path)?.isSymlink) throw unsafe(path, "is a link");
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
    if (!isReady()) {
      await Deno.remove(temporary);
      return false;
    }
    await Deno.rename(temporary, path);
    made = false;
    await syncDirectory(dirname(path));
    return true;
  } catch (error) {
    if (made) await Deno.remove(temporary).catch(() => {});
    throw saveFailed(path, "written", error);
  }
}

/** The largest settings file of another program that is read or changed. With more, a wrong file would fill the memory. */
export const MAX_SETTINGS_BYTES = 16 * 1024 * 1024;

/** What was read of a file of another program. */
export interface OtherFile {
  path: string;
  /** `null` when it does not exist. */
  text: string | null;
  /** Permissions; `null` when it does not exist, and on Windows. */
  mode: number | null;
}

/** The text of a file; `null` when it does not exist, `undefined` when it is too long, not UTF-8 or not readable. */
export function textOf(path: string): string | null | undefined {
  try {
    if (Deno.statSync(path).size > MAX_SETTINGS_BYTES) return undefined;
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Deno.readFileSync(path));
  } catch (error) {
    return error instanceof Deno.errors.NotFound ? null : undefined;
  }
}

/**
 * Replaces a file, or removes it (`null`), if it still has the text that was read.
 *
 * @param newMode permissions of a file that does not exist yet (default 0600)
 * @returns false when another program has changed the file
 * @throws {CliError} `CLI_SAVE_FAILED`
 */
export async function replaceUnchanged(
  { random, os }: Pick<Context, "random" | "os">,
  { path, text: before, mode }: OtherFile,
  text: string | null,
  newMode: number | null = null,
): Promise<boolean> {
  const isUnchanged = () => textOf(path) === before;
  if (text === null) {
    if (!isUnchanged()) return false;
    await removeFile(path);
    return true;
  }
  // Windows has no permissions of this kind.
  const modeOfNew = os === "windows" ? null : newMode;
  return await writePrivate(random, path, text, before === null ? modeOfNew : mode, isUnchanged);
}

/** Removes a file and syncs the directory. Idempotent. @throws {CliError} `CLI_SAVE_FAILED` */
export async function removeFile(path: string): Promise<void> {
  try {
    await Deno.remove(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return;
    throw saveFailed(path, "removed", error);
  }
  await syncDirectory(dirname(path));
}

/** Removes temporary files of killed processes. Recent ones stay, because another process may still write them. */
export async function removeLeftovers(directory: string, now: number): Promise<void> {
  await removeOlder(directory, now - LEFTOVER_AFTER_MS, TEMPORARY);
}

/** Removes the files with such a name that were last written before a time, in milliseconds. */
export async function removeOlder(directory: string, before: number, names: RegExp): Promise<void> {
  for await (const { name } of Deno.readDir(directory)) {
    const path = join(directory, name);
    const written = names.test(name) ? statOf(path)?.mtime : null;
    if (written && written.getTime() < before) await Deno.remove(path).catch(() => {});
  }
}

/** Syncs the entries of a directory to disk. Does nothing on Windows. */
export async function syncDirectory(path: string): Promise<void> {
  if (Deno.build.os === "windows") return;
  using directory = await Deno.open(path);
  await directory.sync();
}

/** User IDs whose directories are trusted; `null` on a system without user IDs. */
export type Owners = readonly number[] | null;

/** Creates a directory with mode 0700, or checks an existing one with `checkDirectory`. */
export async function ensureDirectory(path: string, owners: Owners): Promise<void> {
  try {
    await Deno.mkdir(path, { mode: 0o700 });
    await syncDirectory(dirname(path));
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw saveFailed(path, "created", error);
    await checkDirectory(path, owners);
  }
}

/**
 * Checks that a directory can hold secrets: it is not a link and has a trusted owner. Sets mode 0700 if others could
 * write into it, because they could replace its files.
 *
 * @throws {CliError} `CLI_FILE_UNSAFE`
 */
export async function checkDirectory(path: string, owners: Owners): Promise<void> {
  const stat = await Deno.lstat(path);
  if (stat.isSymlink) throw unsafe(path, "is a link");
  if (!stat.isDirectory) throw unsafe(path, "is not a directory");
  if (owners === null || stat.mode === null) return;
  if (stat.uid !== null && !owners.includes(stat.uid)) throw unsafe(path, "belongs to another user");
  await takeRights(path, stat.mode);
}

/** Sets mode 0700 when other users may add or remove entries of a directory. @throws {CliError} `CLI_FILE_UNSAFE` */
export async function takeRights(path: string, mode: number): Promise<void> {
  if ((mode & OTHERS_MAY_WRITE) === 0) return;
  try {
    await Deno.chmod(path, 0o700);
  } catch {
    throw unsafe(path, "is writable by other users");
  }
}

/** Returns the kind of entry at a path. Does not follow links. */
export async function kindOf(path: string): Promise<"none" | "directory" | "other"> {
  try {
    return (await Deno.lstat(path)).isDirectory ? "directory" : "other";
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return "none";
    throw new CliError("CLI_FILE_UNSAFE", `${path} cannot be inspected: ${reason(error)}`);
  }
}

/** Returns true for a directory. Does not follow links. */
export function isDirectory(path: string): boolean {
  return statOf(path)?.isDirectory ?? false;
}

function statOf(path: string): Deno.FileInfo | null {
  try {
    return Deno.lstatSync(path);
  } catch {
    return null;
  }
}

export function saveFailed(path: string, what: "created" | "read" | "removed" | "written", cause: unknown): CliError {
  const fix = cause instanceof Deno.errors.PermissionDenied && !isForbidden(cause) ? NOT_YOURS : undefined;
  return new CliError("CLI_SAVE_FAILED", `${path} could not be ${what}: ${reason(cause)}`, { cause, fix });
}

function unsafe(path: string, what: string): CliError {
  return new CliError("CLI_FILE_UNSAFE", `${path} ${what}`);
}

function isMissing(error: unknown): boolean {
  return error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory;
}

/** Returns true for a path that Deno opens only with --allow-all. */
function isForbidden(error: unknown): boolean {
  return error instanceof Deno.errors.NotCapable || error instanceof Deno.errors.PermissionDenied &&
      error.message.startsWith("Requires ");
}

/** Returns at most `maxBytes` of a file that a person named, which may be a pipe. @throws {CliError} `CLI_USAGE` */
export async function readAtMost(path: string, maxBytes: number): Promise<Uint8Array<ArrayBuffer>> {
  try {
    return await firstBytes((await Deno.open(path)).readable, maxBytes);
  } catch (cause) {
    const fix = "Check the path, and that you may read the file.";
    throw new CliError("CLI_USAGE", `${path} cannot be read: ${reason(cause)}`, { cause, fix });
  }
}

/** Returns at most `maxBytes` of a stream. */
export async function firstBytes(
  stream: ReadableStream<Uint8Array<ArrayBuffer>>,
  maxBytes: number,
): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  let left = maxBytes;
  // Leaving the loop also ends the reading of the stream.
  for await (const chunk of stream) {
    chunks.push(chunk.subarray(0, left));
    left -= chunk.length;
    if (left <= 0) break;
  }
  return new Uint8Array(await new Blob(chunks).arrayBuffer());
}

/** Returns the system's reason without the path, which the message already contains. */
export function reason(error: unknown): string {
  if (isForbidden(error)) return "svc has no permission for this path";
  const text = error instanceof Error ? error.message : String(error);
  if (text.includes("No space left on device")) return "the disk is full";
  return text.replace(/^[A-Z]+: /, "").replace(/ \(os error \d+\).*$/s, "").replace(/, \w+ '.*'$/s, "");
}

const FILE_BYTES = 64 * 1024;

export class PrivateFolder {
  constructor(protected readonly ctx: Context, readonly path: string) {}

  /** Returns the text of a file, or `null` when it does not exist. */
  read(file: string, maxBytes = FILE_BYTES): string | null {
    return readPrivate(join(this.path, file), maxBytes);
  }

  /** Returns the value of a JSON file, or `null` when it does not exist. @throws {CliError} `CLI_FILE_INVALID` */
  readJson<S extends z.ZodType>(
    file: string,
    schema: S,
    { maxBytes, hint = "", fix }: { maxBytes?: number; hint?: string; fix?: string } = {},
  ): z.output<S> | null {
    const text = this.read(file, maxBytes);
    if (text === null) return null;
    try {
      return schema.parse(JSON.parse(text));
    } catch {
      throw new CliError("CLI_FILE_INVALID", `${join(this.path, file)} is damaged${hint}`, { fix });
    }
  }

  /** Replaces a file. @throws {CliError} `CLI_SAVE_FAILED`, also for a text that is too large to be read again */
  async write(file: string, text: string, maxBytes = FILE_BYTES): Promise<void> {
    const path = join(this.path, file);
    if (utf8Bytes(text).length >= maxBytes) {
      throw new CliError("CLI_SAVE_FAILED", `${path} would be larger than ${maxBytes} bytes`, { fix: "" });
    }
    await writePrivate(this.ctx.random, path, `${text}\n`);
  }

  async writeJson(file: string, value: object, maxBytes = FILE_BYTES): Promise<void> {
    await this.write(file, JSON.stringify(value, null, 2), maxBytes);
  }

  async remove(file: string): Promise<void> {
    await removeFile(join(this.path, file));
  }
}
