/**
 * Checks the tables of limits: integers, units that fit the names, a description for each row. The numbers that were asked
 * for are in spec_tables_test.ts.
 */
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { CONNECTOR_LIMIT_TABLE, CONNECTOR_LIMITS, INNER_CONNECTOR_LIMIT_TABLE } from "../../../cli/connector/limits.ts";
import { INNER_LIMIT_TABLE, LIMIT_TABLE, LIMITS } from "../../../shared/protocol/limits.ts";

const rows = Object.entries({ ...LIMIT_TABLE, ...INNER_LIMIT_TABLE });
const connectorRows = Object.entries({ ...CONNECTOR_LIMIT_TABLE, ...INNER_CONNECTOR_LIMIT_TABLE });

Deno.test("rows of the limit tables are positive integers with a description", () => {
  for (const [name, [value, , what]] of [...rows, ...connectorRows]) {
    assert(Number.isSafeInteger(value) && value > 0, name);
    assert(what.trim() !== "", name);
  }
});

Deno.test("names of the limit tables end with their unit", () => {
  const endings: [ending: RegExp, expected: string][] = [
    [/Ms$/, "ms"],
    [/[^r]Seconds$/, "s"],
    [/Bytes$/, "bytes"],
    [/Days(Min|Max|Default)$/, "days"],
    [/Requests(Max)?$/, "requests"],
  ];
  for (const [name, [, unit]] of [...rows, ...connectorRows]) {
    for (const [ending, expected] of endings) {
      if (ending.test(name)) assertEquals(unit, expected, name);
      if (unit === expected && (unit === "ms" || unit === "bytes")) assertMatch(name, ending);
    }
  }
});

Deno.test("the limits cannot be changed", () => {
  assertThrows(() => Object.assign(CONNECTOR_LIMITS, { drainMs: 1 }), TypeError);
  assertThrows(() => Object.assign(LIMITS, { aitBytes: 1 }), TypeError);
  assertEquals(LIMITS.aitBytes, 8192);
});
