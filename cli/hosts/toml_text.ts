/**
 * Writes and removes a table in a TOML text. A new table is appended, and a present one is replaced exactly where it
 * stands, so the rest of the text stays unchanged. Each result is parsed and refused if any other value differs,
 * because other settings would be lost.
 *
 * Tables inside the entry are the host's: Codex keeps there which tools the person always allows. They stay when the
 * entry is replaced, and go with it, because Codex refuses a server that has only such tables.
 */
import { parse } from "smol-toml";
import { CONNECTOR_LIMITS } from "../connector/limits.ts";
import { memberOf } from "../platforms/settings.ts";
import { BYTE_ORDER_MARK, isSame, NotEditableError, type Place, type TextEditor } from "./place.ts";

type Table = Record<string, unknown>;

export const TOML_TEXT: TextEditor = {
  find(text, { path }) {
    return { entry: ownPart(memberOf(parsed(text), ...path)), missing: 0 };
  },

  withEntry(text, place, value) {
    const before = parsed(text);
    const present = memberOf(before, ...place.path);
    const block = blockOf(place, value);
    const inner = isTable(present) ? Object.entries(present).filter(([, member]) => isTable(member)) : [];
    const written = present === undefined
      ? appended(text, block)
      : text.replace(presentBlock(text, place, present), () => block.replaceAll("\n", lineEndOf(text)));
    return checked(before, written, place, { ...value, ...Object.fromEntries(inner) });
  },

  withoutEntry(text, place) {
    const before = parsed(text);
    const present = memberOf(before, ...place.path);
    const end = lineEndOf(text);
    const block = presentBlock(text, place, present);
    const start = text.indexOf(block);
    // The empty line in front was written with the block, so it is removed too.
    const from = text.slice(0, start).endsWith(end + end) || text.slice(0, start) === end ? start - end.length : start;
    const after = start + block.length;
    const to = text.startsWith(end, after) ? after + end.length : after;
    return checked(before, withoutInner(text.slice(0, from) + text.slice(to), place), place, undefined);
  },

  fragment: blockOf,
};

/**
 * Returns the changed text, if only the entry has changed.
 *
 * @throws {NotEditableError} when another value has changed, or the text is not valid
 */
function checked(before: Table, written: string, { path }: Place, value: object | undefined): string {
  const after = parsedAgain(written, path);
  if (isSame(memberOf(after, ...path), value) && isSame(without(before, path), without(after, path))) return written;
  throw new NotEditableError("the entry cannot be changed without changing something else");
}

/** Parses a text. @throws {NotEditableError} when it is not valid TOML, or is nested too deep */
function parsed(text: string): Table {
  refuseDeepNames(text);
  try {
    return parse(text.replace(BYTE_ORDER_MARK, ""), {
      maxDepth: CONNECTOR_LIMITS.hostFileDepth,
      integersAsBigInt: "asNeeded",
    });
  } catch (error) {
    const { line } = error as { line?: unknown };
    const where = typeof line === "number" ? ` in line ${line}` : "";
    throw new NotEditableError(`it is not valid TOML${where}, or nested too deep`);
  }
}

/**
 * Refuses dotted names with too many parts, because each part nests a table, and the parser bounds only nested values.
 * Counts the parts in front of the first `=` of each line.
 */
function refuseDeepNames(text: string): void {
  const max = CONNECTOR_LIMITS.hostFileDepth;
  let parts = 0, isName = true;
  for (let i = 0; i < text.length && parts <= max; i++) {
    const character = text.charAt(i);
    if (character === "\n") [parts, isName] = [0, true];
    else if (character === "=" || character === "#") isName = false;
    // Several dots in a row separate no names, so the line is taken to be inside a multi-line string.
    else if (isName && character === "." && text.charAt(i - 1) !== ".") parts++;
  }
  if (parts > max) throw new NotEditableError(`it is nested deeper than ${max} levels`);
}

/** Parses the changed text. It is not valid when the file has a value, such as a text, where the table belongs. */
function parsedAgain(written: string, path: readonly string[]): Table {
  try {
    return parsed(written);
  } catch {
    throw new NotEditableError(`its ${path.slice(0, -1).join(".")} has another form`);
  }
}

/** The document without the entry, and without the tables around it that would be empty. */
function without(table: Table, path: readonly string[]): Table {
  const [name, ...rest] = path;
  if (name === undefined || !Object.hasOwn(table, name)) return table;
  const { [name]: value, ...others } = table;
  if (rest.length === 0 || !isTable(value)) return rest.length === 0 ? others : table;
  const left = without(value, rest);
  return Object.keys(left).length === 0 ? others : { ...others, [name]: left };
}

function isTable(value: unknown): value is Table {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Date);
}

/** The members of an entry that are no tables. */
function ownPart<T>(entry: T): T {
  if (!isTable(entry)) return entry;
  return Object.fromEntries(Object.entries(entry).filter(([, member]) => !isTable(member))) as T;
}

/** The text without the tables inside the entry, each up to the next line that begins a table. */
function withoutInner(text: string, { path }: Place): string {
  let isInner = false;
  const lines = text.split("\n").filter((line) => {
    if (line.startsWith("[")) isInner = line.startsWith(`[${path.join(".")}.`);
    return !isInner;
  });
  return lines.join("\n");
}

function appended(text: string, block: string): string {
  const end = lineEndOf(text);
  const lines = block.replaceAll("\n", end);
  if (text === "") return lines + end;
  return text + (text.endsWith("\n") ? "" : end) + end + lines + end;
}

/** Returns the present entry as the text has it. @throws {NotEditableError} when svc would write it in another way */
function presentBlock(text: string, place: Place, present: unknown): string {
  const lines = isTable(present) ? blockOf(place, ownPart(present)).split("\n") : [];
  const end = lineEndOf(text), rows = text.split(end);
  // Codex writes `20.0` where svc wrote `20`, into every entry, when the person adds or removes another server with it.
  const isSameLine = (line: string, row: string | undefined) =>
    row === line || row === `${line}.0` && / = \d+$/.test(line);
  const starts = rows.keys().filter((at) => lines.every((line, i) => isSameLine(line, rows[at + i])));
  const [start, second] = starts;
  if (lines.length > 0 && start !== undefined && second === undefined) {
    return rows.slice(start, start + lines.length).join(end);
  }
  throw new NotEditableError("its entry has been written in another way");
}

/** A table as svc writes it, without a line end behind it. */
function blockOf({ path }: Place, value: object): string {
  const lines = Object.entries(value).map(([name, member]) => `${name} = ${literal(member)}`);
  return [`[${path.join(".")}]`, ...lines].join("\n");
}

function literal(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  // A JSON string is also a valid TOML string, except for this character (DEL).
  return JSON.stringify(value ?? null).replaceAll("\u007f", "\\u007f");
}

function lineEndOf(text: string): string {
  const first = text.indexOf("\n");
  return first > 0 && text.charAt(first - 1) === "\r" ? "\r\n" : "\n";
}
