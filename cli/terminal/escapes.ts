/** Escapes control and invisible characters in texts of others, because they could steer a terminal or hide text. */
import { withoutHidden } from "../../shared/hidden_text.ts";

// deno-lint-ignore no-control-regex
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g;

/** What JSON text escapes: control characters (C0, DEL, C1), Unicode line separators, and all that may be invisible. */
const STEERING =
  // deno-lint-ignore no-control-regex
  /[\u0000-\u001f\u007f-\u009f\u2028\u2029\p{Default_Ignorable_Code_Point}\ufff9-\ufffb]/gu;

/** Returns a text of a peer as lines; a line feed at its end adds no empty line. */
export function linesOf(text: string): string[] {
  return text.replace(/\r?\n$/, "").split(/\r?\n/);
}

/** Returns a text of unknown origin, with control characters as `\u001b` and hidden code points as `\u{200b}`. */
export function printable(text: string): string {
  return withoutHidden(text).replace(CONTROL, escaped);
}

/** Returns a line of a peer with all terminal control characters escaped, except tabs. */
export function peerText(line: string): string {
  return line.split("\t").map(printable).join("\t");
}

/** Returns JSON text in which the characters that `JSON.stringify` leaves, but `printable` escapes, are escaped too. */
export function jsonText(value: unknown): string {
  // A line feed is layout here, because JSON.stringify has escaped those inside strings.
  return JSON.stringify(value, null, 2).replace(STEERING, (char) => char === "\n" ? char : escaped(char));
}

/** Returns JSON text on one line. Tabs and line breaks become spaces; all other control characters are escaped. */
export function oneLine(json: string): string {
  return json.replace(STEERING, (char) => /[\t\n\r]/.test(char) ? " " : escaped(char));
}

/** Returns a code point as JSON escapes it, with one escape for each UTF-16 unit. */
function escaped(character: string): string {
  return character.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join("");
}

const CODES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33 } as const;
export type Style = keyof typeof CODES | "";

/** A line, or its parts with their styles. */
export type Line = string | readonly (readonly [Style, string])[];

/** The line for a terminal. All control characters in its texts are escaped. */
export function painted(line: Line, hasColour: boolean): string {
  if (typeof line === "string") return printable(line);
  return line.map(([style, text]) =>
    style === "" || !hasColour ? printable(text) : `\x1b[${CODES[style]}m${printable(text)}\x1b[0m`
  ).join("");
}
