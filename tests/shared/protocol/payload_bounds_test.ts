/**
 * Shows that payloadProblem() measures nesting and numbers as a parser would, with any text in strings, and that no text
 * makes it slow.
 */
import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { payloadProblem } from "../../../shared/protocol/payload_bounds.ts";
import { threadMs } from "../../support/thread_time.ts";
import { anyText, jsonText } from "./arbitraries.ts";

const TOO_DEEP = "The payload nests more than 64 levels",
  TOO_LONG = "A number of the payload has more than 300 characters";
const lists = (depth: number) => "[".repeat(depth) + "]".repeat(depth);
const objects = (depth: number) => '{"a":'.repeat(depth) + "1" + "}".repeat(depth);

Deno.test("a payload may nest 64 levels and have numbers of 300 characters", async (t) => {
  const cases: [what: string, json: string, problem: string | null][] = [
    ["64 lists", lists(64), null],
    ["65 lists", lists(65), TOO_DEEP],
    ["64 objects", objects(64), null],
    ["65 objects", objects(65), TOO_DEEP],
    ["lists and objects", `[${objects(64)}]`, TOO_DEEP],
    ["many lists side by side", `[${lists(63)},${lists(63)},[],{}]`, null],
    ["brackets in a string", JSON.stringify({ message: "[{".repeat(1_000) }), null],
    ["brackets behind an escaped quote", `{"message":"\\"${"[".repeat(99)}"}`, null],
    ["brackets behind a string that ends with a backslash", `["\\\\",${lists(64)}]`, TOO_DEEP],
    ["300 digits", "1".repeat(300), null],
    ["301 digits", "1".repeat(301), TOO_LONG],
    ["a sign counts", `[-${"1".repeat(300)}]`, TOO_LONG],
    ["a fraction counts", `0.${"1".repeat(299)}`, TOO_LONG],
    ["an exponent counts", `1e+${"0".repeat(298)}`, TOO_LONG],
    ["a capital exponent counts", `1E-${"0".repeat(298)}`, TOO_LONG],
    ["numbers side by side", `[${Array(500).fill("1").join(",")}]`, null],
    ["digits in a string", JSON.stringify("1".repeat(5_000)), null],
    ["digits in a name", JSON.stringify({ ["1".repeat(5_000)]: 1 }), null],
    ["no JSON", `"${lists(99)}`, null],
    ["nothing", "", null],
  ];
  for (const [what, json, problem] of cases) await t.step(what, () => assertEquals(payloadProblem(json), problem));
});

/** Levels of a value, as a parser sees them. */
function depthOf(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(depthOf));
}

Deno.test("the bounds agree with what a parser finds in any JSON text", () => {
  fc.assert(
    fc.property(jsonText, fc.nat({ max: 66 }), fc.nat({ max: 310 }), anyText, (json, levels, digits, text) => {
      const wrapped = `[${json},${JSON.stringify(text)},${"[".repeat(levels)}1${"2".repeat(digits)}${
        "]".repeat(levels)
      }]`;
      const isTooDeep = depthOf(JSON.parse(wrapped)) > LIMITS.payloadDepth;
      const isTooLong = digits + 1 > LIMITS.payloadNumberCharacters;
      // Nesting comes first in this text.
      assertEquals(payloadProblem(wrapped), isTooDeep ? TOO_DEEP : isTooLong ? TOO_LONG : null);
    }),
    { seed: 1, numRuns: 1_000 },
  );
});

Deno.test("no text of 256 KiB takes long", () => {
  const units = ["[", "]", "[]", "1", "1,", '"', '\\"', '"",', "{", "e", " ", "\\"];
  const texts = units.map((unit) => unit.repeat(LIMITS.hookBodyBytes / unit.length));
  const began = threadMs();
  for (const text of texts) payloadProblem(text);
  // Twelve texts take some 20 ms; a square of their length would take minutes.
  const ms = threadMs() - began;
  assertEquals(ms < 5_000, true, `${ms} ms`);
});
