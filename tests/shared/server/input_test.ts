/**
 * Shows how input becomes typed values, or the route's code with the problems by field and never the value itself.
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import * as z from "zod";
import { ServiceError } from "../../../shared/protocol/errors.ts";
import { invalidInput, parseInput } from "../../../shared/server/input.ts";

const Body = z.object({ name: z.string().trim().min(1), count: z.int().default(3) });

Deno.test("parseInput() gives what the schema makes of the value, and drops what it does not know", () => {
  assertEquals(parseInput(Body, { name: " a ", role: "admin" }, "ADMIN_BOOTSTRAP_INVALID"), { name: "a", count: 3 });
});

Deno.test("parseInput() refuses with the route's code and names fields, not values", async (t) => {
  const cases: [name: string, value: unknown, fields: string[], forms: number][] = [
    ["a field missing", {}, ["name"], 0],
    ["two fields wrong", { name: 7, count: "svc_pat_hidden" }, ["name", "count"], 0],
    ["null", null, [], 1],
    ["an array", ["svc_pat_hidden"], [], 1],
    ["a text", "svc_pat_hidden", [], 1],
  ];
  for (const [name, value, fields, forms] of cases) {
    await t.step(name, () => {
      const error = assertThrows(() => parseInput(Body, value, "ADMIN_BOOTSTRAP_INVALID"), ServiceError);
      assertEquals([error.code, error.status], ["ADMIN_BOOTSTRAP_INVALID", 400]);
      assertEquals(Object.keys(error.details?.fieldErrors ?? {}), fields);
      assertEquals(error.details?.formErrors.length, forms);
      assert(!JSON.stringify([error.message, error.details]).includes("hidden"));
    });
  }
});

Deno.test("invalidInput() answers 400 where the code has two statuses, and 500 where the route has no code", () => {
  const details = { fieldErrors: {}, formErrors: [] };
  assertEquals(invalidInput("AGENT_AUTH_REFRESH_INVALID", details).status, 400);
  assertEquals(invalidInput(undefined, details).code, "INTERNAL_ERROR");
});
