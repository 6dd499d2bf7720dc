/**
 * Shows that the table of limits is consistent: integers, units that match the names, a source for each row. This file
 * holds the numbers of decisions, spec_tables_test.ts those of the requirements.
 */
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { LIMIT_TABLE, type LimitName, LIMITS } from "../../../shared/protocol/limits.ts";

const rows = Object.entries(LIMIT_TABLE);

/** Decision, name, and value in the unit of the name. */
const DECIDED: [decision: string, name: LimitName, value: number][] = [
  ["D-12", "hookBodyBytes", 256 * 1024],
  ["D-12", "bodyBytes", 64 * 1024],
  ["D-12", "bodyTimeoutMs", 10_000],
  ["D-20", "aitBytes", 8 * 1024],
  ["D-20", "tokenLeewaySeconds", 60],
  ["D-21", "crlTtlSeconds", 900],
  ["D-21", "crlKeptSeconds", 3600],
  ["D-22", "keyDocumentMaxAgeSeconds", 300],
  ["D-25", "nonceGraceSeconds", 301],
  ["D-26", "ticketKeptSeconds", 86_400],
  ["D-33", "bootstrapFailures", 10],
  ["D-35", "apiKeyTouchMs", 60_000],
  ["D-38", "challengeKeptSeconds", 86_400],
  ["D-46", "serviceOverlapSeconds", 3600],
  ["D-51", "apiKeyRequests", 600],
  ["D-51", "redeemFailures", 60],
  ["D-60", "receiptRequestsFactor", 10],
  ["D-61", "keysTtlMs", 300_000],
  ["D-61", "keysGraceMs", 900_000],
  ["D-61", "keysRefetchMs", 30_000],
  ["D-61", "registryTimeoutMs", 5000],
  ["D-62", "crlMaxAgeMs", 900_000],
  ["D-62", "crlRetryMs", 10_000],
  ["D-62", "crlRetryMaxMs", 60_000],
  ["D-63", "accessCacheMaxMs", 5000],
  ["D-65", "agentRequestsMax", 1_000_000],
  ["D-65", "exactWindowRequests", 1000],
  ["D-67", "ackTimeoutMs", 10_000],
  ["D-69", "sameAnswerSeconds", 86_400],
  ["D-70", "socketsPerAgent", 4],
  ["D-70", "framesPerSecond", 50],
  ["D-70", "unsentBytes", 8 * 1024 * 1024],
  ["D-70", "drainMs", 3500],
  ["D-70", "shutdownMs", 5000],
  ["D-72", "deliveryKeptSeconds", 8 * 86_400],
  ["D-73", "openTickets", 20],
  ["PROTOCOL 5", "frameBytes", 1024 * 1024],
  ["D-213", "connectorFrameBytes", 8 * 1024],
  ["PROTOCOL 5", "silentSocketMs", 60_000],
  ["PROTOCOL 5", "malformedFrames", 3],
  ["ARCHITECTURE 5", "commitChecks", 100],
  ["ARCHITECTURE 5", "commitChecksConnect", 10],
  ["D-211", "preferLength", 256],
  ["D-211", "queryLength", 4096],
  ["D-211", "bodyPieces", 1024],
  ["D-240", "inputProblems", 20],
  ["D-241", "contentTypeLength", 256],
];

Deno.test("the limits hold the numbers of the decisions, each with its source", async (t) => {
  for (const [decision, name, value] of DECIDED) {
    await t.step(`${decision} ${name}`, () => {
      assertEquals(LIMITS[name], value);
      assert(LIMIT_TABLE[name].source.includes(decision), LIMIT_TABLE[name].source);
    });
  }
});

Deno.test("rows of the limit table are positive integers with a source and a description", () => {
  for (const [name, { value, source, what }] of rows) {
    assert(Number.isSafeInteger(value) && value > 0, name);
    assertMatch(source, /^(SPEC Limits|(D-\d{2,3}|PROTOCOL \d|ARCHITECTURE \d)(, D-\d{2,3})*)$/);
    assert(what.trim() !== "", name);
  }
});

Deno.test("names of the limit table end with their unit", () => {
  const units: [ending: RegExp, unit: string][] = [
    [/Ms$/, "ms"],
    [/[^r]Seconds$/, "s"],
    [/Bytes$/, "bytes"],
    [/Days(Min|Max|Default)$/, "days"],
    [/Requests(Max)?$/, "requests"],
  ];
  for (const [name, row] of rows) {
    for (const [ending, unit] of units) {
      if (ending.test(name)) assertEquals(row.unit, unit, name);
      if (row.unit === unit && (unit === "ms" || unit === "bytes")) assertMatch(name, ending);
    }
  }
});

Deno.test("the limits cannot be changed", () => {
  assertThrows(() => Object.assign(LIMITS, { aitBytes: 1 }), TypeError);
  assertEquals(LIMITS.aitBytes, 8192);
});
