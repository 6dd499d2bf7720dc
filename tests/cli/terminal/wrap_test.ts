/** Wrapping at words: nothing is wider than the terminal, and no word that fits is cut. */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { textColumns, wordWrap } from "../../../cli/terminal/text_width.ts";

Deno.test("a text is broken at spaces, and inside a word only when it is wider than a line", () => {
  assertEquals(wordWrap("one two three", 7), ["one two", "three"]);
  assertEquals(wordWrap("a 漢字漢字 b", 6), ["a", "漢字漢", "字 b"]);
  assertEquals(wordWrap("", 5), [""]);
  assertEquals(wordWrap("  indented text", 12), ["  indented", "text"]);
  const words = fc.array(fc.string({ unit: "grapheme", maxLength: 30 }), { maxLength: 20 }).map((all) => all.join(" "));
  fc.assert(
    fc.property(words.filter((text) => !/[\n\r]/.test(text)), fc.integer({ min: 2, max: 80 }), (text, columns) => {
      const lines = wordWrap(text, columns);
      for (const line of lines) assert(textColumns(line) <= columns, JSON.stringify([line, columns]));
      assertEquals(lines.join("").replaceAll(" ", ""), text.replaceAll(" ", ""));
      const fits = text.split(" ").filter((word) => word !== "" && textColumns(word) <= columns);
      const whole = new Set(lines.flatMap((line) => line.split(" ")));
      for (const word of fits) assert(whole.has(word), JSON.stringify([word, columns, lines]));
    }),
    { seed: 1, numRuns: 2_000 },
  );
});

Deno.test("a long text is wrapped in linear time", () => {
  assertEquals(wordWrap("word ".repeat(40_000), 80).every((line) => textColumns(line) <= 80), true);
});
