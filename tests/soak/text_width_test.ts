/** The width of a text against `wcwidth` of Python, whose tables are newer than those of most C libraries. */
import { compareWidths } from "../support/terminal_widths.ts";

const PROGRAM = `
import json, wcwidth
print(json.dumps([wcwidth.wcwidth(chr(c)) for c in range(0x110000)]))
`;

/** The columns of every code point; `null` without Python or its package `wcwidth`. */
async function pythonWidths(): Promise<number[] | null> {
  try {
    const { success, stdout } = await new Deno.Command("python3", { args: ["-c", PROGRAM], stderr: "null" }).output();
    if (success) return JSON.parse(new TextDecoder().decode(stdout));
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  console.log("skipped: no Python with the package wcwidth");
  return null;
}

const widths = await pythonWidths();

Deno.test({
  name: "no code point counts fewer columns than the wcwidth of Python",
  ignore: widths === null,
  fn: () => compareWidths((code) => widths?.[code] ?? -1),
});
