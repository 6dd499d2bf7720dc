/**
 * Shows which texts are ULIDs and request IDs, and that the source of ULIDs ascends. The tests supply time and entropy,
 * so that the texts are known in advance.
 */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { firstUlidOf, isRequestId, isUlid, ulidSource } from "../../../shared/protocol/ids.ts";
import { anyText, ulid } from "./arbitraries.ts";

const CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const RUNS = { seed: 1, numRuns: 200 };
const ULID = "01KHYQ5H00AAAAAAAAAAAAAAAA";

Deno.test("the ULID check returns the stated result for each text", async (t) => {
  const rows: [name: string, value: unknown, expected: boolean][] = [
    ["accepts a ULID", ULID, true],
    ["accepts the example of the ULID specification", "01ARZ3NDEKTSV4RRFFQ69G5FAV", true],
    ["accepts the least", "00000000000000000000000000", true],
    ["accepts the greatest", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ", true],
    ["accepts every character of the alphabet", "0123456789ABCDEFGHJKMNPQRS", true],
    ["accepts the rest of the alphabet", "0TVWXYZ0000000000000000000", true],
    ["refuses lower case", ULID.toLowerCase(), false],
    ["refuses one lower-case letter", `${ULID.slice(0, 25)}a`, false],
    ["refuses 25 characters", ULID.slice(0, 25), false],
    ["refuses 27 characters", `${ULID}A`, false],
    ["refuses I", `${ULID.slice(0, 25)}I`, false],
    ["refuses L", `${ULID.slice(0, 25)}L`, false],
    ["refuses O", `${ULID.slice(0, 25)}O`, false],
    ["refuses U", `${ULID.slice(0, 25)}U`, false],
    ["refuses one above the greatest", "80000000000000000000000000", false],
    ["refuses 8ZZZ", "8ZZZZZZZZZZZZZZZZZZZZZZZZZ", false],
    ["refuses a first character above 7", "ZZZZZZZZZZZZZZZZZZZZZZZZZZ", false],
    ["refuses %00", `${ULID.slice(0, 23)}%00`, false],
    ["refuses ../", `${ULID.slice(0, 23)}../`, false],
    ["refuses a hyphen", "01ARZ3NDEK-SV4RRFFQ69G5FAV", false],
    ["refuses a UUID", "01563e3a-b5d3-d676-4c61-efb99302bd5b", false],
    ["refuses a full-width digit", `０${ULID.slice(1)}`, false],
    ["refuses a line feed at the end", `${ULID}\n`, false],
    ["refuses white space around it", ` ${ULID}`, false],
    ["refuses nothing", "", false],
    ["refuses 100 KiB", "0".repeat(102_400), false],
    ["refuses undefined", undefined, false],
    ["refuses null", null, false],
    ["refuses a number", 1, false],
    ["refuses a list of one", [ULID], false],
  ];
  for (const [name, value, expected] of rows) await t.step(name, () => assertEquals(isUlid(value), expected));
});

Deno.test("the ULID check accepts exactly 26 characters of the alphabet with a first one from 0 to 7", () => {
  const near = fc.string({ unit: fc.constantFrom(...CROCKFORD, "I", "a", "-"), minLength: 25, maxLength: 27 });
  fc.assert(
    fc.property(fc.oneof(ulid, near, anyText), (text) => {
      const expected = text.length === 26 && [...text].every((c) => CROCKFORD.includes(c)) && text.charAt(0) <= "7";
      assertEquals(isUlid(text), expected);
    }),
    RUNS,
  );
});

Deno.test("the request ID check returns the stated result for each text", async (t) => {
  const rows: [name: string, value: unknown, expected: boolean][] = [
    ["accepts a ULID", ULID, true],
    ["accepts a UUID", "01563e3a-b5d3-d676-4c61-efb99302bd5b", true],
    ["accepts 8 characters", "a.b_c:-1", true],
    ["accepts 128 characters", "a".repeat(128), true],
    ["refuses 7 characters", "1234567", false],
    ["refuses 129 characters", "a".repeat(129), false],
    ["refuses nothing", "", false],
    ["refuses a space", "1234 5678", false],
    ["refuses a comma", "12345678,12345678", false],
    ["refuses a slash", "1234/5678", false],
    ["refuses a line feed at the end", "12345678\n", false],
    ["refuses CR LF", "1234\r\n5678", false],
    ["refuses a letter beyond ASCII", "1234567é", false],
    ["refuses 100 KiB", "a".repeat(102_400), false],
    ["refuses undefined", undefined, false],
    ["refuses a number", 12_345_678, false],
  ];
  for (const [name, value, expected] of rows) await t.step(name, () => assertEquals(isRequestId(value), expected));
});

Deno.test("the ULID source writes the given time into the first ten characters", async (t) => {
  const rows: [ms: number, prefix: string][] = [
    [1, "0000000001"],
    [1_469_918_176_385, "01ARYZ6S41"],
    [1_771_631_199_232, "01KHYQ5H00"],
    [2 ** 48 - 1, "7ZZZZZZZZZ"],
  ];
  for (const [ms, prefix] of rows) {
    await t.step(String(ms), () => assertEquals(ulidSource(() => ms, zeros)(), prefix + "0".repeat(16)));
  }
});

Deno.test("the ULID source uses no other clock at the Unix epoch", () => {
  assertEquals(ulidSource(() => 0, zeros)().slice(0, 9), "0".repeat(9));
});

Deno.test("the ULID source takes its entropy from the given bytes", () => {
  const rows: [byte: number, character: string][] = [[0, "0"], [7, "0"], [8, "1"], [0x80, "G"], [0xf7, "Y"], [
    0xff,
    "Z",
  ]];
  for (const [byte, character] of rows) {
    const newId = ulidSource(() => 1, (n) => new Uint8Array(n).fill(byte));
    assertEquals(newId(), "0000000001" + character.repeat(16));
  }
});

Deno.test("the ULID source counts up within a millisecond", () => {
  const newId = ulidSource(() => 1, zeros);
  assertEquals([newId(), newId(), newId()].map((id) => id.slice(-2)), ["00", "01", "02"]);
  for (let i = 3; i < 32; i++) newId();
  assertEquals(newId().slice(-3), "010");
});

Deno.test("the ULID source ascends within a millisecond and when the clock steps back", () => {
  const steps = fc.array(fc.constantFrom(0, 0, 0, 1, 5, -1, -600_000, 600_000), { minLength: 2, maxLength: 40 });
  const entropy = fc.uint8Array({ minLength: 1, maxLength: 16 }).filter((bytes) => bytes.some((b) => b < 200));
  fc.assert(
    fc.property(steps, entropy, (moves, bytes) => {
      let now = 1_771_632_000_000, at = 0;
      const newId = ulidSource(() => now, (n) => Uint8Array.from({ length: n }, () => bytes[at++ % bytes.length] ?? 0));
      let last = "";
      for (const move of moves) {
        now += move;
        const id = newId();
        assert(isUlid(id) && id > last, `${last} then ${id}`);
        last = id;
      }
    }),
    RUNS,
  );
});

function zeros(n: number): Uint8Array {
  return new Uint8Array(n);
}

Deno.test("the first ULID of a time is not after any ULID of that time, and after all earlier ones", () => {
  const times = fc.integer({ min: 2, max: Date.UTC(9999, 11, 31) });
  fc.assert(
    fc.property(times, (ms) => {
      const first = firstUlidOf(ms);
      const source = (now: number) => ulidSource(() => now, (n) => new Uint8Array(n).fill(now === ms ? 0 : 255))();
      assert(isUlid(first) && first <= source(ms) && first > source(ms - 1));
    }),
    RUNS,
  );
  assertEquals(firstUlidOf(-1), "0".repeat(26));
});
