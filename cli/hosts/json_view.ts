/**
 * Finds an entry in a JSON text with comments and trailing commas: positions only, so that an edit leaves the rest of
 * the text as it is. Of two members with one name the last one counts, as in every parser. The parser comes from npm
 * and loads only for this, because a command that does not edit files should not pay for it.
 */
import { createScanner, parse, visit } from "jsonc-parser";
import { CONNECTOR_LIMITS } from "../connector/limits.ts";
import { NotEditableError, type Place } from "./place.ts";

/** A member of an object, or an element of an array. */
export interface Item {
  /** Start of the name, or of the element. */
  start: number;
  /** Start of the value. */
  value: number;
  end: number;
}

/** An object or array on the way to the entry. */
export interface Container {
  /** Index just past the opening bracket. */
  open: number;
  /** Index of the closing bracket. */
  close: number;
  first: Item | null;
  last: Item | null;
  /** The item on the way to the entry, with its neighbours. */
  wanted: { item: Item; before: Item | null; after: Item | null } | null;
}

/** The containers that exist on the way to the entry, the outermost first. If all exist, the last may have it. */
export interface JsonView {
  containers: Container[];
  /** How many containers there would be with an entry. */
  depth: number;
  /** The entry; `null` when there is none. */
  entry: Item | null;
}

/** Tokens of the scanner as numbers, because its enumeration is not a value. */
const TOKEN = { comma: 5, lineComment: 12, blockComment: 13, lineBreak: 14, end: 17 } as const;

/** A container that is being read; `level` is its depth on the way to the entry, `null` when it is not on that way. */
interface Frame {
  level: number | null;
  isArray: boolean;
  container: Container;
  /** Name of the member that is being read. */
  name: string;
  start: number;
}

/** @throws {NotEditableError} for a text that is not an object in JSON, or is nested too deep */
export function viewJson(text: string, { path, isEntry }: Place): JsonView {
  const depth = isEntry === undefined ? path.length : path.length + 1;
  let containers: Container[] = [];
  const frames: Frame[] = [];

  /** Whether the value that begins now is on the way to the entry. */
  const isWanted = ({ level, isArray, name }: Frame) => level !== null && !isArray && name === path[level];

  const begin = (offset: number, isArray: boolean) => {
    // Refused before the parser calls itself for the next level, because many levels would exhaust the stack.
    if (frames.length === CONNECTOR_LIMITS.hostFileDepth) {
      throw new NotEditableError(`it is nested deeper than ${CONNECTOR_LIMITS.hostFileDepth} levels`);
    }
    const parent = frames.at(-1);
    const level = parent === undefined ? 0 : isWanted(parent) ? (parent.level ?? 0) + 1 : null;
    const container: Container = { open: offset + 1, close: offset, first: null, last: null, wanted: null };
    const isOnWay = level !== null && level < depth;
    if (isOnWay) {
      // An earlier member with this name does not count.
      containers = containers.slice(0, level);
      const isExpected = isArray === (isEntry !== undefined && level === depth - 1);
      if (!isExpected) throw new NotEditableError(kindFault(path, level));
      containers.push(container);
    }
    frames.push({ level: isOnWay ? level : null, isArray, container, name: "", start: offset });
  };
  const endOfValue = (start: number, end: number) => {
    const frame = frames.at(-1);
    if (frame === undefined) return;
    const { container, level, isArray } = frame;
    const item: Item = { start: isArray ? start : frame.start, value: start, end };
    const before = container.last;
    container.first ??= item;
    container.last = item;
    if (container.wanted !== null && container.wanted.item === before) container.wanted.after = item;
    if (level === null) return;
    const isOne = isArray ? container.wanted === null && isEntry?.(valueAt(text, item)) : isWanted(frame);
    if (isOne) container.wanted = { item, before, after: null };
  };
  const end = (offset: number) => {
    const { container } = frames.pop() as Frame;
    container.close = offset;
    endOfValue(container.open - 1, offset + 1);
  };

  visit(text, {
    onObjectBegin: (offset) => begin(offset, false),
    onArrayBegin: (offset) => begin(offset, true),
    onObjectEnd: end,
    onArrayEnd: end,
    onObjectProperty(name, offset) {
      const frame = frames.at(-1) as Frame;
      [frame.name, frame.start] = [name, offset];
    },
    onLiteralValue(_value, offset, length) {
      const frame = frames.at(-1);
      const level = frame === undefined ? 0 : isWanted(frame) ? (frame.level ?? 0) + 1 : depth;
      if (level < depth) throw new NotEditableError(kindFault(path, level));
      endOfValue(offset, offset + length);
    },
    onError(_code, offset) {
      throw new NotEditableError(`it is not valid JSON in line ${lineOf(text, offset)}`);
    },
  }, { allowTrailingComma: true });
  return { containers, depth, entry: containers.length === depth ? containers.at(-1)?.wanted?.item ?? null : null };
}

export function valueAt(text: string, { value, end }: Item): unknown {
  return parse(text.slice(value, end), [], { allowTrailingComma: true });
}

/** A token between two positions that is a comma or a comment, or a line break. */
export interface Mark {
  kind: "comma" | "comment" | "line break";
  start: number;
  end: number;
}

/** The commas, comments and line breaks of a part of the text without values. */
export function marksBetween(text: string, from: number, to: number): Mark[] {
  const marks: Mark[] = [];
  const scanner = createScanner(text, false);
  scanner.setPosition(from);
  for (let token: number = scanner.scan(); token !== TOKEN.end; token = scanner.scan()) {
    const start = scanner.getTokenOffset();
    if (start >= to) break;
    const end = start + scanner.getTokenLength();
    if (token === TOKEN.comma) marks.push({ kind: "comma", start, end });
    else if (token === TOKEN.lineBreak) marks.push({ kind: "line break", start, end });
    else if (token === TOKEN.lineComment || token === TOKEN.blockComment) marks.push({ kind: "comment", start, end });
  }
  return marks;
}

/**
 * Returns true when two texts have the same tokens in the same order, without those of the given items. Commas do not
 * count, because both texts have been found valid.
 */
export function isSameExcept(a: string, skippedInA: Item | null, b: string, skippedInB: Item | null): boolean {
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

function kindFault(path: readonly string[], level: number): string {
  return level === 0 ? "it is not an object" : `its ${path.slice(0, level).join(".")} has another form`;
}

function lineOf(text: string, offset: number): number {
  let line = 1;
  for (let at = text.indexOf("\n"); at !== -1 && at < offset; at = text.indexOf("\n", at + 1)) line++;
  return line;
}
