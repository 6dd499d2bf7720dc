/** The width of a text in a terminal, and what no text of another party can hide. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { jsonText, oneLine, peerText, printable } from "../../../cli/terminal/escapes.ts";
import { withoutHidden } from "../../../shared/hidden_text.ts";
import { columnsOf, cutToColumns, wrapToColumns } from "../../../cli/terminal/text_width.ts";
import { compareWidths } from "../../support/terminal_widths.ts";

const LC_ALL = 6;

/** `wcwidth` of the system's C library in a UTF-8 locale; `null` where there is none that this test knows. */
function systemWidths(): Disposable & { of(code: number): number } | null {
  try {
    const library = Deno.dlopen("libc.so.6", {
      setlocale: { parameters: ["i32", "buffer"], result: "pointer" },
      wcwidth: { parameters: ["i32"], result: "i32" },
    });
    const { setlocale, wcwidth } = library.symbols;
    if (setlocale(LC_ALL, new TextEncoder().encode("C.UTF-8\0")) !== null) {
      return { of: (code) => wcwidth(code), [Symbol.dispose]: () => library.close() };
    }
    library.close();
  } catch {
    // Another system.
  }
  console.log("skipped: no C library with wcwidth and the locale C.UTF-8");
  return null;
}

const widths = systemWidths();

Deno.test({
  name: "no code point counts fewer columns than the wcwidth of the system",
  ignore: widths === null,
  fn() {
    using real = widths;
    compareWidths((code) => real?.of(code) ?? -1);
  },
});

Deno.test("every default-ignorable code point is shown, in a terminal and in JSON", () => {
  let count = 0;
  for (let code = 0; code <= 0x10ffff; code++) {
    const character = String.fromCodePoint(code);
    if (!/^\p{Default_Ignorable_Code_Point}/u.test(character)) continue;
    count++;
    const shown = `a\\u{${code.toString(16)}}b`;
    for (const show of [printable, peerText, withoutHidden]) assertEquals(show(`a${character}b`), shown);
    for (const json of [jsonText({ text: character }), oneLine(JSON.stringify({ text: character }))]) {
      assert(!json.includes(character), shown);
      assertEquals(JSON.parse(json), { text: character });
    }
  }
  assert(count > 4_000, `${count}`);
});

Deno.test("a text of fillers, tags or other invisible characters does not reach the first column", () => {
  for (const filler of ["\u3164", "\u115f", "\uffa0", "\u{e0041}", "\ufe0f", "\u200b", "\ufff9"]) {
    const lines = wrapToColumns(peerText(`${filler.repeat(40)}7  2026-01-01  boss`), 75);
    for (const line of lines) assert([...line].reduce((sum, one) => sum + columnsOf(one), 0) <= 75, line);
    assertStringIncludes(lines.join(""), `\\u{${filler.codePointAt(0)?.toString(16)}}`);
  }
});

Deno.test("an emoji is shown unchanged, and stays whole where a line ends", () => {
  for (const emoji of ["\u26a0\ufe0f", "\u2764\ufe0f", "1\ufe0f\u20e3", "👩\u200d💻", "👍🏽"]) {
    for (const show of [printable, withoutHidden]) assertEquals(show(`a${emoji}b`), `a${emoji}b`);
    const lines = wrapToColumns(emoji.repeat(20), 9);
    assertEquals(lines.join(""), emoji.repeat(20));
    for (const line of lines) assertEquals([printable(line), line.length % emoji.length], [line, 0]);
    assertEquals(printable(cutToColumns(emoji.repeat(20), 9)).replaceAll(emoji, ""), "…");
  }
  assertEquals(withoutHidden("a\ufe0f 👩\u200d"), "a\\u{fe0f} 👩\\u{200d}");
});

Deno.test("what may be wide counts two columns, and a mark on a letter none", () => {
  const unassigned = "\u{3fff0}",
    privateUse = "\ue000",
    wide = "漢",
    emoji = "🙂",
    hexagram = "\u4dc0",
    trigram = "\u2630";
  for (const one of [unassigned, privateUse, wide, emoji, hexagram, trigram]) assertEquals(columnsOf(one), 2, one);
  for (const one of ["a", "é", "Ж", "א", "ع", "ก", "─", "…"]) assertEquals(columnsOf(one), 1, one);
  assertEquals(columnsOf("\u0301"), 0);
});
