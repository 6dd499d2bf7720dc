/**
 * Puts an entry of svc into a configuration file, or takes it out. An entry that svc did not write is never changed,
 * because the person may have made it for another purpose. The caller holds the lock of these files; other programs are
 * noticed because the file is read again before it is replaced.
 */
import { basename, dirname, join, sep } from "node:path";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { kindOf, reason, removeFile, removeLeftovers, writePrivate } from "../files/private_files.ts";
import { isSame, NotEditableError, type Place, type TextEditor } from "./place.ts";
import type { Record, Records } from "./records.ts";
import { CONNECTOR_LIMITS } from "../connector/limits.ts";

/** With less, a host that writes its file at the same time makes the command fail; with more, two programs race on. */
const REPLACE_TRIES = 3;

const BYTE_ORDER_MARK = "\ufeff";

/** An entry and the file in which it belongs. */
export interface Target {
  /** ID and display name of the host. */
  host: string;
  hostName: string;
  path: string;
  /** The folder of the project that the file belongs to; `null` for a file of the user. */
  project: string | null;
  editor: TextEditor;
  /** Names of the objects around the entry; the last one is that of the entry, or of the array with it. */
  place: readonly string[];
  isInArray: boolean;
  value: { [name: string]: unknown };
  /** Returns true for an entry that an svc made for this agent. */
  isOwn(entry: unknown): boolean;
  /** Permissions of a new file. */
  newMode: number;
}

/** The content of a file as far as it concerns a target. */
interface Found {
  place: Place;
  entry: unknown;
  missing: number;
}

/** Checks that the entry can be added. @throws {CliError} `CLI_FILE_INVALID`, `CLI_FILE_UNSAFE` */
export async function checkEntry(ctx: Context, records: Records, target: Target): Promise<void> {
  const file = await read(ctx, target);
  const { text } = withEntry(target, file.path, file.text ?? "", records.find(file.path, target.place));
  if (text !== null) refuseReadOnly(file);
}

async function read(ctx: Context, { path, hostName, project }: Target): Promise<HostFile> {
  return await readHostFile(ctx, path, hostName, project);
}

/**
 * Adds the entry, or replaces the present one of the agent.
 *
 * @returns false when the file has it already
 * @throws {CliError} `CLI_FILE_INVALID`, `CLI_FILE_UNSAFE`, `CLI_SAVE_FAILED`; `CLI_BUSY` when the file changes all the time
 */
export async function addEntry(ctx: Context, records: Records, target: Target): Promise<boolean> {
  for (let tries = 1; tries <= REPLACE_TRIES; tries++) {
    const file = await read(ctx, target);
    if (tries === 1) await removeLeftovers(dirname(file.path), ctx.clock.now());
    const known = records.find(file.path, target.place);
    const { text, found } = withEntry(target, file.path, file.text ?? "", known);
    if (text === null) {
      if (known !== null) await records.finish({ ...known, written: [target.value] });
      return false;
    }
    const copy = file.text === null ? [] : [records.nameOfCopy(target.host)];
    const record: Record = {
      path: file.path,
      place: [...target.place],
      written: [...known?.written ?? [], target.value],
      made: known !== null && found.entry !== undefined ? known.made : found.missing,
      isNew: file.text === null || (known?.isNew ?? false),
      copies: [...known?.copies ?? [], ...copy],
    };
    await records.save(record);
    for (const name of copy) await records.copy(name, file.text ?? "");
    const isReplaced = await replaceHostFile(ctx, file, text, target.newMode);
    if (!isReplaced) continue;
    await records.finish({ ...record, written: [target.value] });
    return true;
  }
  throw busy(target);
}

/**
 * Removes the entry if it is what svc wrote, and the copies of the file.
 *
 * @returns false when there is none
 * @throws {CliError} `CLI_FILE_INVALID` when it is another one, `CLI_FILE_UNSAFE`, `CLI_SAVE_FAILED`, `CLI_BUSY`
 */
export async function removeEntry(ctx: Context, records: Records, target: Target): Promise<boolean> {
  if (await kindOf(dirname(target.path)) === "none") return false;
  for (let tries = 1; tries <= REPLACE_TRIES; tries++) {
    const file = await read(ctx, target);
    if (tries === 1) await removeLeftovers(dirname(file.path), ctx.clock.now());
    const record = records.find(file.path, target.place);
    const isWritten = (entry: unknown) => [target.value, ...record?.written ?? []].some((one) => isSame(one, entry));
    const before = file.text ?? "";
    const text = edited(file.path, target, () => {
      const { place, entry } = find(target, before, isWritten);
      if (entry === undefined) return before;
      if (!isWritten(entry)) throw changedSince(file.path, target);
      return original(records, record, target, before) ?? target.editor.withoutEntry(before, place, record?.made ?? 0);
    });
    if (text !== before) refuseReadOnly(file);
    const isEmpty = record?.isNew === true && ["", "{}"].includes(text.trim());
    const isDone = text === before || await replaceHostFile(ctx, file, isEmpty ? null : text, target.newMode);
    if (!isDone) continue;
    if (record !== null) await records.remove(record);
    return text !== before;
  }
  throw busy(target);
}

/**
 * The text before svc changed the file, from its copy; `null` when another program has changed the file since. A removal
 * alone cannot know whether the text had a line end at its end, or was empty.
 */
function original(records: Records, record: Record | null, target: Target, present: string): string | null {
  // Private files are read without it.
  const mark = present.startsWith(BYTE_ORDER_MARK) ? BYTE_ORDER_MARK : "";
  for (const name of record?.copies ?? []) {
    const text = records.copyOf(name);
    const copy = mark + text;
    if (text === null || find(target, copy, target.isOwn).entry !== undefined) continue;
    const place = placeOf(target, target.isOwn);
    const isIt = record?.written.some((value) => target.editor.withEntry(copy, place, value as object) === present);
    if (isIt) return copy;
  }
  return null;
}

/** The text with the entry; `null` when it has it already. @throws {CliError} `CLI_FILE_INVALID` */
function withEntry(target: Target, path: string, before: string, record: Record | null) {
  const isWritten = (entry: unknown) => record?.written.some((one) => isSame(one, entry)) ?? false;
  return edited(path, target, () => {
    const found = find(
      target,
      before,
      (entry) => isSame(entry, target.value) || isWritten(entry) || target.isOwn(entry),
    );
    const { place, entry } = found;
    if (isSame(entry, target.value)) return { text: null, found };
    if (entry !== undefined && !isWritten(entry) && !target.isOwn(entry)) throw changedSince(path, target);
    return { text: target.editor.withEntry(before, place, target.value), found };
  });
}

function find(target: Target, text: string, isEntry: (entry: unknown) => boolean): Found {
  const place = placeOf(target, isEntry);
  return { place, ...target.editor.find(text, place) };
}

function placeOf({ place: path, isInArray }: Target, isEntry: (entry: unknown) => boolean): Place {
  return isInArray ? { path, isEntry } : { path };
}

/** @throws {CliError} `CLI_FILE_INVALID` with the text to paste */
function edited<T>(path: string, target: Target, edit: () => T): T {
  try {
    return edit();
  } catch (error) {
    if (!(error instanceof NotEditableError)) throw error;
    throw new CliError("CLI_FILE_INVALID", `${path} cannot be changed: ${error.message}. By hand, it needs`, {
      details: fragmentOf(target).split("\n"),
      fix: "",
    });
  }
}

/** What a person pastes into the file. */
export function fragmentOf({ editor, place, isInArray, value }: Target): string {
  return editor.fragment(isInArray ? { path: place, isEntry: () => true } : { path: place }, value);
}

function changedSince(path: string, { place }: Target): CliError {
  return new CliError("CLI_FILE_INVALID", `${path} has an entry ${place.join(".")} that svc did not write`, {
    fix: "Choose another name with --name, or remove that entry by hand.",
  });
}

function busy({ path, hostName }: Target): CliError {
  return new CliError("CLI_BUSY", `${path} changes all the time`, {
    fix: `Close ${hostName}, then run the command again.`,
  });
}

/** A configuration file that has been read. */
export interface HostFile {
  /** The file itself, behind links. */
  path: string;
  /** `null` when it does not exist. */
  text: string | null;
  /** Permissions; `null` when it does not exist, and on Windows. */
  mode: number | null;
}

const OWNER_MAY_WRITE = 0o200;
const OTHERS_MAY_WRITE = 0o002;
const GROUP_MAY_WRITE = 0o020;

/**
 * Reads a configuration file, which may not exist. A link of the user is followed to a file of the user; one of a project is
 * not, because the author of the repository could point it at the user's own files.
 *
 * @param host display name of the host
 * @param project folder that the file must be in, without a link as its last part; `null` for a file of the user
 * @throws {CliError} `CLI_FILE_UNSAFE`, `CLI_FILE_INVALID`
 */
export async function readHostFile(
  ctx: Context,
  path: string,
  host: string,
  project: string | null = null,
): Promise<HostFile> {
  const real = await behindLinks(path, host, project);
  for (const folder of new Set([dirname(path), dirname(real)])) await checkFolder(ctx, folder);
  let stat: Deno.FileInfo;
  try {
    stat = await Deno.stat(real);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return { path: real, text: null, mode: null };
    throw new CliError("CLI_FILE_INVALID", `${real} cannot be read: ${reason(error)}`, { fix: "" });
  }
  if (!stat.isFile) throw new CliError("CLI_FILE_UNSAFE", `${real} is not a plain file`);
  if (isOfOther(ctx, stat.uid)) throw new CliError("CLI_FILE_UNSAFE", `${real} belongs to another user`);
  if (stat.size > CONNECTOR_LIMITS.hostFileBytes) {
    const mib = CONNECTOR_LIMITS.hostFileBytes / 1024 ** 2;
    throw new CliError("CLI_FILE_INVALID", `${real} is over ${mib} MiB`, { fix: "Change it by hand; see --print." });
  }
  const text = textOf(real);
  if (text === undefined) {
    throw new CliError("CLI_FILE_INVALID", `${real} cannot be read as text`, {
      fix: "Change it by hand; see --print.",
    });
  }
  return { path: real, text, mode: stat.mode };
}

/**
 * Replaces a file, or removes it (`null`), if it still has the text that was read.
 *
 * @param newMode permissions of a file that does not exist yet
 * @returns false when another program has changed the file
 * @throws {CliError} `CLI_SAVE_FAILED`
 */
export async function replaceHostFile(
  ctx: Context,
  { path, text: before, mode }: HostFile,
  text: string | null,
  newMode: number,
): Promise<boolean> {
  const isUnchanged = () => textOf(path) === before;
  if (text === null) {
    if (!isUnchanged()) return false;
    await removeFile(path);
    return true;
  }
  // Windows has no permissions of this kind.
  const modeOfNew = ctx.os === "windows" ? null : newMode;
  return await writePrivate(ctx.random, path, text, before === null ? modeOfNew : mode, isUnchanged);
}

/**
 * Refuses a file that its user may not write, because to replace it needs only the right to write the folder.
 *
 * @throws {CliError} `CLI_FILE_UNSAFE`
 */
export function refuseReadOnly({ path, mode }: HostFile): void {
  if (mode === null || (mode & OWNER_MAY_WRITE) !== 0) return;
  throw new CliError("CLI_FILE_UNSAFE", `${path} is read-only, so it stays as it is`, {
    fix: "Make it writable with chmod u+w and run the command again, or add by hand what --print shows.",
  });
}

/** The text of a file; `null` when it does not exist, `undefined` when it is too long, not UTF-8 or not readable. */
function textOf(path: string): string | null | undefined {
  try {
    if (Deno.statSync(path).size > CONNECTOR_LIMITS.hostFileBytes) return undefined;
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Deno.readFileSync(path));
  } catch (error) {
    return error instanceof Deno.errors.NotFound ? null : undefined;
  }
}

/** @throws {CliError} `CLI_FILE_INVALID` without the folder, `CLI_FILE_UNSAFE` for a link to nothing or out of a project */
async function behindLinks(path: string, host: string, project: string | null): Promise<string> {
  let folder: string;
  try {
    folder = await Deno.realPath(dirname(path));
  } catch (error) {
    const why = error instanceof Deno.errors.NotFound ? "does not exist" : `cannot be read: ${reason(error)}`;
    throw new CliError("CLI_FILE_INVALID", `${dirname(path)} ${why}: is ${host} installed for this user?`, {
      fix: `Start ${host} once, or add by hand what --print shows.`,
    });
  }
  const place = join(folder, basename(path));
  const isLink = await Deno.lstat(place).then((stat) => stat.isSymlink, () => false);
  if (project !== null) {
    const inside = await Deno.realPath(project);
    if (isLink) throw outOfProject(`${path} is a link`);
    if (folder !== inside && !folder.startsWith(inside + sep)) throw outOfProject(`${path} is outside the project`);
  }
  if (!isLink) return place;
  try {
    return await Deno.realPath(place);
  } catch (error) {
    throw new CliError("CLI_FILE_UNSAFE", `${path} is a link to a file that cannot be read: ${reason(error)}`);
  }
}

function outOfProject(what: string): CliError {
  return new CliError("CLI_FILE_UNSAFE", `${what}, and links of a project are not followed`, {
    fix: "Replace the link with a plain file or folder, or use --scope user.",
  });
}

/** @throws {CliError} `CLI_FILE_UNSAFE` when another user can replace files in the folder */
async function checkFolder(ctx: Context, folder: string): Promise<void> {
  const { mode, uid, gid } = await Deno.stat(folder);
  if (ctx.uid === null || mode === null) return;
  if (uid !== 0 && isOfOther(ctx, uid)) throw new CliError("CLI_FILE_UNSAFE", `${folder} belongs to another user`);
  // A group with the number of the user has no other member, so pam_umask gives it the right to write for the same
  // reason.
  const isPrivateGroup = gid === ctx.uid;
  if ((mode & OTHERS_MAY_WRITE) === 0 && (isPrivateGroup || (mode & GROUP_MAY_WRITE) === 0)) return;
  throw new CliError("CLI_FILE_UNSAFE", `Other users can write to ${folder}`, {
    fix: `Take that right away with chmod go-w, then run the command again.`,
  });
}

function isOfOther({ uid: own }: Context, uid: number | null): boolean {
  return own !== null && uid !== null && uid !== own;
}
