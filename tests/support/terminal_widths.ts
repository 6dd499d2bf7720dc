/** What tests of the width of a text share. */
import { assertEquals } from "@std/assert";
import { printable } from "../../cli/terminal/escapes.ts";
import { columnsOf } from "../../cli/terminal/text_width.ts";

/** The last code point whose scripts every terminal shows as `wcwidth` says; Hangul follows. */
const LAST_EQUAL = 0x10ff;

/**
 * Asserts for each code point that reaches a terminal that it counts at least as many columns as a real `wcwidth` gives it,
 * because a line that is wider than counted goes on in the first column; the scripts of `LAST_EQUAL` count exactly as many.
 *
 * @param wcwidth 0, 1 or 2; -1 for a code point that it does not know
 */
export function compareWidths(wcwidth: (code: number) => number): void {
  const wrong: string[] = [];
  for (let code = 0; code <= 0x10ffff; code++) {
    const character = String.fromCodePoint(code);
    if ((code >= 0xd800 && code <= 0xdfff) || printable(character) !== character) continue;
    const [counted, real] = [columnsOf(character), wcwidth(code)];
    const mayBeMore = code > LAST_EQUAL || counted === 2 || real === -1 || /^\p{Mc}/u.test(character);
    if (counted < real || (counted > real && !mayBeMore)) {
      wrong.push(`U+${code.toString(16)} counts ${counted}, wcwidth ${real}`);
    }
  }
  assertEquals(wrong, []);
}
