/**
 * Reads JSON texts where `JSON.parse` is not enough: where the value of a member is, the texts of an array's elements,
 * and duplicate keys. Except for `tryParse`, `stringEnd` and `partEnd`, the functions need a text that `JSON.parse` has
 * accepted, because they do not check its syntax.
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

/** Returns the value of a JSON text. @throws what `refusal` returns when it is not JSON */
export function parseOrThrow(text: string, refusal: () => Error): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw refusal();
  }
}

/** Whether a value is a JSON object, and no list. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
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
  let at = json.length - json.trimStart().length;
  if (json.charCodeAt(at) !== open) return parts;
  do {
    let key = "", after = at + 1;
    at = partEnd(json, after);
    // An empty object or array has no part.
    if (parts.length === 0 && json.slice(after, at).trim() === "") break;
    if (open === OPEN_BRACE) {
      const name = json.indexOf('"', after), nameEnd = stringEnd(json, name);
      key = JSON.parse(json.slice(name, nameEnd)) as string;
      after = json.indexOf(":", nameEnd) + 1;
    }
    const text = json.slice(after, at);
    parts.push({ key, after, start: at - text.trimStart().length, end: after + text.trimEnd().length });
  } while (json.charCodeAt(at) === COMMA);
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

/** Returns the index just past the string that starts at `open`, or the end of the text if the string does not end. */
export function stringEnd(json: string, open: number): number {
  for (let i = open + 1; i < json.length; i++) {
    const unit = json.charCodeAt(i);
    if (unit === QUOTE) return i + 1;
    if (unit === BACKSLASH) i++;
  }
  return json.length;
}

/**
 * Returns the index of the next comma or closing bracket that is in no string and in no inner object or array, or the
 * end of the text without one.
 */
export function partEnd(json: string, from: number): number {
  let depth = 0;
  for (let i = from; i < json.length; i++) {
    switch (json.charCodeAt(i)) {
      case QUOTE:
        i = stringEnd(json, i) - 1;
        break;
      case OPEN_BRACE:
      case OPEN_BRACKET:
        depth++;
        break;
      case CLOSE_BRACE:
      case CLOSE_BRACKET:
        if (depth-- === 0) return i;
        break;
      case COMMA:
        if (depth === 0) return i;
        break;
    }
  }
  return json.length;
}
