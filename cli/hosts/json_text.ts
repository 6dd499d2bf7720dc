/**
 * Writes and removes an entry in a JSON text. Comments, trailing commas, indentation and line ends of the rest stay.
 * Each result is read again, and refused unless only tokens of the entry differ, because other settings would be lost.
 */
import {
  type Container,
  isSameExcept,
  type Item,
  type JsonView,
  type Mark,
  marksBetween,
  valueAt,
  viewJson,
} from "./json_view.ts";
import { BYTE_ORDER_MARK, NotEditableError, type Place, type TextEditor } from "./place.ts";

/** A change of a text at positions of the old text. */
interface Edit {
  start: number;
  end: number;
  text: string;
}

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
    const written = edited(
      body,
      view.entry ? [replaced(body, view, view.entry, value)] : added(body, view, place, value),
    );
    const after = viewJson(written, place);
    // The level of the outermost container, or of the entry, that is new.
    const at = view.entry === null ? view.containers.length - 1 : view.depth - 1;
    const isDone = after.entry !== null && isSameExcept(body, view.entry, written, wantedAt(after, at));
    if (!isDone) throw new NotEditableError("the entry cannot be added without changing something else");
    return mark + written;
  },

  withoutEntry(text, place, made) {
    const { mark, body } = opened(text);
    const view = viewJson(body, place);
    if (view.entry === null) return text;
    let at = view.depth - 1;
    while (at > 0 && at > view.depth - 1 - made && isAlone(body, view.containers[at])) at--;
    const written = edited(body, removed(body, view.containers[at] as Container));
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
  return containers[level]?.wanted?.item ?? null;
}

/** Whether a container has nothing but the wanted item, also no comment. */
function isAlone(text: string, container: Container | undefined): boolean {
  if (container?.wanted == null || container.first !== container.last) return false;
  const { open, close, wanted: { item } } = container;
  return [...marksBetween(text, open, item.start), ...marksBetween(text, item.end, close)]
    .every(({ kind }) => kind !== "comment");
}

function edited(text: string, edits: readonly Edit[]): string {
  let result = "", at = 0;
  for (const edit of edits.toSorted((a, b) => a.start - b.start)) {
    result += text.slice(at, edit.start) + edit.text;
    at = edit.end;
  }
  return result + text.slice(at);
}

function replaced(text: string, { containers }: JsonView, { value: start, end }: Item, value: object): Edit {
  const layout = layoutOf(text, containers, containers.length - 1);
  return { start, end, text: formatted(value, layout) };
}

/** The edits that add the entry, with the objects around it that do not exist. */
function added(text: string, { containers }: JsonView, { path, isEntry }: Place, value: object): Edit[] {
  const level = containers.length - 1;
  const container = containers[level] as Container;
  const [name, ...missing] = path.slice(level);
  const innermost: unknown = isEntry === undefined || name === undefined ? value : [value];
  const layout = layoutOf(text, containers, level);
  const nested = missing.reduceRight((inner, name) => ({ [name]: inner }), innermost);
  const item = (name === undefined ? "" : `${JSON.stringify(name)}: `) + formatted(nested, layout);
  const { newLine, isInline } = layout;
  if (container.last === null) return [intoEmpty(text, container, item, layout)];
  const { last, close } = container;
  const marks = marksBetween(text, last.end, close);
  const comma = marks.find(({ kind }) => kind === "comma");
  if (isInline) return [{ start: last.end, end: last.end, text: `, ${item}` }];
  // Comments behind the last item in its line are about that item, so the new item goes behind them.
  const lineEnd = marks.find(({ kind }) => kind === "line break")?.start ?? close;
  const isOfLine = (mark: Mark) => mark.start < lineEnd && !text.slice(mark.start, mark.end).includes("\n");
  const start = Math.max(last.end, ...marks.filter(isOfLine).map(({ end }) => end));
  const isTrailing = comma !== undefined && comma.end <= start;
  return [
    ...isTrailing ? [] : [{ start: last.end, end: last.end, text: "," }],
    { start, end: start, text: newLine + item + (isTrailing ? "," : "") },
  ];
}

/** The edit that adds an item to a container without items, which may have comments. */
function intoEmpty(text: string, { open, close }: Container, item: string, { newLine, outer, isInline }: Layout): Edit {
  const inner = text.slice(open, close);
  const isBlank = inner.trim() === "";
  if (isInline && isBlank) return { start: open, end: close, text: item };
  const start = open + inner.trimEnd().length;
  return { start, end: close, text: newLine + item + outer };
}

/** The edits that remove the wanted item with its comma and its line. */
function removed(text: string, { open, close, first, last, wanted }: Container): Edit[] {
  const { item, before, after } = wanted as NonNullable<Container["wanted"]>;
  const commaIn = (from: number, to: number) => marksBetween(text, from, to).find(({ kind }) => kind === "comma");
  const commaAfter = commaIn(item.end, after?.start ?? close);
  const commaBefore = before && commaIn(before.end, item.start);
  let start = item.start;
  while (start > open && " \t".includes(text.charAt(start - 1))) start--;
  if (text.charAt(start - 1) === "\n") start -= text.charAt(start - 2) === "\r" ? 2 : 1;
  // A comma behind the last item shows that the file uses trailing commas, so the comma before it stays.
  const comma = commaAfter ?? commaBefore;
  let [from, to] = [start, item.end];
  const edits: Edit[] = [];
  if (comma && comma.start === to) to = comma.end;
  else if (comma && comma.end === from) from = comma.start;
  else if (comma) edits.push({ start: comma.start, end: comma.end, text: "" });
  if (first === last && text.slice(open, from).trim() === "" && text.slice(to, close).trim() === "") {
    return [{ start: open, end: close, text: "" }];
  }
  return [...edits, { start: from, end: to, text: "" }];
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

function layoutOf(text: string, containers: readonly Container[], level: number): Layout {
  const container = containers[level] as Container;
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
