/**
 * Shows which names are valid: agents, display names, frameworks. An agent name is also a directory name on every
 * platform. Lengths are counted in code points.
 */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import {
  DEFAULT_FRAMEWORK,
  isAgentName,
  parseDisplayName,
  parseFramework,
  parseReason,
} from "../../../shared/protocol/names.ts";
import { anyText, codePoints } from "./arbitraries.ts";

const RUNS = { seed: 1, numRuns: 500 };

Deno.test("the agent name check returns the stated result for each name", async (t) => {
  const rows: [name: string, value: unknown, expected: boolean][] = [
    ["accepts 1 character", "a", true],
    ["accepts 1 digit", "7", true],
    ["accepts 2 characters", "a1", true],
    ["accepts 64 characters", "a".repeat(64), true],
    ["accepts all that is allowed inside", "Alpha-1_b.c", true],
    ["accepts a row of hyphens and underscores", "a--__b", true],
    ["accepts a name that begins as a device's", "console", true],
    ["accepts a name that holds a device's", "my-con", true],
    ["accepts COM without a number", "com", true],
    ["accepts COM with two digits", "com10", true],
    ["refuses 65 characters", "a".repeat(65), false],
    ["refuses nothing", "", false],
    ["refuses .", ".", false],
    ["refuses ..", "..", false],
    ["refuses .. inside", "a..b", false],
    ["refuses ../x", "../x", false],
    ["refuses a slash", "a/b", false],
    ["refuses a backslash", "a\\b", false],
    ["refuses NUL", "a\0b", false],
    ["refuses a line feed", "a\nb", false],
    ["refuses a line feed at the end", "a\n", false],
    ["refuses a hyphen in front", "-a", false],
    ["refuses a point in front", ".a", false],
    ["refuses an underscore in front", "_a", false],
    ["refuses a hyphen at the end", "a-", false],
    ["refuses a point at the end", "a.", false],
    ["refuses an underscore at the end", "a_", false],
    ["refuses a space at the end", "a ", false],
    ["refuses a space inside", "a b", false],
    ["refuses a colon", "c:x", false],
    ["refuses a percent sign", "a%2fb", false],
    ["refuses a tilde", "~a", false],
    ["refuses a letter beyond ASCII", "ä", false],
    ["refuses a full-width letter", "ａ", false],
    ["refuses an emoji", "👋", false],
    ["refuses 100 KiB", "a".repeat(102_400), false],
    ["refuses 100 KiB of points", ".".repeat(102_400), false],
    ["refuses null", null, false],
    ["refuses undefined", undefined, false],
    ["refuses a number", 7, false],
    ["refuses a list of one", ["a"], false],
    ...["CON", "con", "Con", "PRN", "AUX", "NUL", "nul", "COM1", "com9", "LPT1", "lpt9", "con.txt", "NUL.a.b", "com1.x"]
      .map((device): [string, unknown, boolean] => [`refuses the device ${device}`, device, false]),
  ];
  for (const [name, value, expected] of rows) await t.step(name, () => assertEquals(isAgentName(value), expected));
});

Deno.test("the agent name check accepts only the name of one directory", () => {
  fc.assert(
    fc.property(fc.oneof(anyText, fc.stringMatching(/^[A-Za-z0-9._-]{1,66}$/)), (text) => {
      if (isAgentName(text)) assertEquals(new URL(`${text}/x`, "file:///agents/").pathname, `/agents/${text}/x`);
    }),
    RUNS,
  );
});

Deno.test("display name parsing returns the stated result for each name", async (t) => {
  const rows: [name: string, value: unknown, expected: string | null][] = [
    ["accepts 1 character", "A", "A"],
    ["accepts 64 characters", "a".repeat(64), "a".repeat(64)],
    ["accepts 64 emoji", "👋".repeat(64), "👋".repeat(64)],
    ["accepts letters beyond ASCII", "Jürgen Ōé 李", "Jürgen Ōé 李"],
    ["accepts right-to-left letters", "שלום", "שלום"],
    ["accepts a joined emoji", "👩‍👩‍👧", "👩‍👩‍👧"],
    ["trims", "  Ada  Lovelace ", "Ada  Lovelace"],
    ["counts after trimming", `  ${"a".repeat(64)}  `, "a".repeat(64)],
    ["refuses 65 characters", "a".repeat(65), null],
    ["refuses 65 emoji", "👋".repeat(65), null],
    ["refuses nothing", "", null],
    ["refuses a blank", " ", null],
    ["refuses blanks of all kinds", " \u00a0\u2003\u3000\ufeff", null],
    ["refuses NUL", "a\0b", null],
    ["refuses a line feed", "a\nb", null],
    ["refuses CR LF", "a\r\nb", null],
    ["refuses a tab", "a\tb", null],
    ["refuses ESC", "\u001b[31mred", null],
    ["refuses DEL", "a\u007fb", null],
    ["refuses NEL", "a\u0085b", null],
    ["refuses a C1 control", "a\u009bb", null],
    ["refuses a lone surrogate", "a\ud800b", null],
    ["refuses 100 KiB", "a".repeat(102_400), null],
    ["refuses null", null, null],
    ["refuses undefined", undefined, null],
    ["refuses a number", 1, null],
    ["refuses an object", {}, null],
    ["refuses a list of one", ["a"], null],
    ...[
      "\u061c",
      "\u200e",
      "\u200f",
      "\u202a",
      "\u202b",
      "\u202c",
      "\u202d",
      "\u202e",
      "\u2066",
      "\u2067",
      "\u2068",
      "\u2069",
    ]
      .map((c): [string, unknown, null] => [`refuses U+${c.charCodeAt(0).toString(16)}`, `a${c}b`, null]),
  ];
  for (const [name, value, expected] of rows) await t.step(name, () => assertEquals(parseDisplayName(value), expected));
});

Deno.test("display name parsing returns 1 to 64 code points without control or bidirectional characters", () => {
  fc.assert(
    fc.property(
      fc.oneof(anyText, fc.tuple(codePoints, codePoints, codePoints, codePoints).map((parts) => parts.join(""))),
      (text) => {
        const name = parseDisplayName(text);
        if (name === null) return;
        assertEquals([name, parseDisplayName(name)], [text.trim(), name]);
        assert([...name].length >= 1 && [...name].length <= 64);
        assert(!/[\p{Cc}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/u.test(name));
      },
    ),
    RUNS,
  );
});

Deno.test("framework parsing returns the stated result for each label", async (t) => {
  const rows: [name: string, value: unknown, expected: string | null][] = [
    ["accepts the default", DEFAULT_FRAMEWORK, "generic"],
    ["accepts 1 character", "x", "x"],
    ["accepts 32 characters", "a".repeat(32), "a".repeat(32)],
    ["accepts 32 emoji", "👋".repeat(32), "👋".repeat(32)],
    ["trims", " openclaw ", "openclaw"],
    ["refuses 33 characters", "a".repeat(33), null],
    ["refuses nothing", "", null],
    ["refuses blanks", "   ", null],
    ["refuses a control character", "a\u0007b", null],
    ["refuses a line feed", "a\nb", null],
    ["refuses DEL", "a\u007f", null],
    ["refuses NEL", "a\u0085b", null],
    ["refuses 100 KiB", "a".repeat(102_400), null],
    ["refuses null", null, null],
    ["refuses a number", 1, null],
    ["refuses undefined", undefined, null],
  ];
  for (const [name, value, expected] of rows) await t.step(name, () => assertEquals(parseFramework(value), expected));
});

Deno.test("framework parsing returns a trimmed label of 1 to 32 code points without control or bidirectional characters", () => {
  fc.assert(
    fc.property(anyText, (text) => {
      const label = parseFramework(text);
      if (label === null) return;
      assertEquals([label, parseFramework(label)], [text.trim(), label]);
      assert(
        [...label].length >= 1 && [...label].length <= 32 &&
          !/[\p{Cc}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/u.test(label),
      );
    }),
    RUNS,
  );
});

Deno.test("reason parsing returns 1 to 200 trimmed code points under the rules of display names", () => {
  assertEquals(parseReason(` ${"👋".repeat(200)} `), "👋".repeat(200));
  for (const bad of ["", " ", "x".repeat(201), "x".repeat(1_000_000), "a\nb", "a\u202eb", "\ud800", 1, null, ["x"]]) {
    assertEquals(parseReason(bad), null);
  }
  fc.assert(
    fc.property(anyText, (text) => {
      const name = parseDisplayName(text);
      if (name !== null) assertEquals(parseReason(text), name);
    }),
    RUNS,
  );
});
