/**
 * Shows that topLevelMembers(), arrayElements(), hasDuplicateKeys() and partEnd() read a JSON text as JSON.parse() does.
 * The texts have unusual white space, escaped keys, duplicate keys and strings with structural characters.
 */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { arrayElements, hasDuplicateKeys, partEnd, topLevelMembers } from "../../../shared/protocol/json_text.ts";
import { steps } from "../../support/steps.ts";
import { jsonKey, jsonText, memberText, space } from "./arbitraries.ts";

const RUNS = { seed: 1, numRuns: 300 };

Deno.test("the member scan returns key and exact value text of each member, in order", () => {
  const members = fc.array(fc.tuple(space, jsonKey, space, space, jsonText.map(trim), space), { maxLength: 6 });
  fc.assert(
    fc.property(space, members, space, (before, parts, after) => {
      const json = `${before}{${parts.map(memberText).join(",")}}${after}`;
      const found = topLevelMembers(json).map(({ key, start, end }) => [key, json.slice(start, end)]);
      assertEquals(found, parts.map(([, key, , , value]) => [JSON.parse(key) as string, value]));
    }),
    RUNS,
  );
});

Deno.test("the element scan returns the exact text of each element, in order, and nothing for another value", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(space, jsonText.map(trim), space), { maxLength: 6 }), space, (parts, around) => {
      const json = `${around}[${parts.map((part) => part.join("")).join(",")}${
        parts.length === 0 ? around : ""
      }]${around}`;
      assertEquals(arrayElements(json), parts.map(([, element]) => element));
    }),
    RUNS,
  );
  fc.assert(
    fc.property(jsonText, (json) => {
      const value: unknown = JSON.parse(json);
      assertEquals(arrayElements(json).map((element) => JSON.parse(element)), Array.isArray(value) ? value : []);
    }),
    RUNS,
  );
});

Deno.test("the element scan reads a deeply nested text of 200,000 characters at once", () => {
  const deep = "[".repeat(100_000) + "]".repeat(100_000);
  assertEquals(arrayElements(`[1,${deep},"]"]`), ["1", deep, '"]"']);
});

Deno.test("the member scan agrees with JSON parsing, and the last duplicate wins", () => {
  fc.assert(
    fc.property(jsonText, (json) => {
      const value: unknown = JSON.parse(json);
      const members = topLevelMembers(json);
      if (!isObject(value)) return assertEquals(members, []);
      const entries = members.map((
        { key, start, end },
      ): [string, unknown] => [key, JSON.parse(json.slice(start, end))]);
      assertEquals(JSON.stringify(Object.fromEntries(entries)), JSON.stringify(value));
    }),
    RUNS,
  );
});

Deno.test("the member scan and the duplicate check agree with the JSON text of any value", () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 4 }), fc.constantFrom(0, 1, "\t"), (value, indent) => {
      const json = JSON.stringify(value, null, indent);
      assertEquals(hasDuplicateKeys(json), false);
      const keys = isObject(value) ? Object.keys(value) : [];
      assertEquals(topLevelMembers(json).map(({ key }) => key), keys);
    }),
    RUNS,
  );
});

Deno.test("the member scan reads each text", async (t) => {
  const rows: [name: string, json: string, members: [key: string, text: string][]][] = [
    ["no member", "{}", []],
    ["no member but white space", " { \n} ", []],
    ["a list of objects", '[{"a":1}]', []],
    ["a text that looks like an object", '"{\\"a\\":1}"', []],
    ["a number", "1", []],
    ["null", "null", []],
    ["a value that is not touched by numbers' size", '{"n":12345678901234567890}', [["n", "12345678901234567890"]]],
    ["nested members as part of the value", '{"a":{"b":[1,{"c":2}]},"d":3}', [["a", '{"b":[1,{"c":2}]}'], ["d", "3"]]],
    ["an escaped key", '{"mess\\u0061ge":"x"}', [["message", '"x"']]],
    ["a key of structure", '{"a\\":{,":1}', [['a":{,', "1"]]],
    ["a value of structure", '{"a":"}{][:,\\"","b":2}', [["a", '"}{][:,\\""'], ["b", "2"]]],
    ["a value that ends in a backslash", '{"a":"\\\\","b":2}', [["a", '"\\\\"'], ["b", "2"]]],
    ["doubles", '{"a":1,"a":2}', [["a", "1"], ["a", "2"]]],
    ["an empty key", '{"":1}', [["", "1"]]],
    ["__proto__", '{"__proto__":{"a":1}}', [["__proto__", '{"a":1}']]],
    ["a lone surrogate", '{"\\ud800":"\\udc00"}', [["\ud800", '"\\udc00"']]],
    ["white space of all four kinds", '{ \t\r\n"a" \t\r\n: \t\r\n[ 1 , 2 ] \t\r\n}', [["a", "[ 1 , 2 ]"]]],
    ["letters beyond ASCII", '{"ä":"👋","b":"\u2028"}', [["ä", '"👋"'], ["b", '"\u2028"']]],
  ];
  await steps(t, rows, ([, json, members]) => {
    JSON.parse(json);
    assertEquals(topLevelMembers(json).map(({ key, start, end }) => [key, json.slice(start, end)]), members);
  });
});

Deno.test("the duplicate check is true when JSON parsing drops a member", () => {
  fc.assert(
    fc.property(jsonText, (json) => {
      const written = json.replace(/"(?:[^"\\]|\\.)*"/g, "").split(":").length - 1;
      assertEquals(hasDuplicateKeys(json), countKeys(JSON.parse(json)) < written, json);
    }),
    RUNS,
  );
});

Deno.test("the duplicate check returns the stated result for each text", async (t) => {
  const rows: [name: string, json: string, expected: boolean][] = [
    ["finds doubles", '{"a":1,"a":1}', true],
    ["finds duplicates of which one is escaped", '{"a":1,"\\u0061":2}', true],
    ["finds doubles apart", '{"a":1,"b":{"c":[{}]},"a":2}', true],
    ["finds doubles in depth", '{"x":[1,{"y":{"a":1,"a":2}}]}', true],
    ["finds doubles in a list", '[{"a":1,"a":2}]', true],
    ["finds duplicates after an object that closed", '{"a":{"b":1},"b":2,"b":3}', true],
    ["finds a double __proto__", '{"__proto__":1,"__proto__":2}', true],
    ["finds a double empty key", '{"":1,"":2}', true],
    ["allows one key in two objects", '{"a":{"a":{"a":1}},"b":[{"a":1},{"a":2}]}', false],
    ["allows a value that equals a key", '{"a":"a","b":"a"}', false],
    ["treats inherited names like any other", '{"constructor":1,"toString":2,"__proto__":3}', false],
    ["distinguishes upper and lower case", '{"a":1,"A":2}', false],
    ["ignores strings", '{"a":"{\\"b\\":1,\\"b\\":2}"}', false],
    ["is false for a text that is not an object", '["a","a",1,null]', false],
  ];
  await steps(t, rows, ([, json, expected]) => {
    JSON.parse(json);
    assertEquals(hasDuplicateKeys(json), expected);
  });
});

Deno.test("the member scan and the duplicate check handle a text that is nested 100,000 deep", () => {
  const json = `{"a":${'{"b":['.repeat(50_000)}${"]}".repeat(50_000)}}`;
  const [member, ...more] = topLevelMembers(json);
  assert(member && more.length === 0);
  assertEquals([member.key, member.start, member.end], ["a", 5, json.length - 1]);
  assertEquals(hasDuplicateKeys(json), false);
});

Deno.test("the parts of a list end where JSON parsing ends them, and a text that is cut has no other ends", () => {
  const endsIn = (json: string) => {
    const ends: number[] = [];
    for (let at = partEnd(json, 1); at < json.length; at = partEnd(json, at + 1)) ends.push(at);
    return ends;
  };
  fc.assert(
    fc.property(fc.array(jsonText, { minLength: 1, maxLength: 5 }), fc.nat(), (list, cut) => {
      const json = `[${list.join(",")}]`, ends = endsIn(json);
      assertEquals(ends.map((end, i) => json.slice((ends[i - 1] ?? 0) + 1, end)), list);
      const length = 1 + cut % json.length;
      assertEquals(endsIn(json.slice(0, length)), ends.filter((end) => end < length));
    }),
    RUNS,
  );
});

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function countKeys(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  const own = Array.isArray(value) ? 0 : Object.keys(value).length;
  return Object.values(value).reduce((sum: number, item) => sum + countKeys(item), own);
}

function trim(json: string): string {
  return json.replace(/^[ \t\r\n]+|[ \t\r\n]+$/g, "");
}
