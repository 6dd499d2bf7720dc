/** Lines with styles for a terminal: the eight colours of ANSI, and nothing that only a colour says. */
import { printable } from "./escapes.ts";

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
