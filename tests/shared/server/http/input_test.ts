/** Shows how input becomes typed values, or the route's code with the problems by field and never the value itself. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import * as z from "zod";
import { AgentName, PageLimit } from "../../../../shared/protocol/api/fields.ts";
import { PairStatusBody, PeerListQuery } from "../../../../shared/protocol/api/pairing.ts";
import { CreateServiceBody } from "../../../../shared/protocol/api/services.ts";
import { ServiceError } from "../../../../shared/protocol/errors.ts";
import { AGENT_NAME_RULE } from "../../../../shared/protocol/names.ts";
import { invalidInput, parseInput } from "../../../../shared/server/http/app.ts";
import { steps } from "../../../support/steps.ts";

const Body = z.object({ name: z.string().trim().min(1), count: z.int().default(3) });

Deno.test("input parsing returns the parsed value without unknown members", () => {
  assertEquals(parseInput(Body, { name: " a ", role: "admin" }, "ADMIN_BOOTSTRAP_INVALID"), { name: "a", count: 3 });
});

Deno.test("input parsing refuses with the route's code and names fields, not values", async (t) => {
  const cases: [name: string, value: unknown, fields: string[], forms: number][] = [
    ["a field missing", {}, ["name"], 0],
    ["two fields wrong", { name: 7, count: "svc_pat_hidden" }, ["name", "count"], 0],
    ["null", null, [], 1],
    ["an array", ["svc_pat_hidden"], [], 1],
    ["a text", "svc_pat_hidden", [], 1],
  ];
  await steps(t, cases, ([, value, fields, forms]) => {
    const error = assertThrows(() => parseInput(Body, value, "ADMIN_BOOTSTRAP_INVALID"), ServiceError);
    assertEquals([error.code, error.status], ["ADMIN_BOOTSTRAP_INVALID", 400]);
    assertEquals(Object.keys(error.details?.fieldErrors ?? {}), fields);
    assertEquals(error.details?.formErrors.length, forms);
    assert(!JSON.stringify([error.message, error.details]).includes("hidden"));
  });
});

Deno.test("an input error answers 400 where the code has two statuses, and 500 where the route has no code", () => {
  const details = { fieldErrors: {}, formErrors: [] };
  assertEquals(invalidInput("AGENT_AUTH_REFRESH_INVALID", details).status, 400);
  assertEquals(invalidInput(undefined, details).code, "INTERNAL_ERROR");
});

Deno.test("a validation text names the field and what is expected, in the message and in the details", () => {
  const All = z.object({
    payload: z.unknown().nonoptional(),
    name: z.string(),
    count: z.int().min(1).max(5),
    role: z.enum(["a", "b"]),
    list: z.array(z.object({ id: z.string() })).min(1),
    word: z.string().regex(/^x/),
    either: z.union([z.string(), z.number()]),
  });
  const good = { payload: null, name: "n", count: 1, role: "a", list: [{ id: "i" }], word: "x", either: 1 };
  const cases: [change: Record<string, unknown> | null, field: string, text: string][] = [
    [{ payload: undefined }, "payload", "payload is missing; expected any JSON value"],
    [{ name: undefined }, "name", "name is missing; expected text"],
    [{ name: 7 }, "name", "name must be text"],
    [{ count: "svc_pat_hidden" }, "count", "count must be a number"],
    [{ count: 1.5 }, "count", "count must be a whole number"],
    [{ count: 9 }, "count", "count must be at most 5"],
    [{ role: "svc_pat_hidden" }, "role", 'role must be "a" or "b"'],
    [{ list: [] }, "list", "list must have at least 1 entries"],
    [{ list: [{}] }, "list", "list.0.id is missing; expected text"],
    [{ word: "svc_pat_hidden" }, "word", "word must be text that matches /^x/"],
    [{ either: null }, "either", "either must be one of the forms in the documentation"],
    [null, "", "the input must be an object"],
  ];
  for (const [change, field, text] of cases) {
    const value = change && { ...good, ...change };
    const error = assertThrows(() => parseInput(All, value, "INVITE_CREATE_INVALID"), ServiceError);
    assertEquals(error.message, `The body of the invite is invalid: ${text}`);
    assertEquals(field ? error.details?.fieldErrors[field] : error.details?.formErrors, [text]);
  }
});

Deno.test("a validation text says in words which form a value must have, and not as a pattern", async (t) => {
  const ofAgent = `name must be ${AGENT_NAME_RULE}`;
  const ofService = "name must be 2 to 64 of a-z, 0-9, '_' and '-', a letter or digit first";
  const cases: [name: string, schema: z.ZodType, value: unknown, text: string][] = [
    [
      "a page that is too large",
      z.object({ limit: PageLimit }),
      { limit: "101" },
      "limit must be a whole number from 1 to 100",
    ],
    ["a page in another form", PeerListQuery, { limit: "1e1" }, "limit must be a whole number from 1 to 500"],
    [
      "a page of peers that is too large",
      PeerListQuery,
      { limit: "501" },
      "limit must be a whole number from 1 to 500",
    ],
    ["an empty ticket", PairStatusBody, { ticket: " ` " }, "ticket must be the text of a ticket"],
    ["a service", CreateServiceBody, { name: "A", scopes: ["crl.read"] }, ofService],
    ["an agent named as a device", z.object({ name: AgentName }), { name: "CON" }, ofAgent],
    ["an agent with two dots", z.object({ name: AgentName }), { name: "a..b" }, ofAgent],
  ];
  await steps(t, cases, ([, schema, value, text]) => {
    const error = assertThrows(() => parseInput(schema, value, "LIST_INVALID_QUERY"), ServiceError);
    assertEquals(Object.values(error.details?.fieldErrors ?? {}), [[text]]);
  });
});

Deno.test("input parsing reports the first 20 problems of an input that has thousands", () => {
  const List = z.object({ scopes: z.array(z.enum(["a"])) });
  const value = { scopes: Array(5_000).fill("x") };
  const error = assertThrows(() => parseInput(List, value, "INTERNAL_SERVICE_INVALID"), ServiceError);
  assertEquals(error.details?.fieldErrors.scopes?.length, 20);
});
