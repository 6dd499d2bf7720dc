/**
 * Shows how times are parsed and formatted: RFC 3339 with a zone and an existing date, and Unix seconds. Every other
 * text that `Date.parse` accepts is refused.
 */
import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { parseIso, parseUnixSeconds, toIso, unixSeconds } from "../../../shared/protocol/time.ts";
import { anyText } from "./arbitraries.ts";

const RUNS = { seed: 1, numRuns: 500 };
const YEAR_2000 = Date.UTC(2000, 0, 1);
const YEAR_9999_END = Date.UTC(9999, 11, 31, 23, 59, 59, 999);
const T = 1_771_632_000_000;

const ACCEPTED: [text: string, ms: number][] = [
  ["2026-02-21T00:00:00.000Z", T],
  ["2026-02-21T00:00:00Z", T],
  ["2026-02-21T00:00:00.1Z", T + 100],
  ["2026-02-21T00:00:00.12Z", T + 120],
  ["2026-02-21T00:00:00.123Z", T + 123],
  ["2026-02-21T00:00:00.123456Z", T + 123],
  ["2026-02-21T00:00:00.999999999Z", T + 999],
  ["2026-02-21T00:00:00+00:00", T],
  ["2026-02-21T00:00:00-00:00", T],
  ["2026-02-21T05:30:00+05:30", T],
  ["2026-02-20T16:00:00-08:00", T],
  ["2026-02-21T23:59:00+23:59", T],
  ["2024-02-29T00:00:00Z", Date.UTC(2024, 1, 29)],
  ["2000-02-29T00:00:00Z", Date.UTC(2000, 1, 29)],
  ["2000-01-01T00:00:00Z", YEAR_2000],
  ["9999-12-31T23:59:59.999Z", YEAR_9999_END],
];

const REFUSED: [name: string, text: string][] = [
  ["nothing", ""],
  ["no zone", "2030-01-01T00:00:00"],
  ["a date alone", "2030-01-01"],
  ["a date with a zone", "2030-01-01Z"],
  ["no seconds", "2030-01-01T00:00Z"],
  ["hours alone", "2030-01-01T00Z"],
  ["30 February", "2030-02-30T00:00:00Z"],
  ["31 February", "2030-02-31T00:00:00Z"],
  ["29 February of a common year", "2030-02-29T00:00:00Z"],
  ["29 February of 2100", "2100-02-29T00:00:00Z"],
  ["31 April", "2030-04-31T00:00:00Z"],
  ["day 0", "2030-01-00T00:00:00Z"],
  ["day 32", "2030-01-32T00:00:00Z"],
  ["month 0", "2030-00-01T00:00:00Z"],
  ["month 13", "2030-13-01T00:00:00Z"],
  ["hour 24", "2030-01-01T24:00:00Z"],
  ["hour 25", "2030-01-01T25:00:00Z"],
  ["minute 60", "2030-01-01T00:60:00Z"],
  ["second 61", "2030-01-01T00:00:61Z"],
  ["an offset of 99 hours", "2030-01-01T00:00:00+99:99"],
  ["an offset of 24 hours", "2030-01-01T00:00:00+24:00"],
  ["an offset of 60 minutes", "2030-01-01T00:00:00+00:60"],
  ["an offset without a colon", "2030-01-01T00:00:00+0100"],
  ["an offset of hours alone", "2030-01-01T00:00:00+01"],
  ["a zone and an offset", "2030-01-01T00:00:00Z+01:00"],
  ["a named zone", "2030-01-01T00:00:00 UTC"],
  ["a bracketed zone", "2030-01-01T00:00:00Z[Europe/Vienna]"],
  ["ten decimals", "2030-01-01T00:00:00.1234567890Z"],
  ["a point without decimals", "2030-01-01T00:00:00.Z"],
  ["a decimal comma", "2030-01-01T00:00:00,5Z"],
  ["a space for the T", "2030-01-01 00:00:00Z"],
  ["the basic format", "20300101T000000Z"],
  ["a week date", "2030-W01-1T00:00:00Z"],
  ["an ordinal date", "2030-001T00:00:00Z"],
  ["slashes", "2030/01/01T00:00:00Z"],
  ["single digits", "2030-1-1T0:0:0Z"],
  ["two digits of a year", "30-01-01T00:00:00Z"],
  ["a year of five digits", "12030-01-01T00:00:00Z"],
  ["a signed year", "+002030-01-01T00:00:00Z"],
  ["year 275760", "+275760-09-13T00:00:00Z"],
  ["a negative year", "-000001-01-01T00:00:00Z"],
  ["year 1999", "1999-12-31T23:59:59Z"],
  ["year 0", "0000-01-01T00:00:00Z"],
  ["a year alone", "2030"],
  ["a digit", "1"],
  ["words", "tomorrow 5"],
  ["an HTTP date", "Tue, 01 Jan 2030 00:00:00 GMT"],
  ["unix seconds", "1893456000"],
  ["a full-width digit", "２030-01-01T00:00:00Z"],
  ["a Unicode minus", "2030\u221201-01T00:00:00Z"],
  ["white space in front", " 2030-01-01T00:00:00Z"],
  ["a line feed at the end", "2030-01-01T00:00:00Z\n"],
  ["two times", "2030-01-01T00:00:00Z2030-01-01T00:00:00Z"],
  ["100 KiB of decimals", `2030-01-01T00:00:00.${"1".repeat(102_400)}Z`],
];

Deno.test("ISO time parsing reads RFC 3339 and cuts decimals past the third", async (t) => {
  for (const [text, ms] of ACCEPTED) await t.step(text, () => assertEquals(parseIso(text), ms));
});

Deno.test("ISO time parsing refuses each malformed time", async (t) => {
  for (const [name, text] of REFUSED) await t.step(name, () => assertEquals(parseIso(text), null));
});

Deno.test("ISO time parsing returns the moment that was formatted", () => {
  fc.assert(
    fc.property(fc.integer({ min: YEAR_2000, max: YEAR_9999_END }), (ms) => {
      const text = toIso(ms);
      assertEquals([/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(text), parseIso(text)], [true, ms]);
    }),
    RUNS,
  );
});

Deno.test("ISO time parsing returns one moment for all its offsets", () => {
  const middle = fc.integer({ min: Date.UTC(2000, 0, 3), max: Date.UTC(9999, 11, 29) });
  fc.assert(
    fc.property(middle, fc.integer({ min: -1439, max: 1439 }), (ms, minutes) => {
      const local = toIso(ms + minutes * 60_000).slice(0, -1);
      const [hh, mm] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60].map((n) => `${n}`.padStart(2, "0"));
      assertEquals(parseIso(`${local}${minutes < 0 ? "-" : "+"}${hh}:${mm}`), ms);
    }),
    RUNS,
  );
});

Deno.test("ISO time parsing accepts no moment outside the years 2000 to 9999", async (t) => {
  for (const text of ["2000-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01"]) {
    await t.step(text, () => assertEquals(parseIso(text), null));
  }
});

Deno.test("ISO time parsing returns a moment or null for any text", () => {
  fc.assert(
    fc.property(anyText, (text) => {
      const ms = parseIso(text);
      assertEquals(ms === null || Number.isSafeInteger(ms), true);
    }),
    RUNS,
  );
});

Deno.test("Unix time parsing returns the stated result for each text", async (t) => {
  const rows: [text: string, expected: number | null][] = [
    ["0", 0],
    ["1", 1],
    ["1771632010", 1_771_632_010],
    ["1771632010000", 1_771_632_010_000],
    ["9999999999999999", 9_999_999_999_999_999],
    ["10000000000000000", null],
    ["", null],
    ["abc", null],
    ["12.5", null],
    ["12.0", null],
    ["-5", null],
    ["-0", null],
    ["+5", null],
    ["0x10", null],
    ["0b1", null],
    ["1e9", null],
    ["00", null],
    ["01771632010", null],
    ["１７７１６３２０１０", null],
    ["٠", null],
    ["1".repeat(400), null],
    ["1771632010,1771632010", null],
    ["1771632010, 1771632011", null],
    [" 1771632010", null],
    ["1771632010 ", null],
    ["1771632010\n", null],
    ["1_000", null],
    ["1n", null],
    ["NaN", null],
    ["Infinity", null],
    ["null", null],
  ];
  for (const [text, expected] of rows) {
    await t.step(JSON.stringify(text.slice(0, 24)), () => assertEquals(parseUnixSeconds(text), expected));
  }
});

Deno.test("Unix time parsing returns the moment that was formatted", () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: YEAR_9999_END }), (ms) => {
      assertEquals(parseUnixSeconds(String(unixSeconds(ms))), Math.floor(ms / 1000));
    }),
    RUNS,
  );
});

Deno.test("Unix time formatting cuts the milliseconds off", () => {
  assertEquals([0, 999, 1000, 1999].map(unixSeconds), [0, 0, 1, 1]);
});
