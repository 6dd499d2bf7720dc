/**
 * Writes and removes an entry in a JSON text. Comments, trailing commas, indentation and line ends of the rest stay.
 * Each result is read again and refused if a token outside the entry differs, because other settings would be lost. Of
 * two members with one name the last counts, as in every parser. Only this file imports the parser from npm, because
 * other commands would start more slowly if they loaded it.
 */
import { applyEdits, createScanner, type Edit, parse, visit } from "jsonc-parser";
import { CONNECTOR_LIMITS } from "../connector/limits.ts";
import { BYTE_ORDER_MARK, NotEditableError, type Place, type TextEditor } from "./place.ts";

const INDENT = "  ";

export const JSON_TEXT: TextEditor = {
  find(text, place) {
    const { body } = opened(text);
    const { containers, depth, entry } = viewJson(body, place);
    return { entry: entry === null ? undefined : valueAt(body, entry), missing: depth - containers.length };
  },

  withEntry(text, place, value) {
    const { mark, body } = opened(text);
    const view = viewJson(body, place);
    const written = applyEdits(body, placed(body, view, place, value));
    const after = viewJson(written, place);
    // The level of what is new: the outermost container that was missing, or else the entry.
    const at = view.entry === null ? view.containers.length - 1 : view.depth - 1;
    const isDone = after.entry !== null && isSameExcept(body, view.entry, written, wantedAt(after, at));
    if (!isDone) throw new NotEditableError("the entry cannot be added without changing something else");
    return mark + written;
  },

  withoutEntry(text, place, made) {
    const { mark, body } = opened(text);
    const view = viewJson(body, place);
    let at = view.depth - 1;
    while (at > 0 && at > view.depth - 1 - made && isAlone(body, view.containers[at])) at--;
    const written = applyEdits(body, removed(body, view.containers[at] as Container));
    const after = viewJson(written, place);
    const isDone = wantedAt(after, at) === null && isSameExcept(body, wantedAt(view, at), written, null);
    if (!isDone) throw new NotEditableError("the entry cannot be removed without changing something else");
    return mark + written;
  },

  fragment({ path, isEntry }, value) {
    const inner: unknown = isEntry === undefined ? value : [value];
    return JSON.stringify(path.reduceRight((nested, name) => ({ [name]: nested }), inner), null, INDENT);
  },
};

/** The text to change; an empty file counts as an empty object. */
function opened(text: string): { mark: string; body: string } {
  const mark = text.startsWith(BYTE_ORDER_MARK) ? BYTE_ORDER_MARK : "";
  const body = text.slice(mark.length);
  return { mark, body: body.trim() === "" ? "{}\n" : body };
}

function wantedAt({ containers }: JsonView, level: number): Item | null {
  return containers[level]?.wanted ?? null;
}

/** Returns true when a container holds only the wanted item, and no comment either. */
function isAlone(text: string, container: Container | undefined): boolean {
  if (container?.wanted == null || container.first !== container.last) return false;
  const { open, close, wanted } = container;
  return [...marksBetween(text, open, wanted.start), ...marksBetween(text, wanted.end, close)]
    .every(({ kind }) => kind !== "comment");
}

function edit(start: number, end: number, content: string): Edit {
  return { offset: start, length: end - start, content };
}

/** The edits that replace the entry, or add it together with the objects around it that are missing. */
function placed(text: string, { containers, entry }: JsonView, { path, isEntry }: Place, value: object): Edit[] {
  const layout = layoutOf(text, containers);
  if (entry !== null) return [edit(entry.value, entry.end, formatted(value, layout))];
  const level = containers.length - 1;
  const container = containers[level] as Container;
  const [name, ...missing] = path.slice(level);
  const innermost: unknown = isEntry === undefined || name === undefined ? value : [value];
  const nested = missing.reduceRight((inner, name) => ({ [name]: inner }), innermost);
  const item = (name === undefined ? "" : `${JSON.stringify(name)}: `) + formatted(nested, layout);
  const { newLine, isInline } = layout;
  const { last, close } = container;
  if (last === null) return [intoEmpty(text, container, item, layout)];
  const marks = marksBetween(text, last.end, close);
  const comma = marks.find(({ kind }) => kind === "comma");
  if (isInline) return [edit(last.end, last.end, `, ${item}`)];
  // Comments in the line of the last item are about that item, so the new item goes behind them.
  const lineEnd = marks.find(({ kind }) => kind === "line break")?.start ?? close;
  const isOfLine = (mark: Mark) => mark.start < lineEnd && !text.slice(mark.start, mark.end).includes("\n");
  const start = Math.max(last.end, ...marks.filter(isOfLine).map(({ end }) => end));
  const isTrailing = comma !== undefined && comma.end <= start;
  return [
    ...isTrailing ? [] : [edit(last.end, last.end, ",")],
    edit(start, start, newLine + item + (isTrailing ? "," : "")),
  ];
}

/** The edit that adds an item to a container without items, which may have comments. */
function intoEmpty(text: string, { open, close }: Container, item: string, { newLine, outer, isInline }: Layout): Edit {
  const inner = text.slice(open, close);
  const isBlank = inner.trim() === "";
  if (isInline && isBlank) return edit(open, close, item);
  const start = open + inner.trimEnd().length;
  return edit(start, close, newLine + item + outer);
}

/** The edits that remove the wanted item with its comma and its line. */
function removed(text: string, container: Container): Edit[] {
  const { open, close, before, after } = container;
  if (isAlone(text, container)) return [edit(open, close, "")];
  const item = container.wanted as Item;
  let start = item.start;
  while (start > open && " \t".includes(text.charAt(start - 1))) start--;
  if (text.charAt(start - 1) === "\n") start -= text.charAt(start - 2) === "\r" ? 2 : 1;
  const commaIn = (from: number, to: number) => marksBetween(text, from, to).find(({ kind }) => kind === "comma");
  // A comma behind the last item shows that the file uses trailing commas, so the comma before it stays.
  const comma = commaIn(item.end, after?.start ?? close) ?? (before && commaIn(before.end, item.start));
  return [edit(start, item.end, ""), ...comma ? [edit(comma.start, comma.end, "")] : []];
}

interface Layout {
  /** A line end with the indentation of the items. */
  newLine: string;
  /** A line end with the indentation of the closing bracket. */
  outer: string;
  /** The indentation that one level adds. */
  unit: string;
  isInline: boolean;
}

function layoutOf(text: string, containers: readonly Container[]): Layout {
  const container = containers.at(-1) as Container;
  const [root] = containers;
  const end = text.includes("\r\n") ? "\r\n" : "\n";
  const unit = (root?.first && indentOfLine(text, root.first.start)) || INDENT;
  const own = container.first && indentOfLine(text, container.first.start);
  const isInline = container.first === null ? root?.first != null && !text.trim().includes("\n") : own === null;
  const outer = container.open === root?.open ? "" : lineIndent(text, container.open - 1);
  return { newLine: end + (own ?? outer + unit), outer: end + outer, unit, isInline };
}

/** The white space before a position when nothing else is before it in its line; `null` otherwise. */
function indentOfLine(text: string, at: number): string | null {
  const before = text.slice(text.lastIndexOf("\n", at - 1) + 1, at);
  return before.trim() === "" && text.lastIndexOf("\n", at - 1) !== -1 ? before : null;
}

/** The white space at the start of the line of a position. */
function lineIndent(text: string, at: number): string {
  const line = text.slice(text.lastIndexOf("\n", at) + 1, at);
  return line.slice(0, line.length - line.trimStart().length);
}

function formatted(value: unknown, { newLine, unit, isInline }: Layout): string {
  return isInline ? JSON.stringify(value) : JSON.stringify(value, null, unit).replaceAll("\n", newLine);
}

/** A member of an object, or an element of an array. */
interface Item {
  /** Start of the name, or of the element. */
  start: number;
  /** Start of the value. */
  value: number;
  end: number;
}

/** An object or array on the way to the entry. */
interface Container {
  /** Index just past the opening bracket. */
  open: number;
  /** Index of the closing bracket. */
  close: number;
  first: Item | null;
  last: Item | null;
  /** The item on the way to the entry, with its neighbours. */
  wanted: Item | null;
  before: Item | null;
  after: Item | null;
}

/** The containers that exist on the way to the entry, outermost first. If all exist, the last may hold the entry. */
interface JsonView {
  containers: Container[];
  /** How many containers there are when the entry is present. */
  depth: number;
  entry: Item | null;
}

/** The scanner's kinds of tokens as numbers, because its enumeration exists only as a type. */
const TOKEN = { open: [1, 3], close: [2, 4], comma: 5, colon: 6, comment: [12, 13], lineBreak: 14, end: 17 };
/** Longest value that is parsed as an entry. With more, a huge value in place of the entry would fill the memory. */
const ENTRY_CHARACTERS_MAX = 64 * 1024;

/**
 * Finds the containers on the way to the entry, and the entry. Only items that an edit needs are kept, because a file
 * of 10 MiB can have five million.
 *
 * @throws {NotEditableError} for a text that is not an object in JSON, or is nested too deep
 */
function viewJson(text: string, { path, isEntry }: Place): JsonView {
  refuseInvalid(text);
  const depth = isEntry === undefined ? path.length : path.length + 1;
  const containers: Container[] = [];
  let [outer = null]: Iterable<Item | null> = itemsOf(text, 0);
  for (let level = 0; outer !== null && level < depth; level++) {
    const isArray = level === path.length;
    if (text.charAt(outer.value) !== (isArray ? "[" : "{")) {
      const what = level === 0 ? "it is not an object" : `its ${path.slice(0, level).join(".")} has another form`;
      throw new NotEditableError(what);
    }
    const nothing = { first: null, last: null, wanted: null, before: null, after: null };
    const container: Container = { open: outer.value + 1, close: outer.end - 1, ...nothing };
    for (const item of itemsOf(text, container.open)) {
      const { wanted, last } = container;
      const isOne = isArray ? wanted === null && isEntry?.(valueAt(text, item)) : item.name === path[level];
      if (isOne) [container.before, container.wanted, container.after] = [last, item, null];
      else if (wanted !== null && wanted === last) container.after = item;
      container.first ??= item;
      container.last = item;
    }
    containers.push(container);
    outer = isArray ? null : container.wanted;
  }
  return { containers, depth, entry: containers.length === depth ? containers.at(-1)?.wanted ?? null : null };
}

/** Checks a text before it is read. @throws {NotEditableError} when it is not JSON, or is nested too deep */
function refuseInvalid(text: string): void {
  const max = CONNECTOR_LIMITS.hostFileDepth;
  let depth = 0;
  const begin = () => {
    // Refused before the parser calls itself for the next level, because too many levels would exhaust the stack.
    if (++depth > max) throw new NotEditableError(`it is nested deeper than ${max} levels`);
  };
  const end = () => {
    depth--;
  };
  visit(text, {
    onObjectBegin: begin,
    onArrayBegin: begin,
    onObjectEnd: end,
    onArrayEnd: end,
    onError(_code, _offset, _length, line) {
      throw new NotEditableError(`it is not valid JSON in line ${line + 1}`);
    },
  }, { allowTrailingComma: true });
}

/**
 * Yields the items of a container in a valid text. `open` is the position behind its opening bracket; at 0 the text
 * itself is the only item.
 */
function* itemsOf(text: string, open: number): Generator<Item & { name: string }, undefined> {
  const scanner = createScanner(text, true);
  scanner.setPosition(open);
  let item: Item & { name: string } | null = null;
  for (let depth = 0; depth >= 0;) {
    const token: number = scanner.scan(), start = scanner.getTokenOffset();
    const isEnd = token === TOKEN.end || TOKEN.close.includes(token);
    if (isEnd) depth--;
    if (depth < 0 || (depth === 0 && token === TOKEN.comma)) {
      if (item !== null) yield item;
      item = null;
      continue;
    }
    item ??= { name: scanner.getTokenValue(), start, value: start, end: start };
    // The value begins behind the name and the colon.
    if (depth === 0 && !isEnd && token !== TOKEN.colon) item.value = start;
    item.end = start + scanner.getTokenLength();
    if (TOKEN.open.includes(token)) depth++;
  }
}

/** Returns the value of an item, or its text when that is longer than any entry of svc. */
function valueAt(text: string, { value, end }: Item): unknown {
  const own = text.slice(value, end);
  return own.length > ENTRY_CHARACTERS_MAX ? own : parse(own, [], { allowTrailingComma: true });
}

interface Mark {
  kind: "comma" | "comment" | "line break";
  start: number;
  end: number;
}

/** The commas, comments and line breaks in a part of the text that holds no values. */
function marksBetween(text: string, from: number, to: number): Mark[] {
  const marks: Mark[] = [];
  const scanner = createScanner(text, false);
  scanner.setPosition(from);
  for (let token: number = scanner.scan(); token !== TOKEN.end; token = scanner.scan()) {
    const start = scanner.getTokenOffset();
    if (start >= to) break;
    const end = start + scanner.getTokenLength();
    if (token === TOKEN.comma) marks.push({ kind: "comma", start, end });
    else if (token === TOKEN.lineBreak) marks.push({ kind: "line break", start, end });
    else if (TOKEN.comment.includes(token)) marks.push({ kind: "comment", start, end });
  }
  return marks;
}

/**
 * Returns true when two texts have the same tokens in the same order, apart from those of the given items. Commas do
 * not count, because both texts have been found valid.
 */
function isSameExcept(a: string, skippedInA: Item | null, b: string, skippedInB: Item | null): boolean {
  const [left, right] = [tokensOf(a, skippedInA), tokensOf(b, skippedInB)];
  for (;;) {
    const [one, other] = [left.next(), right.next()];
    if (one.done || other.done) return one.done === other.done;
    if (one.value !== other.value) return false;
  }
}

function* tokensOf(text: string, skipped: Item | null): Generator<string, undefined> {
  const scanner = createScanner(text, true);
  for (let token: number = scanner.scan(); token !== TOKEN.end; token = scanner.scan()) {
    const start = scanner.getTokenOffset();
    const isSkipped = skipped !== null && start >= skipped.start && start < skipped.end;
    if (token !== TOKEN.comma && !isSkipped) yield text.slice(start, start + scanner.getTokenLength());
  }
}
