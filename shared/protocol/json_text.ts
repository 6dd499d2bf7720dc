/**
 * Looks into JSON texts that `JSON.parse` has already accepted, where the text itself matters: which bytes a member's
 * value covers, and whether an object names a key twice. Never validates and never builds values.
 */

/** A member of the outermost object: its key, decoded, and where its value's text starts and ends. */
export interface Member {
  key: string;
  /** Just past the colon: white space before the value, if any, starts here. */
  after: number;
  start: number;
  end: number;
}

const QUOTE = 0x22, BACKSLASH = 0x5c, OPEN_BRACE = 0x7b, CLOSE_BRACE = 0x7d, OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d, COLON = 0x3a, COMMA = 0x2c;

/**
 * The members of the outermost object in the order of the text, doubles included; none when the text is no object.
 *
 * @param json a valid JSON text
 */
export function topLevelMembers(json: string): Member[] {
  const members: Member[] = [];
  let depth = 0, key: string | null = null, start = -1, lastString: [number, number] = [0, 0];
  const finish = (end: number) => {
    if (key !== null) members.push({ key, after: start, ...trimmed(json, start, end) });
    key = null;
  };
  for (let i = 0; i < json.length; i++) {
    switch (json.charCodeAt(i)) {
      case QUOTE: {
        const end = stringEnd(json, i);
        lastString = [i, end];
        i = end - 1;
        break;
      }
      case OPEN_BRACE:
      case OPEN_BRACKET:
        if (depth === 0 && json.charCodeAt(i) === OPEN_BRACKET) return [];
        depth++;
        break;
      case CLOSE_BRACE:
      case CLOSE_BRACKET:
        if (--depth === 0) finish(i);
        break;
      case COLON:
        if (depth === 1) {
          key = JSON.parse(json.slice(...lastString)) as string;
          start = i + 1;
        }
        break;
      case COMMA:
        if (depth === 1) finish(i);
        break;
    }
  }
  return members;
}

/**
 * True when any object in the text names a key twice, at any depth.
 *
 * @param json a valid JSON text
 */
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

/** The index just past the string that opens at `open`. */
function stringEnd(json: string, open: number): number {
  for (let i = open + 1; i < json.length; i++) {
    const unit = json.charCodeAt(i);
    if (unit === QUOTE) return i + 1;
    if (unit === BACKSLASH) i++;
  }
  return json.length;
}

function trimmed(json: string, start: number, end: number): { start: number; end: number } {
  while (start < end && json.charCodeAt(start) <= 0x20) start++;
  while (end > start && json.charCodeAt(end - 1) <= 0x20) end--;
  return { start, end };
}
