/** Texts for input that does not match its schema: the field and the expected value, never the given value. */
import { assert, assertEquals } from "@std/assert";
import * as z from "zod";
import { inputText, problemText } from "../../../shared/protocol/input_text.ts";

function firstProblem(schema: z.ZodType, value: unknown): string {
  const [issue] = schema.safeParse(value, { error: inputText }).error?.issues ?? [];
  return issue ? problemText(issue) : "fits";
}

Deno.test("an input text names the expected value of each kind of schema", () => {
  const rows: [schema: z.ZodType, wrong: unknown, expected: string][] = [
    [z.string(), 1, "must be text"],
    [z.string().min(3), "ab", "must have at least 3 characters"],
    [z.string().max(3), "abcd", "must have at most 3 characters"],
    [z.number().max(3), 4, "must be at most 3"],
    [z.boolean(), "yes", "must be true or false"],
    [z.literal(1), 2, "must be 1"],
    [z.array(z.string()).max(1), ["a", "b"], "must have at most 1 entries"],
    [z.object({}), "x", "must be an object"],
    [z.strictObject({}), { ttlSecond: 1 }, 'must be without "ttlSecond", which the documentation does not name'],
    [z.strictObject({}), { svc_pat_hidden: 1 }, "must be without members that the documentation does not name"],
    [z.string({ error: "must be a word" }), 1, "must be a word"],
  ];
  for (const [schema, wrong, expected] of rows) {
    assertEquals(firstProblem(z.object({ field: schema }), { field: wrong }), `field ${expected}`);
    assert(firstProblem(z.object({ field: schema }), {}).startsWith("field "));
  }
  assertEquals(
    firstProblem(z.object({ field: z.unknown().nonoptional() }), {}),
    "field is missing; expected any JSON value",
  );
});

Deno.test("a problem text names a nested field by its path and the whole input without one", () => {
  assertEquals(problemText({ path: ["a", 0, "b"], message: "is missing" }), "a.0.b is missing");
  assertEquals(problemText({ path: [], message: "must be an object" }), "the input must be an object");
});
