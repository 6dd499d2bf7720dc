/**
 * Puts an entry of svc into a configuration file, or takes it out. An entry that svc did not write is never changed,
 * because the person may have made it for another purpose. The caller holds the lock of these files. A change by
 * another program is noticed, because the file is read again before it is replaced.
 */
import { dirname } from "node:path";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { kindOf, removeLeftovers, replaceUnchanged } from "../files/private_files.ts";
import { memberOf } from "../platforms/settings.ts";
import { type HostFilePlace, readHostFile, refuseReadOnly } from "./host_file.ts";
import { BYTE_ORDER_MARK, isSame, NotEditableError, type Place, type TextEditor } from "./place.ts";
import type { Record, Records } from "./records.ts";

/** With 1, one write by the host makes the command fail. With more, two programs that both write race for longer. */
const REPLACE_TRIES = 3;

export interface Target extends HostFilePlace {
  host: string;
  editor: TextEditor;
  /** Names of the objects around the entry; the last one is that of the entry, or of the array that holds it. */
  place: readonly string[];
  isInArray: boolean;
  value: { [name: string]: unknown };
  /** Returns true for an entry that an svc made for this agent. */
  isOwn(entry: unknown): boolean;
  newMode: number;
}

/** Checks that the entry can be added. @throws {CliError} `CLI_FILE_INVALID`, `CLI_FILE_UNSAFE` */
export async function checkEntry(ctx: Context, records: Records, target: Target): Promise<void> {
  const file = await readHostFile(ctx, target);
  const { text } = withEntry(target, file.path, file.text ?? "", records.find(file.path, target.place));
  if (text !== null) refuseReadOnly(file);
}

/**
 * Adds the entry, or replaces the agent's present one.
 *
 * @returns false when the file has it already
 * @throws {CliError} `CLI_FILE_INVALID`, `CLI_FILE_UNSAFE`, `CLI_SAVE_FAILED`; `CLI_BUSY` when the file changes all the
 *   time
 */
export async function addEntry(ctx: Context, records: Records, target: Target): Promise<boolean> {
  for (let tries = 1; tries <= REPLACE_TRIES; tries++) {
    const file = await readHostFile(ctx, target);
    if (tries === 1) await removeLeftovers(dirname(file.path), ctx.clock.now());
    const known = records.find(file.path, target.place), beside = await records.beside(file.path, target.place);
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
      made: Math.max(found.missing, ...beside.map(({ made }) => made)),
      isNew: file.text === null || beside.some(({ isNew }) => isNew),
      copies: [...known?.copies ?? [], ...copy],
    };
    await records.save(record);
    for (const name of copy) await records.copy(name, file.text ?? "");
    const isReplaced = await replaceUnchanged(ctx, file, text, target.newMode);
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
    const file = await readHostFile(ctx, target);
    if (tries === 1) await removeLeftovers(dirname(file.path), ctx.clock.now());
    const record = records.find(file.path, target.place);
    const written = [target.value, ...record?.written ?? []];
    const isWritten = (entry: unknown) => isOneOf(written, entry);
    const before = file.text ?? "";
    const text = edited(file.path, () => {
      const { place, entry } = find(target, before, isWritten);
      if (entry === undefined) return before;
      if (!isWritten(entry)) throw changedSince(file.path, target);
      return original(records, record, target, before) ?? target.editor.withoutEntry(before, place, record?.made ?? 0);
    }, `Remove the entry of svc at ${target.place.join(".")} by hand`);
    if (text !== before) refuseReadOnly(file);
    const isEmpty = record?.isNew === true && ["", "{}"].includes(text.trim());
    const isDone = text === before || await replaceUnchanged(ctx, file, isEmpty ? null : text, target.newMode);
    if (!isDone) continue;
    if (record !== null) await records.remove(record);
    return text !== before;
  }
  throw busy(target);
}

/**
 * Returns the text from before svc changed the file, or `null` when another program has changed the file since. The
 * text comes from a copy, because a removal alone cannot know whether the file ended in a line end, or was empty.
 */
function original(records: Records, record: Record | null, target: Target, present: string): string | null {
  // A copy is read without its byte order mark, so the mark of the present text is put in front of it.
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

/** Returns the text with the entry; `null` when the file has it already. @throws {CliError} `CLI_FILE_INVALID` */
function withEntry(target: Target, path: string, before: string, record: Record | null) {
  const written = [target.value, ...record?.written ?? []];
  return edited(
    path,
    () => {
      const found = find(target, before, (entry) => isOneOf(written, entry) || target.isOwn(entry));
      const { place, entry } = found, value = { ...target.value, ...addedTo(entry, written) };
      if (isSame(entry, value)) return { text: null, found };
      if (entry !== undefined && !isOneOf(written, entry) && !target.isOwn(entry)) throw changedSince(path, target);
      return { text: target.editor.withEntry(before, place, value), found };
    },
    "By hand, it needs",
    fragmentOf(target).split("\n"),
  );
}

/** Whether an entry is one of those that svc has written, apart from the members that a person added to it. */
function isOneOf(written: readonly unknown[], entry: unknown): boolean {
  const added = addedTo(entry, written);
  return written.some((one) => isSame({ ...one as object, ...added }, entry));
}

/** The members of an entry that svc never wrote, because a new version of the entry would otherwise lose them. */
function addedTo(entry: unknown, written: readonly unknown[]): object {
  if (typeof entry !== "object" || entry === null) return {};
  const isAdded = ([name]: [string, unknown]) => written.every((one) => memberOf(one, name) === undefined);
  return Object.fromEntries(Object.entries(entry).filter(isAdded));
}

function find(target: Target, text: string, isEntry: (entry: unknown) => boolean) {
  const place = placeOf(target, isEntry);
  return { place, ...target.editor.find(text, place) };
}

function placeOf({ place: path, isInArray }: Target, isEntry: (entry: unknown) => boolean): Place {
  return isInArray ? { path, isEntry } : { path };
}

/** Runs an edit. @throws {CliError} `CLI_FILE_INVALID`, with what to do by hand, when the file cannot be edited */
function edited<T>(path: string, edit: () => T, byHand: string, details: readonly string[] = []): T {
  try {
    return edit();
  } catch (error) {
    if (!(error instanceof NotEditableError)) throw error;
    const message = `${path} cannot be changed: ${error.message}. ${byHand}`;
    throw new CliError("CLI_FILE_INVALID", message, { details, fix: "" });
  }
}

export function fragmentOf(target: Target): string {
  return target.editor.fragment(placeOf(target, () => true), target.value);
}

function changedSince(path: string, { place }: Target): CliError {
  return new CliError("CLI_FILE_INVALID", `${path} has an entry ${place.join(".")} that is not of this agent`, {
    fix: "Choose another name with --name, or remove that entry by hand.",
  });
}

function busy({ path, hostName }: Target): CliError {
  return new CliError("CLI_BUSY", `${path} changes all the time`, {
    fix: `Close ${hostName}, then run the command again.`,
  });
}
