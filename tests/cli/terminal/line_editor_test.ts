import { assertEquals } from "@std/assert";
import { LineEditor } from "../../../cli/terminal/line_editor.ts";

Deno.test("an emoji that comes code point by code point is one unit, which Backspace removes", () => {
  for (const emoji of ["\u26a0\ufe0f", "1\ufe0f\u20e3", "👩\u200d💻"]) {
    const editor = new LineEditor("> ");
    for (const key of `a${emoji}b`) editor.press(key);
    assertEquals(editor.draw(40).text, `> a${emoji}b`);
    editor.press("Left");
    editor.press("Backspace");
    assertEquals(editor.text, "ab");
    editor.insert("x".repeat(1_000) + emoji);
    assertEquals(editor.text, `a${"x".repeat(1_000)}${emoji}b`);
  }
  const hidden = new LineEditor("> ");
  for (const key of "a\u200db") hidden.press(key);
  assertEquals(hidden.draw(40).text, "> a\\u{200d}b");
});
