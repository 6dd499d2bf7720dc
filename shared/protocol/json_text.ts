/**
 * Reads JSON texts where `JSON.parse` is not enough: where the value of a member is, the texts of an array's elements,
 * duplicate keys, and long arrays in chunks. All but the last need a text that `JSON.parse` has accepted.
 */

/** A member of the outermost object, with the position of its value in the text. */
export interface Member {
  key: string;
  /** Index just past the colon, before any white space. */
  after: number;
  start: number;
  end: number;
}

const QUOTE = 0x22, BACKSLASH = 0x5c, OPEN_BRACE = 0x7b, CLOSE_BRACE = 0x7d, OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d, COLON = 0x3a, COMMA = 0x2c;

/**
 * Returns the members of the outermost object in the order of the text, including duplicates. Returns none for any
 * other value.
 *
 * @param json a valid JSON text
 */
export function topLevelMembers(json: string): Member[] {
  return topLevel(json, OPEN_BRACE);
}

/** Returns the value of a JSON text, or `null` when there is no text or it is not JSON. */
export function tryParse(text: string | null): unknown {
  try {
    return JSON.parse(text ?? "");
  } catch {
    return null;
  }
}

/** Returns the JSON text of a member of the outermost object: the last one of that name, as in `JSON.parse`. */
export function memberText(json: string, name: string): string | undefined {
  const member = topLevelMembers(json).findLast(({ key }) => key === name);
  return member && json.slice(member.start, member.end);
}

/**
 * Returns the elements of the outermost array as texts, in order, because parsed numbers could lose digits. Returns none
 * for any other value.
 *
 * @param json a valid JSON text
 */
export function arrayElements(json: string): string[] {
  return topLevel(json, OPEN_BRACKET).map(({ start, end }) => json.slice(start, end));
}

/** Returns the parts of the outermost object or array. An element of an array has an empty key. */
function topLevel(json: string, open: typeof OPEN_BRACE | typeof OPEN_BRACKET): Member[] {
  const parts: Member[] = [];
  let depth = 0, key: string | null = null, start = -1, stringAt = 0, afterString = 0;
  const finish = (end: number) => {
    const text = json.slice(start, end);
    // An empty object or array has no part.
    if (key !== null && text.trim() !== "") {
      parts.push({ key, after: start, start: end - text.trimStart().length, end: start + text.trimEnd().length });
    }
    key = null;
  };
  const begin = (named: string, at: number) => {
    key = named;
    start = at;
  };
  for (let i = 0; i < json.length; i++) {
    const unit = json.charCodeAt(i);
    switch (unit) {
      case QUOTE: {
        stringAt = i;
        afterString = stringEnd(json, i);
        i = afterString - 1;
        break;
      }
      case OPEN_BRACE:
      case OPEN_BRACKET:
        if (depth === 0 && unit !== open) return [];
        if (++depth === 1 && open === OPEN_BRACKET) begin("", i + 1);
        break;
      case CLOSE_BRACE:
      case CLOSE_BRACKET:
        if (--depth === 0) finish(i);
        break;
      case COLON:
        if (depth === 1) begin(JSON.parse(json.slice(stringAt, afterString)) as string, i + 1);
        break;
      case COMMA:
        if (depth !== 1) break;
        finish(i);
        if (open === OPEN_BRACKET) begin("", i + 1);
        break;
    }
  }
  return parts;
}

/** Tells whether an object in the text has a duplicate key, at any depth. @param json a valid JSON text */
export function hasDuplicateKeys(json: string): boolean {
  const objects: (Set<string> | null)[] = [];
  let lastString: [number, number] = [0, 0];
  for (let i = 0; i < json.length; i++) {
    switch (json.charCodeAt(i)) {
      case QUOTE: {
        const end = stringEnd(json, i);
        lastString = [i, end];
        i = end - 1;
        break;
      }
      case OPEN_BRACE:
        objects.push(new Set());
        break;
      case OPEN_BRACKET:
        objects.push(null);
        break;
      case CLOSE_BRACE:
      case CLOSE_BRACKET:
        objects.pop();
        break;
      case COLON: {
        const key = JSON.parse(json.slice(...lastString)) as string;
        const keys = objects.at(-1);
        if (keys?.has(key)) return true;
        keys?.add(key);
        break;
      }
    }
  }
  return false;
}

/** Longest element, and longest text outside the array. With more, a single `JSON.parse` blocks the process. */
const MAX_PART = 65_536;
/** Characters in front of an array that are searched for its name. With more, each bracket costs a longer search. */
const NAME_CHARS = 256;

/**
 * Reads an object with one long array from chunks of its text. It calls `JSON.parse` for a few elements at a time,
 * because a single call for all would block the process. It accepts what `JSON.parse` accepts, with two exceptions:
 * duplicate or escaped names of outer members, and an element or a remainder of more than 65,536 characters that is not
 * in one chunk.
 */
export class LongArrayReader {
  readonly #before: RegExp;
  #state: "before" | "array" | "after" = "before";
  /** The text so far, without the elements of the array. It becomes the object with an empty array. */
  #outside = "";
  /** Text of the array after the last complete element. */
  #pending = "";
  #depth = 0;
  #inString = false;
  #isEscaped = false;
  #hasElements = false;

  /** @param member name of the outer member with the array; letters only */
  constructor(readonly member: string) {
    this.#before = new RegExp(`[{,][ \\t\\n\\r]*"${member}"[ \\t\\n\\r]*:[ \\t\\n\\r]*$`);
  }

  /**
   * Adds the next chunk of the text and returns the elements that are now complete.
   *
   * @throws {SyntaxError} for an invalid text
   */
  push(piece: string): unknown[] {
    const text = this.#pending + piece;
    const elements: unknown[] = [];
    let from = 0, cut = -1, commas = 0;
    const flush = (end: number, expected: number) => {
      const group = JSON.parse(`[${text.slice(from, end)}]`) as unknown[];
      if (group.length !== expected) throw new SyntaxError("An element is missing");
      for (const element of group) elements.push(element);
    };
    for (let i = this.#pending.length; i < text.length; i++) {
      const unit = text.charCodeAt(i);
      if (this.#inString) {
        if (this.#isEscaped) this.#isEscaped = false;
        else if (unit === BACKSLASH) this.#isEscaped = true;
        else if (unit === QUOTE) this.#inString = false;
        continue;
      }
      switch (unit) {
        case QUOTE:
          this.#inString = true;
          break;
        case OPEN_BRACE:
        case OPEN_BRACKET: {
          const isArray = unit === OPEN_BRACKET && this.#depth === 1 && this.#state === "before";
          const named = isArray && this.#outside.slice(-NAME_CHARS) + text.slice(Math.max(from, i - NAME_CHARS), i);
          if (named && this.#before.test(named.slice(-NAME_CHARS))) {
            this.#leave(text.slice(from, i + 1));
            this.#state = "array";
            from = i + 1;
          }
          this.#depth++;
          break;
        }
        case CLOSE_BRACE:
        case CLOSE_BRACKET:
          this.#depth--;
          if (this.#state !== "array" || this.#depth > 1) break;
          if (this.#hasElements || commas > 0 || text.slice(from, i).trim() !== "") flush(i, commas + 1);
          this.#state = "after";
          from = i;
          cut = -1;
          break;
        case COMMA:
          if (this.#state !== "array" || this.#depth !== 2) break;
          cut = i;
          commas++;
          break;
      }
    }
    if (this.#state !== "array") {
      this.#leave(text.slice(from));
      this.#pending = "";
      return elements;
    }
    if (cut >= 0) {
      flush(cut, commas);
      this.#hasElements = true;
      from = cut + 1;
    }
    this.#pending = text.slice(from);
    if (this.#pending.length > MAX_PART) throw new SyntaxError("An element is too long");
    return elements;
  }

  /**
   * Ends the text and returns the object, with an empty array.
   *
   * @throws {SyntaxError} for an invalid text, also when the array is missing
   */
  end(): Record<string, unknown> {
    if (this.#state !== "after") throw new SyntaxError(`The array ${this.member} is missing`);
    const value = JSON.parse(this.#outside) as Record<string, unknown>;
    if (hasDuplicateKeys(this.#outside)) throw new SyntaxError("The object has a duplicate member");
    return value;
  }

  #leave(text: string): void {
    this.#outside += text;
    if (this.#outside.length > MAX_PART) throw new SyntaxError("The object is too long outside its array");
  }
}

/** Returns the index just past the string that starts at `open`, or the end of the text if the string does not end. */
export function stringEnd(json: string, open: number): number {
  for (let i = open + 1; i < json.length; i++) {
    const unit = json.charCodeAt(i);
    if (unit === QUOTE) return i + 1;
    if (unit === BACKSLASH) i++;
  }
  return json.length;
}
